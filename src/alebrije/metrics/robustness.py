"""IRS: does a neuron stay put when other factors move? (Suter et al. 2019)"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

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
    joined,
    which_vary,
)
from alebrije.metrics.information import equal_width_bins
from alebrije.metrics.record import Score, register


@dataclass(frozen=True, eq=False, kw_only=True)
class RobustnessScore(Score):
    """`per_pair` [L, F]: how robust each neuron is while each factor is held.

    It is not a number for constant neurons and for factors with a single value. `best_factor` [L] is the factor that
    holds each neuron best, -1 where there is none.
    """

    per_pair: Any
    best_factor: Any


@register(
    "irs",
    title="Interventional robustness score",
    instrument="neurons",
    inputs=("codes", "factors"),
    range=(-np.inf, 1.0),
    cites="Suter et al. 2019",
    invariances=("sample order", "neuron permutation", "dtype", "device"),
    version=2,
)
def interventional_robustness(codes: Array, factors: Array, quantile: float = 0.99, bins: int = 20) -> RobustnessScore:
    """1 - how far a neuron strays while its best factor is held, as a share of how far it ever strays.

    For each value of a factor (at most `bins` of equal width) the stray is the `quantile` of ``|z - mean of z|``
    (`quantile=1` is the maximum of the paper; the reference library takes 0.99), averaged over values. Neurons are
    averaged with the weight of their largest deviation. Below 0 is possible: a group's mean may lie further from its
    members than the mean of all does. Continuous factors are accepted. Constant neurons are left out, and so are
    factors with a single value, which are held whatever moves. If no neuron or no factor is left, nothing was ever
    moved and the score is not a number.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> interventional_robustness(factors.astype(float), factors).score
    1.0
    """
    values = check_codes(codes)
    if not 0 < quantile <= 1:
        raise InputError(f"quantile must lie in (0, 1], got {quantile}")
    held = check_factors(factors, len(values))
    if held.dtype.kind == "i":
        held = check_classes(held, len(values), "IRS")
    varied, reason = which_vary(held)
    held = equal_width_bins(held.astype(np.float64), bins)
    alive = values.max(0) > values.min(0)
    settings = {"quantile": quantile, "bins": bins}
    per_pair, best_factor = np.full((values.shape[1], held.shape[1]), np.nan), np.full(len(alive), -1)
    if not (alive.any() and varied.any()):
        return RobustnessScore(
            score=math.nan,
            reason=joined(None if alive.any() else "every neuron is constant", reason),
            per_pair=answer_like(codes, per_pair),
            best_factor=answer_like(codes, best_factor),
            settings=settings,
        )
    moving = values[:, alive]
    reach = np.abs(moving - moving.mean(0)).max(0)
    strays = np.stack([_stray(moving, g, quantile) for g in held.T[varied]], axis=1)
    robust = 1.0 - strays / reach[:, None]
    per_pair[np.ix_(alive, varied)] = robust
    best_factor[alive] = np.flatnonzero(varied)[robust.argmax(1)]
    return RobustnessScore(
        score=float(np.average(robust.max(1), weights=reach)),
        reason=reason,
        per_pair=answer_like(codes, per_pair),
        best_factor=answer_like(codes, best_factor),
        settings=settings,
    )


def _stray(codes: Floats, held: Integers, quantile: float) -> Floats:
    """The quantile of each neuron's deviation from its group's mean, averaged over groups [L]."""
    groups = [codes[held == value] for value in np.unique(held)]
    return np.asarray(np.mean([np.quantile(np.abs(z - z.mean(0)), quantile, axis=0) for z in groups], axis=0))
