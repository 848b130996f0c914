"""Linear classifiers: logistic regression to its one optimum, and heads that are trained as networks are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije.probes.scaling import standardise

NEWTON_WEIGHTS = 1000  # up to so many weights their matrix of second derivatives is cheap


def logistic_regression(codes: npt.NDArray[np.float64], classes: npt.NDArray[np.int64]) -> Any:
    """scikit-learn's `LogisticRegression` with its defaults (C = 1), fitted to convergence.

    >>> codes = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> logistic_regression(codes, np.array([0, 0, 1, 1])).predict(codes).tolist()
    [0, 0, 1, 1]
    """
    from sklearn.linear_model import LogisticRegression

    weights = (codes.shape[1] + 1) * len(np.unique(classes))
    varied = bool((codes != codes[0]).any())  # else there is nothing to descend, which Newton's method minds
    solver = "newton-cholesky" if varied and weights <= NEWTON_WEIGHTS else "lbfgs"
    return LogisticRegression(solver=solver, max_iter=1000).fit(codes, classes)


def linear_predictions(
    inputs: npt.NDArray[np.float64],
    classes: npt.NDArray[np.int64],
    new_inputs: npt.NDArray[np.float64],
    *,
    epochs: int = 75,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
) -> npt.NDArray[np.int64]:
    """Trains a linear classifier with Adam on `inputs` [N, L] for each column of `classes` [N, F]: its answers. [M, F]

    >>> codes = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> linear_predictions(codes, (codes > 0).astype(int), np.array([[-0.9], [0.9]]))[:, 0].tolist()
    [0, 1]
    """
    rows, new_rows = (torch.from_numpy(codes).float() for codes in standardise(inputs, new_inputs))
    labels = torch.from_numpy(np.ascontiguousarray(classes))
    kinds = [int(kind) for kind in classes.max(0) + 1]
    draw = torch.Generator().manual_seed(seed)
    weights = (torch.rand(inputs.shape[1], sum(kinds), generator=draw) * 2 - 1) * inputs.shape[1] ** -0.5
    bias = torch.zeros(sum(kinds))
    learned = [weights.requires_grad_(), bias.requires_grad_()]
    adam = torch.optim.Adam(learned, learning_rate)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(rows), generator=draw), batch_size):
            logits = torch.split(torch.addmm(bias, rows[batch], weights), kinds, 1)
            losses = [torch.nn.functional.cross_entropy(each, labels[batch, at]) for at, each in enumerate(logits)]
            adam.zero_grad()
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
    with torch.no_grad():
        logits = torch.split(torch.addmm(bias, new_rows, weights), kinds, 1)
    return np.stack([each.argmax(1).numpy() for each in logits], 1)
