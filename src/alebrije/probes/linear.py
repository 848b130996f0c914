"""Linear classifiers: logistic regression fitted to convergence, and classifiers trained with Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from alebrije.arrays import Floats, Integers
from alebrije.probes.logistic import fit_from_sample
from alebrije.probes.scaling import standardise

MANY_ROWS = 60_000
NEWTON_WEIGHTS = 1000  # the Hessian of at most this many weights is cheap


def logistic_regression(codes: Floats, classes: Integers) -> Any:
    """Fit scikit-learn's `LogisticRegression` with its defaults (C = 1) to convergence.

    More than MANY_ROWS rows are fitted with the same loss by `fit_from_sample`, several times as fast.

    >>> codes = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> logistic_regression(codes, np.array([0, 0, 1, 1])).predict(codes).tolist()
    [0, 0, 1, 1]
    """
    from sklearn.linear_model import LogisticRegression

    weights = (codes.shape[1] + 1) * len(np.unique(classes))
    varied = bool((codes != codes[0]).any())  # newton-cholesky warns where all codes are equal
    if varied and weights <= NEWTON_WEIGHTS and len(codes) > MANY_ROWS:
        fitted = fit_from_sample(codes, classes)
        if fitted is not None:
            return fitted
    solver = "newton-cholesky" if varied and weights <= NEWTON_WEIGHTS else "lbfgs"
    return LogisticRegression(solver=solver, max_iter=1000).fit(codes, classes)


def linear_predictions(
    inputs: Floats,
    classes: Integers,
    new_inputs: Floats,
    *,
    epochs: int = 75,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
) -> Integers:
    """Train a linear classifier with Adam for each factor and predict the classes [M, F] of `new_inputs` [M, L].

    `inputs` is [N, L] and `classes` [N, F].

    >>> codes = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> linear_predictions(codes, (codes > 0).astype(int), np.array([[-0.9], [0.9]]))[:, 0].tolist()
    [0, 1]
    """
    rows, new_rows = (torch.from_numpy(codes).float() for codes in standardise(inputs, new_inputs))
    labels = torch.from_numpy(np.ascontiguousarray(classes))
    class_counts = [int(count) for count in classes.max(0) + 1]
    generator = torch.Generator().manual_seed(seed)
    weights = (torch.rand(inputs.shape[1], sum(class_counts), generator=generator) * 2 - 1) * inputs.shape[1] ** -0.5
    bias = torch.zeros(sum(class_counts))
    adam = torch.optim.Adam([weights.requires_grad_(), bias.requires_grad_()], learning_rate)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(rows), generator=generator), batch_size):
            logits = torch.split(torch.addmm(bias, rows[batch], weights), class_counts, 1)  # per factor [B, K]
            losses = [F.cross_entropy(of_factor, labels[batch, f]) for f, of_factor in enumerate(logits)]
            adam.zero_grad()
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
    with torch.no_grad():
        logits = torch.split(torch.addmm(bias, new_rows, weights), class_counts, 1)
    return np.stack([of_factor.argmax(1).numpy() for of_factor in logits], 1)
