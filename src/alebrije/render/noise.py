"""Noise from integer hashing: the same on every device, periodic over a texture tile.

It uses neither sines nor float64, whose last digits differ between devices; int32 arithmetic wraps the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import torch
from torch import Tensor


def scramble(number: Tensor) -> Tensor:
    """Hash int32 numbers so that neighbours look unrelated (two rounds of multiply and shift)."""
    # A right shift of a negative int32 copies the sign bit, so mask the copies.
    number = (number ^ ((number >> 16) & 0xFFFF)) * 0x7FEB352D
    number = (number ^ ((number >> 15) & 0x1FFFF)) * -0x7B935975
    return number ^ ((number >> 16) & 0xFFFF)


def cell_random(column: Tensor, row: Tensor, seed: int | Tensor) -> Tensor:
    """A number in [0, 1) for each cell of an integer grid; columns and rows are int32.

    >>> cell_random(torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.int32), seed=3).dtype
    torch.float32
    """
    if isinstance(seed, int):
        # Some devices cannot add a number beyond 32 bits; wrap it as int32 arithmetic would.
        start: int | Tensor = (seed * 0x2545F491 + 2**31) % 2**32 - 2**31
    else:
        start = seed * 0x2545F491
    mixed = scramble(column * 0x3C6EF373 + row * 0x1B56C4E9 + start)
    return (mixed & 0xFFFFFF).float() / 0x1000000


def grid_cell(position: Tensor, period: int) -> Tensor:
    """The int32 index of the cell at each position, modulo a tile of `period` cells."""
    return torch.remainder(position.floor().int(), period)


@dataclass(frozen=True)
class Noise:
    """Settings of a noise: the number of its coarsest cells per tile along u and v, and of its octaves."""

    columns: int
    rows: int
    seed: int
    octaves: int = 1


def layered_noise(uv: Tensor, *noises: Noise) -> tuple[Tensor, Tensor]:
    """F value noises over a tile; each octave is twice as fine and half as strong as the previous one.

    Return values [F, M] in [-1, 1] and slopes [F, M, 2], the change per coarsest cell along u and v. Both are
    continuous and have period 1 in u and in v. All octaves of all noises are computed in one pass.

    >>> uv = torch.tensor([[0.25, 0.5], [1.25, 0.5]])
    >>> value, slope = layered_noise(uv, Noise(8, 8, seed=1, octaves=2))
    >>> bool(torch.allclose(value[0, 0], value[0, 1])), tuple(slope.shape)
    (True, (1, 2, 2))
    """
    columns, rows, seed, weight, frequency = _octaves(noises, uv.device)  # [K, 1] each, K octaves over all noises
    along, across = uv[:, 0] * columns, uv[:, 1] * rows  # [K, M]
    left, low = along.floor(), across.floor()
    sides = torch.stack((left, left + 1)).int().remainder(columns)[:, None]  # [2, 1, K, M]
    levels = torch.stack((low, low + 1)).int().remainder(rows)  # [2, K, M]
    corner = cell_random(sides, levels, seed) * weight  # [2, 2, K, M]

    # The second derivative of the quintic fade is 0 at cell borders, so bumps show no grid.
    (fade_u, fade_v), (rate_u, rate_v) = _fade(torch.stack((along - left, across - low)))
    rise_u = corner[1] - corner[0]  # [2, K, M] along u, at both levels
    low_value, high_value = corner[0] + rise_u * fade_u
    rise_v = high_value - low_value
    value = low_value + rise_v * fade_v
    slope_u = (rise_u[0] + (rise_u[1] - rise_u[0]) * fade_v) * rate_u
    slopes = torch.stack((slope_u, rise_v * rate_v), -1) * frequency[..., None]
    ends = list(accumulate(noise.octaves for noise in noises))
    ranges = list(zip([0, *ends], ends, strict=False))  # the octaves of each noise
    values = torch.stack([value[first:last].sum(0) for first, last in ranges]) - 1
    return values, torch.stack([slopes[first:last].sum(0) for first, last in ranges])


@cache
def _octaves(noises: tuple[Noise, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Columns, rows, seed, weight and frequency of each octave, [K, 1]; the weights of a noise sum to 2."""
    table = [
        (
            noise.columns << octave,
            noise.rows << octave,
            noise.seed * 64 + octave,
            2.0 ** (1 - octave) / (2 - 2.0 ** (1 - noise.octaves)),
            float(1 << octave),
        )
        for noise in noises
        for octave in range(noise.octaves)
    ]
    columns, rows, seed, weight, frequency = zip(*table, strict=True)
    integers = [torch.tensor(values, dtype=torch.int32, device=device)[:, None] for values in (columns, rows, seed)]
    floats = [torch.tensor(values, dtype=torch.float32, device=device)[:, None] for values in (weight, frequency)]
    return integers[0], integers[1], integers[2], floats[0], floats[1]


def step_between(low: float, high: float, value: Tensor) -> Tensor:
    """A smooth step from 0 at or below `low` to 1 at or above `high`."""
    position = ((value - low) / (high - low)).clamp(0, 1)
    return position * position * (3 - 2 * position)


def _fade(x: Tensor) -> tuple[Tensor, Tensor]:
    """6x^5 - 15x^4 + 10x^3 and its derivative."""
    square = x * x
    return square * x * (x * (x * 6 - 15) + 10), 30 * square * (x - 1) * (x - 1)
