"""95 % intervals, from resampled cases of a mean or from scores of resampled rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from alebrije.arrays import Floats, Integers
from alebrije.errors import InputError

LEVEL = 0.95
DEFAULT_SEED = 0  # shared, so that equal data get equal intervals


@dataclass(frozen=True)
class Interval:
    """A 95 % interval of a score, and how it was computed."""

    low: float
    high: float
    method: str
    resamples: int
    seed: int


def resample_cases(cases: Floats, resamples: int, seed: int = DEFAULT_SEED) -> Interval:
    """Percentiles of the mean of resampled cases [N], for scores that are means over images, cases or rows.

    >>> interval = resample_cases(np.arange(100.0), 1000)
    >>> interval.low < 49.5 < interval.high
    True
    """
    rng = np.random.default_rng(seed)
    means = [rng.choice(cases, len(cases)).mean() for _ in range(resamples)]
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high), "percentiles over resampled cases", resamples, seed)


def resample_rows(
    score: Callable[[Integers], float], rows: int, estimate: float, resamples: int, seed: int = DEFAULT_SEED
) -> Interval | None:
    """The estimate plus and minus Student's t times the standard deviation of `score(indices)` over resampled rows.

    Repeated rows raise mutual information, so percentiles would not be centred on the estimate; the standard deviation
    is not affected. Resamples with a score of NaN or infinity are ignored; None if fewer than two are left.
    """
    if resamples < 2:
        raise InputError(f"a standard deviation needs at least 2 resamples, got {resamples}")
    rng = np.random.default_rng(seed)
    scores = np.array([score(rng.integers(rows, size=rows)) for _ in range(resamples)])
    scores = scores[np.isfinite(scores)]
    if len(scores) < 2:
        return None
    half_width = float(scipy.stats.t.ppf((1 + LEVEL) / 2, len(scores) - 1) * scores.std(ddof=1))
    method = "Student's t times the standard deviation over resampled rows"
    return Interval(estimate - half_width, estimate + half_width, method, len(scores), seed)
