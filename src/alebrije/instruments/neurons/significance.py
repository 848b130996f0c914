"""Is a correlation significant, and is it stronger than another? Mahon et al. 2024, Appendices E, H and I."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy

from alebrije.arrays import Floats
from alebrije.errors import InputError

Comparison = Literal["paper", "independent", "dependent"]
LEVEL = 0.01  # the paper's


def correlation_test(r: float, points: int) -> tuple[float, float]:
    """Student's t of a correlation over some points, and the two-sided p-value that there is none (Appendix E).

    >>> t, p = correlation_test(0.85, 18)
    >>> round(t, 2), p < 1e-5
    (6.45, True)
    """
    _check(points, 3)
    if abs(r) >= 1:
        return math.copysign(math.inf, r), 0.0
    t = r * math.sqrt(points - 2) / math.sqrt(1 - r * r)
    return t, float(2 * scipy.stats.t.sf(abs(t), points - 2))


def p_stronger(
    r: float, other: float, points: int, comparison: Comparison = "paper", between: float | None = None
) -> float:
    """The one-sided p-value that a correlation is not stronger than another, by Fisher's z.

    The forms differ in the standard error of the difference:

    - "paper": sqrt(1 / (n - 3)), as if the other correlation were known exactly. The paper does not give a formula;
      from its Table 4, this one gives what it says of Figures 15 and 16, and the next does not.
    - "independent": sqrt(2 / (n - 3)), for correlations over different points.
    - "dependent": for two metrics on the same points, whose correlation with each other is `between` (Meng, Rosenthal
      and Rubin 1992).

    >>> round(p_stronger(0.850, 0.571, 18), 4), round(p_stronger(0.850, 0.571, 18, "independent"), 3)
    (0.0093, 0.048)
    """
    _check(points, 4)
    apart = math.atanh(_inside(r)) - math.atanh(_inside(other))
    variance = {"paper": 1.0, "independent": 2.0}.get(comparison)
    if variance is None:
        if between is None:
            raise InputError("dependent correlations are compared with `between`, the correlation of the two metrics")
        square = (r * r + other * other) / 2
        share = min(1.0, (1 - between) / (2 * (1 - square))) if square < 1 else 1.0
        variance = 2 * (1 - between) * (1 - share * square) / (1 - square) if square < 1 else 0.0
    if variance <= 0:
        return 0.5 if apart == 0 else float(apart < 0)
    return float(scipy.stats.norm.sf(apart * math.sqrt((points - 3) / variance)))


def correlations_between(scores: Floats) -> Floats:
    """Pearson's r of all pairs of columns of scores [points, metrics], NaN for a constant column (Figure 14).

    >>> correlations_between(np.array([[0, 3, 1], [1, 2, 1], [2, 1, 1]])).round(6).tolist()
    [[1.0, -1.0, nan], [-1.0, 1.0, nan], [nan, nan, nan]]
    """
    centred = scores - scores.mean(0)
    lengths = np.linalg.norm(centred, axis=0)
    lengths[np.ptp(scores, axis=0) == 0] = np.nan
    return np.asarray((centred / lengths).T @ (centred / lengths))


def _check(points: int, least: int) -> None:
    if points < least:
        raise InputError(f"points must be at least {least}, got {points}")


def _inside(r: float) -> float:
    """A correlation whose Fisher's z is finite."""
    return min(max(r, -1 + 1e-12), 1 - 1e-12)
