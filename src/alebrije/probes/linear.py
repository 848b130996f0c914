"""Logistic regression, by whichever solver reaches the one optimum soonest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

NEWTON_WEIGHTS = 1000  # up to so many weights their matrix of second derivatives is cheap


def logistic_regression(codes: npt.NDArray[np.float64], classes: npt.NDArray[np.int64]) -> Any:
    """scikit-learn's `LogisticRegression` with its defaults (C = 1), fitted to convergence.

    >>> codes = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> logistic_regression(codes, np.array([0, 0, 1, 1])).predict(codes).tolist()
    [0, 0, 1, 1]
    """
    weights = (codes.shape[1] + 1) * len(np.unique(classes))
    varied = bool((codes != codes[0]).any())  # else there is nothing to descend, which Newton's method minds
    solver = "newton-cholesky" if varied and weights <= NEWTON_WEIGHTS else "lbfgs"
    return LogisticRegression(solver=solver, max_iter=1000).fit(codes, classes)
