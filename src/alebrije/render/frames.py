"""Frames: the output of every renderer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Frames:
    """Images of B scenes with their masks, pixel counts and depth.

    Videos have an axis of T frames after B in every field, and `boxes` and `flow`; scenes that are seen by V cameras
    have an axis of V views.

    `visible` counts the pixels that show an object, `total` those that would show it without the other objects.
    """

    images: Tensor  # [B, 3, H, W] uint8
    masks: Tensor  # [B, H, W] uint8: 0 is background, object k is k + 1
    visible: Tensor  # [B, N] int64
    total: Tensor  # [B, N] int64
    depth: Tensor | None = None  # [B, H, W] float32, distance along the viewing axis; None in flat worlds
    boxes: Tensor | None = None  # [B, T, N, 4] float32: top, left, bottom, right of what is visible, in 0..1
    flow: Tensor | None = None  # [B, T, 2, H, W] float32: x and y, from a pixel to where its point was a frame before

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: str | torch.device) -> Frames:
        """The same frames on another device."""
        moved: Any = {name: None if tensor is None else tensor.to(device) for name, tensor in vars(self).items()}
        return Frames(**moved)

    @staticmethod
    def concatenate(batches: Sequence[Frames]) -> Frames:
        """Concatenate several batches."""
        parts = {name: [vars(batch)[name] for batch in batches] for name in vars(batches[0])}
        joined: Any = {name: None if tensors[0] is None else torch.cat(tensors) for name, tensors in parts.items()}
        return Frames(**joined)
