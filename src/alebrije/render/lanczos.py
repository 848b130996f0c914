"""Antialiasing as in Pillow: paint spans of colour on a fine canvas and shrink it tenfold, without storing the canvas.

A canvas row is a few spans, and a span under the horizontal Lanczos filter is the difference of two running sums of the
filter's weights: a table lookup. The filtered rows are rounded to integer levels, as in Pillow, and the vertical filter
is a product with a narrow band of weights. Only blocks near a sprite are computed: ten canvas rows by the width of a
tile, for one colour channel. On a GPU one kernel does all of it, a tile at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.arrays import Floats
from alebrije.kernels import HAS_TRITON

FINE = 10  # canvas pixels per image pixel, along each axis
REACH = 3  # radius of the Lanczos filter in image pixels
_MARGIN = REACH * FINE
_TILE = 32  # image columns in a block: narrow tiles follow sprites closely, wide tiles amortise the cost of a row
_GROUP = 8  # blocks per product of the vertical filter
_STRIP = 1024  # blocks at a time on a CPU, so that they stay in its cache
_PRECISION = 2.0**22  # Pillow rounds weights to multiples of 1 / 2^22
_HALF = 0.5 + 4e-5  # Pillow's integer sums round halves up; in float32 a half may fall short by a few 1e-5


def lanczos_weights(size: int) -> Floats:
    """Weight of every canvas pixel in every image pixel of a row, [size, 10 * size], rounded as in Pillow."""
    centre = (np.arange(size) + 0.5)[:, None] * FINE
    offset = (np.arange(size * FINE) + 0.5 - centre) / FINE
    weights = np.where(np.abs(offset) < REACH, np.sinc(offset) * np.sinc(offset / REACH), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.floor(weights * _PRECISION + 0.5) / _PRECISION)


@dataclass(frozen=True)
class _Filter:
    sums: Tensor  # [tiles * stops, tile]: running sums of the horizontal weights, starting a margin before each tile
    stops: int
    band: Tensor  # [group, 10 * group + 2 * margin]: the vertical weights away from the image border
    gain: Tensor  # [size]: factor that makes up for the vertical weights cut off at the image border


@lru_cache(maxsize=8)
def _filter(size: int, device: torch.device) -> _Filter:
    weights = lanczos_weights(size)
    tiles, width = math.ceil(size / _TILE), _TILE * FINE
    padded = np.zeros((tiles * _TILE, tiles * width + 2 * _MARGIN))
    padded[:size, _MARGIN : _MARGIN + size * FINE] = weights
    running = np.pad(padded.cumsum(axis=1), ((0, 0), (1, 0)))
    stops = width + 2 * _MARGIN + 1
    sums = [running[tile * _TILE : (tile + 1) * _TILE, tile * width : tile * width + stops].T for tile in range(tiles)]

    full = lanczos_weights(2 * REACH + 1)[REACH]  # the middle pixel has all of its 60 weights
    band = np.zeros((_GROUP, _GROUP * FINE + 2 * _MARGIN))
    for row in range(_GROUP):
        band[row, row * FINE : row * FINE + len(full)] = full
    starts = np.arange(size) * FINE - _MARGIN
    kept = [full[max(0, -start) : size * FINE - start].sum() for start in starts]

    def tensor(values: Floats) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device).contiguous()  # lookups need contiguous rows

    return _Filter(tensor(np.concatenate(sums)), stops, tensor(band), tensor(1 / np.array(kept)))


def _front(left: Tensor, right: Tensor, column: Tensor) -> Tensor:
    """The object in front at columns [B, E, R]: 0 is none, 1 the first painted; later ones cover earlier ones."""
    front = torch.zeros_like(column, dtype=torch.int64)
    for k in range(left.shape[1]):
        front.masked_fill_((left[:, k, None] <= column) & (column < right[:, k, None]), k + 1)
    return front


def _color_steps(left: Tensor, right: Tensor, colors: Tensor) -> tuple[Tensor, Tensor]:
    """Columns where the colour may change in every row [B, R, 2N], and its decrease in each channel [B, 3, R, 2N]."""
    stops = torch.cat([left, right], dim=1)  # [B, 2N, R]
    before, after = _front(left, right, stops - 1), _front(left, right, stops)
    for k in range(1, stops.shape[1]):  # an edge that several spans share counts once
        repeated = (stops[:, k, None] == stops[:, :k]).any(1)
        before[:, k] = torch.where(repeated, after[:, k], before[:, k])
    palette = F.pad(colors, (0, 0, 1, 0)).transpose(1, 2).contiguous()  # [B, 3, N + 1], black first

    def shade(front: Tensor) -> Tensor:
        return palette.gather(-1, front.flatten(1)[:, None].expand(-1, 3, -1))

    steps = (shade(before) - shade(after)).view(len(stops), 3, *stops.shape[1:])
    return stops.transpose(1, 2), steps.transpose(2, 3)


Blocks = tuple[Tensor, Tensor, Tensor, Tensor]  # scene, channel, tile and row of each block


def _blocks(left: Tensor, right: Tensor, colors: Tensor, size: int) -> Blocks:
    """The blocks that a sprite can colour: the scene, channel, tile and image row of each, the row fastest.

    Rows count from `REACH` above the image. Every run of rows begins and ends with `REACH` empty blocks, so that the
    vertical filter can slide over all blocks in sequence without mixing two runs.
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


def _resample(stops: Tensor, steps: Tensor, blocks: Blocks, high: int, weights: _Filter) -> Tensor:
    """Filter blocks horizontally and vertically, from the colour steps of canvas rows to levels [M, tile] uint8.

    The blocks are stacked in a strip that is black at both ends.
    """
    scene, channel, tile, row = blocks
    ends, count = stops.shape[-1], len(row)
    padded_count = math.ceil(count / _GROUP) * _GROUP
    blank = (0, 0, _MARGIN, _MARGIN)  # empty rows above and below the canvas
    edges = F.pad(stops, blank).reshape(-1, FINE * ends).index_select(0, scene * high + row)  # [blocks, rows * ends]
    steps = F.pad(steps, blank).reshape(-1, FINE * ends).index_select(0, (scene * 3 + channel) * high + row)
    shift = (tile * (_TILE * FINE) - _MARGIN).int()[:, None]
    edges = (edges - shift).clamp_(0, weights.stops - 1).add_((tile * weights.stops).int()[:, None])
    black = (0, 0, 0, 0, REACH, REACH + padded_count - count)
    edges, steps = (F.pad(values.view(-1, FINE, ends), black) for values in (edges, steps))
    step = _STRIP if edges.device.type == "cpu" else padded_count
    down = torch.empty(padded_count, _TILE, device=edges.device)
    for start in range(0, padded_count, max(step, 1)):
        part = slice(start, min(start + step, padded_count) + 2 * REACH)
        bags, levels = edges[part].reshape(-1, ends), steps[part].reshape(-1, ends)
        strip = F.embedding_bag(bags, weights.sums, per_sample_weights=levels, mode="sum")
        strip.clamp_(0, 255).round_()  # Pillow rounds to integer levels between its two passes
        rows = _filter_rows(strip, weights)
        down[start : start + len(rows)] = rows
    gained = down[:count] * F.pad(weights.gain, (REACH, REACH))[row][:, None]  # normalised near the image border
    return (gained + _HALF).clamp(0.0, 255.0).to(torch.uint8)


def _filter_rows(strip: Tensor, weights: _Filter) -> Tensor:
    """Filter a strip of canvas rows vertically to image rows [R, tile]."""
    rows = _GROUP * FINE
    groups = (len(strip) - 2 * _MARGIN) // rows
    windows = strip.as_strided((groups, rows + 2 * _MARGIN, _TILE), (rows * _TILE, _TILE, 1))
    return torch.matmul(weights.band, windows).view(-1, _TILE)


def shrink_spans(left: Tensor, right: Tensor, colors: Tensor, size: int) -> Tensor:
    """Images of spans painted in order on black, shrunk tenfold like Pillow's LANCZOS.

    `left` and `right` are the spans [B, N, 10 * size] int32, empty where equal, and `colors` [B, N, 3] are float32
    levels from 0 to 255. Return [B, 3, size, size] uint8: Pillow's values, except for one level where its integer sums
    round to the other side of a half.
    """
    if not left.numel():
        return torch.zeros(len(left), 3, size, size, dtype=torch.uint8, device=left.device)
    if HAS_TRITON and left.is_cuda:
        return _shrink_on_gpu(left, right, colors, size)
    weights, tiles, high = _filter(size, left.device), math.ceil(size / _TILE), size + 2 * REACH
    blocks = scene, channel, tile, row = _blocks(left, right, colors, size)
    levels = _resample(*_color_steps(left, right, colors), blocks, high, weights)
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
    with torch.cuda.device(left.device):  # Triton launches on the current device
        kernels.shrink[grid](
            *(stops, palette, across, down, images, left.shape[1], size, size * FINE, _HALF),
            *(FINE, _MARGIN, _TILE, kernels.ROWS, kernels.LINES),
            num_warps=kernels.WARPS,
        )
    return images
