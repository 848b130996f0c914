"""Inputs that once broke a metric or fooled it."""

import math

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier

from alebrije import metrics
from alebrije.metrics.importance import completeness, disentanglement
from alebrije.probes import boost_trees

rng = np.random.default_rng(0)
FACTORS = rng.integers(0, 3, (300, 2))
CODES = FACTORS + 0.3 * rng.normal(size=(300, 2))
NEURONS = [name for name, record in metrics.catalog().items() if record.inputs == ("codes", "factors")]


@pytest.mark.parametrize("name", ["mig", "modularity", "med", "med-raw"])
@pytest.mark.parametrize("dead", [0.7 + 1.1e-16 * rng.integers(0, 2, 300), np.full(300, 1e17), np.full(300, 0.7)])
def test_a_neuron_that_varies_by_rounding_alone_is_constant(name, dead):
    with_dead = metrics.find(name)(np.c_[CODES, dead], FACTORS)
    with_zero = metrics.find(name)(np.c_[CODES, np.zeros(300)], FACTORS)
    assert with_dead.score == pytest.approx(with_zero.score, abs=0.02)


@pytest.mark.parametrize("name", ["nk", "dci-linear", "med", "explicitness"])
def test_tiny_codes_are_scored_like_others(name):
    settings = {"epochs": 10} if name == "nk" else {}
    tiny = metrics.find(name)(CODES * 1e-200, FACTORS, **settings).score
    assert tiny == pytest.approx(metrics.find(name)(CODES, FACTORS, **settings).score, abs=0.02)


@pytest.mark.parametrize("scale", [1e-170, 1e29])
def test_coat_at_any_scale(scale):
    a, b, c, d = rng.normal(size=(4, 64, 3, 5))
    plain, scaled = (metrics.coat(a * k, b * k, c * k, d * k, {}) for k in (1.0, scale))
    assert scaled.score == pytest.approx(plain.score, abs=1e-9)


@pytest.mark.parametrize("name", NEURONS)
def test_codes_too_large_to_square_are_refused(name):
    with pytest.raises(ValueError, match="smaller than 1e\\+30"):
        metrics.find(name)(CODES * 1e100, FACTORS)


@pytest.mark.parametrize("dtype", [">u8", ">i4", "<u8"])
def test_label_maps_of_any_byte_order(dtype):
    true, pred = rng.integers(0, 4, (2, 3, 8, 8))
    np.testing.assert_array_equal(
        metrics.adjusted_rand_index(true.astype(dtype), pred.astype(dtype)), metrics.adjusted_rand_index(true, pred)
    )


def test_unsigned_labels_beyond_the_signed_range_can_be_ignored():
    true, pred = rng.integers(0, 4, (2, 3, 8, 8))
    large = true.astype(np.uint64) + np.uint64(2**63)
    np.testing.assert_array_equal(
        metrics.adjusted_rand_index(large, pred, ignore=2**63), metrics.adjusted_rand_index(true, pred, ignore=0)
    )
    np.testing.assert_array_equal(
        metrics.adjusted_rand_index(true, pred, ignore=torch.tensor(1)),
        metrics.adjusted_rand_index(true, pred, ignore=1),
    )


def test_masks_of_any_strides_and_orders():
    slots, masks = rng.normal(size=(2, 3, 4)), rng.random((2, 3, 5, 5))
    expected = metrics.drop_invisible_slots(slots, masks)
    np.testing.assert_array_equal(metrics.drop_invisible_slots(slots, masks[:, :, ::-1]), expected)
    np.testing.assert_array_equal(metrics.drop_invisible_slots(slots, masks.astype(">f8")), expected)
    with pytest.raises(ValueError, match="masks must be finite"):
        metrics.drop_invisible_slots(slots, masks * math.nan)


def test_a_faint_mask_that_wins_is_visible():
    masks = np.zeros((1, 2, 1, 2))
    masks[0, 1, 0, 0] = 1e-50
    slots = np.ones((1, 2, 3))
    np.testing.assert_array_equal(metrics.drop_invisible_slots(slots, masks, blank=np.zeros(3)), slots)


def test_one_neuron_or_one_factor():
    bits = rng.integers(0, 2, (300, 1))
    constant, noise = np.ones((300, 1)), rng.normal(size=(300, 1))
    assert metrics.dci(constant, bits).disentanglement == 0.0
    assert metrics.separated_attribute_predictability(constant, bits).score == pytest.approx(0.0, abs=0.03)
    assert abs(metrics.separated_attribute_predictability(noise, bits).score) < 0.1
    assert metrics.separated_attribute_predictability(bits * 9.0, bits).score == pytest.approx(0.5, abs=0.1)
    for name in ("beta-vae", "factor-vae"):
        result = metrics.find(name)(noise, bits)
        assert math.isnan(result.score)
        assert result.reason == "there is only one factor"


def test_values_that_never_repeat_give_no_pairs():
    factors = np.c_[rng.permutation(200), rng.integers(0, 2, 200)]
    for name in ("beta-vae", "factor-vae"):
        result = metrics.find(name)(rng.normal(size=(200, 2)), factors)
        assert math.isnan(result.score)
        assert "factors [0]" in result.reason


def test_few_lonely_values_do_not_betray_their_factor():
    factors = np.c_[np.r_[np.zeros(100, int), np.arange(1, 101)], rng.integers(0, 2, 200)]
    assert metrics.beta_vae_score(rng.normal(size=(200, 2)), factors, train=2000, test=1000).score < 0.75


@pytest.mark.parametrize("name", ["dci", "dci-linear", "med"])
def test_constant_factors_do_not_inform(name):
    factors = np.c_[FACTORS[:, :1], np.zeros((300, 2), int)]
    result = metrics.find(name)(rng.normal(size=(300, 3)), factors)
    assert result.informativeness < 0.6
    assert np.isnan(result.per_factor).tolist() == [False, True, True]
    assert result.reason == "factors [1, 2] have a single value"


LEFT_OUT = {
    "factor-vae": {},
    "beta-vae": {"train": 1000, "test": 500},
    "modularity": {},
    "irs": {},
    "tre": {"steps": 40},
}


@pytest.mark.parametrize("name", LEFT_OUT)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_factor_with_a_single_value_changes_no_score(name, place):
    record, factors = metrics.find(name), np.insert(FACTORS, place, 7, axis=1)
    alone, beside = (record(CODES, each, **LEFT_OUT[name]) for each in (FACTORS, factors))
    assert beside.score == pytest.approx(alone.score, abs=1e-12)
    assert alone.reason is None
    assert beside.reason == f"factors [{place}] have a single value"
    assert record.version == 2


@pytest.mark.parametrize("name", LEFT_OUT)
def test_without_a_factor_that_varies_there_is_no_score(name):
    for count in (1, 2):
        result = metrics.find(name)(CODES, np.full((300, count), 7))
        assert math.isnan(result.score)
        assert result.reason == f"factors {list(range(count))} have a single value"


@pytest.mark.parametrize("name", ["factor-vae", "beta-vae", "modularity"])
def test_one_factor_that_varies_beside_another_has_nothing_to_be_compared_with(name):
    result = metrics.find(name)(CODES, np.c_[FACTORS[:, :1], np.full(300, 7)])
    assert math.isnan(result.score)
    assert result.reason == "factors [1] have a single value, which leaves only one"


def test_fields_keep_the_places_of_factors_that_are_left_out():
    factors = np.insert(FACTORS, 0, 7, axis=1)
    robust = metrics.interventional_robustness(CODES, factors)
    assert np.isnan(robust.per_pair).tolist() == [[True, False, False]] * 2
    assert robust.best_factor.tolist() == [1, 2]
    assert metrics.modularity(CODES, factors).information.shape == (2, 3)
    votes = metrics.factor_vae_score(CODES, factors).votes
    assert votes.argmax(1).tolist() == [1, 2]
    assert votes[:, 0].tolist() == [0, 0]
    assert votes.sum() == 10_000


def test_each_fault_of_factors_and_codes_is_told():
    single = "factors [0] have a single value"
    factors, dead = np.insert(FACTORS, 0, 7, axis=1), np.ones((300, 2))
    assert metrics.interventional_robustness(dead, factors).reason == f"every neuron is constant; {single}"
    silent = metrics.factor_vae_score(dead, factors)
    assert (silent.score, silent.reason) == (0.0, f"no neuron has a standard deviation of at least 0.05; {single}")
    index = np.c_[np.full(200, 7), np.arange(200), np.arange(200) % 2]
    lonely = metrics.beta_vae_score(CODES[:200], index)
    assert math.isnan(lonely.score)
    assert lonely.reason == f"{single}; no two rows share a value of factors [1]"


def test_tre_leaves_out_what_all_present_objects_share():
    draw = np.random.default_rng(1)
    factors, present = draw.integers(0, 3, (300, 3, 2)), draw.random((300, 3)) < 0.7
    present[:, 0] = True
    shared = np.where(present, 4, draw.integers(0, 3, present.shape))  # what is absent has no value that counts
    objects = np.concatenate([shared[:, :, None], factors], 2)
    alone, beside = (metrics.tree_reconstruction_error(CODES, each, present, steps=40) for each in (factors, objects))
    assert beside.score == alone.score
    assert (alone.reason, beside.reason) == (None, "factors [0] have a single value")
    nothing = metrics.tree_reconstruction_error(CODES, shared[:, :, None], present, steps=40)
    assert math.isnan(nothing.score)
    assert math.isnan(nothing.relative)


def test_tre_reads_from_a_constant_factor_how_many_others_are_there():
    draw = np.random.default_rng(1)
    there = draw.integers(0, 2, (900, 1)).astype(bool)
    factors, present = np.full((900, 2), 7), np.c_[np.ones((900, 1), bool), there]
    result = metrics.tree_reconstruction_error(there * 1.0, factors, present)
    assert result.relative < 0.2
    assert result.reason is None


def test_an_index_is_not_a_factor():
    with pytest.raises(ValueError, match="column 1 has 3000 values in 3000 rows"):
        metrics.dci(rng.normal(size=(3000, 2)), np.c_[rng.integers(0, 2, 3000), np.arange(3000)])


SPARSE = np.where(rng.random((6000, 4)) < 0.97, 0.0, rng.random((6000, 4)))
SMALL = rng.integers(0, 3, (900, 2)) + 0.7 * rng.normal(size=(900, 2))


@pytest.mark.parametrize(
    ("codes", "targets"),
    [(SPARSE, (SPARSE[:, :2] > 0).astype(int)), (SMALL, np.digitize(SMALL, [0.5, 1.5]))],
    ids=["mostly zero", "small"],
)
def test_trees_keep_to_scikit_learn(codes, targets):
    fast = boost_trees(codes, targets, codes).importance
    slow = np.stack(
        [GradientBoostingClassifier(random_state=0).fit(codes, t).feature_importances_ for t in targets.T], 1
    )
    assert disentanglement(fast) == pytest.approx(disentanglement(slow), abs=0.02)
    assert completeness(fast) == pytest.approx(completeness(slow), abs=0.02)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("sap", {"held_out": 1.5}, "held_out must lie between 0 and 1"),
        ("nk", {"batch_size": 0}, "batch_size must be at least 1"),
        ("nk", {"hidden": 0}, "hidden, epochs and batch_size must be at least 1"),
        ("mig", {"bins": 0}, "bins must be at least 1"),
        ("snc", {"bins": "gcd", "minimum_bin_size": -3}, "minimum_bin_size must be at least 1"),
        ("irs", {"quantile": 0.0}, "quantile must lie"),
    ],
)
def test_settings_that_cannot_work_are_named(name, settings, words):
    with pytest.raises(ValueError, match=words):
        metrics.find(name)(CODES, FACTORS, **settings)


@pytest.mark.parametrize(
    ("settings", "words"), [({"chance": "bogus"}, "chance must be"), ({"level": 7}, "level must lie")]
)
def test_coat_settings_that_cannot_work_are_named(settings, words):
    code = rng.normal(size=(8, 3))
    with pytest.raises(ValueError, match=words):
        metrics.coat(code, code, code, code, {}, **settings)


def test_tre_leaves_every_generator_alone():
    before = torch.random.get_rng_state()
    metrics.tree_reconstruction_error(CODES, FACTORS, steps=2)
    assert torch.equal(before, torch.random.get_rng_state())
