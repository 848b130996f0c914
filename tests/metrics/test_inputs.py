"""Codes and factors that once broke a metric or raised its score."""

import math

import numpy as np
import pytest

from alebrije import metrics
from alebrije.demo import toys
from alebrije.errors import InputError
from tests.metrics.codes import CODES, FACTORS

rng = np.random.default_rng(1)

NEURONS = [name for name, record in metrics.catalog().items() if record.inputs == ("codes", "factors")]


@pytest.mark.parametrize("name", ["mig", "modularity", "med", "med-raw"])
@pytest.mark.parametrize("dead", [0.7 + 1.1e-16 * rng.integers(0, 2, 300), np.full(300, 1e17), np.full(300, 0.7)])
def test_neuron_that_varies_only_by_rounding_is_constant(name, dead):
    with_dead = metrics.find(name)(np.c_[CODES, dead], FACTORS)
    with_zero = metrics.find(name)(np.c_[CODES, np.zeros(300)], FACTORS)
    assert with_dead.score == pytest.approx(with_zero.score, abs=0.02)


@pytest.mark.parametrize("name", ["nk", "dci-linear", "med", "explicitness"])
def test_tiny_codes_get_the_same_scores(name):
    settings = {"epochs": 10} if name == "nk" else {}
    tiny = metrics.find(name)(CODES * 1e-200, FACTORS, **settings).score
    assert tiny == pytest.approx(metrics.find(name)(CODES, FACTORS, **settings).score, abs=0.02)


@pytest.mark.parametrize("name", NEURONS)
def test_codes_too_large_to_square_are_refused(name):
    with pytest.raises(ValueError, match="smaller than 1e\\+30"):
        metrics.find(name)(CODES * 1e100, FACTORS)


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


def test_row_index_is_refused_as_a_factor():
    with pytest.raises(ValueError, match="column 1 has 3000 values in 3000 rows"):
        metrics.dci(rng.normal(size=(3000, 2)), np.c_[rng.integers(0, 2, 3000), np.arange(3000)])


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
def test_bad_settings_are_refused(name, settings, words):
    with pytest.raises(ValueError, match=words):
        metrics.find(name)(CODES, FACTORS, **settings)


@pytest.mark.parametrize(
    "name", ["snc", "nk", "mig", "modularity", "sap", "med", "beta-vae", "factor-vae", "explicitness"]
)
def test_continuous_factors_are_refused(name):
    draw = np.random.default_rng(0)
    with pytest.raises(ValueError, match="defined for discrete factors only"):
        metrics.find(name)(draw.normal(size=(50, 3)), draw.normal(size=(50, 2)))


@pytest.mark.parametrize("name", ["sap-r2", "irs", "dci", "dci-linear"])
def test_continuous_factors_are_scored(name):
    draw = np.random.default_rng(0)
    factors = draw.random((3000, 2))
    good = metrics.find(name)(factors * 2 + 1, factors).score
    bad = metrics.find(name)(draw.random((3000, 2)), factors).score
    assert good > 0.85
    assert good > bad + 0.3


def test_whole_numbers_stored_as_floats_are_classes():
    factors = toys.all_combinations(20)
    codes = toys.rotated(factors, np.random.default_rng(0))
    for name in ("mig", "dci"):
        assert metrics.find(name)(codes, factors.astype(float)).score == metrics.find(name)(codes, factors).score


def constant_factor_settings(name):
    return {"nk": {"epochs": 3}, "beta-vae": FEW, "factor-vae": FEW}.get(name, {})


FEW = {"train": 200, "test": 100}
OF_NEURONS = [name for name, record in metrics.catalog().items() if record.instrument == "neurons"]
PER_FACTOR = ("per_factor", "accuracy", "chance", "full_accuracy", "knockout_accuracy")  # [F]
PER_PAIR = ("importance", "information", "predictability", "per_pair", "votes")  # [L, F]


@pytest.mark.parametrize("name", OF_NEURONS)
@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "between", "last"])
def test_constant_factors_change_no_score(name, place):
    """Not even the last digit, and no entry of another factor."""
    codes, factors = CODES[:120] @ np.array([[1.0, 0.4, 0.2], [-0.3, 1.0, 0.5]]), FACTORS[:120]
    record, options = metrics.catalog()[name], constant_factor_settings(name)
    expected = record(codes, factors, **options)
    found = record(codes, np.insert(factors, place, 7, axis=1), **options)
    assert abs(expected.score) > 0
    assert found.score == expected.score
    assert f"factors [{place}]" in found.reason
    assert "a single value" in found.reason
    for part in ("disentanglement", "completeness", "informativeness"):
        assert getattr(found, part, None) == getattr(expected, part, None)
    for field in (*PER_FACTOR, *PER_PAIR, "alignment"):
        if hasattr(expected, field):
            values = np.asarray(getattr(found, field))
            assert values.shape[-1] == 3
            np.testing.assert_array_equal(np.delete(values, place, axis=-1), getattr(expected, field))
    if hasattr(found, "per_factor"):
        assert np.isnan(found.per_factor[place])


@pytest.mark.parametrize("name", ["snc", "nk"])
def test_constant_factor_needs_no_neuron(name):
    factors = np.c_[FACTORS, np.zeros(len(FACTORS), dtype=int)]
    found = metrics.find(name)(CODES, factors, **constant_factor_settings(name))
    assert sorted(found.alignment) == [-1, 0, 1]


@pytest.mark.parametrize(("name", "words"), [("snc", "single-neuron classification"), ("irs", "IRS")])
def test_two_rows_are_too_few(name, words):
    with pytest.raises(InputError, match=f"2 rows are too few for {words}: codes must have at least 3"):
        metrics.find(name)(np.array([[0.0, 1.0], [1.0, 0.5]]), np.array([[0, 1], [1, 0]]))
    assert metrics.find(name)(
        np.array([[0.0, 1.0], [1.0, 0.5], [1.0, 0.0]]), np.array([[0, 1], [1, 0], [1, 1]])
    ).settings
