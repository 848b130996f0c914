"""SAP: separated attribute predictability, the gap between the two best neurons of a factor (Kumar et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.errors import InputError
from alebrije.metrics.inputs import check_classes, check_codes, check_factors
from alebrije.metrics.record import PerFactorScore, neuron_metric
from alebrije.probes import SortedNeuron, split_rows, svm_predictions

Predictor = Literal["classifier", "r2"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SeparationScore(PerFactorScore):
    """`predictability` [L, F] of each factor from each single neuron, and the gap of each factor [F]."""

    predictability: Any


@neuron_metric(
    "sap",
    title="Separated attribute predictability",
    cites="Kumar et al. 2018",
    invariances=("neuron permutation", "dtype", "device"),
    version=2,
    also={
        "sap-r2": {
            "title": "Separated attribute predictability, R2",
            "settings": {"predictor": "r2"},
            "invariances": frozenset({"sample order", "neuron permutation", "dtype", "device"}),
            "version": 1,
        }
    },
)
def separated_attribute_predictability(
    codes: ArrayOrTensor,
    factors: ArrayOrTensor,
    predictor: Predictor = "classifier",
    held_out: float = 1 / 3,
    seed: int = 0,
) -> SeparationScore:
    """The gap in predictability between the two neurons that predict a factor best, averaged over factors.

    ``predictor="classifier"`` is for discrete factors: the held-out accuracy of a balanced linear SVM (C = 0.01) per
    neuron and factor. ``predictor="r2"`` is the squared correlation, for ordered or continuous factors; it is 0 for a
    neuron with a variance below 1e-12. A constant code scores 0. A factor with a single value gets NaN and is left out
    of the mean. Version 2: the SVMs are solved exactly, instead of to scikit-learn's default tolerance.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 100)
    >>> separated_attribute_predictability(factors * 10.0, factors, predictor="r2").score
    1.0
    """
    values = check_codes(codes)
    if predictor == "classifier":
        classes = check_classes(factors, len(values), "SAP with a classifier")
        fit, test = split_rows(len(values), held_out, seed)
        predictability = _accuracies(values, classes, fit, test)
        guess = np.array([np.bincount(g).max() / len(test) for g in classes[test].T])
        settings = {"predictor": predictor, "C": 0.01, "held_out": held_out, "seed": seed}
    elif predictor == "r2":
        classes = check_factors(factors, len(values))
        predictability = _squared_correlations(values, classes.astype(np.float64))
        guess = np.zeros(classes.shape[1])
        settings = {"predictor": predictor}
    else:
        raise InputError(f"predictor must be 'classifier' or 'r2', got {predictor!r}")
    constant = (classes == classes[0]).all(0)
    compared = predictability if len(predictability) > 1 else np.vstack([guess, predictability])  # one neuron only
    best = np.sort(compared, axis=0)
    gaps = np.where(constant, np.nan, best[-1] - best[-2])
    return SeparationScore.mean(codes, gaps, settings, predictability=predictability)


def _accuracies(codes: Floats, factors: Integers, fit: Integers, test: Integers) -> Floats:
    """Held-out accuracy [L, F] of a linear SVM from each neuron to each factor."""
    accuracy = np.empty((codes.shape[1], factors.shape[1]))
    fitted, right = np.ascontiguousarray(factors[fit].T), np.ascontiguousarray(factors[test].T)
    for i, code in enumerate(codes.T):
        neuron, new = SortedNeuron.of(code[fit]), code[test]
        accuracy[i] = [(svm_predictions(neuron, g, new) == r).mean() for g, r in zip(fitted, right, strict=True)]
    return accuracy


def _squared_correlations(codes: Floats, factors: Floats) -> Floats:
    z, g = codes - codes.mean(0), factors - factors.mean(0)
    variances = np.square(z).mean(0)[:, None], np.square(g).mean(0)[None]
    dead = (variances[0] < 1e-12) | (variances[1] < 1e-12)
    return np.where(dead, 0.0, np.square(z.T @ g / len(z)) / np.where(dead, 1.0, variances[0] * variances[1]))
