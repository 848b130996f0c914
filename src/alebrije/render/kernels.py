"""The Triton kernel of `lanczos`, imported only on a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

ROWS = 16  # image rows per program
LINES = 16  # canvas rows held at a time; 16 is the smallest side of a matrix product
WARPS = 2  # warps per program: programs are small, and there are thousands


@triton.jit
def round_level(level):
    """Round to the nearest integer level, halves to even: float32 has no fractions at 12582912 and above."""
    return tl.minimum(tl.maximum(level, 0.0), 255.0) + 12582912.0 - 12582912.0


@triton.jit
def shrink(
    stops, palette, sums, weights, images, objects, size, canvas, half,
    FINE: tl.constexpr, MARGIN: tl.constexpr, TILE: tl.constexpr, ROWS: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """Compute a tile of ROWS image rows of one scene, in all three channels.

    `stops` [B, 2N, canvas] are the starts, then the ends, of the spans in each canvas row; `palette` [B, N + 1, 3] the
    colours, black first; `sums` the running sums of the horizontal weights in and around each tile; `weights`
    [size, canvas] the vertical weights.
    """
    scene, band, tile = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    column, row = tile * TILE + tl.arange(0, TILE), band * ROWS + tl.arange(0, ROWS)
    reach: tl.constexpr = TILE * FINE + 2 * MARGIN  # canvas columns covered by the running sums
    left_end = tile * TILE * FINE - MARGIN
    table = sums + tile * (reach + 1) * TILE + tl.arange(0, TILE)[None, :]
    stops += scene * 2 * objects * canvas
    palette += scene * (objects + 1) * 3
    red = tl.zeros([ROWS, TILE], tl.float32)
    green = tl.zeros([ROWS, TILE], tl.float32)
    blue = tl.zeros([ROWS, TILE], tl.float32)
    for first in range(band * ROWS * FINE - MARGIN, (band + 1) * ROWS * FINE + MARGIN, LINES):
        line = first + tl.arange(0, LINES)
        inside = (line >= 0) & (line < canvas)
        near = tl.zeros([LINES], tl.int32)
        for k in range(objects):
            begin = tl.load(stops + k * canvas + line, mask=inside, other=0)
            end = tl.load(stops + (objects + k) * canvas + line, mask=inside, other=0)
            near |= ((begin < end) & (begin < left_end + reach) & (end > left_end)).to(tl.int32)
        if tl.max(near, 0) > 0:  # otherwise no span is near the tile
            reds = tl.zeros([LINES, TILE], tl.float32)
            greens = tl.zeros([LINES, TILE], tl.float32)
            blues = tl.zeros([LINES, TILE], tl.float32)
            for stop in range(2 * objects):
                edge = tl.load(stops + stop * canvas + line, mask=inside, other=0)
                before = tl.zeros([LINES], tl.int32)  # the object in front: the last that covers the column
                after = tl.zeros([LINES], tl.int32)
                for k in range(objects):
                    begin = tl.load(stops + k * canvas + line, mask=inside, other=0)
                    end = tl.load(stops + (objects + k) * canvas + line, mask=inside, other=0)
                    before = tl.where((begin < edge) & (edge <= end), k + 1, before)
                    after = tl.where((begin <= edge) & (edge < end), k + 1, after)
                for other in range(stop):  # an edge that several spans share counts once
                    repeated = tl.load(stops + other * canvas + line, mask=inside, other=0) == edge
                    before = tl.where(repeated, after, before)
                at = tl.minimum(tl.maximum(edge - left_end, 0), reach)
                share = tl.load(table + at[:, None] * TILE)
                reds += (tl.load(palette + before * 3) - tl.load(palette + after * 3))[:, None] * share
                greens += (tl.load(palette + before * 3 + 1) - tl.load(palette + after * 3 + 1))[:, None] * share
                blues += (tl.load(palette + before * 3 + 2) - tl.load(palette + after * 3 + 2))[:, None] * share
            valid = (row[:, None] < size) & inside[None, :]
            down = tl.load(weights + row[:, None] * canvas + line[None, :], mask=valid, other=0.0)
            red += tl.dot(down, round_level(reds), input_precision="ieee")
            green += tl.dot(down, round_level(greens), input_precision="ieee")
            blue += tl.dot(down, round_level(blues), input_precision="ieee")
    pixels = images + scene * 3 * size * size + row[:, None] * size + column[None, :]
    in_image = (row[:, None] < size) & (column[None, :] < size)
    tl.store(pixels, tl.minimum(tl.maximum(red + half, 0.0), 255.0).to(tl.uint8), mask=in_image)
    tl.store(pixels + size * size, tl.minimum(tl.maximum(green + half, 0.0), 255.0).to(tl.uint8), mask=in_image)
    tl.store(pixels + 2 * size * size, tl.minimum(tl.maximum(blue + half, 0.0), 255.0).to(tl.uint8), mask=in_image)
