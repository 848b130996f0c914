"""Painting spans of colour on a fine canvas and shrinking it tenfold as Pillow does, without ever making the canvas.

A row of the canvas is a few spans, and a span seen through the horizontal Lanczos filter is the difference of two
running sums of the filter's weights: a table lookup. The filtered rows are rounded to whole grey levels, as in Pillow,
and the vertical filter is a product with a narrow band of weights. Only blocks near a sprite are computed: ten rows of
the canvas by the width of a tile, for one colour channel. On a GPU one kernel does all of it, a tile at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from alebrije.kernels import HAS_TRITON

FINE = 10  # canvas pixels per image pixel, along each axis
REACH = 3  # image pixels that the Lanczos filter reaches to either side
_MARGIN = REACH * FINE
_TILE = 32  # image columns in a block: narrower tiles follow sprites closer, wider ones spread the cost of a row
_GROUP = 8  # blocks that one product of the vertical filter makes
_STRIP = 1024  # blocks at a time on a processor, so that they stay in its cache
_PRECISION = 2.0**22  # Pillow keeps weights as whole multiples of 1 / 2^22
_HALF = 0.5 + 4e-5  # Pillow's whole-number sums round halves up; in float32 a half may fall short by a few 1e-5


def lanczos_weights(size: int) -> NDArray[np.float64]:
    """How much every canvas pixel counts in every image pixel of a row, [size, 10 * size], as Pillow rounds it."""
    centre = (np.arange(size) + 0.5)[:, None] * FINE
    offset = (np.arange(size * FINE) + 0.5 - centre) / FINE
    weights = np.where(np.abs(offset) < REACH, np.sinc(offset) * np.sinc(offset / REACH), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.floor(weights * _PRECISION + 0.5) / _PRECISION)


@dataclass(frozen=True)
class _Filter:
    sums: Tensor  # [tiles * stops, tile]: running sums of the horizontal weights, from a margin before each tile
    stops: int
    band: Tensor  # [group, 10 * group + 2 * margin]: the vertical weights far from the frame
    gain: Tensor  # [size]: what the vertical weights are multiplied by where the frame cuts some of them off


@lru_cache(maxsize=8)
def _filter(size: int, device: torch.device) -> _Filter:
    weights = lanczos_weights(size)
    tiles, width = math.ceil(size / _TILE), _TILE * FINE
    padded = np.zeros((tiles * _TILE, tiles * width + 2 * _MARGIN))
    padded[:size, _MARGIN : _MARGIN + size * FINE] = weights
    running = np.pad(padded.cumsum(axis=1), ((0, 0), (1, 0)))
    stops = width + 2 * _MARGIN + 1
    sums = [running[tile * _TILE : (tile + 1) * _TILE, tile * width : tile * width + stops].T for tile in range(tiles)]

    whole = lanczos_weights(2 * REACH + 1)[REACH]  # the middle pixel sees all of its 60 weights
    band = np.zeros((_GROUP, _GROUP * FINE + 2 * _MARGIN))
    for row in range(_GROUP):
        band[row, row * FINE : row * FINE + len(whole)] = whole
    starts = np.arange(size) * FINE - _MARGIN
    seen = [whole[max(0, -start) : size * FINE - start].sum() for start in starts]

    def tensor(values: NDArray[np.float64]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device).contiguous()  # lookups want whole rows

    return _Filter(tensor(np.concatenate(sums)), stops, tensor(band), tensor(1 / np.array(seen)))


def _front(left: Tensor, right: Tensor, column: Tensor) -> Tensor:
    """Which object is in front at columns [B, E, R]: 0 is none, 1 the first drawn; the last drawn covers the others."""
    front = torch.zeros_like(column, dtype=torch.int64)
    for k in range(left.shape[1]):
        front.masked_fill_((left[:, k, None] <= column) & (column < right[:, k, None]), k + 1)
    return front


def _steps(left: Tensor, right: Tensor, colors: Tensor) -> tuple[Tensor, Tensor]:
    """Where colour may change along every row [B, R, 2N], and how far it falls there in each channel [B, 3, R, 2N]."""
    stops = torch.cat([left, right], dim=1)  # [B, 2N, R]
    before, after = _front(left, right, stops - 1), _front(left, right, stops)
    for k in range(1, stops.shape[1]):  # a place that several spans share counts once
        again = (stops[:, k, None] == stops[:, :k]).any(1)
        before[:, k] = torch.where(again, after[:, k], before[:, k])
    palette = F.pad(colors, (0, 0, 1, 0)).transpose(1, 2).contiguous()  # [B, 3, N + 1], black first

    def shade(front: Tensor) -> Tensor:
        return palette.gather(-1, front.flatten(1)[:, None].expand(-1, 3, -1))

    falls = (shade(before) - shade(after)).view(len(stops), 3, *stops.shape[1:])
    return stops.transpose(1, 2), falls.transpose(2, 3)


def _blocks(left: Tensor, right: Tensor, colors: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The blocks that a sprite can colour: scene, channel, tile and image row of each, the row fastest.

    Rows count from `REACH` above the image. Every run of rows begins and ends with `REACH` blocks without paint, so
    that a vertical filter that runs over all blocks one after another never mixes two runs.
    """
    filled = left < right
    rows = filled.view(*filled.shape[:2], size, FINE).any(-1)  # [B, N, H]
    rows = F.max_pool1d(F.pad(rows.float(), (REACH, REACH)), 2 * REACH + 1, stride=1, padding=REACH) > 0
    start = torch.arange(math.ceil(size / _TILE), device=left.device) * _TILE * FINE
    first = torch.where(filled, left, size * FINE).amin(-1, keepdim=True)
    last = right.amax(-1, keepdim=True)
    tiles = (first < start + _TILE * FINE + _MARGIN) & (last > start - _MARGIN)  # [B, N, tiles]
    lit = colors > 0  # [B, N, 3]
    active = torch.zeros(len(left), 3, len(start), size + 2 * REACH, dtype=torch.bool, device=left.device)
    for k in range(left.shape[1]):
        active |= lit[:, k, :, None, None] & tiles[:, k, None, :, None] & rows[:, k, None, None]
    scene, channel, tile, row = active.nonzero().unbind(1)
    return scene, channel, tile, row


Blocks = tuple[Tensor, Tensor, Tensor, Tensor]  # scene, channel, tile and row of each


def _resample(stops: Tensor, falls: Tensor, blocks: Blocks, high: int, weights: _Filter) -> Tensor:
    """Both passes over blocks, to rows of grey levels [M, tile] uint8, from the steps along the rows of the canvas.

    The blocks lie below one another in a strip, black at both ends.
    """
    scene, channel, tile, row = blocks
    ends, count, room = stops.shape[-1], len(row), _room(row)
    blank = (0, 0, _MARGIN, _MARGIN)  # rows above and below the canvas, without paint
    places = F.pad(stops, blank).reshape(-1, FINE * ends).index_select(0, scene * high + row)  # [blocks, rows * ends]
    falls = F.pad(falls, blank).reshape(-1, FINE * ends).index_select(0, (scene * 3 + channel) * high + row)
    shift = (tile * (_TILE * FINE) - _MARGIN).int()[:, None]
    places = (places - shift).clamp_(0, weights.stops - 1).add_((tile * weights.stops).int()[:, None])
    black = (0, 0, 0, 0, REACH, REACH + room - count)
    places, falls = (F.pad(each.view(-1, FINE, ends), black) for each in (places, falls))
    step = _STRIP if places.device.type == "cpu" else room
    down = torch.empty(room, _TILE, device=places.device)
    for start in range(0, room, max(step, 1)):
        part = slice(start, min(start + step, room) + 2 * REACH)
        bags, levels = places[part].reshape(-1, ends), falls[part].reshape(-1, ends)
        strip = F.embedding_bag(bags, weights.sums, per_sample_weights=levels, mode="sum")
        strip.clamp_(0, 255).round_()  # Pillow keeps whole levels between its two passes
        made = _down(strip, weights)
        down[start : start + len(made)] = made
    return _levels(down[:count], row, weights.gain)


def _room(row: Tensor) -> int:
    """Blocks, rounded up to whole groups."""
    return math.ceil(len(row) / _GROUP) * _GROUP


def _down(strip: Tensor, weights: _Filter) -> Tensor:
    """The vertical filter over a strip of canvas rows, to image rows [R, tile]."""
    rows = _GROUP * FINE
    groups = (len(strip) - 2 * _MARGIN) // rows
    windows = strip.as_strided((groups, rows + 2 * _MARGIN, _TILE), (rows * _TILE, _TILE, 1))
    return torch.matmul(weights.band, windows).view(-1, _TILE)


def _levels(down: Tensor, row: Tensor, gain: Tensor) -> Tensor:
    """Grey levels [M, tile] uint8 of filtered rows, those near the frame brought up to what it cuts off."""
    gained = down * F.pad(gain, (REACH, REACH))[row][:, None]
    return (gained + _HALF).clamp(0.0, 255.0).to(torch.uint8)


def shrink_spans(left: Tensor, right: Tensor, colors: Tensor, size: int) -> Tensor:
    """Images of spans painted over one another in turn on black, shrunk tenfold as Pillow's LANCZOS does.

    `left` and `right` are the spans [B, N, 10 * size] int32, empty where equal, and `colors` [B, N, 3] are float32
    levels from 0 to 255. Gives [B, 3, size, size] uint8: Pillow's values, but for a level where its whole-number sums
    come to lie on the other side of a half than ours.
    """
    if not left.numel():
        return torch.zeros(len(left), 3, size, size, dtype=torch.uint8, device=left.device)
    if HAS_TRITON and left.is_cuda:
        return _shrink_on_gpu(left, right, colors, size)
    weights, tiles, high = _filter(size, left.device), math.ceil(size / _TILE), size + 2 * REACH
    blocks = scene, channel, tile, row = _blocks(left, right, colors, size)
    levels = _resample(*_steps(left, right, colors), blocks, high, weights)
    images = torch.zeros(len(left), 3, high, tiles, _TILE, dtype=torch.uint8, device=left.device)
    images[scene, channel, row, tile] = levels
    return images.flatten(3)[:, :, REACH:-REACH, :size]


@lru_cache(maxsize=8)
def _down_weights(size: int, device: torch.device) -> Tensor:
    return torch.tensor(lanczos_weights(size), dtype=torch.float32, device=device)


def _shrink_on_gpu(left: Tensor, right: Tensor, colors: Tensor, size: int) -> Tensor:
    from alebrije.render import kernels

    across, down = _filter(size, left.device).sums, _down_weights(size, left.device)
    stops, palette = torch.cat([left, right], dim=1), F.pad(colors, (0, 0, 1, 0))
    images = torch.empty(len(left), 3, size, size, dtype=torch.uint8, device=left.device)
    grid = len(left), math.ceil(size / kernels.ROWS), math.ceil(size / _TILE)
    with torch.cuda.device(left.device):  # Triton goes by the one in use
        kernels.shrink[grid](
            *(stops, palette, across, down, images, left.shape[1], size, size * FINE, _HALF),
            *(FINE, _MARGIN, _TILE, kernels.ROWS, kernels.LINES),
            num_warps=kernels.WARPS,
        )
    return images
