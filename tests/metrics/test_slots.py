"""Slots: greedy matching, duplicates and invisible slots."""

import math

import numpy as np
import pytest
import torch

from alebrije import metrics
from alebrije.errors import InputError
from alebrije.metrics.slots import Grams, greedy_match, neuron_order, slot_order
from tests.metrics import references

rng = np.random.default_rng(1)


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_greedy_matching_agrees_with_a_loop(slots):
    a, b, c, d = np.random.default_rng(slots).normal(size=(4, 20, slots, 6))
    matching = metrics.match_slots(a, b, c, d)
    for case in range(20):
        assert matching.indices[case].tolist() == [
            list(x) for x in references.greedy_match(a[case], b[case], c[case], d[case])
        ]
    residual = matching.b - matching.a + matching.c - matching.d
    np.testing.assert_allclose(matching.cost, np.square(residual).sum((1, 2)))


def test_matching_does_not_depend_on_the_offset():
    """Inner products of large numbers cancel badly; the matching must not notice."""
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 30, 4, 6))
    near = metrics.match_slots(a, b, c, d)
    far = metrics.match_slots(a + 1e6, b + 1e6, c + 1e6, d + 1e6)
    assert (near.indices == far.indices).all()


def test_first_of_equal_residuals_wins():
    ones = torch.ones(1, 3, 2, dtype=torch.float64)
    assert greedy_match(Grams.of(ones, ones, ones, ones)).tolist() == [[[0, 1, 2]] * 4]


def test_duplicate_slots_are_replaced_by_the_blank_slot():
    draw = np.random.default_rng(0)
    slots = draw.normal(size=(5, 4, 8))
    slots[:, 3] = slots[:, 1] * 2 + 1e-3
    cleaned = metrics.drop_duplicate_slots(slots)
    np.testing.assert_array_equal(cleaned[:, :3], slots[:, :3])
    np.testing.assert_allclose(cleaned[:, 3], np.broadcast_to(slots.mean((0, 1)), (5, 8)))
    np.testing.assert_array_equal(metrics.drop_duplicate_slots(slots, blank=np.zeros(8))[:, 3], 0)


def test_released_threshold_is_half_a_distance_of_0_15():
    for chord, dropped in ((0.299, True), (0.301, False)):
        turn = 2 * math.asin(chord / 2)
        pair = np.array([[[1.0, 0.0], [math.cos(turn), math.sin(turn)]]])
        assert (metrics.drop_duplicate_slots(pair, blank=np.full(2, 9.0))[0, 1, 0] == 9.0) == dropped


def test_duplicate_of_a_duplicate_is_replaced_too():
    """As released: any earlier slot counts, whether it was replaced itself or not."""
    angles = np.radians([0, 15, 30, 75])
    slots = np.stack([np.cos(angles), np.sin(angles)], 1)[None]
    cleaned = metrics.drop_duplicate_slots(slots, blank=np.full(2, 9.0))
    assert (cleaned[0, :, 0] == 9.0).tolist() == [False, True, True, False]


def test_one_of_three_equal_slots_is_kept():
    slots = np.ones((1, 3, 2))
    assert metrics.drop_duplicate_slots(slots, blank=np.zeros(2)).sum() == 2


def test_invisible_slots_are_replaced_by_the_blank_slot():
    slots = np.arange(12.0).reshape(1, 3, 4)
    masks = np.zeros((1, 3, 2, 2))
    masks[0, 0], masks[0, 1], masks[0, 2, 0, 0] = 0.4, 0.3, 0.9
    cleaned = metrics.drop_invisible_slots(slots, masks, blank=np.full(4, -1.0))
    np.testing.assert_array_equal(cleaned[0], [slots[0, 0], [-1] * 4, slots[0, 2]])
    strict = metrics.drop_invisible_slots(slots, masks, least_share=0.25, blank=np.full(4, -1.0))
    np.testing.assert_array_equal(strict[0, 2], [-1] * 4)


def test_masks_of_any_layout_are_accepted():
    slots, masks = rng.normal(size=(2, 3, 4)), rng.random((2, 3, 5, 5))
    expected = metrics.drop_invisible_slots(slots, masks)
    np.testing.assert_array_equal(metrics.drop_invisible_slots(slots, masks[:, :, ::-1]), expected)
    np.testing.assert_array_equal(metrics.drop_invisible_slots(slots, masks.astype(">f8")), expected)
    with pytest.raises(ValueError, match="masks must be finite"):
        metrics.drop_invisible_slots(slots, masks * math.nan)


def test_faint_mask_that_wins_is_visible():
    masks = np.zeros((1, 2, 1, 2))
    masks[0, 1, 0, 0] = 1e-50
    cleaned = metrics.drop_invisible_slots(np.ones((1, 2, 3)), masks, blank=np.zeros(3))
    np.testing.assert_array_equal(cleaned[0, :, 0], [0, 1])  # a mask of 0 wins no pixel, as released


def test_all_slots_that_share_a_pixel_are_visible():
    masks = np.array([0.4, 0.2, 0.4]).reshape(1, 3, 1, 1)
    cleaned = metrics.drop_invisible_slots(np.ones((1, 3, 2)), masks, blank=np.zeros(2))
    np.testing.assert_array_equal(cleaned[0, :, 0], [1, 0, 1])


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_masks_may_keep_their_channel(kind):
    slots, masks = rng.normal(size=(2, 3, 4)), rng.random((2, 3, 5, 5))
    masks[:, 1] = 0
    found = metrics.drop_invisible_slots(kind(slots), kind(masks[:, :, None]))
    np.testing.assert_array_equal(found, metrics.drop_invisible_slots(slots, masks))
    with pytest.raises(InputError, match=r"masks must have shape \[B, K, H, W\]"):
        metrics.drop_invisible_slots(kind(slots), kind(masks[:, :, None, None]))


def test_ties_do_not_depend_on_the_order_of_slots():
    draw = np.random.default_rng(0)
    scenes = draw.integers(0, 3, (4, 60, 4, 3))
    orders = [draw.permuted(np.tile(np.arange(4), (60, 1)), axis=1) for _ in scenes]
    shuffled = [np.take_along_axis(s, order[:, :, None], 1) for s, order in zip(scenes, orders, strict=True)]
    expected, found = metrics.match_slots(*scenes), metrics.match_slots(*shuffled)
    np.testing.assert_array_equal(found.cost, expected.cost)
    for role, scene, i in zip("abcd", shuffled, range(4), strict=True):
        np.testing.assert_array_equal(getattr(found, role), getattr(expected, role))
        np.testing.assert_array_equal(
            np.take_along_axis(scene, found.indices[:, i][:, :, None], 1), getattr(found, role)
        )


@pytest.mark.parametrize("first", [[0, 1, 2], [5, 5, 5]])
def test_slots_are_sorted_neuron_by_neuron(first):
    draw = np.random.default_rng(0)
    slots = torch.from_numpy(draw.integers(0, 2, (50, 3, 4)).astype(float))
    slots[:, :, 0] = torch.tensor(first)
    for scene, order in zip(slots, slot_order(slots), strict=True):
        assert scene[order].tolist() == sorted(scene.tolist())


def test_neuron_order_reads_further_scenes_where_the_first_ties():
    first, second = (
        torch.tensor([[[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]]]),
        torch.tensor([[[4.0, 3.0, 9.0], [4.0, 3.0, 9.0]]]),
    )
    assert neuron_order([first, second]).tolist() == [2, 1, 0]
    assert neuron_order([first]).tolist() == [2, 0, 1]
