"""Numbers with their uncertainty: means over seeds, differences, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value, how sure it is, and of how many seeds it is the mean.

    >>> str(Estimate(0.8132, standard_error=0.0117, n=5))
    '0.813 ± 0.012 (n=5)'
    """

    value: float | None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    spread: Literal["seeds", "cases"] | None = None  # what standard error and interval are taken over
    left_out: int = 0  # seeds without a value
    reason: str | None = None  # why there is no value

    def __str__(self) -> str:
        if self.value is None:
            return "n/a"
        text = digits(self.value)
        if self.standard_error is not None:
            text = " ± ".join(_to_one_place(self.value, self.standard_error))
        return text if self.n is None else f"{text} (n={self.n})"

    @property
    def interval(self) -> str | None:
        """The 95 % interval in words."""
        if self.low is None or self.high is None:
            return None
        width = (self.high - self.low) / 4  # about a standard error, which tells the digits that count
        return f"{_to_one_place(self.low, width)[0]} to {_to_one_place(self.high, width)[0]}"

    @property
    def error(self) -> float | None:
        """The standard error, from the interval where nothing else is known."""
        if self.standard_error is None and self.low is not None and self.high is not None:
            return (self.high - self.low) / (2 * student(math.inf))
        return self.standard_error

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard error: seeds less one; without end where it is over cases."""
        return self.n - 1 if self.spread == "seeds" and self.n is not None and self.n > 1 else math.inf


def mean_over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Mean, standard error and 95 % interval by Student's t. One seed keeps its own standard error and interval.

    >>> over = mean_over_seeds([Estimate(1.0), Estimate(2.0), Estimate(3.0)])
    >>> over.value, round(over.standard_error, 4), round(over.low, 3)
    (2.0, 0.5774, -0.484)
    """
    known = [one for one in estimates if one.value is not None]
    values = [one.value for one in known if one.value is not None]
    left_out = len(estimates) - len(known)
    if not known:
        reason = next((one.reason for one in estimates if one.reason), "there is no value")
        return Estimate(None, n=0, left_out=left_out, reason=reason)
    if len(known) == 1:
        only = known[0]
        spread: Literal["cases"] | None = "cases" if only.error is not None else None
        return Estimate(only.value, only.standard_error, only.low, only.high, 1, spread, left_out)
    count, mean = len(values), math.fsum(values) / len(values)
    if min(values) == max(values):  # rounding must not invent a spread
        return Estimate(values[0], 0.0, values[0], values[0], count, "seeds", left_out)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    reach = student(count - 1) * error
    return Estimate(mean, error, mean - reach, mean + reach, count, "seeds", left_out)


def difference(ours: Estimate, theirs: Estimate) -> Estimate:
    """`ours` less `theirs` with its 95 % interval by Welch's t.

    Where only one of them has a standard error, that one alone makes the interval; where none has, there is none.
    """
    if ours.value is None or theirs.value is None:
        return Estimate(None, reason=ours.reason or theirs.reason or "one of them has no value")
    apart = ours.value - theirs.value
    known = [(one.error, one.freedom) for one in (ours, theirs) if one.error is not None]
    if not known:
        return Estimate(apart)
    error = math.sqrt(math.fsum(each**2 for each, _ in known if each is not None))
    parts = math.fsum((each / error) ** 4 / freedom for each, freedom in known if each) if error else 0.0
    reach = student(1 / parts if parts else math.inf) * error
    return Estimate(apart, error, apart - reach, apart + reach)


def within(apart: Estimate) -> bool | None:
    """Whether a difference may be none: zero lies in its interval. None where it has no interval."""
    return None if apart.low is None or apart.high is None else apart.low <= 0 <= apart.high


def student(freedom: float) -> float:
    """How many standard errors reach to the ends of the 95 % interval.

    >>> round(student(4), 3)
    2.776
    """
    from scipy.special import stdtrit  # not at the top: tables without seeds need no scipy

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def digits(value: float) -> str:
    """A number with three digits that count, and all of its digits before the point.

    >>> [digits(value) for value in (0.81349, 2493.24, 24.72, 0.0036, 0.0, 1e-7, 3e8)]
    ['0.813', '2493', '24.7', '0.0036', '0', '1e-07', '3e+08']
    """
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -4 <= size <= 6:
        return f"{value:.3g}"
    text = f"{value:.{max(0, 2 - size)}f}"
    return text.rstrip("0").rstrip(".") if size < -2 else text


def _to_one_place(value: float, error: float) -> tuple[str, str]:
    """A value and its standard error, to the place of the error's second digit."""
    if error == 0:
        return digits(value), "0"
    places = 1 - math.floor(math.log10(float(f"{error:.1e}")))  # of the rounded error: 0.0996 is 0.10
    if places > 6 or places < -6:
        return digits(value), f"{error:.1e}"
    return f"{value:.{max(0, places)}f}", f"{error:.{max(0, places)}f}"
