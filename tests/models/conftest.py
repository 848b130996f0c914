"""A few steps of plain Adam, for tests of what a model can learn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from alebrije.models.learner import Batch

Fit = Callable[..., list[float]]


@pytest.fixture
def fit() -> Fit:
    """`fit(model, batch_of_step, steps, lr)` trains in place and returns the loss of every step."""
    return _fit


def _fit(
    model: nn.Module, batch: Callable[[int], Batch], steps: int, lr: float = 1e-3, clip: float = 1.0, seed: int = 0
) -> list[float]:
    optimiser = torch.optim.Adam(model.parameters(), lr, fused=True)
    history = []
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for step in range(steps):
            losses = model.training_loss(batch(step), torch.tensor(float(step)))  # type: ignore[operator]
            optimiser.zero_grad()
            losses["loss"].backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimiser.step()
            history.append(float(losses["loss"].detach()))
    model.eval()
    return history
