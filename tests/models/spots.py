"""A trivial world of views: one coloured spot on the ground, seen by cameras around it."""

from __future__ import annotations

import math

import torch

from alebrije.models.learner import Batch
from alebrije.scenes.scene_json import pixel_coords

COLOURS = torch.tensor([[1.0, 0.1, 0.1], [0.1, 1.0, 0.1], [0.1, 0.1, 1.0], [1.0, 1.0, 0.1]])


def spots(count: int, seed: int, size: int = 16, views: int = 2, spread: float = 0.0) -> Batch:
    """Views of spots within `spread` of the origin; cameras are a third of a turn apart."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    place = torch.cat([spread * (2 * uniform(count, 2) - 1), torch.zeros(count, 1, dtype=torch.float64)], 1)
    colour = COLOURS[torch.randint(len(COLOURS), (count,), generator=generator)]
    angle = 2 * math.pi * (uniform(count, 1) + torch.arange(views) / 3)  # [B, V]
    cameras = torch.stack([6 * angle.cos(), 6 * angle.sin(), torch.full_like(angle, 5.0)], -1)
    repeated = place.repeat_interleave(views, 0)[:, None]
    at = pixel_coords(repeated, cameras.flatten(0, 1), (100 * size, 100 * size))[:, 0] / 100
    grid = torch.arange(size) + 0.5
    beside, under = grid - at[:, :1], grid - at[:, 1:2]  # [B * V, size]
    far = under[:, :, None] ** 2 + beside[:, None] ** 2
    share = torch.exp(-far / (2 * (size / 4) ** 2))[:, None].float()
    images = 0.5 + share * (colour.repeat_interleave(views, 0)[..., None, None] - 0.5)
    return {"images": images.reshape(count, views, 3, size, size), "cameras": cameras.float()}
