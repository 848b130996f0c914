"""Frames: what a renderer gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Frames:
    """Images of B scenes, with what the same rays tell about them.

    `visible` counts the pixels in which an object is seen, `total` those in which it would be seen alone.
    """

    images: Tensor  # [B, 3, H, W] uint8
    masks: Tensor  # [B, H, W] uint8: 0 is background, object k is k + 1
    visible: Tensor  # [B, N] int64
    total: Tensor  # [B, N] int64
    depth: Tensor | None = None  # [B, H, W] float32, distance along the viewing axis; None in flat worlds

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: str | torch.device) -> Frames:
        """The same frames on another device."""
        moved: dict[str, Any] = {}
        for item in fields(self):
            part = getattr(self, item.name)
            moved[item.name] = None if part is None else part.to(device)
        return Frames(**moved)

    @staticmethod
    def concatenate(batches: Sequence[Frames]) -> Frames:
        """Several batches after one another."""
        joined: dict[str, Any] = {}
        for item in fields(Frames):
            parts = [getattr(batch, item.name) for batch in batches]
            joined[item.name] = None if parts[0] is None else torch.cat(parts)
        return Frames(**joined)
