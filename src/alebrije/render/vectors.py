"""Vectors with the coordinate first, [3, ...]: each coordinate is contiguous, which makes long lists fast."""

from __future__ import annotations

import torch
from torch import Tensor

Triple = tuple[Tensor, Tensor, Tensor]
Vector = Tensor | Triple  # coordinates stacked, or separate where stacking would only cost time


def dot(first: Vector, second: Vector) -> Tensor:
    """Inner product over the first axis."""
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def length(vector: Vector) -> Tensor:
    """Euclidean length over the first axis."""
    return dot(vector, vector).sqrt()


def unit(vector: Tensor) -> Tensor:
    """Vectors scaled to length 1."""
    return vector / length(vector).clamp_min(1e-12)


def cross(first: Tensor, second: Tensor) -> Tensor:
    """Vector product over the first axis."""
    product: Tensor = torch.linalg.cross(first, second, dim=0)
    return product


def along_axes(values: tuple[float, float, float], like: Tensor) -> Tensor:
    """Three numbers as a vector that broadcasts with others. [3, 1, ...]"""
    return like.new_tensor(values).reshape(3, *[1] * (like.ndim - 1))


def on_ground(point: Tensor) -> Tensor:
    """Points projected down to the ground."""
    return point * along_axes((1.0, 1.0, 0.0), point)


def mirrored(toward: Tensor, normal: Tensor) -> Tensor:
    """The mirror reflection of a direction about the normal; both point away from the surface."""
    return normal * (2.0 * dot(normal, toward)) - toward


def picked(table: Tensor, index: Tensor | None) -> Tensor:
    """Columns `index` [M] of a table [C, B], as [C, M]; without `index` all columns, as [C, B, 1]."""
    return table[..., None] if index is None else table.index_select(1, index)
