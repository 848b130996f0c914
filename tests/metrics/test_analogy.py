"""COAT: known answers, shortcuts, slots, and agreement with a loop over cases."""

import math

import numpy as np
import pytest
import references
import torch

from alebrije import metrics
from alebrije.metrics import analogy
from alebrije.metrics.slots import Grams, check_scenes, greedy_match

LOSSES = ["squared-l2", "l2", "acos"]
OBJECTS, ATTRIBUTES = 4, 6


def scenes(cases=128, seed=0):
    """Attributes [T, objects, attributes] of A, B = A + two objects, C, D = C + the same two, and negatives of D."""
    draw = np.random.default_rng(seed)
    empty = np.zeros((cases, OBJECTS, ATTRIBUTES))
    a, c, added = empty.copy(), empty.copy(), empty.copy()
    a[:, 0], c[:, 1] = draw.normal(size=(2, cases, ATTRIBUTES))
    added[:, 2:] = draw.normal(size=(cases, 2, ATTRIBUTES))
    d = c + added
    negatives = {}
    for place, name in enumerate(["color", "material", "shape", "size"]):
        negatives[name] = d.copy()
        negatives[name][:, 2, place] += 1.0
    negatives["drop"] = c.copy()
    return a, a + added, c, d, negatives


def encoded(encode, cases=128, seed=0):
    a, b, c, d, negatives = scenes(cases, seed)
    return *(encode(x) for x in (a, b, c, d)), {name: encode(x) for name, x in negatives.items()}


def concatenated(scene):
    return scene.reshape(len(scene), -1)


def projected(scene):
    return concatenated(scene) @ np.random.default_rng(9).normal(size=(OBJECTS * ATTRIBUTES, OBJECTS * ATTRIBUTES))


def shuffled_slots(scene, seed=3):
    return (
        np.random.default_rng(seed).permuted(scene, axis=1)
        if scene.ndim == 2
        else np.stack([s[np.random.default_rng(i + seed).permutation(len(s))] for i, s in enumerate(scene)])
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("encode", [concatenated, projected, lambda scene: scene, shuffled_slots])
def test_concatenated_factors_any_projection_and_slots_score_1_and_pass(encode, loss):
    result = metrics.coat(*encoded(encode), loss=loss)
    assert result.score == pytest.approx(1.0, abs=1e-6)
    assert result.passed
    assert set(result.tests) == {"color", "material", "shape", "size", "drop"}
    assert all(test.p_hat == 1.0 and test.p_value < 1e-20 for test in result.tests.values())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(128, 5), (128, 3, 5)])
def test_a_constant_code_never_scores(loss, shape):
    code = np.full(shape, 3.7)
    result = metrics.coat(code, code, code, code, {"drop": code}, loss=loss)
    assert not result.score > 0
    assert not result.passed
    assert result.tests["drop"].p_hat == 0.0
    if loss != "acos":
        assert math.isnan(result.score)
        assert "same code" in result.reason


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("loss", LOSSES)
def test_rounding_does_not_make_a_constant_code_score(loss, seed):
    draw = np.random.default_rng(seed)
    for shape in ((64, 1 + seed), (64, 3, 1 + seed)):
        code = np.broadcast_to(draw.normal(size=shape[1:]) * 10 ** draw.uniform(-5, 5), shape)
        result = metrics.coat(code, code, code, code, {"drop": code}, loss=loss)
        assert not result.score > 0
        assert not result.passed


def test_noise_is_at_chance_and_fails():
    a, b, c, d, negative = np.random.default_rng(0).normal(size=(5, 640, 16))
    result = metrics.coat(a, b, c, d, {"drop": negative})
    assert result.score == pytest.approx(0.0, abs=0.03)
    assert not result.passed
    assert result.tests["drop"].p_value > 0.005


def test_a_code_that_ignores_colour_scores_1_and_fails_colour_alone():
    result = metrics.coat(*encoded(lambda scene: concatenated(scene[:, :, 1:])))
    assert result.score == pytest.approx(1.0)
    assert [name for name, test in result.tests.items() if not test.passed] == ["color"]
    assert not result.passed


def test_a_tie_with_a_hard_negative_is_lost():
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 64, 3))
    same = metrics.coat(a, b, c, d, {"object": d.copy()}).tests["object"]
    assert (same.p_hat, same.passed) == (0.0, False)


def test_without_negatives_nothing_is_passed():
    a, b, c, d, _ = encoded(concatenated)
    assert not metrics.coat(a, b, c, d, {}).passed


def test_the_proportion_test_is_one_sided_at_its_level():
    cases = 1000
    d = np.zeros((cases, 1))
    zero = np.zeros((cases, 1))
    wins = np.arange(cases)[:, None] < 541  # z = 2.593, p = 0.00476
    close = np.where(wins, 2.0, 0.5)
    shifted = d + 1.0
    verdict = metrics.coat(zero, zero, zero, shifted, {"object": close}).tests["object"]
    assert verdict.p_hat == 0.541
    assert verdict.p_value == pytest.approx(0.00476, abs=1e-4)
    assert verdict.passed
    assert not metrics.coat(
        zero, zero, zero, shifted, {"object": np.where(np.arange(cases)[:, None] < 540, 2.0, 0.5)}
    ).passed


@pytest.mark.parametrize("loss", LOSSES)
def test_vectors_agree_with_a_loop(loss):
    a, b, c, d = np.random.default_rng(1).normal(size=(4, 128, 7))
    d = d * 0.5 + (b - a + c) * 0.5
    slow = references.coat_vectors(a, b, c, d, loss=loss)
    assert metrics.coat(a, b, c, d, {}, loss=loss, chance="paper").score == pytest.approx(slow, abs=1e-9)


def test_the_released_angle_exchanges_c_and_d_together():
    a, b, c, d = np.random.default_rng(1).normal(size=(4, 64, 7))

    def angle(u, v):
        return math.acos(u @ v / np.linalg.norm(u) / np.linalg.norm(v))

    ratios = [
        angle(b[i] - a[i], d[i] - c[i]) / np.mean([angle(b[i] - a[i], d[j] - c[j]) for j in range(64)])
        for i in range(64)
    ]
    assert metrics.coat(a, b, c, d, {}, loss="acos").score == pytest.approx(1 - np.mean(ratios), abs=1e-9)


def matched_loss(a, b, c, d, loss):
    order = references.greedy_match(a, b, c, d)
    a, b, c, d = (x[index].ravel() for x, index in zip((a, b, c, d), order, strict=True))
    return references.analogy_loss(a, b, c, d, loss)


@pytest.mark.parametrize("loss", LOSSES)
def test_slots_are_matched_anew_for_every_quadruple(loss):
    a, b, c, d, negative = np.random.default_rng(2).normal(size=(5, 12, 3, 4))
    group = 4
    losses = np.array([matched_loss(*case, loss) for case in zip(a, b, c, d, strict=True)])
    chance = np.array(
        [
            np.mean(
                [
                    matched_loss(a[i], b[i], c[i], d[j], loss)
                    for j in range(i // group * group, i // group * group + group)
                ]
            )
            for i in range(12)
        ]
    )
    worse = np.array([matched_loss(*case, loss) for case in zip(a, b, c, negative, strict=True)])
    result = metrics.coat(a, b, c, d, {"object": negative}, loss=loss, group=group)
    np.testing.assert_allclose(result.losses, losses, atol=1e-9)
    np.testing.assert_allclose(result.per_case, losses / chance, atol=1e-9)
    assert result.tests["object"].p_hat == pytest.approx(np.mean(losses < worse))


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


def test_matching_survives_codes_far_from_the_origin():
    """Inner products of large numbers cancel badly; the matching must not notice."""
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 30, 4, 6))
    near = metrics.match_slots(a, b, c, d)
    far = metrics.match_slots(a + 1e6, b + 1e6, c + 1e6, d + 1e6)
    assert (near.indices == far.indices).all()


def test_equal_residuals_take_the_first():
    ones = torch.ones(1, 3, 2, dtype=torch.float64)
    assert greedy_match(Grams.of(ones, ones, ones, ones)).tolist() == [[[0, 1, 2]] * 4]


def test_an_incomplete_last_group_is_compared_with_the_last_full_one():
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 70, 5))
    per_case = metrics.coat(a, b, c, d, {}).per_case
    tail = metrics.coat(a[6:], b[6:], c[6:], d[6:], {}).per_case
    np.testing.assert_allclose(per_case[64:], tail[58:], atol=1e-12)


def test_a_single_case_has_no_chance_level():
    one = np.ones((1, 3))
    result = metrics.coat(one, 2 * one, 3 * one, 5 * one, {})
    assert math.isnan(result.score)
    assert "single case" in result.reason


def test_duplicate_slots_are_replaced_by_the_blank_slot():
    draw = np.random.default_rng(0)
    slots = draw.normal(size=(5, 4, 8))
    slots[:, 3] = slots[:, 1] * 2 + 1e-3
    cleaned = metrics.drop_duplicate_slots(slots)
    np.testing.assert_array_equal(cleaned[:, :3], slots[:, :3])
    np.testing.assert_allclose(cleaned[:, 3], np.broadcast_to(slots.mean((0, 1)), (5, 8)))
    np.testing.assert_array_equal(metrics.drop_duplicate_slots(slots, blank=np.zeros(8))[:, 3], 0)


def test_the_released_threshold_is_half_a_chord_of_15_hundredths():
    for chord, dropped in ((0.299, True), (0.301, False)):
        turn = 2 * math.asin(chord / 2)
        pair = np.array([[[1.0, 0.0], [math.cos(turn), math.sin(turn)]]])
        assert (metrics.drop_duplicate_slots(pair, blank=np.full(2, 9.0))[0, 1, 0] == 9.0) == dropped


def test_of_three_equal_slots_one_stays():
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"b": np.zeros((9, 3))}, "b must have the shape of a"),
        ({"a": np.zeros(3)}, "a must have shape"),
        ({"d": np.full((8, 3), np.nan)}, "d must be finite"),
        ({"negatives": {"drop": np.zeros((8, 4))}}, "negatives.drop must have the shape of a"),
        ({"negatives": [np.zeros((8, 3))]}, "negatives must map the name of each hard negative to its codes, got list"),
        ({"negatives": np.zeros((1, 8, 3))}, "negatives must map the name of each hard negative .* got ndarray"),
        ({"loss": "cosine"}, "loss must be"),
        ({"group": 1}, "group must be at least 2"),
    ],
)
def test_bad_input_is_named(change, words):
    codes = np.random.default_rng(0).normal(size=(8, 3))
    good = {"a": codes, "b": codes, "c": codes, "d": codes, "negatives": {}}
    with pytest.raises(ValueError, match=words):
        metrics.coat(**{**good, **change})


def test_tre_tells_composed_codes_from_others_and_reads_objects():
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 3, (2000, 3, 2))
    present = draw.random((2000, 3)) < 0.7
    present[:, 0] = True
    table = draw.normal(size=(2, 3, 6))
    parts = table[0][factors[:, :, 0]] + table[1][factors[:, :, 1]]
    composed = (parts * present[:, :, None]).sum(1)
    good = metrics.tree_reconstruction_error(composed, factors, present)
    bad = metrics.tree_reconstruction_error(draw.normal(size=composed.shape), factors, present)
    assert good.relative < 0.35
    assert bad.relative == pytest.approx(1.0, abs=0.1)
    assert good.score == pytest.approx(np.mean(good.per_row))


def test_tre_scales_with_the_codes():
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 3, (500, 3))
    codes = factors @ draw.normal(size=(3, 4))
    once, tenfold = (metrics.tree_reconstruction_error(codes * k, factors, steps=50) for k in (1.0, 10.0))
    assert tenfold.score == pytest.approx(10 * once.score, rel=1e-3)
    assert tenfold.relative == pytest.approx(once.relative, rel=1e-3)


def all_at_once(a, b, c, d, negatives, loss, group, chance):
    """COAT with the codes of all cases held as float64: the share of each case, and the share of wins of d."""
    codes = check_scenes({"a": a, "b": b, "c": c, "d": d, **negatives})
    shift = codes[0].reshape(-1, codes[0].shape[-1]).mean(0)
    scale = max(float((code - shift).abs().max()) for code in codes)
    a, b, c, d, *others = ((code - shift) / scale for code in codes)
    measure = analogy._slot_losses if d.ndim == 3 else analogy._vector_losses
    chances = analogy._slot_chance if d.ndim == 3 else analogy._vector_chance
    losses, expected = measure(a, b, c, d, loss), []
    for start in range(0, len(d), group):
        own = [scene[start : start + group] for scene in (a, b, c)]
        around = slice(max(min(start + group, len(d)) - group, 0), start + group)
        expected.append(chances(own, (c[around], d[around]), loss, chance).mean(1))
    wins = [float((losses < measure(a, b, c, other, loss)).double().mean()) for other in others]
    return losses / torch.cat(expected), wins


class Rows:
    """Codes that are not there all at once."""

    def __init__(self, codes):
        self.codes, self.shape, self.most = codes, codes.shape, 0

    def __getitem__(self, rows):
        found = self.codes[rows]
        self.most = max(self.most, len(found))
        return found


@pytest.mark.parametrize(("loss", "chance"), [*((loss, "released") for loss in LOSSES), ("acos", "paper")])
@pytest.mark.parametrize("shape", [(150, 101), (100, 5_000), (100, 3, 333)])
@pytest.mark.parametrize("at_once", [1, 1 << 14, 1 << 40])
def test_cases_read_in_blocks_score_exactly_as_all_at_once(monkeypatch, at_once, shape, loss, chance):
    monkeypatch.setattr(analogy, "AT_ONCE", at_once)
    monkeypatch.setitem(analogy.RESIDUALS_AT_ONCE, "cpu", 1 << 15)  # so that slots are matched in several parts
    draw = torch.Generator().manual_seed(len(shape))
    a, b, c, d, near, far = (torch.randn(shape, generator=draw) + 3 for _ in range(6))
    negatives = {"near": near, "far": far}
    per_case, wins = all_at_once(a, b, c, d, negatives, loss, 64, chance)
    for kind in (lambda codes: codes, lambda codes: codes.numpy(), Rows):
        read = [kind(code) for code in (a, b, c, d)]
        found = metrics.coat(*read, {name: kind(code) for name, code in negatives.items()}, loss=loss, chance=chance)
        assert torch.equal(torch.as_tensor(found.per_case), per_case)
        assert found.score == float(1 - per_case.mean())
        assert [test.p_hat for test in found.tests.values()] == wins
    if at_once < 1 << 40 and shape == (100, 5_000):
        assert max(code.most for code in read) == 64  # a group, for the loss by chance
        assert analogy.blocks(shape)[0] == slice(0, 16)


def test_all_values_that_are_no_numbers_are_counted(monkeypatch):
    monkeypatch.setattr(analogy, "AT_ONCE", 1)
    code = torch.randn(100, 5)
    bad = code.clone()
    bad[[0, 50, 99], 0] = math.nan
    with pytest.raises(ValueError, match=r"negatives\.drop must be finite: 3 values are not"):
        metrics.coat(code, code, code, code, {"drop": bad})
