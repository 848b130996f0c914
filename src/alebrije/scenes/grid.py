"""Grids: all combinations in one order, as dSprites and 3D Shapes number them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.errors import InputError


def combinations_at(indices: Any, counts: Sequence[int]) -> Tensor:
    """The combinations [B, F] at these indices of the list of all combinations, last factor fastest.

    >>> combinations_at([0, 1, 5], (2, 3)).tolist()
    [[0, 0], [0, 1], [1, 2]]
    """
    index = np.asarray(indices.cpu() if isinstance(indices, Tensor) else indices)
    total = math.prod(counts)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise InputError(f"indices must be a list of whole numbers, not {index.dtype} of the shape {list(index.shape)}")
    if index.size and not 0 <= int(index.min()) <= int(index.max()) < total:
        raise InputError(f"indices must lie in 0..{total - 1}")
    return torch.from_numpy(np.stack(np.unravel_index(index.astype(np.int64), tuple(counts)), axis=1))
