"""Noise from integer hashing: the same on every device, repeating once per texture tile.

Nothing here uses sines or 64-bit numbers, whose last digits differ between devices; 32-bit integers wrap alike on all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import torch
from torch import Tensor


def scramble(number: Tensor) -> Tensor:
    """Mixes the bits of int32 numbers so that neighbours look unrelated (two rounds of multiply and shift)."""
    # A right shift of a negative int32 copies the sign, so the copied bits are masked away.
    number = (number ^ ((number >> 16) & 0xFFFF)) * 0x7FEB352D
    number = (number ^ ((number >> 15) & 0x1FFFF)) * -0x7B935975
    return number ^ ((number >> 16) & 0xFFFF)


def cell_random(column: Tensor, row: Tensor, seed: int | Tensor) -> Tensor:
    """A number in [0, 1) for each cell of an integer grid; columns and rows are int32.

    >>> cell_random(torch.zeros(1, dtype=torch.int32), torch.ones(1, dtype=torch.int32), seed=3).dtype
    torch.float32
    """
    if isinstance(seed, int):
        # A number beyond 32 bits cannot be added on every device; cut it as a tensor's product would be.
        start: int | Tensor = (seed * 0x2545F491 + 2**31) % 2**32 - 2**31
    else:
        start = seed * 0x2545F491
    mixed = scramble(column * 0x3C6EF373 + row * 0x1B56C4E9 + start)
    return (mixed & 0xFFFFFF).float() / 0x1000000


def grid_cell(place: Tensor, period: int) -> Tensor:
    """The int32 index of the cell that holds each place, counted around a tile of `period` cells."""
    return torch.remainder(place.floor().int(), period)


@dataclass(frozen=True)
class Field:
    """One noise: how many of its coarsest cells a tile holds along u and v, and how many octaves it has."""

    columns: int
    rows: int
    seed: int
    octaves: int = 1


def layered_noise(uv: Tensor, *fields: Field) -> tuple[Tensor, Tensor]:
    """F smooth value noises over a tile, each octave twice as fine and half as strong as the one before.

    Returns values [F, M] in [-1, 1] and slopes [F, M, 2], the change per coarsest cell along u and v. Both are
    continuous and repeat with period 1 in u and in v. All octaves of all fields are computed in one sweep.

    >>> uv = torch.tensor([[0.25, 0.5], [1.25, 0.5]])
    >>> value, slope = layered_noise(uv, Field(8, 8, seed=1, octaves=2))
    >>> bool(torch.allclose(value[0, 0], value[0, 1])), tuple(slope.shape)
    (True, (1, 2, 2))
    """
    columns, rows, seed, weight, finer = _octaves(fields, uv.device)  # each [K, 1], K octaves over all fields
    along, across = uv[:, 0] * columns, uv[:, 1] * rows  # [K, M]
    left, low = along.floor(), across.floor()
    sides = torch.stack((left, left + 1)).int().remainder(columns)[:, None]  # [2, 1, K, M]
    levels = torch.stack((low, low + 1)).int().remainder(rows)  # [2, K, M]
    corner = cell_random(sides, levels, seed) * weight  # [2, 2, K, M]

    # The fifth-degree fade has no bend at cell borders, so bumps built on it show no grid.
    (fade_u, fade_v), (rate_u, rate_v) = _fade(torch.stack((along - left, across - low)))
    rise_u = corner[1] - corner[0]  # [2, K, M] along u, at both levels
    low_value, high_value = corner[0] + rise_u * fade_u
    rise_v = high_value - low_value
    value = low_value + rise_v * fade_v
    slope_u = (rise_u[0] + (rise_u[1] - rise_u[0]) * fade_v) * rate_u
    slopes = torch.stack((slope_u, rise_v * rate_v), -1) * finer[..., None]
    owned = _owned(fields)
    values = torch.stack([value[first:last].sum(0) for first, last in owned]) - 1
    return values, torch.stack([slopes[first:last].sum(0) for first, last in owned])


def _owned(fields: tuple[Field, ...]) -> list[tuple[int, int]]:
    """The first and the end of each field's octaves."""
    ends = list(accumulate(field.octaves for field in fields))
    return list(zip([0, *ends], ends, strict=False))


@cache
def _octaves(fields: tuple[Field, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Columns, rows, seed, weight and fineness of each octave, [K, 1]; a field's weights add up to 2."""
    table = [
        (
            field.columns << octave,
            field.rows << octave,
            field.seed * 64 + octave,
            2.0 ** (1 - octave) / (2 - 2.0 ** (1 - field.octaves)),
            float(1 << octave),
        )
        for field in fields
        for octave in range(field.octaves)
    ]
    columns, rows, seed, weight, finer = zip(*table, strict=True)
    whole = [torch.tensor(each, dtype=torch.int32, device=device)[:, None] for each in (columns, rows, seed)]
    real = [torch.tensor(each, dtype=torch.float32, device=device)[:, None] for each in (weight, finer)]
    return whole[0], whole[1], whole[2], real[0], real[1]


def step_between(low: float, high: float, value: Tensor) -> Tensor:
    """A smooth step from 0 at or below `low` to 1 at or above `high`."""
    position = ((value - low) / (high - low)).clamp(0, 1)
    return position * position * (3 - 2 * position)


def _fade(x: Tensor) -> tuple[Tensor, Tensor]:
    """6x^5 - 15x^4 + 10x^3 and its derivative."""
    square = x * x
    return square * x * (x * (x * 6 - 15) + 10), 30 * square * (x - 1) * (x - 1)
