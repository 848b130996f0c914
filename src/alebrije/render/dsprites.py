"""dSprites from closed forms: white squares, ellipses and hearts on black, without antialiasing.

The original program was never published. The outlines were fitted to twelve of its images and match all their pixels;
other images may differ in single pixels at an outline.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Floats
from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.render.frames import Frames
from alebrije.scenes import Scenes
from alebrije.scenes.grid import combinations_at

SIDE = 64  # pixels a side of the original
_COUNTS = (1, 3, 6, 40, 32, 32)
_NAMES = ("color", "shape", "scale", "orientation", "position x", "position y")
_SCALES = tuple(0.5 + step / 10 for step in range(6))
_TURN = 39  # orientations in a full turn: the last of the 40 repeats the first
_CROSSINGS = 4  # the most crossings of a row with an outline: the two lobes of the heart
_BATCH = 1024
_KIND_BATCH = 64  # few enough that comparing every row with every edge stays in a core's cache


def _angles(count: int) -> Floats:
    return np.linspace(0, 2 * math.pi, count, endpoint=False)


def _ellipse() -> Floats:
    t = _angles(48)
    return np.stack([12.8 * np.cos(t), 7.2 * np.sin(t)], axis=1)


def _heart() -> Floats:
    t = _angles(100)
    across = 9.643 * np.sin(t) ** 3 + 0.021
    lobes = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([across, -(10.572 / 16) * lobes - 1.489], axis=1)


# Corners at scale 1 in pixels of the original, relative to the object's centre, y down.
DSPRITES_OUTLINES = {
    "square": 9.6 * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]),
    "ellipse": _ellipse(),
    "heart": _heart(),
}


@lru_cache(maxsize=8)
def _corners(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Corners [3, 100, 2]; a shorter outline repeats its last corner, which adds edges of length 0."""
    outlines = DSPRITES_OUTLINES.values()
    most = max(map(len, outlines))
    padded = [np.pad(outline, ((0, most - len(outline)), (0, 0)), mode="edge") for outline in outlines]
    return torch.tensor(np.stack(padded), dtype=dtype, device=device)


def dsprites_factors(indices: Any) -> Tensor:
    """The factors [B, 6] of images by their index in the original, 0..737279, the last factor fastest.

    They are color, shape, scale, orientation, position x and position y, as in the original's `latents_classes`.

    >>> dsprites_factors([0, 1, 737279]).tolist()
    [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [0, 2, 5, 39, 31, 31]]
    """
    return combinations_at(indices, _COUNTS)


def dsprites_images(indices: Any, device: str | torch.device = "cpu") -> Tensor:
    """Images [B, 64, 64] uint8 of 0 and 1 by their index in the original, as in `imgs` of the original file.

    >>> image = dsprites_images([0])[0]
    >>> image.shape, int(image.sum())  # a square of 9.6 pixels
    (torch.Size([64, 64]), 100)
    """
    return _rasterise(dsprites_factors(indices).to(device), SIDE)


def render_dsprites(scenes: Scenes | Tensor, size: int = SIDE, device: str | torch.device = "cpu") -> Frames:
    """Render images and masks of dSprites scenes, or of the factors [B, 6] of such scenes.

    A pixel is white (255 in all channels) if its centre lies inside the outline, and black otherwise. At 64 pixels the
    mask equals the original image; other sizes sample the same outlines on another grid.

    >>> frames = render_dsprites(dsprites_factors([0, 300_000]))
    >>> frames.images.shape, frames.masks.unique().tolist(), frames.visible.tolist()
    (torch.Size([2, 3, 64, 64]), [0, 1], [[100], [104]])
    """
    size = whole_number("size", size, least=1)
    if isinstance(scenes, Scenes):
        _check_scenes(scenes)
        factors, present = scenes.factors[:, 0], scenes.present[:, 0]
    else:
        factors = _checked_factors(scenes)
        present = torch.ones(len(factors), dtype=torch.bool, device=factors.device)
    masks = _rasterise(factors.to(device), size)
    masks *= present.to(device)[:, None, None]
    count = masks.flatten(1).sum(1)[:, None]
    return Frames((masks * 255)[:, None].repeat(1, 3, 1, 1), masks, count, count.clone())


def _check_scenes(scenes: Scenes) -> None:
    vocabulary = scenes.vocabulary
    if vocabulary.names != _NAMES or vocabulary.counts != _COUNTS:
        raise InputError(
            f"dSprites scenes need the factors {', '.join(_NAMES)} with {_COUNTS} values; {vocabulary.name} has others"
        )
    original = (_SCALES, torch.linspace(0, 2 * math.pi, 40).tolist(), *2 * (torch.linspace(0, 1, 32).tolist(),))
    for name, values in zip(_NAMES[2:], original, strict=True):
        if not np.allclose(vocabulary[name].codes, values, atol=1e-6):
            raise InputError(f"the values of {name} in {vocabulary.name} differ from those in dSprites")
    if scenes.objects != 1:
        raise InputError(f"dSprites scenes have one object, not {scenes.objects}")


def _checked_factors(factors: Any) -> Tensor:
    table = torch.as_tensor(factors)
    if table.ndim != 2 or table.shape[1] != len(_COUNTS) or table.is_floating_point():
        raise InputError(f"factors must be integers of shape [B, 6], not {table.dtype} of shape {list(table.shape)}")
    most = torch.tensor(_COUNTS, device=table.device)
    if not bool(((table >= 0) & (table < most)).all()):
        raise InputError(f"factors must be at least 0 and below {_COUNTS}")
    return table.long()


def _rasterise(factors: Tensor, size: int) -> Tensor:
    """Images [B, size, size] uint8 of 0 and 1."""
    images = torch.zeros(len(factors), size, size, dtype=torch.uint8, device=factors.device)
    column = torch.arange(size + 1, device=factors.device)
    filled_from = (column[:size] >= column[:, None]).to(torch.uint8)  # [W + 1, W]: row c is 1 from column c on
    for start in range(0, len(factors), _BATCH):
        part = factors[start : start + _BATCH]
        # Crossings depend on all factors but position x, so neighbours in the original share them.
        key = ((part[:, 1] * 6 + part[:, 2]) * 40 + part[:, 3]) * 32 + part[:, 5]
        key, kind = torch.unique(key, return_inverse=True)
        kinds = torch.stack(torch.unravel_index(key, (3, 6, 40, 32)), dim=1)
        crossings = torch.cat([_crossings(batch, size) for batch in torch.split(kinds, _KIND_BATCH)], dim=1)
        centre = (16 + part[:, 4].to(crossings) * (32 / 31)) * (size / SIDE)
        first = crossings[:, kind] + centre[:, None] - 0.5  # [4, B, size]
        first = first.ceil_().clamp_(0, size).int()
        for crossing in first:  # a pixel is inside if an odd number of crossings lies to its left
            images[start : start + _BATCH] ^= filled_from.index_select(0, crossing.flatten()).view(-1, size, size)
    return images


def _crossings(kinds: Tensor, size: int) -> Tensor:
    """Columns where the middle of each row crosses an outline, relative to its centre, [4, K, size]; inf without one.

    `kinds` [K, 4] are shape, scale, orientation and vertical position.
    """
    dtype = torch.float32 if kinds.device.type == "mps" else torch.float64  # MPS has no float64
    shape, step, orientation, height = kinds.unbind(1)
    scale = torch.tensor(_SCALES, dtype=dtype, device=kinds.device)[step]
    angle = (orientation % _TURN).to(dtype) * (2 * math.pi / _TURN)
    u, v = (_corners(kinds.device, dtype)[shape] * (scale * (size / SIDE))[:, None, None]).unbind(-1)  # [K, corners]
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    x, y = cos * u + sin * v, cos * v - sin * u
    y = y + (16 + height.to(dtype) * (32 / 31))[:, None] * (size / SIDE)
    rise = y.roll(-1, dims=1) - y
    slope = (x.roll(-1, dims=1) - x) / torch.where(rise != 0, rise, 1)
    rows = (torch.arange(size, dtype=dtype, device=kinds.device) + 0.5)[:, None]
    below = y[:, None] <= rows  # [K, size, corners]
    crossed = below != below.roll(-1, dims=2)
    column = torch.where(crossed, x[:, None] + (rows - y[:, None]) * slope[:, None], math.inf)
    return column.topk(_CROSSINGS, dim=-1, largest=False).values.permute(2, 0, 1).contiguous()
