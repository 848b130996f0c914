"""95 % intervals: by resampling the cases a score averages, or by scoring resampled rows anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from alebrije.errors import InputError
from alebrije.metrics.arrays import Floats, Integers

LEVEL = 0.95
COMMON = 0  # the seed unless one is given: as many cases are resampled alike, so equal data have equal intervals


@dataclass(frozen=True)
class Interval:
    """An interval that covers the score with a chance of 95 %, and how it was found."""

    low: float
    high: float
    method: str
    resamples: int
    seed: int


def resample_cases(cases: Floats, resamples: int, seed: int = COMMON) -> Interval:
    """Percentiles of the mean of resampled cases [N]: for scores that are means over images, cases or rows.

    >>> interval = resample_cases(np.arange(100.0), 1000)
    >>> interval.low < 49.5 < interval.high
    True
    """
    draw = np.random.default_rng(seed)
    means = [draw.choice(cases, len(cases)).mean() for _ in range(resamples)]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high), "percentiles over resampled cases", resamples, seed)


def resample_rows(
    score: Callable[[Integers], float], rows: int, estimate: float, resamples: int, seed: int = COMMON
) -> Interval | None:
    """The estimate plus and minus Student's t times the standard deviation of `score(indices)` over resampled rows.

    Counted information grows when rows repeat, so percentiles would lie off the estimate; their spread does not.
    Resamples without a score are left out; None if fewer than two are left.
    """
    if resamples < 2:
        raise InputError(f"a spread needs at least 2 resamples, got {resamples}")
    draw = np.random.default_rng(seed)
    scores = np.array([score(draw.integers(rows, size=rows)) for _ in range(resamples)])
    scores = scores[np.isfinite(scores)]
    if len(scores) < 2:
        return None
    reach = float(scipy.stats.t.ppf((1 + LEVEL) / 2, len(scores) - 1) * scores.std(ddof=1))
    method = "Student's t times the standard deviation over resampled rows"
    return Interval(estimate - reach, estimate + reach, method, len(scores), seed)
