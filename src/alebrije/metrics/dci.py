"""DCI: disentanglement, completeness and informativeness (Eastwood & Williams 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.errors import InputError
from alebrije.metrics.inputs import check_codes_and_factors
from alebrije.metrics.reasons import mean_of_defined
from alebrije.metrics.record import Score, neuron_metric
from alebrije.probes import boost_trees, logistic_regression, split_rows, standardise

Model = Literal["boosted-trees", "linear"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ImportanceScore(Score):
    """D, C and I, their mean as `score` (the convention of Mahon et al.), and the matrix `importance` [L, F].

    `per_factor` [F] is the informativeness of each factor.
    """

    disentanglement: float
    completeness: float
    informativeness: float
    importance: Any
    per_factor: Any


def disentanglement(importance: Floats) -> float:
    """1 - the entropy of each neuron's importance over factors, weighted by the neuron's share of all importance."""
    weights = importance.sum(1)
    if not weights.any():
        return 0.0
    if importance.shape[1] == 1:
        return 1.0  # with one factor nothing can be entangled
    share = importance + 1e-11  # a neuron without importance is spread evenly
    share = share / share.sum(1, keepdims=True)
    purity = 1.0 + (share * np.log(share)).sum(1) / np.log(importance.shape[1])
    return float(np.average(purity, weights=weights))


def completeness(importance: Floats) -> float:
    """1 - the entropy of each factor's importance over neurons, weighted by the factor's share of all importance."""
    return disentanglement(importance.T)


@neuron_metric(
    "dci",
    title="Disentanglement, completeness, informativeness",
    cites="Eastwood & Williams 2018",
    invariances=("neuron permutation", "scaling", "dtype", "device"),
    costly=True,
    also={"dci-linear": {"title": "DCI with linear models", "settings": {"model": "linear"}, "costly": False}},
)
def dci(
    codes: ArrayOrTensor, factors: ArrayOrTensor, model: Model = "boosted-trees", held_out: float = 1 / 3, seed: int = 0
) -> ImportanceScore:
    """Predict each factor from all neurons and measure how the importance of neurons is distributed.

    ``model="boosted-trees"`` uses the impurity importance of gradient-boosted trees, ``"linear"`` the mean absolute
    weights of logistic regression on standardised codes. Informativeness is the accuracy on held-out rows.
    Factors with any value that is not whole are regressed; their informativeness is R2, at least 0. A constant code has
    D = C = 0 and the informativeness of a guess. Factors with a single value are left out of I.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(0, 3, (300, 2))
    >>> result = dci(factors + 0.1 * rng.random((300, 2)), factors)
    >>> result.disentanglement > 0.99, result.informativeness
    (True, 1.0)
    """
    values, targets = check_codes_and_factors(codes, factors, "DCI")
    fit, test = split_rows(len(values), held_out, seed)
    if model == "boosted-trees":
        trees = boost_trees(values[fit], targets[fit], values[test])
        importance, predicted = trees.importance, trees.predictions
    elif model == "linear":
        importance, predicted = linear_importance(values[fit], targets[fit], values[test])
    else:
        raise InputError(f"model must be 'boosted-trees' or 'linear', got {model!r}")
    settings = {"model": model, "held_out": held_out, "seed": seed}
    return importance_score(codes, importance, targets, test, predicted, settings)


def importance_score(
    codes: ArrayOrTensor,
    importance: Floats,
    targets: Floats | Integers,
    test: Integers,
    predicted: Floats,
    settings: dict[str, Any],
) -> ImportanceScore:
    """D and C of an importance matrix [L, F], and I of predictions [M, F] for the held-out rows `test` [M]."""
    constant = (targets == targets[0]).all(0)
    per_factor = np.where(constant, np.nan, _informativeness(targets[test], predicted))
    informed, reason = mean_of_defined(per_factor)
    parts = disentanglement(importance), completeness(importance), informed
    named = dict(zip(("disentanglement", "completeness", "informativeness"), parts, strict=True))
    return ImportanceScore.like(
        codes, sum(parts) / 3, reason, settings, **named, importance=importance, per_factor=per_factor
    )


def _informativeness(targets: Floats | Integers, predicted: Floats) -> Floats:
    """Accuracy or R2 on held-out rows [F]."""
    if targets.dtype.kind == "i":
        return np.asarray((targets == predicted).mean(0))
    error, variance = np.square(targets - predicted).mean(0), targets.var(0)
    return np.asarray(np.maximum(0.0, 1.0 - error / np.where(variance > 0, variance, np.inf)))


def linear_importance(codes: Floats, targets: Floats | Integers, new_codes: Floats) -> tuple[Floats, Floats]:
    """Mean absolute weights [L, F] of one linear model per factor, and its predictions [M, F]."""
    from sklearn.linear_model import LinearRegression

    codes, new_codes = standardise(codes, new_codes)
    importance = np.zeros((codes.shape[1], targets.shape[1]))
    predicted = np.empty((len(new_codes), targets.shape[1]))
    for j, target in enumerate(targets.T):
        if (target == target[0]).all():
            predicted[:, j] = target[0]
            continue
        discrete = target.dtype.kind == "i"
        model = logistic_regression(codes, target) if discrete else LinearRegression().fit(codes, target)
        predicted[:, j] = model.predict(new_codes)
        importance[:, j] = np.abs(np.atleast_2d(model.coef_)).mean(0)
    return importance, predicted
