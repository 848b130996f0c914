"""SNC and alignment: agreement with a slow implementation, and ties."""

import numpy as np
import pytest
import torch

from alebrije import metrics
from alebrije.demo import toys
from alebrije.metrics.mutual_information import (
    _binned_information,
    equal_count_information,
    equal_count_table,
    equal_width_bins,
    information_matrix,
    mutual_information,
)
from tests.metrics import references
from tests.metrics.codes import mixed_codes, toy_model


@pytest.mark.parametrize("seed", range(3))
def test_snc(seed):
    codes, factors = mixed_codes(seed=seed)
    score, per_factor, accuracy, chance = references.snc(codes, factors)
    result = metrics.single_neuron_classification(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=1e-12)
    np.testing.assert_allclose(result.accuracy, accuracy, atol=1e-12)
    np.testing.assert_allclose(result.chance, chance, atol=1e-12)


def test_table_1_prints_snc_without_dividing_by_1_minus_chance():
    assert metrics.single_neuron_classification(*toy_model("M1")).excess == pytest.approx(0.125, abs=0.004)
    assert metrics.single_neuron_classification(*toy_model("M2")).excess == pytest.approx(0.225, abs=0.004)


def test_alignment_is_injective_if_one_neuron_is_best_for_all():
    codes, bits = toy_model("M1")
    assert sorted(metrics.align_neurons(codes, bits)) == [0, 1]


def test_snc_of_a_perfect_neuron_is_1_only_for_balanced_classes_or_gcd_bins():
    balanced = toys.all_combinations(50)
    assert metrics.single_neuron_classification(balanced * 3.0, balanced).score == 1.0
    skewed = np.repeat([0, 1, 2], [400, 300, 300])[:, None]
    assert metrics.single_neuron_classification(skewed * 1.0, skewed).score < 1.0
    assert metrics.single_neuron_classification(skewed * 1.0, skewed, bins="gcd").score == 1.0  # the paper's example


def test_ties_do_not_reveal_the_row_order():
    """A constant neuron over rows sorted by class must not look informative."""
    classes = np.sort(np.random.default_rng(0).integers(0, 5, (5000, 1)), axis=0)
    for bins in ("classes", "gcd"):
        assert metrics.single_neuron_classification(np.zeros((5000, 1)), classes, bins=bins).score < 1e-3


def test_ties_are_divided_between_bins_in_proportion():
    """600 equal codes over two bins of 500: five sixths of each class are in the first bin."""
    classes = np.repeat([0, 1], 500)[:, None]
    codes = np.where(np.arange(1000) < 600, 0.0, 1.0)[:, None]
    accuracy = metrics.single_neuron_classification(codes, classes).accuracy[0]
    assert accuracy == pytest.approx((500 * 5 / 6 + 100 / 6 + 400) / 1000)


def test_more_factors_than_neurons_is_refused():
    with pytest.raises(ValueError, match="3 factors cannot be aligned to 2 neurons"):
        metrics.align_neurons(np.zeros((10, 2)), np.arange(30).reshape(10, 3) % 2)


@pytest.mark.parametrize("ties", [False, True])
def test_all_neurons_at_once_have_the_information_of_one_after_another(ties):
    draw = np.random.default_rng(0)
    factors = np.stack([draw.integers(0, count, 233) for count in (3, 7, 20)], 1)
    codes = draw.normal(size=(233, 12))
    codes[:, :3] += factors
    if ties:
        codes = np.round(codes, 1)
        codes[:, 5], codes[:, 6], codes[:100, 7] = 2.0, codes[:, 8], 0.0
    expected = np.array(
        [[mutual_information(equal_count_table(z, g, g.max() + 1)) for z in codes.T] for g in factors.T]
    )
    found = equal_count_information(torch.from_numpy(codes), torch.from_numpy(factors))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_a_gpu_aligns_the_same_neurons():
    codes, factors = mixed_codes(seed=0)
    assert (metrics.align_neurons(codes, factors, device="cuda") == metrics.align_neurons(codes, factors)).all()


def test_information_in_bins_of_equal_width_is_the_same_for_all_neurons_at_once():
    draw = np.random.default_rng(0)
    factors = np.stack([draw.integers(0, count, 233) for count in (3, 20)], 1)
    codes = draw.normal(size=(233, 6))
    codes[:, :2] += factors
    codes[:, 3] = 1.0
    binned = torch.from_numpy(equal_width_bins(codes, 20))
    found = _binned_information(binned, torch.from_numpy(factors), 20)
    np.testing.assert_allclose(found.numpy(), information_matrix(codes, factors, 20), atol=1e-12)
