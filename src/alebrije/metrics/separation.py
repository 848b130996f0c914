"""SAP: how far the best single neuron predicts a factor better than the second best (Kumar et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from alebrije.errors import InputError
from alebrije.metrics.arrays import (
    Array,
    Floats,
    Integers,
    answer_like,
    check_classes,
    check_codes,
    check_factors,
    mean_of_defined,
    split_rows,
)
from alebrije.metrics.record import Score, register

Predictor = Literal["classifier", "r2"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SeparationScore(Score):
    """`predictability` [L, F] of each factor from each neuron alone, and `per_factor` [F] its gap."""

    per_factor: Any
    predictability: Any


@register(
    "sap",
    title="Separated attribute predictability",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Kumar et al. 2018",
    invariances=("neuron permutation", "dtype", "device"),
    also={
        "sap-r2": {
            "title": "Separated attribute predictability, R2",
            "settings": {"predictor": "r2"},
            "invariances": frozenset({"sample order", "neuron permutation", "dtype", "device"}),
        }
    },
)
def separated_attribute_predictability(
    codes: Array, factors: Array, predictor: Predictor = "classifier", held_out: float = 1 / 3, seed: int = 0
) -> SeparationScore:
    """The gap between the two neurons that predict a factor best, averaged over factors.

    ``predictor="classifier"`` is for discrete factors: a balanced linear SVM (C = 0.01) per neuron and factor, scored
    by its accuracy on the held-out rows. ``predictor="r2"`` is the squared correlation, for ordered or continuous
    factors, and 0 for a neuron whose variance is below 1e-12. A constant code scores 0. A factor with a single value
    gets not-a-number and is left out of the mean.

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
    rivals = predictability if len(predictability) > 1 else np.vstack([guess, predictability])  # one neuron, or a guess
    best = np.sort(rivals, axis=0)
    gaps = np.where(constant, np.nan, best[-1] - best[-2])
    score, reason = mean_of_defined(gaps)
    return SeparationScore(
        score=score,
        reason=reason,
        per_factor=answer_like(codes, gaps),
        predictability=answer_like(codes, predictability),
        settings=settings,
    )


def _accuracies(codes: Floats, factors: Integers, fit: Integers, test: Integers) -> Floats:
    """Held-out accuracy [L, F] of a linear SVM from each neuron to each factor."""
    from sklearn.svm import LinearSVC

    accuracy = np.empty((codes.shape[1], factors.shape[1]))
    for i, code in enumerate(codes.T):
        for j, factor in enumerate(factors.T):
            if len(np.unique(factor[fit])) == 1:
                accuracy[i, j] = (factor[test] == factor[fit[0]]).mean()
                continue
            # in the primal the solution is the same as in the dual, without its random order of rows
            machine = LinearSVC(C=0.01, class_weight="balanced", dual=False, random_state=0)
            machine.fit(code[fit, None], factor[fit])
            accuracy[i, j] = (machine.predict(code[test, None]) == factor[test]).mean()
    return accuracy


def _squared_correlations(codes: Floats, factors: Floats) -> Floats:
    z, g = codes - codes.mean(0), factors - factors.mean(0)
    variances = np.square(z).mean(0)[:, None], np.square(g).mean(0)[None]
    dead = (variances[0] < 1e-12) | (variances[1] < 1e-12)
    return np.where(dead, 0.0, np.square(z.T @ g / len(z)) / np.where(dead, 1.0, variances[0] * variances[1]))
