"""Explicitness: how well linear classifiers on all neurons rank each value of a factor (Ridgeway & Mozer 2018)"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from alebrije.metrics.arrays import (
    Array,
    Floats,
    Integers,
    answer_like,
    check_classes,
    check_codes,
    mean_of_defined,
    split_rows,
)
from alebrije.metrics.record import Score, register
from alebrije.probes import logistic_regression, standardise


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplicitnessScore(Score):
    """`per_factor` [F]: mean area under the ROC curve over the values of each factor."""

    per_factor: Any


@register(
    "explicitness",
    title="Explicitness",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Ridgeway & Mozer 2018",
    invariances=("neuron permutation", "label permutation", "scaling", "dtype", "device"),
)
def explicitness(codes: Array, factors: Array, held_out: float = 1 / 3, seed: int = 0) -> ExplicitnessScore:
    """Area under the ROC curve, one value against the rest, of logistic regression; chance is 0.5, not rescaled.

    Fitted on one part of the rows, ranked on another. A factor with a single value in the part that is fitted, or
    without two values in the other, gets not-a-number and is left out of the mean.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> explicitness(factors.astype(float), factors).score
    1.0
    """
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "explicitness")
    fit, test = split_rows(len(values), held_out, seed)
    fitted, new = standardise(values[fit], values[test])
    areas = np.array([_mean_area(fitted, g[fit], new, g[test]) for g in classes.T])
    score, reason = mean_of_defined(areas, "show a single value")
    return ExplicitnessScore(
        score=score,
        reason=reason,
        per_factor=answer_like(codes, areas),
        settings={"held_out": held_out, "seed": seed},
    )


def _mean_area(codes: Floats, classes: Integers, new_codes: Floats, new_classes: Integers) -> float:
    if len(np.unique(classes)) == 1:
        return math.nan
    model = logistic_regression(codes, classes)
    ranks = scipy.stats.rankdata(model.predict_proba(new_codes), axis=0)  # ties share their mean rank
    areas = []
    for column, kind in enumerate(model.classes_):
        hits = new_classes == kind
        positive, negative = int(hits.sum()), int((~hits).sum())
        if positive and negative:
            above = ranks[hits, column].sum() - positive * (positive + 1) / 2
            areas.append(above / (positive * negative))
    return float(np.mean(areas)) if areas else math.nan
