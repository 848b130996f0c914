"""What the training loop asks of a model, and nothing more."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

Batch = dict[str, Tensor]
"""What a step learns from, on the training device. Models of images read `images` [B, 3, H, W]; models of episodes read
`source` and `target` [B, 3, H, W], and what is known about the source scene: `factors` [B, N, F] int64 and `floats`
[B, N, P]. Images are floats in 0..1."""

Losses = dict[str, Tensor]
"""Scalars on the training device; `loss` is what the step makes smaller, the others are its parts and are written
down."""


@runtime_checkable
class Learner(Protocol):
    """A torch module with a loss.

    `training_loss` is captured into a CUDA graph and compiled, so its shapes depend on those of the batch alone, and it
    never asks the device for a value. `step` is the number of the step as a float tensor without axes.
    A model whose loss is no mean over images says in `alone` why it has to see its batches whole.
    """

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """The losses of a batch."""


@runtime_checkable
class Imagines(Protocol):
    """A learner that predicts the target image of an episode."""

    def predict(self, batch: Batch) -> Tensor:
        """Target images [B, 3, H, W]."""
