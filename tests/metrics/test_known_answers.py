"""Numbers that are known: Table 1 and Theorem 3.1 of Mahon et al. 2024."""

import numpy as np
import pytest

from alebrije import metrics
from alebrije.studies import toys

ROWS = 200_000


def toy_model(second: str, rows: int = ROWS):
    """Two fair bits; neuron 1 copies either at the toss of a coin; neuron 2 is noise (M1) or bit 1 at 70 % (M2)."""
    draw = np.random.default_rng(5)
    bits = draw.integers(0, 2, (rows, 2))
    first = np.where(draw.random(rows) < 0.5, bits[:, 0], bits[:, 1])
    noise = draw.integers(0, 2, rows)
    flipped = np.where(draw.random(rows) < 0.3, 1 - bits[:, 0], bits[:, 0])
    return np.stack([first, noise if second == "M1" else flipped], 1).astype(float), bits


# metric, M1, M2 and the tolerance of 200,000 samples; MIG of M2 is 12.94 (the paper misprints 11.9)
TABLE_1 = [
    ("mig", 0.1887, 0.1294, 0.005),
    ("sap", 0.25, 0.15, 0.006),
    ("med-raw", 0.583, 0.464, 0.005),
    ("med", 0.583, 0.499, 0.006),
    ("snc", 0.25, 0.45, 0.006),
]


@pytest.mark.parametrize(("name", "first", "second", "tolerance"), TABLE_1)
def test_table_1(name, first, second, tolerance):
    assert metrics.find(name)(*toy_model("M1")).score == pytest.approx(first, abs=tolerance)
    assert metrics.find(name)(*toy_model("M2")).score == pytest.approx(second, abs=tolerance)


def test_table_1_prints_snc_without_the_division_by_what_chance_leaves():
    assert metrics.single_neuron_classification(*toy_model("M1")).excess == pytest.approx(0.125, abs=0.004)
    assert metrics.single_neuron_classification(*toy_model("M2")).excess == pytest.approx(0.225, abs=0.004)


@pytest.mark.parametrize("model", ["M1", "M2"])
def test_table_1_neuron_knockout(model):
    result = metrics.neuron_knockout(*toy_model(model, rows=90_000), epochs=2)
    assert result.score == pytest.approx(0.125, abs=0.008)
    assert result.full_accuracy == pytest.approx(0.75, abs=0.01)


def test_table_1_dci_with_real_trees():
    assert metrics.dci(*toy_model("M1", rows=30_000)).score == pytest.approx(0.583, abs=0.01)
    assert metrics.dci(*toy_model("M2", rows=30_000)).score == pytest.approx(0.431, abs=0.015)


def test_alignment_is_injective_where_one_neuron_is_best_for_all():
    codes, bits = toy_model("M1")
    assert sorted(metrics.align_neurons(codes, bits)) == [0, 1]


@pytest.mark.parametrize(("factors", "values"), [(4, 2), (8, 2), (4, 3)])
def test_theorem_31_no_neuron_tells_anything_and_all_together_tell_everything(factors, values):
    draw = np.random.default_rng(0)
    labels = draw.integers(0, values, (20_000, factors))
    codes = toys.exclusive_or(labels, draw, values)
    digits = np.floor(codes * values), np.floor(codes * values % 1 * values)
    assert ((digits[0] + np.roll(digits[1], -1, axis=1)) % values == labels).all()  # Equation 1
    assert metrics.mutual_information_gap(codes, labels).score < 0.003
    assert metrics.single_neuron_classification(codes, labels).score < 0.02
    fooled = metrics.dci(codes, labels)
    assert fooled.disentanglement > 0.4  # trees use exactly two neurons a factor


def test_knockout_of_theorem_31_is_fooled_or_blind_by_the_luck_of_the_alignment():
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, (9000, 4))
    result = metrics.neuron_knockout(toys.exclusive_or(labels, draw), labels, epochs=60)
    assert (result.full_accuracy > 0.9).all()
    drops = np.abs(result.per_factor)
    assert ((drops < 0.05) | (np.abs(drops - 0.5) < 0.08)).all()


def test_snc_of_a_perfect_neuron_is_1_for_balanced_classes_and_capped_by_equal_bins_for_others():
    balanced = toys.all_combinations(50)
    assert metrics.single_neuron_classification(balanced * 3.0, balanced).score == 1.0
    skewed = np.repeat([0, 1, 2], [400, 300, 300])[:, None]
    assert metrics.single_neuron_classification(skewed * 1.0, skewed).score < 1.0
    assert metrics.single_neuron_classification(skewed * 1.0, skewed, bins="gcd").score == 1.0  # the paper's example


def test_ties_cannot_leak_the_order_of_the_rows():
    """A constant neuron over rows sorted by class must not look informative."""
    classes = np.sort(np.random.default_rng(0).integers(0, 5, (5000, 1)), axis=0)
    for bins in ("classes", "gcd"):
        assert metrics.single_neuron_classification(np.zeros((5000, 1)), classes, bins=bins).score < 1e-3


def test_ties_are_shared_between_bins_in_proportion():
    """600 equal codes over two bins of 500: five sixths of them lie in the first, whatever their class."""
    classes = np.repeat([0, 1], 500)[:, None]
    codes = np.where(np.arange(1000) < 600, 0.0, 1.0)[:, None]
    accuracy = metrics.single_neuron_classification(codes, classes).accuracy[0]
    assert accuracy == pytest.approx((500 * 5 / 6 + 100 / 6 + 400) / 1000)


def test_more_factors_than_neurons_is_refused():
    with pytest.raises(ValueError, match="3 factors cannot be aligned to 2 neurons"):
        metrics.align_neurons(np.zeros((10, 2)), np.zeros((10, 3), dtype=int))


@pytest.mark.parametrize(
    "name", ["snc", "nk", "mig", "modularity", "sap", "med", "beta-vae", "factor-vae", "explicitness"]
)
def test_continuous_factors_are_refused_in_one_sentence(name):
    draw = np.random.default_rng(0)
    with pytest.raises(ValueError, match="defined for discrete factors only"):
        metrics.find(name)(draw.normal(size=(50, 3)), draw.normal(size=(50, 2)))


@pytest.mark.parametrize("name", ["sap-r2", "irs", "dci", "dci-linear"])
def test_continuous_factors_are_scored_where_the_metric_is_defined_for_them(name):
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
