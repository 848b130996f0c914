"""The fast metrics agree with slow ones that were written apart from them."""

import numpy as np
import pytest
import references

from alebrije import metrics
from alebrije.metrics.arrays import split_rows
from alebrije.metrics.importance import completeness, disentanglement

KINDS = (5, 3, 4, 2)


def mixed_codes(rows=1500, neurons=6, seed=0):
    draw = np.random.default_rng(seed)
    factors = np.stack([draw.integers(0, k, rows) for k in KINDS], 1)
    mix = np.eye(len(KINDS), neurons) + 0.3 * draw.normal(size=(len(KINDS), neurons))
    return factors @ mix + 0.4 * draw.normal(size=(rows, neurons)), factors


def parts(codes, factors, held_out, seed=0):
    fit, test = split_rows(len(codes), held_out, seed)
    return codes[fit], factors[fit], codes[test], factors[test]


@pytest.mark.parametrize("seed", range(3))
def test_mig(seed):
    codes, factors = mixed_codes(seed=seed)
    score, per_factor = references.mig(codes, factors)
    result = metrics.mutual_information_gap(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_modularity(seed):
    codes, factors = mixed_codes(seed=seed)
    score, per_neuron = references.modularity(codes, factors)
    result = metrics.modularity(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_neuron, per_neuron, atol=1e-12)


def test_sap_classifier():
    codes, factors = mixed_codes(rows=900)
    score, accuracies = references.sap_classifier(*parts(codes, factors, 1 / 3))
    result = metrics.separated_attribute_predictability(codes, factors)
    assert result.score == pytest.approx(score, abs=0.005)  # the two solvers stop at different points
    np.testing.assert_allclose(result.predictability, accuracies, atol=0.01)


def test_sap_r2():
    codes, factors = mixed_codes()
    score, matrix = references.sap_r2(codes, factors)
    result = metrics.separated_attribute_predictability(codes, factors, predictor="r2")
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.predictability, matrix, atol=1e-12)


@pytest.mark.parametrize("quantile", [0.99, 1.0])
def test_irs(quantile):
    codes, factors = mixed_codes()
    codes[:, 2] = 7.0
    score, matrix = references.irs(codes, factors, quantile=quantile)
    result = metrics.interventional_robustness(codes, factors, quantile=quantile)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_pair[[0, 1, 3, 4, 5]], matrix, atol=1e-12)
    assert np.isnan(result.per_pair[2]).all()


def test_explicitness():
    codes, factors = mixed_codes(rows=900)
    score, per_factor = references.explicitness(*parts(codes, factors, 1 / 3))
    result = metrics.explicitness(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-4)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=5e-4)


def test_disentanglement_and_completeness():
    importance = np.random.default_rng(0).random((7, 4)) ** 4
    assert disentanglement(importance) == pytest.approx(references.disentanglement(importance), abs=1e-12)
    assert completeness(importance) == pytest.approx(references.completeness(importance), abs=1e-12)


def test_dci_with_boosted_trees():
    codes, factors = mixed_codes(rows=1800)
    slow = references.dci(*parts(codes, factors, 1 / 3))
    fast = metrics.dci(codes, factors)
    for name in ("disentanglement", "completeness", "informativeness"):
        assert getattr(fast, name) == pytest.approx(slow[name], abs=0.03)
    np.testing.assert_allclose(fast.importance, slow["importance"], atol=0.04)


@pytest.mark.parametrize("normalise", [True, False])
def test_med(normalise):
    codes, factors = mixed_codes()
    slow = references.med(codes, factors, normalise=normalise)
    fast = metrics.med(codes, factors, normalise=normalise)
    assert fast.disentanglement == pytest.approx(slow["disentanglement"], abs=1e-12)
    assert fast.completeness == pytest.approx(slow["completeness"], abs=1e-12)
    assert fast.score == pytest.approx((fast.disentanglement + fast.completeness + fast.informativeness) / 3)


@pytest.mark.parametrize("seed", range(3))
def test_snc(seed):
    codes, factors = mixed_codes(seed=seed)
    score, per_factor, accuracy, chance = references.snc(codes, factors)
    result = metrics.single_neuron_classification(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=1e-12)
    np.testing.assert_allclose(result.accuracy, accuracy, atol=1e-12)
    np.testing.assert_allclose(result.chance, chance, atol=1e-12)
