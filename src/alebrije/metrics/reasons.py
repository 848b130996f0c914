"""Reasons why a score is NaN, or leaves out some factors."""

from __future__ import annotations

import sys
import warnings

import numpy as np

from alebrije.arrays import Array, Flags, Floats
from alebrije.errors import UndefinedMetricWarning


def mean_of_defined(per_factor: Floats, fault: str = "have a single value") -> tuple[float, str | None]:
    """The mean over the factors whose value is not NaN, and a reason that names the others.

    >>> mean_of_defined(np.array([0.5, np.nan, 1.0]))
    (0.75, 'factors [1] have a single value')
    """
    undefined = np.isnan(per_factor)
    score = float("nan") if undefined.all() else float(per_factor[~undefined].mean())
    return score, _reason(undefined, fault)


def which_vary(factors: Array) -> tuple[Flags, str | None]:
    """Which factors [F] have more than one value, and a reason that names the others.

    >>> which_vary(np.array([[0, 5], [1, 5]]))
    (array([ True, False]), 'factors [1] have a single value')
    """
    varied = np.asarray((factors != factors[:1]).any(0))
    return varied, _reason(~varied, "have a single value")


def _reason(left_out: Flags, fault: str) -> str | None:
    return f"factors {np.flatnonzero(left_out).tolist()} {fault}" if left_out.any() else None


def join_reasons(*reasons: str | None) -> str | None:
    """All given reasons in one line; None if there are none.

    >>> join_reasons("factors [1] have a single value", None)
    'factors [1] have a single value'
    """
    return "; ".join(reason for reason in reasons if reason) or None


def warn_undefined(message: str) -> None:
    """An `UndefinedMetricWarning` that points at the first caller outside of this package and its checks."""
    level, frame, inside = 2, sys._getframe(1), ("alebrije.metrics", "alebrije.checks")
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(inside):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UndefinedMetricWarning, stacklevel=level)
