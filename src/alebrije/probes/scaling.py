"""Standardise codes, so that a probe does not depend on their units."""

from __future__ import annotations

import numpy as np

from alebrije.arrays import Floats


def standardise(fit: Floats, new: Floats) -> tuple[Floats, Floats]:
    """Subtract the mean of `fit` and divide by its standard deviation, per neuron; a constant neuron becomes 0.

    >>> fit, new = standardise(np.array([[0.7, 1.0], [0.7, 3.0]]), np.array([[0.7, 2.0]]))
    >>> fit.tolist(), new.tolist()
    ([[0.0, -1.0], [0.0, 1.0]], [[0.0, 0.0]])
    """
    constant = fit.max(0) == fit.min(0)  # the computed deviation of equal numbers is not always exactly 0
    mean = np.where(constant, fit[0], fit.mean(0))
    largest = np.where(constant, 1.0, np.abs(fit - mean).max(0))  # divided out first, so that no square underflows
    fit, new = (fit - mean) / largest, (new - mean) / largest
    deviation = np.where(constant, 1.0, fit.std(0))
    return fit / deviation, new / deviation
