"""COAT: known answers, shortcuts, slots, and agreement with a loop over cases."""

import importlib
import math

import numpy as np
import pytest
import torch

from alebrije import metrics
from alebrije.metrics.slots import check_scenes, neuron_order, slot_order, take_slots
from tests.metrics import references

rng = np.random.default_rng(1)

coat_module = importlib.import_module("alebrije.metrics.coat")  # `metrics.coat` is the function
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
    for attribute, name in enumerate(["color", "material", "shape", "size"]):
        negatives[name] = d.copy()
        negatives[name][:, 2, attribute] += 1.0
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
def test_factors_projections_and_slots_score_1_and_pass(encode, loss):
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


def test_code_without_colour_scores_1_and_fails_only_colour():
    result = metrics.coat(*encoded(lambda scene: concatenated(scene[:, :, 1:])))
    assert result.score == pytest.approx(1.0)
    assert [name for name, test in result.tests.items() if not test.passed] == ["color"]
    assert not result.passed


def test_a_tie_with_a_hard_negative_is_lost():
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 64, 3))
    same = metrics.coat(a, b, c, d, {"object": d.copy()}).tests["object"]
    assert (same.p_hat, same.passed) == (0.0, False)


def test_without_negatives_passed_is_false():
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


def test_the_released_angle_exchanges_a_and_b_together():
    a, b, c, d = np.random.default_rng(1).normal(size=(4, 70, 7))

    def angle(u, v):
        return math.acos(u @ v / np.linalg.norm(u) / np.linalg.norm(v))

    groups = [range(64)] * 64 + [range(6, 70)] * 6  # the last cases share the last full group
    ratios = [
        angle(b[i] - a[i], d[i] - c[i]) / np.mean([angle(b[j] - a[j], d[i] - c[i]) for j in group])
        for i, group in enumerate(groups)
    ]
    np.testing.assert_allclose(metrics.coat(a, b, c, d, {}, loss="acos").per_case, ratios, atol=1e-9)


def matched_loss(a, b, c, d, loss):
    order = references.greedy_match(a, b, c, d)
    a, b, c, d = (x[index].ravel() for x, index in zip((a, b, c, d), order, strict=True))
    return references.analogy_loss(a, b, c, d, loss)


@pytest.mark.parametrize("loss", LOSSES)
def test_paper_matches_all_slots_of_every_quadruple(loss):
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
    result = metrics.coat(a, b, c, d, {"object": negative}, loss=loss, group=group, chance="paper")
    np.testing.assert_allclose(result.losses, losses, atol=1e-9)
    np.testing.assert_allclose(result.per_case, losses / chance, atol=1e-9)
    assert result.tests["object"].p_hat == pytest.approx(np.mean(losses < worse))


def rematched_loss(a, b, c, d, other, loss):
    """The loss with another d, whose slots are matched to those of a, b and c as these were matched with their d."""
    first, second, third, _ = references.greedy_match(a, b, c, d)
    a, b, c = a[first], b[second], c[third]
    free, order = set(range(len(a))), {}
    while free:
        row, column = min(
            ((i, j) for i in set(range(len(a))) - order.keys() for j in free),
            key=lambda pair: np.square(b[pair[0]] - a[pair[0]] + c[pair[0]] - other[pair[1]]).sum(),
        )
        order[row] = column
        free.remove(column)
    return references.analogy_loss(
        a.ravel(), b.ravel(), c.ravel(), other[[order[i] for i in range(len(a))]].ravel(), loss
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_released_matches_only_the_slots_of_the_exchanged_d(loss):
    a, b, c, d = np.random.default_rng(2).normal(size=(4, 10, 3, 4))
    groups = [range(4)] * 4 + [range(4, 8)] * 4 + [range(6, 10)] * 2
    chance = [np.mean([rematched_loss(a[i], b[i], c[i], d[i], d[j], loss) for j in groups[i]]) for i in range(10)]
    result = metrics.coat(a, b, c, d, {}, loss=loss, group=4)
    np.testing.assert_allclose(result.per_case, result.losses / chance, atol=1e-9)


@pytest.mark.parametrize(("chance", "score"), [("released", 0.1), ("paper", 0.0)])
def test_random_slots_are_above_chance_as_released(chance, score):
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 64, 7, 16))
    assert metrics.coat(a, b, c, d, {}, chance=chance).score == pytest.approx(score, abs=0.02)


def tied_slots(seed, cases=40):
    """Slots of three small integers with many equal residuals; d has noise, so that the matching decides the loss."""
    draw = np.random.default_rng(seed)
    a, b, c = draw.integers(0, 3, (3, cases, 4, 3)).astype(float)
    return a, b, c, (b - a + c + draw.integers(-1, 2, c.shape))[:, ::-1]


@pytest.mark.parametrize("chance", ["released", "paper"])
@pytest.mark.parametrize("loss", LOSSES)
def test_tied_slots_score_the_same_in_any_order(loss, chance):
    draw = np.random.default_rng(1)
    scenes = tied_slots(0)
    shuffled = [reordered(draw, scene) for scene in scenes]
    neurons = draw.permutation(3)
    expected = metrics.coat(*scenes, {"object": scenes[0]}, loss=loss, chance=chance)
    found = metrics.coat(*shuffled, {"object": shuffled[0]}, loss=loss, chance=chance)
    np.testing.assert_array_equal(found.per_case, expected.per_case)
    np.testing.assert_array_equal(found.losses, expected.losses)
    assert found.tests == expected.tests
    moved = [scene[..., neurons] for scene in scenes]
    turned = metrics.coat(*moved, {"object": moved[0]}, loss=loss, chance=chance)
    np.testing.assert_array_equal(turned.per_case, expected.per_case)
    for scale in (0.3, 7.0):
        scaled = metrics.coat(*(scene * scale for scene in scenes), {}, loss=loss, chance=chance)
        np.testing.assert_allclose(scaled.per_case, expected.per_case, atol=1e-7)


def reordered(draw, scene):
    """The same slots in another order in each scene."""
    order = draw.permuted(np.tile(np.arange(scene.shape[1]), (len(scene), 1)), axis=1)
    return np.take_along_axis(scene, order[:, :, None], 1)


def test_incomplete_last_group_uses_the_last_full_group():
    a, b, c, d = np.random.default_rng(0).normal(size=(4, 70, 5))
    per_case = metrics.coat(a, b, c, d, {}).per_case
    tail = metrics.coat(a[6:], b[6:], c[6:], d[6:], {}).per_case
    np.testing.assert_allclose(per_case[64:], tail[58:], atol=1e-12)


def test_a_single_case_has_no_chance_level():
    one = np.ones((1, 3))
    result = metrics.coat(one, 2 * one, 3 * one, 5 * one, {})
    assert math.isnan(result.score)
    assert "single case" in result.reason


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
def test_bad_input_is_refused_by_name(change, words):
    codes = np.random.default_rng(0).normal(size=(8, 3))
    good = {"a": codes, "b": codes, "c": codes, "d": codes, "negatives": {}}
    with pytest.raises(ValueError, match=words):
        metrics.coat(**{**good, **change})


def all_at_once(a, b, c, d, negatives, loss, group, chance):
    """COAT with all codes in memory as float64: the loss ratio of each case, and the share of wins of d."""
    codes = check_scenes({"a": a, "b": b, "c": c, "d": d, **negatives})
    if codes[0].ndim == 3:
        neurons = neuron_order(codes)
        codes = [take_slots(code[..., neurons], slot_order(code[..., neurons])) for code in codes]
    shift = codes[0].reshape(-1, codes[0].shape[-1]).mean(0)
    scale = max(float((code - shift).abs().max()) for code in codes)
    a, b, c, d, *others = ((code - shift) / scale for code in codes)
    measure = coat_module._slot_losses if d.ndim == 3 else coat_module._vector_losses
    chances = coat_module._slot_chance if d.ndim == 3 else coat_module._vector_chance
    losses, expected = measure(a, b, c, d, loss), []
    for start in range(0, len(d), group):
        own = [scene[start : start + group] for scene in (a, b, c, d)]
        around = slice(max(min(start + group, len(d)) - group, 0), start + group)
        expected.append(chances(own, [scene[around] for scene in (a, b, c, d)], loss, chance).mean(1))
    wins = [float((losses < measure(a, b, c, other, loss)).double().mean()) for other in others]
    return losses / torch.cat(expected), wins


class CodeFile:
    """Stands in for codes in a file, and records the most rows read at once."""

    def __init__(self, codes):
        self.codes, self.shape, self.most = codes, codes.shape, 0

    def __getitem__(self, rows):
        found = self.codes[rows]
        self.most = max(self.most, len(found))
        return found


@pytest.mark.parametrize(("loss", "chance"), [*((loss, "released") for loss in LOSSES), ("acos", "paper")])
@pytest.mark.parametrize("shape", [(150, 101), (100, 5_000), (100, 3, 333)])
@pytest.mark.parametrize("at_once", [1, 1 << 14, 1 << 40])
def test_block_size_does_not_change_the_score(monkeypatch, at_once, shape, loss, chance):
    monkeypatch.setattr(coat_module, "VALUES_AT_ONCE", at_once)
    monkeypatch.setitem(coat_module.RESIDUALS_AT_ONCE, "cpu", 1 << 15)  # so that slots are matched in several parts
    draw = torch.Generator().manual_seed(len(shape))
    a, b, c, d, near, far = (torch.randn(shape, generator=draw) + 3 for _ in range(6))
    negatives = {"near": near, "far": far}
    per_case, wins = all_at_once(a, b, c, d, negatives, loss, 64, chance)
    for kind in (lambda codes: codes, lambda codes: codes.numpy(), CodeFile):
        read = [kind(code) for code in (a, b, c, d)]
        found = metrics.coat(*read, {name: kind(code) for name, code in negatives.items()}, loss=loss, chance=chance)
        assert torch.equal(torch.as_tensor(found.per_case), per_case)
        assert found.score == float(1 - per_case.mean())
        assert [test.p_hat for test in found.tests.values()] == wins
    if at_once < 1 << 40 and shape == (100, 5_000):
        assert max(code.most for code in read) == 64  # a group, for the loss by chance
        assert coat_module.row_blocks(shape)[0] == slice(0, 16)


def test_error_counts_nan_over_all_blocks(monkeypatch):
    monkeypatch.setattr(coat_module, "VALUES_AT_ONCE", 1)
    code = torch.randn(100, 5)
    bad = code.clone()
    bad[[0, 50, 99], 0] = math.nan
    with pytest.raises(ValueError, match=r"negatives\.drop must be finite: 3 values are NaN or infinite"):
        metrics.coat(code, code, code, code, {"drop": bad})


@pytest.mark.parametrize("scale", [1e-170, 1e29])
def test_scale_does_not_change_coat(scale):
    a, b, c, d = rng.normal(size=(4, 64, 3, 5))
    plain, scaled = (metrics.coat(a * k, b * k, c * k, d * k, {}) for k in (1.0, scale))
    assert scaled.score == pytest.approx(plain.score, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"), [({"chance": "bogus"}, "chance must be"), ({"level": 7}, "level must lie")]
)
def test_bad_settings_are_refused(settings, words):
    code = rng.normal(size=(8, 3))
    with pytest.raises(ValueError, match=words):
        metrics.coat(code, code, code, code, {}, **settings)
