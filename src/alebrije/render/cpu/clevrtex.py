"""Compiled shading of textured surfaces on a CPU: the arithmetic of `clevrtex.sample_radiance`, in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.compiled import compiled, inner
from alebrije.render.cpu.roots import take_roots

Number = Any  # a scalar
Arrays = tuple[Array, ...]
F = np.float32
at = np.uint64  # an index that is never negative: one that may be costs a loop its vector instructions
BLOCK = 256  # points handled together
LIGHTS = 4  # three lamps and the sun
LIGHT = BLOCK * 7  # rows of a light at points: the way to it, the half vector and its strength
TO_X, TO_Y, TO_Z, HALF_X, HALF_Y, HALF_Z, STRENGTH = (np.int64(BLOCK * row) for row in range(7))
NV, SMOOTH, CAMERA, NL, NH, WIDE, LAMP, RIM = (np.int64(LIGHTS * LIGHT + BLOCK * row) for row in range(8))
# Vectors of three rows each: of points, then of samples.
POINT, NORMAL, VIEW, PLACE, AHEAD, BUMPED, SHINE, BODY, SHEEN = (
    np.int64(LIGHTS * LIGHT + BLOCK * row) for row in range(8, 35, 3)
)
LIT, ALPHA = LIGHTS * LIGHT + BLOCK * 35, LIGHTS * LIGHT + BLOCK * 36
SCRATCH = LIGHTS * LIGHT + BLOCK * 37
ZERO, ONE = F(0.0), F(1.0)


@inner
def clamped(value: Number, least: Number, most: Number) -> Number:
    """A number clamped to a range."""
    value = least if value < least else value
    return most if value > most else value


@inner
def copy(values: Array, start: Number, n: Number, s: Array, row: Number) -> None:
    """Copy n numbers to a row of the scratch array, where loops need not fear that two arrays overlap."""
    for i in range(n):
        s[at(row + i)] = values[at(start + i)]


@inner
def copy_vectors(vectors: Array, start: Number, n: Number, s: Array, row: Number) -> None:
    """Copy n vectors to three rows of the scratch array."""
    for c in range(3):
        copy(vectors[c], start, n, s, row + BLOCK * c)


@inner
def copy_lamps(table: Array, scene: Array, start: Number, n: Number, s: Array, row: Number) -> None:
    """Copy the vectors of a lamp in the scenes of n points to three rows of the scratch array."""
    for c in range(3):
        for i in range(n):
            s[at(row + BLOCK * c + i)] = table[c, scene[at(start + i)]]


@inner
def find_lights(
    lamps: Arrays,
    scene: Array,
    point: Array,
    normal: Array,
    view: Array,
    lit: Array,
    start: Number,
    n: Number,
    s: Array,
    root: Number,
) -> None:
    """The way to each light, its strength at points with a normal, and the vector halfway to the camera."""
    places, forwards, _, strengths, sunward = lamps
    copy_vectors(point, start, n, s, POINT)
    copy_vectors(normal, start, n, s, NORMAL)
    copy_vectors(view, start, n, s, VIEW)
    for k in range(LIGHTS):
        row, watts = k * LIGHT, strengths[k]
        copy(lit[k], start, n, s, LIT)
        if k < LIGHTS - 1:
            copy_lamps(places[k], scene, start, n, s, PLACE)
            copy_lamps(forwards[k], scene, start, n, s, AHEAD)
            for i in range(n):
                x, y = s[at(PLACE + i)] - s[at(POINT + i)], s[at(PLACE + BLOCK + i)] - s[at(POINT + BLOCK + i)]
                z = s[at(PLACE + 2 * BLOCK + i)] - s[at(POINT + 2 * BLOCK + i)]
                square = x * x + y * y + z * z
                scale = ONE / np.sqrt(square)
                x, y, z = x * scale, y * scale, z * scale
                ahead = x * s[at(AHEAD + i)] + y * s[at(AHEAD + BLOCK + i)] + z * s[at(AHEAD + 2 * BLOCK + i)]
                s[at(row + TO_X + i)], s[at(row + TO_Y + i)], s[at(row + TO_Z + i)] = x, y, z
                s[at(row + STRENGTH + i)] = -(ZERO if ahead > ZERO else ahead) / square * watts * s[at(LIT + i)]
        else:
            x, y, z = sunward[0], sunward[1], sunward[2]
            for i in range(n):
                s[at(row + TO_X + i)], s[at(row + TO_Y + i)], s[at(row + TO_Z + i)] = x, y, z
                s[at(row + STRENGTH + i)] = watts * s[at(LIT + i)]
        for i in range(n):
            x, y, z = s[at(row + TO_X + i)], s[at(row + TO_Y + i)], s[at(row + TO_Z + i)]
            facing = x * s[at(NORMAL + i)] + y * s[at(NORMAL + BLOCK + i)] + z * s[at(NORMAL + 2 * BLOCK + i)]
            s[at(row + STRENGTH + i)] *= clamped(F(8.0) * facing, ZERO, ONE)
            x, y, z = x + s[at(VIEW + i)], y + s[at(VIEW + BLOCK + i)], z + s[at(VIEW + 2 * BLOCK + i)]
            s[at(row + HALF_X + i)], s[at(row + HALF_Y + i)], s[at(row + HALF_Z + i)] = x, y, z
            s[at(NV + i)] = x * x + y * y + z * z
        take_roots(s, NV, n, root)
        for i in range(n):
            size = max(s[at(NV + i)], F(1e-12))
            s[at(row + HALF_X + i)] = s[at(row + HALF_X + i)] / size
            s[at(row + HALF_Y + i)] = s[at(row + HALF_Y + i)] / size
            s[at(row + HALF_Z + i)] = s[at(row + HALF_Z + i)] / size


@inner
def shade_samples(
    colours: Array,
    grazing: Array,
    specular: Array,
    alpha: Array,
    bumped: Array,
    begin: Number,
    start: Number,
    n: Number,
    s: Array,
    root: Number,
) -> None:
    """Light that n samples from `begin` on scatter, BODY, and reflect, SHEEN."""
    copy_vectors(bumped, begin, n, s, BUMPED)
    copy_vectors(specular, begin, n, s, SHINE)
    copy(alpha, begin, n, s, ALPHA)
    for i in range(n):
        x, y, z, a = s[at(BUMPED + i)], s[at(BUMPED + BLOCK + i)], s[at(BUMPED + 2 * BLOCK + i)], s[at(ALPHA + i)]
        nv = x * s[at(VIEW + i)] + y * s[at(VIEW + BLOCK + i)] + z * s[at(VIEW + 2 * BLOCK + i)]
        nv, square = clamped(nv, F(0.05), ONE), a * a
        s[at(NV + i)], s[at(SMOOTH + i)], s[at(CAMERA + i)] = nv, a, square + (ONE - square) * nv * nv
    for k in range(6):
        for i in range(n):
            s[at(BODY + BLOCK * k + i)] = ZERO
    take_roots(s, SMOOTH, n, root)
    take_roots(s, CAMERA, n, root)
    for k in range(LIGHTS):
        row = k * LIGHT
        copy(grazing[k], start, n, s, RIM)
        for i in range(n):
            x, y, z, a = s[at(BUMPED + i)], s[at(BUMPED + BLOCK + i)], s[at(BUMPED + 2 * BLOCK + i)], s[at(ALPHA + i)]
            nl = x * s[at(row + TO_X + i)] + y * s[at(row + TO_Y + i)] + z * s[at(row + TO_Z + i)]
            nl = ZERO if nl < ZERO else nl
            nh = clamped(
                x * s[at(row + HALF_X + i)] + y * s[at(row + HALF_Y + i)] + z * s[at(row + HALF_Z + i)], F(1e-3), ONE
            )
            square = a * a
            s[at(NL + i)], s[at(NH + i)], s[at(WIDE + i)] = nl, nh, max(ONE - nh * nh, ZERO)
            s[at(LAMP + i)] = square + (ONE - square) * nl * nl
        take_roots(s, WIDE, n, root)
        take_roots(s, LAMP, n, root)
        for i in range(n):
            a, nl, strength = s[at(ALPHA + i)], s[at(NL + i)], s[at(row + STRENGTH + i)]
            across, along = s[at(WIDE + i)] / a, s[at(NH + i)]
            spread = across * across + along * along
            density = ONE / (F(np.pi) * a * a * (spread * spread))
            s[at(LAMP + i)] = (
                density * (nl / (nl + s[at(LAMP + i)])) * (ONE / (s[at(NV + i)] + s[at(CAMERA + i)])) * strength
            )
            s[at(RIM + i)], s[at(NL + i)] = s[at(RIM + i)] * (ONE - s[at(SMOOTH + i)]), nl * strength
        for c in range(3):
            colour, shine, body, sheen = colours[k, c], SHINE + BLOCK * c, BODY + BLOCK * c, SHEEN + BLOCK * c
            for i in range(n):
                s[at(body + i)] += colour * s[at(NL + i)]
                s[at(sheen + i)] += (s[at(shine + i)] + (ONE - s[at(shine + i)]) * s[at(RIM + i)]) * (
                    colour * s[at(LAMP + i)]
                )


@compiled
def gloss(
    lamps: Arrays,
    scene: Array,
    point: Array,
    normal: Array,
    view: Array,
    lit: Array,
    received: Array,
    shiny: Array,
    surface: Arrays,
    root: Number,
    grazing: Array,
    radiance: Array,
) -> None:
    """Radiance of R samples at each of M points, [3, R * M], or first the GRAZING shares [4, M] if there is none.

    These are to be raised to the fifth power in between.
    """
    albedo, specular, alpha, bumped, opacity = surface
    s = np.empty(SCRATCH, np.float32)
    points = len(scene)
    for start in range(0, points, BLOCK):
        n = min(BLOCK, points - start)
        find_lights(lamps, scene, point, normal, view, lit, start, n, s, root)
        if radiance.shape[1] == 0:
            for k in range(LIGHTS):
                row = k * LIGHT
                for i in range(n):
                    x, y, z = view[0, at(start + i)], view[1, at(start + i)], view[2, at(start + i)]
                    facing = s[at(row + HALF_X + i)] * x + s[at(row + HALF_Y + i)] * y + s[at(row + HALF_Z + i)] * z
                    grazing[k, at(start + i)] = ONE - clamped(facing, ZERO, ONE)
            continue
        for begin in range(start, radiance.shape[1], points):
            shade_samples(lamps[2], grazing, specular, alpha, bumped, begin, start, n, s, root)
            for c in range(3):
                for i in range(n):
                    diffuse = (s[at(BODY + BLOCK * c + i)] + received[c, at(start + i)]) * (
                        albedo[c, at(begin + i)] / F(np.pi)
                    )
                    total = (
                        diffuse + s[at(SHEEN + BLOCK * c + i)] + specular[c, at(begin + i)] * shiny[c, at(start + i)]
                    )
                    radiance[c, at(begin + i)] = total * opacity[at(begin + i)]
