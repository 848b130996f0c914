"""Explicitness: how well linear classifiers on all neurons rank each value of a factor (Ridgeway & Mozer 2018)."""

from __future__ import annotations

import math

import numpy as np
import scipy

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.record import PerFactorScore, neuron_metric
from alebrije.probes import logistic_regression, split_rows, standardise


@neuron_metric(
    "explicitness",
    title="Explicitness",
    cites="Ridgeway & Mozer 2018",
    invariances=("neuron permutation", "label permutation", "scaling", "dtype", "device"),
    version=2,
)
def explicitness(
    codes: ArrayOrTensor, factors: ArrayOrTensor, held_out: float = 1 / 3, seed: int = 0
) -> PerFactorScore:
    """Mean area under the ROC curve of logistic regression, one value against the rest; chance is 0.5, not rescaled.

    Measured on held-out rows and averaged over the values of each factor. A factor with a single value in the fitted or
    in the held-out rows gets NaN and is left out of the mean. Version 2: more than 60,000 rows are fitted to a smaller
    tolerance.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> explicitness(factors.astype(float), factors).score
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "explicitness")
    fit, test = split_rows(len(values), held_out, seed)
    fitted, new = standardise(values[fit], values[test])
    areas = np.array([_mean_area(fitted, g[fit], new, g[test]) for g in classes.T])
    return PerFactorScore.mean(codes, areas, {"held_out": held_out, "seed": seed}, fault="show a single value")


def _mean_area(codes: Floats, classes: Integers, new_codes: Floats, new_classes: Integers) -> float:
    if len(np.unique(classes)) == 1:
        return math.nan
    model = logistic_regression(codes, classes)
    ranks = scipy.stats.rankdata(model.predict_proba(new_codes), axis=0)  # ties get their mean rank
    areas = []
    for column, value in enumerate(model.classes_):
        matches = new_classes == value
        positive, negative = int(matches.sum()), int((~matches).sum())
        if positive and negative:
            above = ranks[matches, column].sum() - positive * (positive + 1) / 2
            areas.append(above / (positive * negative))
    return float(np.mean(areas)) if areas else math.nan
