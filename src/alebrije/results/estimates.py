"""Numbers with their uncertainty: means over seeds, differences, and their text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from alebrije.results.cells import Value

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value, its uncertainty, and the number of seeds it averages.

    >>> str(Estimate(0.8132, standard_error=0.0117, n=5))
    '0.813 ± 0.012 (n=5)'
    """

    value: float | None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    spread: Literal["seeds", "cases"] | None = None  # what the standard error and the interval are over
    left_out: int = 0  # seeds without a value
    reason: str | None = None  # why there is no value

    @classmethod
    def from_value(cls, value: Value) -> Estimate:
        """The estimate of one stored value."""
        low, high = (value.interval.low, value.interval.high) if value.interval else (None, None)
        known = value.standard_error is not None or low is not None
        return cls(value.score, value.standard_error, low, high, None, "cases" if known else None, 0, value.reason)

    def __str__(self) -> str:
        if self.value is None:
            return "n/a"
        text = format_number(self.value)
        if self.standard_error is not None:
            text = " ± ".join(_round_to_error(self.value, self.standard_error))
        return text if self.n is None else f"{text} (n={self.n})"

    @property
    def interval(self) -> str | None:
        """The 95 % interval as text."""
        if self.low is None or self.high is None:
            return None
        width = (self.high - self.low) / 4  # about a standard error, which sets the number of digits
        return f"{_round_to_error(self.low, width)[0]} to {_round_to_error(self.high, width)[0]}"

    @property
    def error(self) -> float | None:
        """The standard error, or else an estimate of it from the interval."""
        if self.standard_error is None and self.low is not None and self.high is not None:
            return (self.high - self.low) / (2 * t_quantile(math.inf))
        return self.standard_error

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard error: seeds minus one, or infinity if it is over cases."""
        return self.n - 1 if self.spread == "seeds" and self.n is not None and self.n > 1 else math.inf


def mean_over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Mean, standard error and 95 % interval by Student's t. One seed keeps its own standard error and interval.

    >>> over = mean_over_seeds([Estimate(1.0), Estimate(2.0), Estimate(3.0)])
    >>> over.value, round(over.standard_error, 4), round(over.low, 3)
    (2.0, 0.5774, -0.484)
    """
    known = [estimate for estimate in estimates if estimate.value is not None]
    values = [estimate.value for estimate in known if estimate.value is not None]
    left_out = len(estimates) - len(known)
    if not known:
        reason = next((estimate.reason for estimate in estimates if estimate.reason), "there is no value")
        return Estimate(None, n=0, left_out=left_out, reason=reason)
    if len(known) == 1:
        only = known[0]
        spread: Literal["cases"] | None = "cases" if only.error is not None else None
        return Estimate(only.value, only.standard_error, only.low, only.high, 1, spread, left_out)
    count, mean = len(values), math.fsum(values) / len(values)
    if min(values) == max(values):  # rounding must not create a spread
        return Estimate(values[0], 0.0, values[0], values[0], count, "seeds", left_out)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    margin = t_quantile(count - 1) * error
    return Estimate(mean, error, mean - margin, mean + margin, count, "seeds", left_out)


def difference(ours: Estimate, theirs: Estimate) -> Estimate:
    """`ours` minus `theirs`, with its 95 % interval by Welch's t.

    If only one has a standard error, the interval uses that one; if neither has, there is no interval.
    """
    if ours.value is None or theirs.value is None:
        return Estimate(None, reason=ours.reason or theirs.reason or "one of them has no value")
    gap = ours.value - theirs.value
    known = [(side.error, side.freedom) for side in (ours, theirs) if side.error is not None]
    if not known:
        return Estimate(gap)
    error = math.sqrt(math.fsum(part**2 for part, _ in known if part is not None))
    parts = math.fsum((part / error) ** 4 / freedom for part, freedom in known if part) if error else 0.0
    margin = t_quantile(1 / parts if parts else math.inf) * error
    return Estimate(gap, error, gap - margin, gap + margin)


def includes_zero(gap: Estimate) -> bool | None:
    """Whether the interval of a difference includes zero; None without an interval."""
    return None if gap.low is None or gap.high is None else gap.low <= 0 <= gap.high


def t_quantile(freedom: float) -> float:
    """Half the width of the 95 % interval in standard errors, by Student's t.

    >>> round(t_quantile(4), 3)
    2.776
    """
    from scipy.special import stdtrit  # imported here: tables without seeds do not need scipy

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def format_number(value: float) -> str:
    """A number with three significant digits, and all digits before the decimal point.

    >>> [format_number(value) for value in (0.81349, 2493.24, 24.72, 0.0036, 0.0, 1e-7, 3e8)]
    ['0.813', '2493', '24.7', '0.0036', '0', '1e-07', '3e+08']
    """
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent <= 6:
        return f"{value:.3g}"
    text = f"{value:.{max(0, 2 - exponent)}f}"
    return text.rstrip("0").rstrip(".") if exponent < -2 else text


def _round_to_error(value: float, error: float) -> tuple[str, str]:
    """A value and its standard error as text, rounded to the error's second digit."""
    if error == 0:
        return format_number(value), "0"
    decimals = 1 - math.floor(math.log10(float(f"{error:.1e}")))  # of the rounded error: 0.0996 becomes 0.10
    if decimals > 6 or decimals < -6:
        return format_number(value), f"{error:.1e}"
    return f"{value:.{max(0, decimals)}f}", f"{error:.{max(0, decimals)}f}"
