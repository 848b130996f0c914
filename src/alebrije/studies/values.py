"""Values of cells: means over cases with their uncertainty, and nulls with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor, to_numpy
from alebrije.metrics import Record
from alebrije.metrics.uncertainty import resample_cases
from alebrije.results import Value

RESAMPLES = 1000


def null_value(record: Record, reason: str) -> Value:
    """A value that does not exist, and why."""
    return Value(score=None, reason=reason, direction=record.direction, range=record.range)


def mean_value(
    record: Record, cases: ArrayOrTensor, score: float | None = None, *, noun: str = "cases", **fields: Any
) -> Value:
    """The mean of the cases, or the given score that it equals, with its standard error and 95 % interval.

    `noun` says what the cases are, for the reason why there is no interval.
    """
    each = to_numpy(cases).astype(np.float64)
    mean = float(each.mean()) if score is None else score
    if not np.isfinite(mean) or len(each) < 2:
        return Value.of(record, mean, spread_reason=f"fewer than two {noun} to resample", **fields)
    error = float(each.std(ddof=1) / len(each) ** 0.5)
    return Value.of(record, mean, resample_cases(each, RESAMPLES), standard_error=error, **fields)
