"""IRS: interventional robustness, whether a neuron stays constant while other factors change (Suter et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.errors import InputError
from alebrije.metrics.inputs import check_codes_and_factors, check_rows
from alebrije.metrics.mutual_information import equal_width_bins
from alebrije.metrics.reasons import join_reasons, which_vary
from alebrije.metrics.record import Score, neuron_metric

LEAST_ROWS = 3  # with two, no neuron varies while a factor is fixed, or no factor varies


@dataclass(frozen=True, eq=False, kw_only=True)
class RobustnessScore(Score):
    """`per_pair` [L, F]: the robustness of each neuron while each factor is fixed.

    It is NaN for constant neurons and for factors with a single value. `best_factor` [L] is the factor for which each
    neuron is most robust, -1 if there is none.
    """

    per_pair: Any
    best_factor: Any


@neuron_metric(
    "irs",
    title="Interventional robustness score",
    range=(-np.inf, 1.0),
    cites="Suter et al. 2019",
    invariances=("sample order", "neuron permutation", "dtype", "device"),
    version=3,
)
def interventional_robustness(
    codes: ArrayOrTensor, factors: ArrayOrTensor, quantile: float = 0.99, bins: int = 20
) -> RobustnessScore:
    """1 - the deviation of a neuron while its best factor is fixed, over its largest deviation.

    For each value of a factor (at most `bins` of equal width) the deviation is the `quantile` of ``|z - mean of z|``
    (`quantile=1` is the maximum of the paper; the reference library takes 0.99), averaged over values. The mean over
    neurons is weighted by their largest deviation. It can be below 0: rows can be further from the mean of their group
    than from the mean of all rows. Continuous factors are accepted. Constant neurons and factors with a single value
    are left out. If no neuron or no factor is left, the score is NaN. Needs at least 3 rows. If one factor is
    continuous, the others are still numbered by class before they are binned (version 3).

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> interventional_robustness(factors.astype(float), factors).score
    1.0
    """
    if not 0 < quantile <= 1:
        raise InputError(f"quantile must lie in (0, 1], got {quantile}")
    values, columns = check_codes_and_factors(codes, factors, "IRS")
    check_rows(values, LEAST_ROWS, "IRS")
    given = np.stack(columns, axis=1).astype(np.float64)
    varied_factors, reason = which_vary(given)
    varied_neurons = values.max(0) > values.min(0)
    fixed = equal_width_bins(given, bins)
    score, per_pair = math.nan, np.full((values.shape[1], fixed.shape[1]), np.nan)
    best_factor = np.full(values.shape[1], -1)
    if not varied_neurons.any():
        reason = join_reasons("every neuron is constant", reason)
    elif varied_factors.any():
        varied = values[:, varied_neurons]
        largest = np.abs(varied - varied.mean(0)).max(0)
        deviations = np.stack([_deviation(varied, g, quantile) for g in fixed.T[varied_factors]], axis=1)
        robustness = 1.0 - deviations / largest[:, None]
        score = float(np.average(robustness.max(1), weights=largest))
        per_pair[np.ix_(varied_neurons, varied_factors)] = robustness
        best_factor[varied_neurons] = np.flatnonzero(varied_factors)[robustness.argmax(1)]
    settings = {"quantile": quantile, "bins": bins}
    return RobustnessScore.like(codes, score, reason, settings, per_pair=per_pair, best_factor=best_factor)


def _deviation(codes: Floats, fixed: Integers, quantile: float) -> Floats:
    """The quantile of each neuron's deviation from its group's mean, averaged over groups [L]."""
    groups = [codes[fixed == value] for value in np.unique(fixed)]
    return np.asarray(np.mean([np.quantile(np.abs(z - z.mean(0)), quantile, axis=0) for z in groups], axis=0))
