"""Alpha efficiency: the share of combinations that a model must see in training (Kim et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor
from alebrije.errors import InputError
from alebrije.metrics.gap import check_errors
from alebrije.metrics.inputs import answer_like
from alebrije.metrics.record import Score, register


@dataclass(frozen=True, eq=False, kw_only=True)
class AlphaScore(Score):
    """The alpha a model needs; `within` says at which of the given alphas the model is near the Oracle."""

    within: Any


@register(
    "alpha-efficiency",
    title="Alpha efficiency",
    instrument="imagination",
    inputs=("alphas", "model", "oracle"),
    direction="lower",
    cites="Kim et al. 2023, Appendix F",
    invariances=("sample order", "dtype", "device"),
)
def alpha_efficiency(
    alphas: ArrayOrTensor, model: ArrayOrTensor, oracle: ArrayOrTensor, factor: float = 1.5
) -> AlphaScore:
    """The smallest share of combinations, 0..1, that a model must see to do about as well as the Oracle.

    Takes one error per alpha [A]. The score is the smallest alpha such that, there and at every larger alpha, the
    model's error is at most `factor` times the Oracle's; NaN if there is none. Appendix F of Kim et al. 2023 describes
    the idea without a factor. 1.5 is our choice. It is strict: few models of the paper reach it at any alpha.

    >>> alphas, oracle = np.array([0.0, 0.2, 0.4, 0.6]), np.array([9.0, 1.0, 1.0, 1.0])
    >>> alpha_efficiency(alphas, np.array([9.0, 5.0, 1.4, 1.1]), oracle).score
    0.4
    """
    shares, errors, best = (
        check_errors(values, name) for name, values in (("alphas", alphas), ("model", model), ("oracle", oracle))
    )
    if not len(shares) == len(errors) == len(best):
        raise InputError(
            f"alphas, model and oracle must have the same length, got {len(shares)}, {len(errors)} and {len(best)}"
        )
    if shares.max() > 1 or len(np.unique(shares)) < len(shares):
        raise InputError(f"alphas must lie in 0..1 and differ, got {shares.tolist()}")
    if not 0 < factor < math.inf:
        raise InputError(f"factor must be a positive number, got {factor!r}")
    within = errors <= factor * best
    order = np.argsort(shares)[::-1]
    reached = np.logical_and.accumulate(within[order])  # from the largest alpha down to the first failure
    missed = f"at the largest alpha, {shares[order[0]]:g}, the error is over {factor:g} times the Oracle's"
    return AlphaScore(
        score=float(shares[order][reached].min()) if reached.any() else math.nan,
        reason=None if reached.any() else missed,
        settings={"factor": factor},
        within=answer_like(alphas, within),
    )
