"""The outlines of Spriteworld's shapes, and the span of each row inside them."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.arrays import Floats

Outline = Floats  # [V, 2], counter-clockwise with y up


def _polygon(corners: int, first_angle: float, radii: tuple[float, ...] = (1.0,)) -> Outline:
    """A polygon with corners at equal angles around the origin and cycling radii, scaled to area 1."""
    step = 2 * math.pi / corners
    angles = [corner * step + first_angle for corner in range(corners)]
    radius = [radii[corner % len(radii)] for corner in range(corners)]
    points = np.array([[r * math.cos(angle), r * math.sin(angle)] for r, angle in zip(radius, angles, strict=True)])
    following = np.roll(points, -1, axis=0)
    area = 0.5 * float((points[:, 0] * following[:, 1] - points[:, 1] * following[:, 0]).sum())
    return points / math.sqrt(area)


OUTLINES: dict[str, Outline] = {
    "circle": _polygon(30, 0.0),
    "triangle": _polygon(3, math.pi / 2),
    "square": _polygon(4, math.pi / 4),
    "star_4": _polygon(8, math.pi / 4, radii=(1.0, 2.0)),
}


def sides(outline: Outline) -> tuple[Outline, Outline]:
    """The left and the right side of an outline, each from its lowest corner to its highest.

    Every row crosses each side of these shapes once, so two sides suffice. A flat top or bottom belongs to neither.

    >>> left, right = sides(OUTLINES["square"])
    >>> left.round(6).tolist(), right.round(6).tolist()
    ([[-0.5, -0.5], [-0.5, 0.5]], [[0.5, -0.5], [0.5, 0.5]])
    """
    x, y = outline.round(9).T  # corners at equal height differ in the last bit
    lowest, highest = np.flatnonzero(y == y.min()), np.flatnonzero(y == y.max())

    def walk(first: int, last: int) -> Outline:
        return outline[[corner % len(outline) for corner in range(first, last + 1 + len(outline) * (last < first))]]

    right = walk(int(lowest[x[lowest].argmax()]), int(highest[x[highest].argmax()]))
    left = walk(int(highest[x[highest].argmin()]), int(lowest[x[lowest].argmin()]))
    return left[::-1], right


@lru_cache(maxsize=64)
def _side_table(shapes: tuple[str, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Corners [shapes, 2 sides, K, 2]; a shorter side repeats its highest corner."""
    pairs = [sides(OUTLINES[shape]) for shape in shapes]
    longest = max(len(side) for pair in pairs for side in pair)
    padded = [[np.pad(side, ((0, longest - len(side)), (0, 0)), mode="edge") for side in pair] for pair in pairs]
    return torch.tensor(np.array(padded), dtype=dtype, device=device)


def sides_of(shape: Tensor, shapes: tuple[str, ...], scale: Tensor, position: Tensor, pixels: int) -> Tensor:
    """Both sides of every object on a canvas of `pixels` a side, [B, N, 2, K, 2], row 0 at y = 0 of the world."""
    table = _side_table(shapes, position.device, position.dtype)
    corners: Tensor = table[shape] * scale[..., None, None, None] + position[:, :, None, None]
    return corners * pixels


def crossings(corners: Tensor, rows: Tensor) -> Tensor:
    """Where rows cross the sides [B, N, 2, K, 2] of objects: x of the left and of the right side, [B, N, 2, R].

    The result is meaningless beyond the ends of a side: see `reaches`.
    """
    x, y = corners[..., 0].contiguous(), corners[..., 1].contiguous()
    query = rows.expand(*x.shape[:3], len(rows)).contiguous()
    edge = torch.searchsorted(y, query, right=True).sub_(1).clamp_(0, x.shape[-1] - 2)  # [B, N, 2, R]
    rise = y.diff(dim=-1)
    slope = x.diff(dim=-1) / torch.where(rise > 0, rise, 1)
    # Follow each edge from its first corner in counter-clockwise order: the upper one on the left, the lower one on the
    # right. Pillow does the same, and its rounding shows in the last bit.
    start_x = torch.stack([x[:, :, 0, 1:], x[:, :, 1, :-1]], dim=2)
    start_y = torch.stack([y[:, :, 0, 1:], y[:, :, 1, :-1]], dim=2)
    return (query - start_y.gather(-1, edge)) * slope.gather(-1, edge) + start_x.gather(-1, edge)


def reaches(corners: Tensor, rows: Tensor) -> Tensor:
    """Whether rows lie between an object's lowest and highest corner, inclusive, [B, N, R] bool."""
    y = corners[:, :, 0, :, 1]
    return (rows >= y[..., :1]) & (rows <= y[..., -1:])


def painted_spans(corners: Tensor, pixels: int) -> tuple[Tensor, Tensor]:
    """The half-open span that Pillow's polygon fills in every row: start and end, two [B, N, pixels] int32.

    Pillow truncates corners to whole pixels, fills every row that the outline reaches, inclusive, and rounds both ends
    of a row to the nearest pixel, ties inwards or, left of the image, towards it. Rows without paint get an empty span
    at 0.
    """
    truncated = corners.trunc().float()
    rows = torch.arange(pixels, dtype=torch.float32, device=corners.device)
    x = crossings(truncated, rows)
    left, right = x.unbind(2)
    x = torch.stack([(left + 0.5).floor_(), (right.abs() - 0.5).ceil_() * right.sign()], dim=2)
    first, last = _extend_to_corners(x, truncated).clamp_(-1, pixels).unbind(2)
    first, last = first.clamp(0), (last + 1).clamp_(max=pixels)
    filled = reaches(truncated, rows) & (first < last)
    return torch.where(filled, first, 0).int(), torch.where(filled, last, 0).int()


def _extend_to_corners(x: Tensor, corners: Tensor) -> Tensor:
    """Crossings [B, N, 2, R] extended to every corner in the row: small sprites have several corners in one row."""
    rows = x.shape[-1]
    row = corners[..., 1]
    row = torch.where((row >= 0) & (row < rows), row, rows).long()  # corners outside go to an extra row that is dropped
    x = F.pad(x, (0, 1))
    left = x[:, :, 0].scatter_reduce(-1, row[:, :, 0], corners[:, :, 0, :, 0], "amin")
    right = x[:, :, 1].scatter_reduce(-1, row[:, :, 1], corners[:, :, 1, :, 0], "amax")
    return torch.stack([left, right], dim=2)[..., :rows]


def covered_spans(corners: Tensor, pixels: int) -> tuple[Tensor, Tensor]:
    """The half-open span of pixels whose centre lies inside, in every row: start and end, two [B, N, pixels] int32."""
    rows = torch.arange(pixels, dtype=corners.dtype, device=corners.device) + 0.5
    x = (crossings(corners, rows) - 0.5).ceil_().clamp_(0, pixels)
    first, last = x[:, :, 0], torch.maximum(x[:, :, 0], x[:, :, 1])  # rounding can cross the sides at a tip
    filled = reaches(corners, rows)
    return torch.where(filled, first, 0).int(), torch.where(filled, last, 0).int()
