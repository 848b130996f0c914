"""Patterns on a texture tile: bricks in a wall, rings of chainmail, tiles on a roof."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.noise import cell_random, grid_cell, step_between, wrapped
from alebrije.render.gpu.vectors import clamp, zeros


@triton.jit
def sign(value):
    """-1, 0 or 1."""
    return tl.where(value > 0, 1.0, tl.where(value < 0, -1.0, 0.0))


@triton.jit
def flemish_bond(u, v, courses, pairs):
    """Courses of alternating stretchers and headers: column, row, distance to the border, and the way to it."""
    height = v * courses
    row = grid_cell(height, courses)
    along = u * pairs + 0.5 * (row % 2)
    position = along - tl.floor(along)
    header = position >= 2 / 3
    start, end = tl.where(header, 2 / 3, 0.0), tl.where(header, 1.0, 2 / 3)
    long = courses / pairs  # length of a pair in course heights
    inside, down_u, down_v = brick((position - start) * long, (end - position) * long, height)
    return 2 * grid_cell(along, pairs) + header.to(tl.int32), row, inside, down_u, down_v


@triton.jit
def running_bond(u, v, courses, bricks, seed):
    """Courses of bricks of varying length, each shifted by about half a brick against the course below."""
    height = v * courses
    row = grid_cell(height, courses)
    along = u * bricks + 0.5 * (row % 2)
    cell = tl.floor(along)
    # left of the joint in its cell, a point belongs to the previous brick
    cell = tl.where(along - cell < joint(cell, row, bricks, seed), cell - 1.0, cell)
    start = cell + joint(cell, row, bricks, seed)
    end = cell + 1 + joint(cell + 1, row, bricks, seed)
    long = courses / bricks
    inside, down_u, down_v = brick((along - start) * long, (end - along) * long, height)
    return wrapped(cell, bricks), row, inside, down_u, down_v


@triton.jit
def joint(cell, row, bricks, seed):
    """Where in its cell a brick starts."""
    return 0.4 * cell_random(wrapped(cell, bricks), row, seed)


@triton.jit
def brick(to_start, to_end, height):
    """Distance from the brick's border, and the direction towards the nearest border."""
    up = height - tl.floor(height)
    sideways, upright = tl.minimum(to_start, to_end), tl.minimum(up, 1 - up)
    by_end = sideways < upright
    towards_u = tl.where(by_end, tl.where(to_start < to_end, -1.0, 1.0), 0.0)
    towards_v = tl.where(by_end, 0.0, tl.where(up < 0.5, -1.0, 1.0))
    return tl.minimum(sideways, upright), towards_u, towards_v


@triton.jit
def linked_rings(u, v, columns, rows, radius, wire):
    """The top ring of chainmail: whether there is one, the slope of its wire, its height, and a random number."""
    best, solid = zeros(u) - 10.0, zeros(u)
    slope_u, slope_v, cell_u, cell_v = zeros(u), zeros(u), zeros(u), zeros(u)
    for candidate in range(4):
        shift = 0.5 * (candidate // 2)
        centre_u = tl.floor(u * columns + shift) + 0.5 - shift
        centre_v = tl.floor(v * rows + shift) + 0.5 - shift
        # a ring is wider than its cell is high, so the nearest ring above or below may cover the point too
        centre_v += (candidate % 2) * tl.where(v * rows < centre_v, -1.0, 1.0)
        du, dv = u - centre_u / columns, v - centre_v / rows
        distance = tl.maximum(tl.sqrt(du * du + dv * dv), 1e-6)
        offset = (distance - radius) / wire  # -1..1 across the wire
        on_wire = tl.abs(offset) < 1
        bulge = tl.sqrt(tl.maximum(1 - offset * offset, 0.0))
        # rings are tilted: each passes over its neighbours on one side and under them on the other
        height = tl.where(on_wire, 1.2 * ((du + 0.4 * dv) / radius) + 0.5 * bulge, -9.0)
        top = height > best
        steep = -offset / (bulge + 0.25)
        slope_u, slope_v = tl.where(top, du / distance * steep, slope_u), tl.where(top, dv / distance * steep, slope_v)
        cell_u, cell_v = tl.where(top, 2 * centre_u, cell_u), tl.where(top, 2 * centre_v, cell_v)
        best = tl.where(top, height, best)
        solid = tl.where(on_wire, 1.0, solid)
    identity = cell_random(wrapped(cell_u, 2 * columns), wrapped(cell_v, 2 * rows), 17)
    return solid, slope_u, slope_v, clamp(best / 1.9 + 0.6, 0.0, 1.0), identity


@triton.jit
def barrel_tiles(u, v, columns, rows):
    """Columns of half-round tiles with gutters between them: column, row, whether on a barrel, slopes and shade."""
    column = grid_cell(u * columns, columns)
    across = u * columns - tl.floor(u * columns) - 0.5
    stagger = 0.16 * cell_random(column, tl.zeros(column.shape, tl.int32), 23)
    bow = 0.08 * tl.maximum(1 - (across / 0.4) * (across / 0.4), 0.0)  # round ends look bowed from above
    down = v * rows + stagger + bow
    row = grid_cell(down, rows)
    along = down - tl.floor(down)  # 0 at the lower end
    half = 0.46 - 0.04 * along
    offset = across / half
    cap = tl.abs(offset) < 1
    bulge = tl.sqrt(tl.maximum(1 - offset * offset, 0.0))
    gutter = (tl.abs(across) - half) / (0.5 - half)  # 0 at the barrel's foot, 1 in the gutter's middle
    slope_u = tl.where(cap, -offset / (bulge + 0.45), 0.8 * sign(across) * (1 - gutter))
    under = step_between(0.88, 0.98, along)
    shade = tl.where(cap, (1 - 0.75 * under) * (0.55 + 0.45 * bulge), 0.28)
    # the lower end is a rounded lip, so the height rises with v there
    slope_v = tl.where(cap, 0.7 * (1 - step_between(0.0, 0.08, along)) + 0.1, 0.0)
    return column, row, cap, slope_u, slope_v, shade
