"""Sample points on a texture tile."""

from __future__ import annotations

import torch
from torch import Tensor


def tile(points_per_side: int = 200) -> Tensor:
    """Random points on one tile, one in each cell of a grid."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.arange(points_per_side) / points_per_side
    grid = torch.cartesian_prod(steps, steps)
    return grid + torch.rand(grid.shape, generator=generator) / points_per_side
