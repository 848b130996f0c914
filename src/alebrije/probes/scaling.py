"""Codes at one scale, so that what is trained on them does not depend on their units."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def standardise(fit: Floats, new: Floats) -> tuple[Floats, Floats]:
    """Both arrays with the mean and spread of `fit` taken out, neuron by neuron; a constant neuron becomes 0.

    >>> fit, new = standardise(np.array([[0.7, 1.0], [0.7, 3.0]]), np.array([[0.7, 2.0]]))
    >>> fit.tolist(), new.tolist()
    ([[0.0, -1.0], [0.0, 1.0]], [[0.0, 0.0]])
    """
    constant = fit.max(0) == fit.min(0)  # the spread of equal numbers need not be exactly 0
    middle = np.where(constant, fit[0], fit.mean(0))
    reach = np.where(constant, 1.0, np.abs(fit - middle).max(0))  # first to size 1, so that no square underflows
    fit, new = (fit - middle) / reach, (new - middle) / reach
    spread = np.where(constant, 1.0, fit.std(0))
    return fit / spread, new / spread
