"""What the training loop requires of a model."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

Batch = dict[str, Tensor]
"""The input of a training step, on the training device. Models that learn from images read `images` [B, 3, H, W], and
with labels also `labels` [B, L] int64. Models that learn from videos read windows of frames: `images`
[B, T, 3, H, W], `flow` [B, T, 3, H, W] as colours, and `boxes` [B, T, N, 4]. Models that learn from views read `images`
[B, V, 3, H, W] and the positions of `cameras` [B, V, 3].
Models that learn from episodes read `source` and `target` [B, 3, H, W]; `factors` [B, N, F] int64 and `floats`
[B, N, P] describe the source scene. Images are floats in 0..1."""

Losses = dict[str, Tensor]
"""Scalars on the training device. A step minimises `loss`; the other entries are its parts, for the log."""


@runtime_checkable
class Learner(Protocol):
    """A torch module with a loss.

    `training_loss` is compiled and captured in a CUDA graph, so its shapes may depend only on the shapes of the batch,
    and it must not copy values to the CPU. `step` is the number of the step, a float tensor without axes.
    If the loss is not a mean over images, a batch cannot be split over processes: the attribute `whole_batch_reason`
    then says why. `compiled_loss(compiled)`, if there is one, returns the loss with parts of it compiled; else all of
    it is. `labelled_loss(batch)` is the loss of the few labelled images of the setting `labelled`, which are learned
    between the steps. `training_bytes(items)`, if there is one, estimates the memory of a step. Models that learn from
    episodes also have `predict(batch)`, which returns the predicted target images [B, 3, H, W].
    """

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the losses of a batch."""
