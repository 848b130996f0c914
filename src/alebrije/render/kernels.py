"""The Triton kernel of `lanczos`, which imports it where there is a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

ROWS = 16  # of the image that a program draws
LINES = 16  # of the canvas that it holds at a time; a product of matrices has no narrower side
WARPS = 2  # that share a program: it is a small one, and there are thousands


@triton.jit
def whole(level):
    """The nearest whole grey level: from here on float32 holds no halves, and the nearest of two is the even one."""
    return tl.minimum(tl.maximum(level, 0.0), 255.0) + 12582912.0 - 12582912.0


@triton.jit
def shrink(
    stops, palette, sums, weights, images, objects, size, canvas, half,
    FINE: tl.constexpr, MARGIN: tl.constexpr, TILE: tl.constexpr, ROWS: tl.constexpr, LINES: tl.constexpr,
):  # fmt: skip
    """A tile of some rows of one scene's image, in all three colours.

    `stops` [B, 2N, canvas] are the spans of a canvas row, first where they begin, then where they end; `palette`
    [B, N + 1, 3] the colours, black first; `sums` the running sums of horizontal weights for places before and in each
    tile; `weights` [size, canvas] the vertical ones.
    """
    scene, band, tile = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    column, row = tile * TILE + tl.arange(0, TILE), band * ROWS + tl.arange(0, ROWS)
    reach: tl.constexpr = TILE * FINE + 2 * MARGIN  # places that the running sums tell apart, less one
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
        for each in range(objects):
            begin = tl.load(stops + each * canvas + line, mask=inside, other=0)
            end = tl.load(stops + (objects + each) * canvas + line, mask=inside, other=0)
            near |= ((begin < end) & (begin < left_end + reach) & (end > left_end)).to(tl.int32)
        if tl.max(near, 0) > 0:  # else nothing is painted there that the tile could see
            reds = tl.zeros([LINES, TILE], tl.float32)
            greens = tl.zeros([LINES, TILE], tl.float32)
            blues = tl.zeros([LINES, TILE], tl.float32)
            for stop in range(2 * objects):
                place = tl.load(stops + stop * canvas + line, mask=inside, other=0)
                before = tl.zeros([LINES], tl.int32)  # which object is in front: the last that covers a place
                after = tl.zeros([LINES], tl.int32)
                for each in range(objects):
                    begin = tl.load(stops + each * canvas + line, mask=inside, other=0)
                    end = tl.load(stops + (objects + each) * canvas + line, mask=inside, other=0)
                    before = tl.where((begin < place) & (place <= end), each + 1, before)
                    after = tl.where((begin <= place) & (place < end), each + 1, after)
                for other in range(stop):  # a place that several spans share counts once
                    again = tl.load(stops + other * canvas + line, mask=inside, other=0) == place
                    before = tl.where(again, after, before)
                at = tl.minimum(tl.maximum(place - left_end, 0), reach)
                share = tl.load(table + at[:, None] * TILE)
                reds += (tl.load(palette + before * 3) - tl.load(palette + after * 3))[:, None] * share
                greens += (tl.load(palette + before * 3 + 1) - tl.load(palette + after * 3 + 1))[:, None] * share
                blues += (tl.load(palette + before * 3 + 2) - tl.load(palette + after * 3 + 2))[:, None] * share
            seen = (row[:, None] < size) & inside[None, :]
            down = tl.load(weights + row[:, None] * canvas + line[None, :], mask=seen, other=0.0)
            red += tl.dot(down, whole(reds), input_precision="ieee")
            green += tl.dot(down, whole(greens), input_precision="ieee")
            blue += tl.dot(down, whole(blues), input_precision="ieee")
    pixels = images + scene * 3 * size * size + row[:, None] * size + column[None, :]
    drawn = (row[:, None] < size) & (column[None, :] < size)
    tl.store(pixels, tl.minimum(tl.maximum(red + half, 0.0), 255.0).to(tl.uint8), mask=drawn)
    tl.store(pixels + size * size, tl.minimum(tl.maximum(green + half, 0.0), 255.0).to(tl.uint8), mask=drawn)
    tl.store(pixels + 2 * size * size, tl.minimum(tl.maximum(blue + half, 0.0), 255.0).to(tl.uint8), mask=drawn)
