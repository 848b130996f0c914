"""Systematic generalisation gap: how much errors grow on new combinations (Kim et al. 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor, Floats, to_numpy
from alebrije.errors import InputError
from alebrije.metrics.inputs import check_finite
from alebrije.metrics.record import Score, register


@dataclass(frozen=True, eq=False, kw_only=True)
class GapScore(Score):
    """The generalisation gap and the two mean errors it compares."""

    in_distribution: float
    out_of_distribution: float


@register(
    "gap",
    title="Systematic generalisation gap",
    instrument="imagination",
    inputs=("in_distribution", "out_of_distribution"),
    range=(-math.inf, math.inf),
    direction="lower",
    cites="Kim et al. 2023, Section 3",
    invariances=("sample order", "dtype", "device"),
)
def generalisation_gap(in_distribution: ArrayOrTensor | float, out_of_distribution: ArrayOrTensor | float) -> GapScore:
    """log(mean OOD error) - log(mean ID error), with natural logarithms; 0 is no gap.

    Takes the errors of single images [N], where the two batches may differ in length, or two mean errors. If a mean is
    0 the score is NaN.

    >>> round(generalisation_gap(np.array([1.0, 3.0]), 2 * math.e).score, 6)
    1.0
    """
    inside = float(check_errors(in_distribution, "in_distribution").mean())
    outside = float(check_errors(out_of_distribution, "out_of_distribution").mean())
    zero = [name for name, mean in (("in-distribution", inside), ("out-of-distribution", outside)) if mean == 0]
    return GapScore(
        score=math.nan if zero else math.log(outside) - math.log(inside),
        reason=f"the mean {' and '.join(zero)} error is 0, which has no logarithm" if zero else None,
        in_distribution=inside,
        out_of_distribution=outside,
    )


def check_errors(errors: ArrayOrTensor | float, name: str) -> Floats:
    """Errors as float64 [N]; an InputError unless all are finite and none is negative."""
    values = to_numpy(errors if isinstance(errors, torch.Tensor) else np.asarray(errors))
    if values.ndim > 1 or values.size == 0:
        raise InputError(f"{name} must be a number or have shape [N], N at least 1, got {list(values.shape)}")
    values = check_finite(np.atleast_1d(values), name)
    if (values < 0).any():
        raise InputError(f"{name} must not be negative, got {values.min():.4g}")
    return values
