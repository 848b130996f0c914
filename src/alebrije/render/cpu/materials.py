"""Compiled materials on a CPU: the arithmetic of `noise`, `patterns` and `materials`, in the same order.

Samples are handled in blocks of one material, and each quantity of a block is a row of a scratch array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.compiled import compiled, inner
from alebrije.render.cpu.roots import floor, fma, take_roots

Number = Any  # a scalar
Colour = tuple[Number, Number, Number]
F = np.float32
at = np.uint64  # an index that is never negative: one that may be costs a loop its vector instructions
BLOCK = 1024  # samples handled together
U, V, OTHER_U, OTHER_V = (np.int64(BLOCK * row) for row in range(4))
RED, GREEN, BLUE, GLOSS_RED, GLOSS_GREEN, GLOSS_BLUE = (np.int64(BLOCK * row) for row in range(4, 10))
ROUGH, SLOPE_U, SLOPE_V, OPAQUE = (np.int64(BLOCK * row) for row in range(10, 14))
# Noises and their slopes; then eight rows of numbers under roots, and a noise that is being computed.
A, A_U, A_V, B, B_U, B_V, C, C_U, C_V, D, D_U, D_V = (np.int64(BLOCK * row) for row in range(14, 26))
ROOT = np.int64(BLOCK * 26)
NOISE_U, NOISE_V, NOISE, ALONG, ACROSS = (np.int64(BLOCK * row) for row in range(34, 39))
SCRATCH = BLOCK * 39
ZERO, ONE = F(0.0), F(1.0)
# Columns, rows, seed and octaves of the noises, and their names: N and the seed.
NOISES = np.array(
    [
        (80, 80, 101, 3),
        (30, 60, 103, 2),
        (90, 120, 201, 2),
        (24, 24, 202, 1),
        (240, 240, 301, 1),
        (360, 300, 401, 2),
        (40, 480, 402, 1),
        (10, 10, 404, 1),
        (420, 60, 403, 1),
        (310, 310, 501, 2),
        (12, 12, 502, 1),
        (64, 64, 601, 3),
        (7, 7, 602, 2),
        (130, 130, 603, 1),
        (60, 60, 703, 2),
        (9, 32, 802, 1),
        (5, 100, 803, 3),
        (24, 512, 804, 1),
    ]
)
N101, N103, N201, N202, N301, N401, N402, N404, N403, N501, N502, N601, N602, N603, N703, N802, N803, N804 = (
    np.int64(row) for row in range(len(NOISES))
)
MOST = 4096.0  # texture coordinates beyond this are left to torch: their cells cannot be counted in float32


@inner
def within(value: Number) -> Number:
    """A number clamped to 0..1."""
    value = ZERO if value < ZERO else value
    return ONE if value > ONE else value


@inner
def cell_random(column: Number, row: Number, seed: Number) -> Number:
    """A number in [0, 1) for a cell of a grid."""
    number = np.uint32(np.uint32(np.int32(column)) * np.uint32(0x3C6EF373))
    number = np.uint32(number + np.uint32(np.uint32(np.int32(row)) * np.uint32(0x1B56C4E9)))
    number = np.uint32(number + np.uint32(np.uint32(seed) * np.uint32(0x2545F491)))
    number = np.uint32((number ^ np.uint32(number >> np.uint32(16))) * np.uint32(0x7FEB352D))
    number = np.uint32((number ^ np.uint32(number >> np.uint32(15))) * np.uint32(0x846CA68B))
    number = np.uint32(number ^ np.uint32(number >> np.uint32(16)))
    return F(np.int32(number & np.uint32(0xFFFFFF))) / F(0x1000000)


@inner
def wrapped(cell: Number, period: Number) -> Number:
    """A whole number modulo a period."""
    return cell - floor(cell / period) * period


@inner
def step_between(low: Number, width: Number, value: Number) -> Number:
    """A smooth step from 0 at or below `low` to 1 at `low` plus `width`."""
    position = within((value - low) / width)
    return position * position * (F(3.0) - F(2.0) * position)


@inner
def blend(low: Number, high: Number, share: Number) -> Number:
    """Interpolate between two numbers, as `torch.lerp`."""
    near = abs(share) < F(0.5)
    return fma(share if near else share - ONE, high - low, low if near else high)


@inner
def load(values: Array, start: Number, n: Number, s: Array, row: Number) -> None:
    """Copy n numbers to a row of the scratch array."""
    for i in range(n):
        s[at(row + i)] = values[at(start + i)]


@inner
def layer(s: Array, n: Number, u: Number, v: Number, noise: Number, out: Number) -> None:
    """A noise of n samples and its slopes along u and v, in three rows from `out`, `noise.layered_noise`."""
    n = min(n, BLOCK)  # lets the compiler see that no index is negative, which would count from the end
    columns, rows, seed, octaves = NOISES[noise, 0], NOISES[noise, 1], NOISES[noise, 2], NOISES[noise, 3]
    load(s, u, n, s, NOISE_U)
    load(s, v, n, s, NOISE_V)
    for i in range(n):
        s[at(NOISE + i)], s[at(ALONG + i)], s[at(ACROSS + i)] = ZERO, ZERO, ZERO
    for octave in range(octaves):
        wide, high, start = F(columns << octave), F(rows << octave), seed * 64 + octave
        weight = F(2.0 ** (1 - octave) / (2.0 - 2.0 ** (1 - octaves)))
        frequency = F(1 << octave)
        for i in range(n):
            along, across = s[at(NOISE_U + i)] * wide, s[at(NOISE_V + i)] * high
            left, low = floor(along), floor(across)
            x, y = along - left, across - low
            left, low = wrapped(left, wide), wrapped(low, high)
            right = ZERO if left + ONE == wide else left + ONE
            top = ZERO if low + ONE == high else low + ONE
            a, b = cell_random(left, low, start) * weight, cell_random(left, top, start) * weight
            rise_a, rise_b = cell_random(right, low, start) * weight - a, cell_random(right, top, start) * weight - b
            square = x * x
            fade_u = square * x * (x * (x * F(6.0) - F(15.0)) + F(10.0))
            rate_u = F(30.0) * square * (x - ONE) * (x - ONE)
            square = y * y
            fade_v = square * y * (y * (y * F(6.0) - F(15.0)) + F(10.0))
            rate_v = F(30.0) * square * (y - ONE) * (y - ONE)
            below, above = a + rise_a * fade_u, b + rise_b * fade_u
            rise = above - below
            s[at(NOISE + i)] += below + rise * fade_v
            s[at(ALONG + i)] += (rise_a + (rise_b - rise_a) * fade_v) * rate_u * frequency
            s[at(ACROSS + i)] += rise * rate_v * frequency
    for i in range(n):
        s[at(NOISE + i)] -= ONE
    load(s, NOISE, n, s, out)
    load(s, ALONG, n, s, out + BLOCK)
    load(s, ACROSS, n, s, out + 2 * BLOCK)


@inner
def paint(s: Array, i: Number, low: Colour, high: Colour, share: Number) -> None:
    """Set the albedo to a blend of two colours."""
    s[at(RED + i)] = blend(low[0], high[0], share)
    s[at(GREEN + i)] = blend(low[1], high[1], share)
    s[at(BLUE + i)] = blend(low[2], high[2], share)


@inner
def shine(s: Array, i: Number, reflectance: Number, rough: Number) -> None:
    """Set a grey reflectance and the roughness."""
    s[at(GLOSS_RED + i)], s[at(GLOSS_GREEN + i)], s[at(GLOSS_BLUE + i)], s[at(ROUGH + i)] = (
        reflectance,
        reflectance,
        reflectance,
        rough,
    )


@inner
def slant(s: Array, i: Number, along: Number, across: Number) -> None:
    """Set the slopes along u and v."""
    s[at(SLOPE_U + i)], s[at(SLOPE_V + i)] = along, across


@inner
def brick(to_start: Number, to_end: Number, height: Number) -> tuple[Number, Number, Number]:
    """How far inside its brick a point lies, and the direction towards the nearest border."""
    up = height - floor(height)
    sideways, upright = min(to_start, to_end), min(up, ONE - up)
    if sideways < upright:
        return sideways, -ONE if to_start < to_end else ONE, ZERO
    return upright, ZERO, -ONE if up < F(0.5) else ONE


RED_LOW, RED_HIGH = (F(0.385), F(0.145), F(0.105)), (F(0.56), F(0.28), F(0.225))
MORTAR_LOW, MORTAR_HIGH = (F(0.09), F(0.082), F(0.082)), (F(0.19), F(0.165), F(0.16))
WHITE_LOW, WHITE_HIGH = (F(0.315), F(0.335), F(0.37)), (F(0.482), F(0.502), F(0.532))


@inner
def red_bricks(s: Array, n: Number) -> None:
    """`materials._red_bricks`."""
    layer(s, n, U, V, N101, A)
    layer(s, n, U, V, N103, B)
    for i in range(n):
        grain = s[at(A + i)]
        u, height = s[at(U + i)] + F(0.0005) * grain, (s[at(V + i)] + F(0.0005) * grain) * F(40.0)
        row = wrapped(floor(height), F(40.0))
        along = u * F(18.0) + F(0.5) * wrapped(row, F(2.0))
        position = along - floor(along)
        header = position >= F(2 / 3)
        start, end = F(2 / 3) if header else ZERO, ONE if header else F(2 / 3)
        to_start, to_end = (position - start) * F(40 / 18), (end - position) * F(40 / 18)
        inside, down_u, down_v = brick(to_start, to_end, height)
        column = F(2.0) * wrapped(floor(along), F(18.0)) + (ONE if header else ZERO)
        tone = cell_random(column, row, 102)
        solid = step_between(F(0.025), F(0.085 - 0.025), inside)
        light = within(F(0.45) + F(0.3) * (tone - F(0.5)) + F(0.55) * s[at(B + i)] + F(0.3) * grain)
        for k in range(3):
            clay, mortar = blend(RED_LOW[k], RED_HIGH[k], light), blend(MORTAR_LOW[k], MORTAR_HIGH[k], F(0.5) + grain)
            s[at(RED + BLOCK * k + i)] = mortar + (clay - mortar) * solid
        rim = F(0.8) * (ONE - step_between(F(0.03), F(0.16 - 0.03), inside))
        slant(s, i, -down_u * rim + F(0.05) * s[at(A_U + i)], -down_v * rim + F(0.05) * s[at(A_V + i)])
        shine(s, i, F(0.03), F(0.75) + F(0.1) * grain)


@inner
def joint(cell: Number, row: Number) -> Number:
    """Where a brick of a white wall ends in its cell."""
    return F(0.4) * cell_random(wrapped(cell, F(15.0)), row, 203)


@inner
def white_bricks(s: Array, n: Number) -> None:
    """`materials._white_bricks`."""
    layer(s, n, U, V, N201, A)
    layer(s, n, U, V, N202, B)
    for i in range(n):
        rough = s[at(A + i)]
        u = s[at(U + i)] + rough * F(0.0012)
        height = (s[at(V + i)] + (rough + F(2.0) * s[at(B + i)]) * F(0.0012)) * F(48.0)
        row = wrapped(floor(height), F(48.0))
        along = u * F(15.0) + F(0.5) * wrapped(row, F(2.0))
        cell = floor(along)
        # left of the joint in its cell, a point belongs to the previous brick
        cell = cell - (ONE if along - cell < joint(cell, row) else ZERO)
        start, end = cell + joint(cell, row), cell + ONE + joint(cell + ONE, row)
        inside, down_u, down_v = brick((along - start) * F(48 / 15), (end - along) * F(48 / 15), height)
        tone = cell_random(wrapped(cell, F(15.0)), row, 204)
        solid = step_between(ZERO, F(0.13), inside)
        share = within(F(0.10) + F(0.35) * tone + F(0.55) * solid + F(0.2) * rough)
        paint(s, i, WHITE_LOW, WHITE_HIGH, share)
        rim = (ONE - step_between(ZERO, F(0.25), inside)) * (F(0.35) + F(0.65) * tone)
        slant(s, i, -down_u * rim + F(0.11) * s[at(A_U + i)], -down_v * rim + F(0.11) * s[at(A_V + i)])
        shine(s, i, F(0.04), F(0.55) + F(0.1) * rough)


COPPER_LOW, COPPER_HIGH = (F(0.06), F(0.037), F(0.031)), (F(0.13), F(0.078), F(0.066))
BRIGHT_LOW, BRIGHT_HIGH = (F(0.56), F(0.37), F(0.31)), (F(0.32), F(0.19), F(0.155))
RADIUS, WIRE = F(0.0221), F(0.0025)


@inner
def ring_centre(u: Number, v: Number, k: Number) -> tuple[Number, Number]:
    """The centre of one of four rings that may cover a point, in cells."""
    shift = F(0.5) if k > 1 else ZERO
    column, row = floor(u * F(17.0) + shift) + F(0.5) - shift, floor(v * F(24.0) + shift) + F(0.5) - shift
    if k % 2 == 1:
        row = row + (-ONE if v * F(24.0) < row else ONE)
    return column, row


@inner
def copper_chainmail(s: Array, n: Number, root: Number) -> None:
    """`materials._copper_chainmail` and `patterns.linked_rings`."""
    layer(s, n, U, V, N301, A)
    for k in range(4):
        for i in range(n):
            column, row = ring_centre(s[at(U + i)], s[at(V + i)], k)
            du, dv = s[at(U + i)] - column / F(17.0), s[at(V + i)] - row / F(24.0)
            s[at(ROOT + BLOCK * k + i)] = du * du + dv * dv
        take_roots(s, ROOT + BLOCK * k, n, root)
        for i in range(n):
            distance = max(s[at(ROOT + BLOCK * k + i)], F(1e-6))
            offset = (distance - RADIUS) / WIRE
            s[at(ROOT + BLOCK * k + i)] = distance
            s[at(ROOT + BLOCK * (k + 4) + i)] = max(ONE - offset * offset, ZERO)
        take_roots(s, ROOT + BLOCK * (k + 4), n, root)
    for i in range(n):
        best, level, solid = 0, F(-10.0), ZERO
        for k in range(4):
            column, row = ring_centre(s[at(U + i)], s[at(V + i)], k)
            du, dv = s[at(U + i)] - column / F(17.0), s[at(V + i)] - row / F(24.0)
            on_wire = abs((s[at(ROOT + BLOCK * k + i)] - RADIUS) / WIRE) < ONE
            tilt = (du + F(0.4) * dv) / RADIUS
            height = F(1.2) * tilt + F(0.5) * s[at(ROOT + BLOCK * (k + 4) + i)] if on_wire else F(-9.0)
            solid = ONE if on_wire else solid
            if height > level:
                best, level = k, height
        column, row = ring_centre(s[at(U + i)], s[at(V + i)], best)
        distance, rounded = s[at(ROOT + BLOCK * best + i)], s[at(ROOT + BLOCK * (best + 4) + i)]
        steep = -((distance - RADIUS) / WIRE) / (rounded + F(0.25))
        du, dv = s[at(U + i)] - column / F(17.0), s[at(V + i)] - row / F(24.0)
        slant(s, i, du / distance * steep, dv / distance * steep)
        identity = cell_random(wrapped(F(2.0) * column, F(34.0)), wrapped(F(2.0) * row, F(48.0)), 17)
        dull = within(F(0.5) + F(0.5) * s[at(A + i)] + F(0.4) * (identity - F(0.5)))
        level = within(level / F(1.9) + F(0.6))
        for k in range(3):
            s[at(RED + BLOCK * k + i)] = blend(COPPER_LOW[k], COPPER_HIGH[k], dull) * (F(0.3) + F(0.7) * level)
            s[at(GLOSS_RED + BLOCK * k + i)] = blend(BRIGHT_LOW[k], BRIGHT_HIGH[k], dull) * (F(0.25) + F(0.75) * level)
        s[at(ROUGH + i)], s[at(OPAQUE + i)] = F(0.46) + F(0.12) * dull, solid


DENIM_LOW, DENIM_HIGH = (F(0.030), F(0.048), F(0.099)), (F(0.115), F(0.162), F(0.262))
FLEECE_LOW, FLEECE_HIGH = (F(0.037), F(0.110), F(0.089)), (F(0.049), F(0.136), F(0.110))


@inner
def denim(s: Array, n: Number) -> None:
    """`materials._denim`."""
    layer(s, n, U, V, N401, A)
    layer(s, n, U, V, N402, B)
    layer(s, n, U, V, N404, C)
    for i in range(n):
        s[at(OTHER_U + i)] = s[at(U + i)] + s[at(V + i)]
    layer(s, n, OTHER_U, V, N403, D)
    for i in range(n):
        yarn = s[at(A + i)]
        light = F(0.42) + F(0.36) * yarn + F(0.28) * s[at(B + i)] + F(0.16) * s[at(D + i)] + F(0.10) * s[at(C + i)]
        paint(s, i, DENIM_LOW, DENIM_HIGH, within(light + F(0.2) * step_between(F(0.35), F(0.75 - 0.35), yarn)))
        slant(s, i, F(0.12) * s[at(A_U + i)], F(0.12) * s[at(A_V + i)])
        shine(s, i, F(0.02), F(0.85) + F(0.05) * yarn)


@inner
def fleece(s: Array, n: Number) -> None:
    """`materials._fleece`."""
    layer(s, n, U, V, N501, A)
    layer(s, n, U, V, N502, B)
    for i in range(n):
        pile = s[at(A + i)]
        paint(s, i, FLEECE_LOW, FLEECE_HIGH, within(F(0.5) + F(0.4) * pile + F(0.15) * s[at(B + i)]))
        slant(s, i, F(0.055) * s[at(A_U + i)], F(0.055) * s[at(A_V + i)])
        shine(s, i, F(0.008), F(0.65) + F(0.1) * pile)


STEEL_LOW, STEEL_HIGH = (F(0.56), F(0.54), F(0.53)), (F(0.32), F(0.27), F(0.245))
FLAKE_LOW, FLAKE_HIGH = (F(0.14), F(0.055), F(0.032)), (F(0.50), F(0.26), F(0.18))
STAIN_LOW, STAIN_HIGH = (F(0.006), F(0.006), F(0.006)), (F(0.035), F(0.026), F(0.022))


@inner
def spotty_metal(s: Array, n: Number) -> None:
    """`materials._spotty_metal`."""
    layer(s, n, U, V, N601, A)
    layer(s, n, U, V, N602, B)
    layer(s, n, U, V, N603, C)
    for i in range(n):
        spots, clusters, brushed = s[at(A + i)], s[at(B + i)], s[at(C + i)]
        rust = step_between(F(0.48), F(0.62 - 0.48), spots + F(0.5) * clusters)
        stain = within(F(0.35) + F(0.9) * clusters + F(0.35) * spots)
        flakes = within(F(0.4) + brushed + F(0.5) * spots)
        for k in range(3):
            albedo = blend(FLAKE_LOW[k], FLAKE_HIGH[k], flakes) * rust
            s[at(RED + BLOCK * k + i)] = albedo + blend(STAIN_LOW[k], STAIN_HIGH[k], stain)
            steel = blend(STEEL_LOW[k], STEEL_HIGH[k], stain)
            s[at(GLOSS_RED + BLOCK * k + i)] = steel * (ONE - rust) + F(0.03) * rust
        s[at(ROUGH + i)] = F(0.26) + F(0.04) * brushed + F(0.07) * stain + F(0.35) * rust
        scale = ONE + F(16.0) * rust
        slant(s, i, F(0.003) * s[at(A_U + i)] * scale, F(0.003) * s[at(A_V + i)] * scale)


CLAY_LOW, CLAY_HIGH = (F(0.26), F(0.047), F(0.028)), (F(0.39), F(0.092), F(0.050))
YELLOW_LOW, YELLOW_HIGH = (F(0.43), F(0.155), F(0.040)), (F(0.56), F(0.230), F(0.059))
GUTTER_LOW, GUTTER_HIGH = (F(0.25), F(0.065), F(0.025)), (F(0.42), F(0.13), F(0.05))


@inner
def roof_tile(u: Number, v: Number) -> tuple[Number, Number, Number, Number, Number]:
    """Column, row, place and half-width of the roof tile at a point, and how far along it the point is."""
    column = wrapped(floor(u * F(21.0)), F(21.0))
    across = u * F(21.0) - floor(u * F(21.0)) - F(0.5)
    bow = ONE - (across / F(0.4)) * (across / F(0.4))
    down = v * F(18.0) + F(0.16) * cell_random(column, ZERO, 23) + F(0.08) * max(bow, ZERO)
    along = down - floor(down)
    return column, wrapped(floor(down), F(18.0)), across, F(0.46) - F(0.04) * along, along


@inner
def terracotta(s: Array, n: Number, root: Number) -> None:
    """`materials._terracotta` and `patterns.barrel_tiles`."""
    layer(s, n, U, V, N703, A)
    for i in range(n):
        _, _, across, half, _ = roof_tile(s[at(U + i)], s[at(V + i)])
        s[at(ROOT + i)] = max(ONE - across / half * (across / half), ZERO)
    take_roots(s, ROOT, n, root)
    for i in range(n):
        column, row, across, half, along = roof_tile(s[at(U + i)], s[at(V + i)])
        offset, rounded, stained = across / half, s[at(ROOT + i)], s[at(A + i)]
        cap = abs(offset) < ONE
        gutter = (abs(across) - half) / (F(0.5) - half)
        side = ONE if across > ZERO else (-ONE if across < ZERO else ZERO)
        steep = -offset / (rounded + F(0.45)) if cap else F(0.8) * side * (ONE - gutter)
        lip = ONE - step_between(ZERO, F(0.08), along)
        under = step_between(F(0.88), F(0.98 - 0.88), along)
        shade = (ONE - F(0.75) * under) * (F(0.55) + F(0.45) * rounded) if cap else F(0.28)
        end = F(0.7) * lip + F(0.1) if cap else ZERO
        slant(s, i, steep + F(0.03) * s[at(A_U + i)], end + F(0.03) * s[at(A_V + i)])
        yellowness, tone = cell_random(column, row, 701), cell_random(row, column, 702)
        light = within(F(0.5) + F(0.4) * stained + F(0.7) * (tone - F(0.5)))
        yellow = yellowness < (F(0.75) if wrapped(column + row, F(3.0)) == ZERO else F(0.08))
        for k in range(3):
            low = (YELLOW_LOW[k] if yellow else CLAY_LOW[k]) if cap else GUTTER_LOW[k]
            high = (YELLOW_HIGH[k] if yellow else CLAY_HIGH[k]) if cap else GUTTER_HIGH[k]
            s[at(RED + BLOCK * k + i)] = blend(low, high, light) * shade
        shine(s, i, F(0.012), F(0.55) + F(0.1) * stained)


WOOD_LOW, WOOD_HIGH = (F(0.40), F(0.135), F(0.030)), (F(0.53), F(0.29), F(0.086))


@inner
def wood(s: Array, n: Number) -> None:
    """`materials._wood`."""
    layer(s, n, U, V, N802, A)
    for i in range(n):
        plank = wrapped(floor(s[at(V + i)] * F(16.0)), F(16.0))
        s[at(OTHER_U + i)] = s[at(U + i)] + cell_random(plank, ZERO, 801)
        s[at(OTHER_V + i)] = s[at(V + i)] + F(0.006) * s[at(A + i)]
    layer(s, n, OTHER_U, OTHER_V, N803, B)
    layer(s, n, OTHER_U, OTHER_V, N804, C)
    for i in range(n):
        grain, down = s[at(B + i)], s[at(V + i)] * F(16.0)
        tone = cell_random(wrapped(floor(down), F(16.0)), ZERO, 801)
        edge = down - floor(down)
        seam = ONE - step_between(ZERO, F(0.06), min(edge, ONE - edge))
        light = F(0.5) + F(0.62) * grain + F(0.12) * s[at(C + i)] + F(0.25) * (tone - F(0.5))
        for k in range(3):
            s[at(RED + BLOCK * k + i)] = blend(WOOD_LOW[k], WOOD_HIGH[k], within(light)) * (ONE - F(0.15) * seam)
        side = ONE if edge > F(0.5) else (-ONE if edge < F(0.5) else ZERO)
        slant(s, i, F(0.01) * s[at(A + i)], F(0.03) * s[at(B_V + i)] - F(0.1) * side * seam)
        shine(s, i, F(0.045), F(0.27) + F(0.08) * grain)


@inner
def store(s: Array, row: Number, n: Number, values: Array, start: Number) -> None:
    """Copy n numbers from a row of the scratch array."""
    for i in range(n):
        values[at(start + i)] = s[at(row + i)]


@inner
def bump(s: Array, n: Number) -> None:
    """Tilt normals by the slopes along their tangents: the first six rows from ROOT."""
    for i in range(n):
        x, y, z = s[at(ROOT + i)], s[at(ROOT + BLOCK + i)], s[at(ROOT + 2 * BLOCK + i)]
        a, b, c = s[at(ROOT + 3 * BLOCK + i)], s[at(ROOT + 4 * BLOCK + i)], s[at(ROOT + 5 * BLOCK + i)]
        p, q, r = fma(y, c, -(z * b)), fma(z, a, -(x * c)), fma(x, b, -(y * a))
        slope_u, slope_v = s[at(SLOPE_U + i)], s[at(SLOPE_V + i)]
        x, y, z = x - slope_u * a - slope_v * p, y - slope_u * b - slope_v * q, z - slope_u * c - slope_v * r
        size = max(np.sqrt(x * x + y * y + z * z), F(1e-12))
        s[at(ROOT + i)], s[at(ROOT + BLOCK + i)], s[at(ROOT + 2 * BLOCK + i)] = x / size, y / size, z / size


@compiled
def texture(
    material: Array,
    uv: Array,
    normal: Array,
    along: Array,
    root: Number,
    albedo: Array,
    specular: Array,
    bumped: Array,
    alpha: Array,
    opacity: Array,
) -> None:
    """The surface at samples with coordinates [M, 2] and tangents [3, M], `clevrtex._surface_samples`.

    Sample i is at the point i modulo the number of normals [3, P].
    """
    s = np.empty(SCRATCH, np.float32)
    points, start = normal.shape[1], np.int64(0)
    while start < len(material):
        kind, end = material[start], start + 1
        stop = min(len(material), start + BLOCK, start - start % points + points)
        while end < stop and material[end] == kind:
            end += 1
        n = end - start
        for i in range(n):
            s[at(U + i)], s[at(V + i)], s[at(OPAQUE + i)] = uv[at(start + i), 0], uv[at(start + i), 1], ONE
        if kind == 0:
            red_bricks(s, n)
        elif kind == 1:
            white_bricks(s, n)
        elif kind == 2:
            copper_chainmail(s, n, root)
        elif kind == 3:
            denim(s, n)
        elif kind == 4:
            fleece(s, n)
        elif kind == 5:
            spotty_metal(s, n)
        elif kind == 6:
            terracotta(s, n, root)
        else:
            wood(s, n)
        for i in range(n):
            rough = s[at(ROUGH + i)]
            rough = F(0.05) if rough < F(0.05) else (ONE if rough > ONE else rough)
            s[at(ROUGH + i)] = rough * rough
        store(s, ROUGH, n, alpha, start)
        store(s, OPAQUE, n, opacity, start)
        for k in range(3):
            for i in range(n):
                s[at(RED + BLOCK * k + i)] = within(s[at(RED + BLOCK * k + i)])
                s[at(GLOSS_RED + BLOCK * k + i)] = within(s[at(GLOSS_RED + BLOCK * k + i)])
            store(s, RED + BLOCK * k, n, albedo[k], start)
            store(s, GLOSS_RED + BLOCK * k, n, specular[k], start)
            load(normal[k], start % points, n, s, ROOT + BLOCK * k)
            load(along[k], start, n, s, ROOT + BLOCK * (3 + k))
        bump(s, n)
        for k in range(3):
            store(s, ROOT + BLOCK * k, n, bumped[k], start)
        start = end
