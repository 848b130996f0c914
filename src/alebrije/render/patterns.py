"""Patterns on a texture tile: bricks in a wall, rings of chainmail, tiles on a roof.

A tile is one unit of u by one unit of v and repeats. Slopes are changes of height per equal length along u and v, as in
a normal map: 1 is 45 degrees.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.noise import cell_random, grid_cell, step_between


@dataclass(frozen=True)
class Bricks:
    """The brick at each point, and how far inside it the point lies."""

    column: Tensor  # [M] int32
    row: Tensor  # [M] int32
    inside: Tensor  # [M] distance from the brick's border, in course heights
    downhill: Tensor  # [M, 2] unit direction on the tile towards the nearest border


def flemish_bond(uv: Tensor, courses: int, pairs: int) -> Bricks:
    """Courses of alternating stretchers and headers, half as long; headers are centred over stretchers."""
    height = uv[:, 1] * courses
    row = grid_cell(height, courses)
    along = uv[:, 0] * pairs + 0.5 * torch.remainder(row, 2)
    pair = grid_cell(along, pairs)
    position = along - along.floor()
    header = position >= 2 / 3
    start = torch.where(header, 2 / 3, 0.0)
    end = torch.where(header, 1.0, 2 / 3)
    long = courses / pairs  # length of a pair in course heights
    return _brick((position - start) * long, (end - position) * long, height, 2 * pair + header.int(), row)


def running_bond(uv: Tensor, courses: int, bricks: int, seed: int) -> Bricks:
    """Courses of bricks of varying length, each shifted by about half a brick against the course below."""
    height = uv[:, 1] * courses
    row = grid_cell(height, courses)
    along = uv[:, 0] * bricks + 0.5 * torch.remainder(row, 2)
    cell = along.floor()
    joint = _joint(cell, row, bricks, seed)
    # Left of the joint in its cell, a point belongs to the previous brick.
    cell = cell - (along - cell < joint).float()
    start = cell + _joint(cell, row, bricks, seed)
    end = cell + 1 + _joint(cell + 1, row, bricks, seed)
    long = courses / bricks
    return _brick((along - start) * long, (end - along) * long, height, grid_cell(cell, bricks), row)


def _joint(cell: Tensor, row: Tensor, bricks: int, seed: int) -> Tensor:
    return 0.4 * cell_random(grid_cell(cell, bricks), row, seed)


def _brick(to_start: Tensor, to_end: Tensor, height: Tensor, column: Tensor, row: Tensor) -> Bricks:
    up = height - height.floor()
    sideways, upright = torch.minimum(to_start, to_end), torch.minimum(up, 1 - up)
    by_end = sideways < upright
    towards_u = torch.where(to_start < to_end, -1.0, 1.0) * by_end
    towards_v = torch.where(up < 0.5, -1.0, 1.0) * ~by_end
    return Bricks(column, row, torch.minimum(sideways, upright), torch.stack((towards_u, towards_v), -1))


@dataclass(frozen=True)
class Rings:
    """The top ring of chainmail at each point."""

    solid: Tensor  # [M] 1 on a wire, 0 in a hole
    slope: Tensor  # [M, 2] of the round wire
    height: Tensor  # [M] in 0..1, of the wire
    identity: Tensor  # [M] in [0, 1), random per ring


def linked_rings(uv: Tensor, columns: int, rows: int, radius: float, wire: float) -> Rings:
    """Round rings, each linked with its six neighbours; their centres are the corners and centres of grid cells.

    Lengths are in tile widths; `wire` is half the width of the wire.
    """
    candidates = []
    for shift in (0.0, 0.5):
        column = torch.floor(uv[:, 0] * columns + shift) + 0.5 - shift
        row = torch.floor(uv[:, 1] * rows + shift) + 0.5 - shift
        # A ring is wider than its cell is high, so the nearest ring above or below may cover the point too.
        other = row + torch.where(uv[:, 1] * rows < row, -1.0, 1.0)
        candidates += [(column, row), (column, other)]
    centre_u = torch.stack([column for column, _ in candidates])  # [4, M], in cells
    centre_v = torch.stack([row for _, row in candidates])
    du, dv = uv[:, 0] - centre_u / columns, uv[:, 1] - centre_v / rows
    distance = torch.sqrt(du * du + dv * dv).clamp(min=1e-6)
    offset = (distance - radius) / wire  # -1..1 across the wire
    on_wire = offset.abs() < 1
    rounded = torch.sqrt((1 - offset * offset).clamp(min=0))
    # Rings are tilted: each passes over its neighbours on one side and under them on the other.
    tilt = (du + 0.4 * dv) / radius
    height = torch.where(on_wire, 1.2 * tilt + 0.5 * rounded, -9.0)
    top = height.argmax(0, keepdim=True)
    values = (du / distance, dv / distance, offset, rounded)
    u, v, offset, rounded = (value.gather(0, top)[0] for value in values)
    steep = -offset / (rounded + 0.25)
    cells = [(2 * centre).gather(0, top)[0].int() for centre in (centre_u, centre_v)]
    identity = cell_random(torch.remainder(cells[0], 2 * columns), torch.remainder(cells[1], 2 * rows), 17)
    level = (height.amax(0) / 1.9 + 0.6).clamp(0, 1)
    return Rings(on_wire.any(0).float(), torch.stack((u, v), -1) * steep[:, None], level, identity)


@dataclass(frozen=True)
class RoofTiles:
    """Overlapping barrel tiles, lower ends towards smaller v."""

    column: Tensor  # [M] int32
    row: Tensor  # [M] int32
    cap: Tensor  # [M] 1 on a barrel, 0 in a gutter
    slope: Tensor  # [M, 2]
    shade: Tensor  # [M] in 0..1, light that reaches gutters and overlapped ends


def barrel_tiles(uv: Tensor, columns: int, rows: int) -> RoofTiles:
    """Columns of half-round tiles with gutters between them; tiles widen towards their lower ends."""
    column = grid_cell(uv[:, 0] * columns, columns)
    across = uv[:, 0] * columns - (uv[:, 0] * columns).floor() - 0.5
    stagger = 0.16 * cell_random(column, torch.zeros_like(column), 23)
    bow = 0.08 * (1 - (across / 0.4).square()).clamp(min=0)  # round ends look bowed from above
    down = uv[:, 1] * rows + stagger + bow
    row = grid_cell(down, rows)
    along = down - down.floor()  # 0 at the lower end
    half = 0.46 - 0.04 * along
    offset = across / half
    cap = (offset.abs() < 1).float()
    rounded = torch.sqrt((1 - offset * offset).clamp(min=0))
    gutter = (across.abs() - half) / (0.5 - half)  # 0 at the barrel's foot, 1 in the gutter's middle
    steep = torch.where(cap > 0, -offset / (rounded + 0.45), 0.8 * torch.sign(across) * (1 - gutter))
    lip = 1 - step_between(0.0, 0.08, along)
    under = step_between(0.88, 0.98, along)
    shade = torch.where(cap > 0, (1 - 0.75 * under) * (0.55 + 0.45 * rounded), 0.28)
    # The lower end is a rounded lip, so the height rises with v there.
    slope = torch.stack((steep, 0.7 * lip * cap + 0.1 * cap), -1)
    return RoofTiles(column, row, cap, slope, shade)
