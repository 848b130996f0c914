"""Logistic regression on many rows: Newton steps whose second derivative comes from a sample of the rows.

A sample of rows is fitted first, with scikit-learn. From there, steps with the gradient of all rows and the second
derivative of the sample converge in a few passes over the rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch

from alebrije.arrays import Floats, Integers

SAMPLE = 20_000  # rows
PART = 65_536  # rows whose probabilities are held in memory at once
STEPS, TOLERANCE = 30, 1e-8  # the largest entry of the gradient of the mean loss


@dataclass(frozen=True, eq=False)
class FittedLogistic:
    """Weights in the layout of scikit-learn: `coef_` is [K, L], or [1, L] for two classes."""

    classes_: Any
    coef_: Floats
    intercept_: Floats

    def predict_proba(self, codes: Floats) -> Floats:
        """The probability of each class [N, K]."""
        weights = _with_offsets(self.coef_, self.intercept_)
        parts = [_probabilities(part, weights) for part in torch.split(torch.from_numpy(codes), PART)]
        found = torch.cat(parts).numpy()
        return np.concatenate([1.0 - found, found], 1) if len(self.coef_) == 1 else found

    def predict(self, codes: Floats) -> Any:
        """The most likely class of each row [N]."""
        return self.classes_[self.predict_proba(codes).argmax(1)]


def fitted_quietly(model: Any, codes: Floats, classes: Integers) -> Any:
    """A fitted model, without the warnings of scikit-learn about many classes or ill-conditioned codes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(codes, classes)


def fit_from_sample(codes: Floats, classes: Integers) -> FittedLogistic | None:
    """scikit-learn's `LogisticRegression()` on `codes` [N, L], fitted to convergence; None if that fails."""
    from sklearn.linear_model import LogisticRegression

    names, truth = np.unique(classes, return_inverse=True)
    chosen = np.random.default_rng(0).permutation(len(codes))[:SAMPLE]
    if len(np.unique(truth[chosen])) < len(names):
        return None
    strength = len(codes) / SAMPLE  # the same penalty per row as in the fit to all rows
    model = LogisticRegression(solver="newton-cholesky", C=strength, max_iter=1000)
    first = fitted_quietly(model, codes[chosen], truth[chosen])
    weights = _with_offsets(first.coef_, first.intercept_)
    rows, labels = torch.from_numpy(codes), torch.from_numpy(truth)
    curvature = _curvature(rows[torch.from_numpy(chosen)], weights, 1.0 / len(codes))
    factor = scipy.linalg.cho_factor(curvature)
    loss, gradient = _loss_and_gradient(rows, labels, weights)
    for _ in range(STEPS):
        if gradient.abs().max() <= TOLERANCE:
            return FittedLogistic(names, weights[:, :-1].numpy(), weights[:, -1].numpy())
        step = scipy.linalg.cho_solve(factor, gradient.flatten().numpy())
        weights = weights - torch.from_numpy(step).view_as(weights)
        before = loss
        loss, gradient = _loss_and_gradient(rows, labels, weights)
        if not loss <= before + 1e-9:
            return None
    return None


def _with_offsets(weights: Floats, offsets: Floats) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([weights, offsets[:, None]], 1))


def _probabilities(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """[N, K], or [N, 1] for the second of two classes."""
    logits = torch.addmm(weights[:, -1], rows, weights[:, :-1].T)
    return logits.sigmoid() if len(weights) == 1 else logits.softmax(1)


def _loss_and_gradient(rows: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The penalised mean loss, and its gradient in the shape of `weights` [K, L + 1]."""
    loss, gradient = 0.0, torch.zeros_like(weights)
    for part, truth in zip(torch.split(rows, PART), torch.split(labels, PART), strict=True):
        error = _probabilities(part, weights)
        if len(weights) == 1:
            right = torch.where(truth[:, None] == 1, error, 1.0 - error)
            error -= truth[:, None]
        else:
            right = error.gather(1, truth[:, None])
            error.scatter_add_(1, truth[:, None], torch.full_like(right, -1.0))
        loss -= float(right.clamp_min(1e-300).log().sum())
        gradient[:, :-1] += error.T @ part
        gradient[:, -1] += error.sum(0)
    penalised = weights[:, :-1]
    gradient[:, :-1] += penalised
    return (loss + float(penalised.square().sum()) / 2) / len(rows), gradient / len(rows)


def _curvature(rows: torch.Tensor, weights: torch.Tensor, penalty: float) -> Floats:
    """The second derivative of the mean loss [K (L + 1), K (L + 1)] at `weights`."""
    probabilities = _probabilities(rows, weights)
    full = torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], 1)  # [n, L + 1]
    size = full.shape[1]
    spread = (probabilities[:, :, None] * full[:, None]).flatten(1)  # [n, K (L + 1)]
    total = -(spread.T @ spread) / len(rows)
    for k in range(len(weights)):
        own = slice(k * size, (k + 1) * size)
        total[own, own] += full.T @ spread[:, own] / len(rows)
    ridge = torch.full((len(weights), size), penalty, dtype=rows.dtype)
    ridge[:, -1] = 1e-9  # offsets that all rise together change nothing
    return np.asarray((total + torch.diag(ridge.flatten())).numpy())
