"""Noise from integer hashing, periodic over a texture tile."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.vectors import clamp, load, zeros


@triton.jit
def scramble(number):
    """Hash uint32 numbers so that neighbours look unrelated."""
    number = (number ^ (number >> 16)) * 0x7FEB352D
    number = (number ^ (number >> 15)) * 0x846CA68B
    return number ^ (number >> 16)


@triton.jit
def cell_random(column, row, seed):
    """A number in [0, 1) for each cell of an integer grid."""
    start = tl.zeros(column.shape, tl.uint32) + seed
    mixed = scramble(column.to(tl.uint32) * 0x3C6EF373 + row.to(tl.uint32) * 0x1B56C4E9 + start * 0x2545F491)
    return (mixed & 0xFFFFFF).to(tl.int32).to(tl.float32) / 0x1000000


@triton.jit
def wrapped(cell, period):
    """The int32 index of a whole cell, modulo a tile of `period` cells."""
    return (cell - period * tl.floor((cell + 0.5) / period)).to(tl.int32)


@triton.jit
def grid_cell(position, period):
    """The int32 index of the cell at each position, modulo a tile of `period` cells."""
    return wrapped(tl.floor(position), period)


@triton.jit
def noise(settings, u, v):
    """A value noise over a tile, in [-1, 1], and its slopes along u and v per coarsest cell.

    Each octave is twice as fine and half as strong as the one before. `settings` points to the number of its coarsest
    cells per tile along u and v, its seed, its octaves, and the weight of the first.
    """
    columns, rows, seed = load(settings)
    value, slope_u, slope_v = zeros(u) - 1.0, zeros(u), zeros(u)
    weight, frequency = tl.load(settings + 4), 1.0
    for octave in range(tl.load(settings + 3).to(tl.int32)):
        wide, high = columns * frequency, rows * frequency
        along, across = u * wide, v * high
        left, low = tl.floor(along), tl.floor(across)
        column, row = wrapped(left, wide), wrapped(low, high)
        right, above = tl.where(column + 1 == wide, 0, column + 1), tl.where(row + 1 == high, 0, row + 1)
        number = seed.to(tl.int32) * 64 + octave
        low_left, low_right = cell_random(column, row, number) * weight, cell_random(right, row, number) * weight
        high_left, high_right = cell_random(column, above, number) * weight, cell_random(right, above, number) * weight
        fade_u, rate_u = fade(along - left)
        fade_v, rate_v = fade(across - low)
        rise_low, rise_high = low_right - low_left, high_right - high_left
        low_value, high_value = low_left + rise_low * fade_u, high_left + rise_high * fade_u
        value += low_value + (high_value - low_value) * fade_v
        slope_u += (rise_low + (rise_high - rise_low) * fade_v) * rate_u * frequency
        slope_v += (high_value - low_value) * rate_v * frequency
        weight, frequency = weight * 0.5, frequency * 2.0
    return value, slope_u, slope_v


@triton.jit
def fade(x):
    """6x^5 - 15x^4 + 10x^3 and its derivative."""
    square = x * x
    return square * x * (x * (x * 6 - 15) + 10), 30 * square * (x - 1) * (x - 1)


@triton.jit
def step_between(low, high, value):
    """A smooth step from 0 at or below `low` to 1 at or above `high`."""
    position = clamp((value - low) / (high - low), 0.0, 1.0)
    return position * position * (3 - 2 * position)
