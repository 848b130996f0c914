"""Where a pattern's parts lie on a texture tile: bricks in a wall, rings in mail, tiles on a roof, boards on a floor.

A tile is one unit of u by one unit of v and repeats. Slopes are heights' changes per equal length along u and v, as a
normal map stores them: 1 stands for 45 degrees.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.noise import cell_random, grid_cell, step_between


@dataclass(frozen=True)
class Parts:
    """Which part of a pattern a point lies on, and how far inside."""

    column: Tensor  # [M] int32
    row: Tensor  # [M] int32
    inside: Tensor  # [M] distance from the part's border, in heights of a course; 0 on the border
    downhill: Tensor  # [M, 2] unit direction on the tile towards the nearest border


def flemish_bond(uv: Tensor, courses: int, pairs: int) -> Parts:
    """Each course repeats a stretcher and a header half as long; headers lie centred over stretchers."""
    height = uv[:, 1] * courses
    row = grid_cell(height, courses)
    along = uv[:, 0] * pairs + 0.5 * torch.remainder(row, 2)
    pair = grid_cell(along, pairs)
    position = along - along.floor()
    header = position >= 2 / 3
    start = torch.where(header, 2 / 3, 0.0)
    end = torch.where(header, 1.0, 2 / 3)
    long = courses / pairs  # a pair's length in heights of a course
    return _brick((position - start) * long, (end - position) * long, height, 2 * pair + header.int(), row)


def running_bond(uv: Tensor, courses: int, bricks: int, seed: int) -> Parts:
    """Courses of bricks of unequal lengths, each course shifted by about half a brick against the one below."""
    height = uv[:, 1] * courses
    row = grid_cell(height, courses)
    along = uv[:, 0] * bricks + 0.5 * torch.remainder(row, 2)
    cell = along.floor()
    joint = _joint(cell, row, bricks, seed)
    # Left of its cell's joint a point still belongs to the brick before.
    cell = cell - (along - cell < joint).float()
    start = cell + _joint(cell, row, bricks, seed)
    end = cell + 1 + _joint(cell + 1, row, bricks, seed)
    long = courses / bricks
    return _brick((along - start) * long, (end - along) * long, height, grid_cell(cell, bricks), row)


def _joint(cell: Tensor, row: Tensor, bricks: int, seed: int) -> Tensor:
    return 0.4 * cell_random(grid_cell(cell, bricks), row, seed)


def _brick(to_start: Tensor, to_end: Tensor, height: Tensor, column: Tensor, row: Tensor) -> Parts:
    up = height - height.floor()
    sideways, upright = torch.minimum(to_start, to_end), torch.minimum(up, 1 - up)
    by_end = sideways < upright
    towards_u = torch.where(to_start < to_end, -1.0, 1.0) * by_end
    towards_v = torch.where(up < 0.5, -1.0, 1.0) * ~by_end
    return Parts(column, row, torch.minimum(sideways, upright), torch.stack((towards_u, towards_v), -1))


@dataclass(frozen=True)
class Rings:
    """The uppermost ring of a mail at each point."""

    solid: Tensor  # [M] 1 on a wire, 0 in a hole
    slope: Tensor  # [M, 2] of the round wire
    height: Tensor  # [M] in 0..1, how far up the wire is
    identity: Tensor  # [M] in [0, 1), one number per ring


def linked_rings(uv: Tensor, columns: int, rows: int, radius: float, wire: float) -> Rings:
    """Round rings, each linked with its six neighbours: centres on a grid and in the middles of its cells.

    Lengths are in widths of a tile; `wire` is the wire's half-width.
    """
    candidates = []
    for shift in (0.0, 0.5):
        column = torch.floor(uv[:, 0] * columns + shift) + 0.5 - shift
        row = torch.floor(uv[:, 1] * rows + shift) + 0.5 - shift
        # A ring is wider than its cell is high: the nearest centre above or below reaches here as well.
        other = row + torch.where(uv[:, 1] * rows < row, -1.0, 1.0)
        candidates += [(column, row), (column, other)]
    centre_u = torch.stack([column for column, _ in candidates])  # [4, M], in cells
    centre_v = torch.stack([row for _, row in candidates])
    du, dv = uv[:, 0] - centre_u / columns, uv[:, 1] - centre_v / rows
    distance = torch.sqrt(du * du + dv * dv).clamp(min=1e-6)
    offset = (distance - radius) / wire  # -1..1 across the wire
    on_wire = offset.abs() < 1
    rounded = torch.sqrt((1 - offset * offset).clamp(min=0))
    # Rings lean: each passes over its neighbours on one side and under them on the other.
    lean = (du + 0.4 * dv) / radius
    height = torch.where(on_wire, 1.2 * lean + 0.5 * rounded, -9.0)
    top = height.argmax(0, keepdim=True)
    u, v, offset, rounded = (each.gather(0, top)[0] for each in (du / distance, dv / distance, offset, rounded))
    steep = -offset / (rounded + 0.25)
    cells = [(2 * each).gather(0, top)[0].int() for each in (centre_u, centre_v)]
    identity = cell_random(torch.remainder(cells[0], 2 * columns), torch.remainder(cells[1], 2 * rows), 17)
    level = (height.amax(0) / 1.9 + 0.6).clamp(0, 1)
    return Rings(on_wire.any(0).float(), torch.stack((u, v), -1) * steep[:, None], level, identity)


@dataclass(frozen=True)
class RoofTiles:
    """Barrel tiles that overlap like scales, lower ends towards smaller v."""

    column: Tensor  # [M] int32
    row: Tensor  # [M] int32
    cap: Tensor  # [M] 1 on a barrel, 0 in the gutter between two
    slope: Tensor  # [M, 2]
    shade: Tensor  # [M] in 0..1: how much light reaches into gutters and under the ends above


def barrel_tiles(uv: Tensor, columns: int, rows: int) -> RoofTiles:
    """Columns of half-round tiles with gutters between them; each tile widens towards its lower end."""
    column = grid_cell(uv[:, 0] * columns, columns)
    across = uv[:, 0] * columns - (uv[:, 0] * columns).floor() - 0.5
    stagger = 0.16 * cell_random(column, torch.zeros_like(column), 23)
    bow = 0.08 * (1 - (across / 0.4).square()).clamp(min=0)  # seen from above, round ends look bowed
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
    # The lower end is a rounded lip, so there the height rises with v.
    slope = torch.stack((steep, 0.7 * lip * cap + 0.1 * cap), -1)
    return RoofTiles(column, row, cap, slope, shade)
