"""DCI and MED: disentanglement and completeness of a matrix of importances, and how well factors can be told."""

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
from alebrije.metrics.information import information_matrix
from alebrije.metrics.record import Score, register
from alebrije.probes import boost_trees, logistic_regression, standardise

Model = Literal["boosted-trees", "linear"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ImportanceScore(Score):
    """D, C, I, their mean as `score` (the convention of Mahon et al.), and the matrix `importance` [L, F]."""

    disentanglement: float
    completeness: float
    informativeness: float
    importance: Any
    per_factor: Any


def disentanglement(importance: Floats) -> float:
    """1 - entropy of each neuron's importances over factors, weighted by the neuron's share of all importance."""
    weights = importance.sum(1)
    if not weights.any():
        return 0.0
    if importance.shape[1] == 1:
        return 1.0  # with one factor there is nothing to mix
    share = importance + 1e-11  # a neuron without importance is spread evenly
    share = share / share.sum(1, keepdims=True)
    pure = 1.0 + (share * np.log(share)).sum(1) / np.log(importance.shape[1])
    return float(np.average(pure, weights=weights))


def completeness(importance: Floats) -> float:
    """1 - entropy of each factor's importances over neurons, weighted by the factor's share of all importance."""
    return disentanglement(importance.T)


@register(
    "dci",
    title="Disentanglement, completeness, informativeness",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Eastwood & Williams 2018",
    invariances=("neuron permutation", "scaling", "dtype", "device"),
    costly=True,
    also={"dci-linear": {"title": "DCI with linear models", "settings": {"model": "linear"}, "costly": False}},
)
def dci(
    codes: Array, factors: Array, model: Model = "boosted-trees", held_out: float = 1 / 3, seed: int = 0
) -> ImportanceScore:
    """Predicts each factor from all neurons and asks how the importance of neurons is spread.

    ``model="boosted-trees"`` takes the impurity importances of gradient-boosted trees, ``"linear"`` the mean absolute
    weights of logistic regression on standardised codes. Informativeness is the accuracy on held-out rows.
    Continuous factors (any value that is not whole) are regressed; their informativeness is R2, at least 0. A constant
    code has D = C = 0 and the informativeness of a guess. Factors with a single value are left out of I.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(0, 3, (300, 2))
    >>> result = dci(factors + 0.1 * rng.random((300, 2)), factors)
    >>> result.disentanglement > 0.99, result.informativeness
    (True, 1.0)
    """
    values = check_codes(codes)
    targets = check_factors(factors, len(values))
    if targets.dtype.kind == "i":
        targets = check_classes(targets, len(values), "DCI")
    fit, test = split_rows(len(values), held_out, seed)
    if model == "boosted-trees":
        trees = boost_trees(values[fit], targets[fit], values[test])
        importance, predicted = trees.importance, trees.predictions
    elif model == "linear":
        importance, predicted = _linear(values[fit], targets[fit], values[test])
    else:
        raise InputError(f"model must be 'boosted-trees' or 'linear', got {model!r}")
    informativeness = _left_out(targets, _informativeness(targets[test], predicted))
    return _score(codes, importance, informativeness, {"model": model, "held_out": held_out, "seed": seed})


@register(
    "med",
    title="Mutual-information-based entropy disentanglement",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Cao et al. 2022",
    invariances=("neuron permutation", "label permutation", "scaling", "dtype", "device"),
    also={
        "med-raw": {
            "title": "MED without normalisation",
            "settings": {"normalise": False},
            "cites": "Cao et al. 2022, as used by Mahon et al. 2024",
        }
    },
)
def med(
    codes: Array,
    factors: Array,
    normalise: bool = True,
    bins: int = 20,
    held_out: float = 1 / 2,
    seed: int = 0,
) -> ImportanceScore:
    """DCI with mutual information for importance and logistic regression on standardised codes for I.

    With `normalise` each factor's information sums to 1 over neurons (Cao et al.); without it the raw information is
    used, as Mahon et al. 2024 did.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 100)
    >>> round(med(factors * 10.0, factors).score, 6)
    1.0
    """
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "MED")
    information = information_matrix(values, classes, bins)
    if normalise:
        total = information.sum(0)
        information = information / np.where(total > 0, total, 1.0)
    fit, test = split_rows(len(values), held_out, seed)
    _, predicted = _linear(values[fit], classes[fit], values[test])
    settings = {"normalise": normalise, "bins": bins, "held_out": held_out, "seed": seed}
    informativeness = _left_out(classes, _informativeness(classes[test], predicted))
    return _score(codes, information, informativeness, settings)


def _score(codes: Array, importance: Floats, per_factor: Floats, settings: dict[str, Any]) -> ImportanceScore:
    informed, reason = mean_of_defined(per_factor)
    parts = disentanglement(importance), completeness(importance), informed
    return ImportanceScore(
        score=sum(parts) / 3,
        reason=reason,
        disentanglement=parts[0],
        completeness=parts[1],
        informativeness=parts[2],
        importance=answer_like(codes, importance),
        per_factor=answer_like(codes, per_factor),
        settings=settings,
    )


def _informativeness(targets: Floats | Integers, predicted: Floats) -> Floats:
    """Accuracy or R2 on held-out rows [F]."""
    if targets.dtype.kind == "i":
        return np.asarray((targets == predicted).mean(0))
    rest, all_of_it = np.square(targets - predicted).mean(0), targets.var(0)
    return np.asarray(np.maximum(0.0, 1.0 - rest / np.where(all_of_it > 0, all_of_it, np.inf)))


def _left_out(targets: Floats | Integers, values: Floats) -> Floats:
    """`values` [F] with not-a-number for factors that have a single value."""
    return np.where((targets == targets[0]).all(0), np.nan, values)


def _linear(codes: Floats, targets: Floats | Integers, new_codes: Floats) -> tuple[Floats, Floats]:
    """Mean absolute weights [L, F] of one linear model per factor and its predictions [M, F]."""
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
