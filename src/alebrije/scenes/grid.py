"""Grids: all combinations in one order, as dSprites and 3D Shapes number them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from alebrije.errors import InputError


def combinations_at(indices: Any, counts: Sequence[int]) -> Tensor:
    """The combinations [B, F] with given numbers, when all are counted with the last factor fastest.

    >>> combinations_at([0, 1, 5], (2, 3)).tolist()
    [[0, 0], [0, 1], [1, 2]]
    """
    index = torch.as_tensor(indices)
    total = math.prod(counts)
    if index.ndim != 1 or index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise InputError(f"indices must be a list of whole numbers, not {index.dtype} of the shape {list(index.shape)}")
    index = index.long()
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < total:
        raise InputError(f"indices must lie in 0..{total - 1}")
    return torch.stack(torch.unravel_index(index, tuple(counts)), dim=1)
