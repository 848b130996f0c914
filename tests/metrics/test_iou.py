"""Overlap metrics: agreement with all matchings, and values computed by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from alebrije.errors import InputError
from alebrije.metrics import mean_best_overlap, mean_iou, segmentation_covering
from tests.metrics.label_maps import OVERLAP, label_maps, mean_segmentation_covering, one_map


def overlap_table(true, pred):
    table = np.zeros((len(np.unique(true)), len(np.unique(pred))))
    for (i, t), (j, p) in itertools.product(enumerate(np.unique(true)), enumerate(np.unique(pred))):
        inside, either = ((true == t) & (pred == p)).sum(), ((true == t) | (pred == p)).sum()
        table[i, j] = inside / either
    return table


@given(maps=label_maps(labels=4).filter(lambda maps: max(len(np.unique(labels)) for labels in maps) <= 4))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_mean_iou_is_the_best_of_all_matchings(maps):
    for true, pred in zip(*maps, strict=True):
        overlaps = overlap_table(true, pred)
        segments = len(overlaps)
        padded = np.pad(overlaps, ((0, 0), (0, segments)))  # a true segment may stay without a partner
        best = max(
            sum(padded[i, j] for i, j in enumerate(chosen)) / segments
            for chosen in itertools.permutations(range(padded.shape[1]), segments)
        )
        assert mean_iou(true[None], pred[None]).item() == pytest.approx(best, abs=1e-12)


@given(maps=label_maps())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_coverings_are_means_of_best_overlaps(maps):
    for true, pred in zip(*maps, strict=True):
        best = overlap_table(true, pred).max(1)
        sizes = np.unique(true, return_counts=True)[1]
        pair = true[None], pred[None]
        assert mean_best_overlap(*pair).item() == pytest.approx(best.mean(), abs=1e-12)
        assert mean_segmentation_covering(*pair).item() == pytest.approx(best.mean(), abs=1e-12)
        assert segmentation_covering(*pair).item() == pytest.approx((best * sizes).sum() / sizes.sum(), abs=1e-12)


@given(maps=label_maps(labels=4).filter(lambda maps: max(len(np.unique(labels)) for labels in maps) <= 4))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_ignored_label_leaves_the_average_but_its_pixels_count(maps):
    for true, pred in zip(*maps, strict=True):
        overlaps = overlap_table(true, pred)[np.unique(true) != 2]
        names, sizes = np.unique(true, return_counts=True)
        if not len(overlaps):
            continue
        best, sizes = overlaps.max(1), sizes[names != 2]
        padded = np.pad(overlaps, ((0, 0), (0, len(overlaps))))
        matched = max(
            sum(padded[i, j] for i, j in enumerate(chosen)) / len(overlaps)
            for chosen in itertools.permutations(range(padded.shape[1]), len(overlaps))
        )
        expected = [matched, best.mean(), (best * sizes).sum() / sizes.sum(), best.mean()]
        found = [metric(true[None], pred[None], ignore=2).item() for metric in OVERLAP]
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("metric", OVERLAP)
def test_one_mask_over_the_whole_image_is_not_perfect(metric):
    true = one_map([0, 0, 0, 1])
    assert metric(true, np.zeros_like(true), ignore=0).item() == 1 / 4
    assert metric(true, np.zeros_like(true), ignore=0, ignored_pixels="dropped").item() == 1
    with pytest.raises(InputError, match="ignored_pixels must be 'kept' or 'dropped', got 'gone'"):
        metric(true, true, ignored_pixels="gone")


@pytest.mark.parametrize("metric", OVERLAP)
@pytest.mark.parametrize("names", [[0, 1, 2, 3], [7, 10**12, -5, 2**62]])
def test_names_of_labels_do_not_matter_to_the_ignored_one(metric, names):
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 4, (2, 2, 9, 9))
    expected = metric(true, pred, ignore=1)
    np.testing.assert_array_equal(metric(np.array(names)[true], np.array(names)[pred], ignore=names[1]), expected)


@given(maps=label_maps())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_best_overlap_is_never_below_matched_overlap(maps):
    assert (mean_best_overlap(*maps) >= mean_iou(*maps) - 1e-12).all()


@pytest.mark.parametrize(
    ("true", "pred", "miou", "mbo", "sc", "msc"),
    [
        ([0, 0, 0, 1], [5, 5, 5, 5], 3 / 8, 1 / 2, 5 / 8, 1 / 2),  # merged: 3/4 and 1/4
        ([0, 0, 1, 1], [0, 1, 2, 3], 1 / 2, 1 / 2, 1 / 2, 1 / 2),  # split
        ([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2], 1 / 2, 1 / 2, 19 / 36, 1 / 2),  # 2/3, 1/3, 1/2
        ([0, 0, 1, 1], [0, 1, 0, 1], 1 / 3, 1 / 3, 1 / 3, 1 / 3),
        ([0, 0, 0, 0], [0, 1, 1, 1], 3 / 4, 3 / 4, 3 / 4, 3 / 4),
        ([0], [9], 1, 1, 1, 1),
    ],
)
def test_overlaps_computed_by_hand(true, pred, miou, mbo, sc, msc):
    found = [metric(one_map(true), one_map(pred)).item() for metric in OVERLAP]
    np.testing.assert_allclose(found, [miou, mbo, sc, msc], rtol=1e-12)
