"""DCI: disentanglement, completeness and informativeness (Eastwood & Williams 2018)."""

from __future__ import annotations

from collections.abc import Sequence
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
    version=3,
    costly=True,
    also={
        "dci-linear": {
            "title": "DCI with linear models",
            "settings": {"model": "linear"},
            "costly": False,
            "version": 2,
        }
    },
)
def dci(
    codes: ArrayOrTensor, factors: ArrayOrTensor, model: Model = "boosted-trees", held_out: float = 1 / 3, seed: int = 0
) -> ImportanceScore:
    """Predict each factor from all neurons and measure how the importance of neurons is distributed.

    ``model="boosted-trees"`` uses the impurity importance of gradient-boosted trees, ``"linear"`` the mean absolute
    weights of logistic regression on standardised codes. Informativeness is the accuracy on held-out rows.
    A factor with any value that is not whole is regressed, and its informativeness is R2, at least 0; the others stay
    classes. A constant code has D = C = 0 and the informativeness of a guess. Factors with a single value change no
    score: they are left out of I and of the entropies of D.

    Boosted trees follow scikit-learn's: on synthetic codes of 1,500 to 10,000 rows, the means of D and C over a few
    samples differ by less than 0.005. The number of threads does not change them.

    Version 2: constant factors no longer raise D, one continuous factor no longer makes all others continuous, and
    boosted trees may split between any two rows. Version 3, of boosted trees alone: every such split is tried, in
    double precision.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(0, 3, (300, 2))
    >>> result = dci(factors + 0.1 * rng.random((300, 2)), factors)
    >>> result.disentanglement > 0.99, result.informativeness
    (True, 1.0)
    """
    values, targets = check_codes_and_factors(codes, factors, "DCI")
    fit, test = split_rows(len(values), held_out, seed)
    varied = [j for j, target in enumerate(targets) if (target != target[0]).any()]
    importance, predicted = (
        np.zeros((values.shape[1], len(targets))),
        np.stack([t[test].astype(np.float64) for t in targets], 1),
    )
    fitted = [targets[j][fit] for j in varied]
    if model not in ("boosted-trees", "linear"):
        raise InputError(f"model must be 'boosted-trees' or 'linear', got {model!r}")
    if model == "boosted-trees" and varied:
        trees = boost_trees(values[fit], fitted, values[test])
        importance[:, varied], predicted[:, varied] = trees.importance, trees.predictions
    elif varied:
        importance[:, varied], predicted[:, varied] = linear_importance(values[fit], fitted, values[test])
    settings = {"model": model, "held_out": held_out, "seed": seed}
    return importance_score(codes, importance, targets, test, predicted, settings)


def importance_score(
    codes: ArrayOrTensor,
    importance: Floats,
    targets: Sequence[Floats | Integers],
    test: Integers,
    predicted: Floats,
    settings: dict[str, Any],
) -> ImportanceScore:
    """D and C of an importance matrix [L, F], and I of predictions [M, F] for the held-out rows `test` [M].

    Factors with a single value are left out of all three.
    """
    varied = np.array([bool((target != target[0]).any()) for target in targets])
    informativeness = [_informativeness(target[test], p) for target, p in zip(targets, predicted.T, strict=True)]
    per_factor = np.where(varied, informativeness, np.nan)
    informed, reason = mean_of_defined(per_factor)
    parts = disentanglement(importance[:, varied]), completeness(importance[:, varied]), informed
    named = dict(zip(("disentanglement", "completeness", "informativeness"), parts, strict=True))
    return ImportanceScore.like(
        codes, sum(parts) / 3, reason, settings, **named, importance=importance, per_factor=per_factor
    )


def _informativeness(target: Floats | Integers, predicted: Floats) -> float:
    """Accuracy or R2 of one factor on held-out rows."""
    if target.dtype.kind == "i":
        return float((target == predicted).mean())
    variance = float(target.var())
    return max(0.0, 1.0 - float(np.square(target - predicted).mean()) / variance) if variance > 0 else 1.0


def linear_importance(codes: Floats, targets: Sequence[Floats | Integers], new_codes: Floats) -> tuple[Floats, Floats]:
    """Mean absolute weights [L, F] of one linear model per factor, and its predictions [M, F]."""
    from sklearn.linear_model import LinearRegression

    codes, new_codes = standardise(codes, new_codes)
    importance = np.zeros((codes.shape[1], len(targets)))
    predicted = np.empty((len(new_codes), len(targets)))
    for j, target in enumerate(targets):
        if (target == target[0]).all():
            predicted[:, j] = target[0]
            continue
        discrete = target.dtype.kind == "i"
        model = (
            logistic_regression(codes, target.astype(np.int64)) if discrete else LinearRegression().fit(codes, target)
        )
        predicted[:, j] = model.predict(new_codes)
        importance[:, j] = np.abs(np.atleast_2d(model.coef_)).mean(0)
    return importance, predicted
