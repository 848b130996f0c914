"""Compiled light on the ground on a CPU: the arithmetic of `bounce` and `clevr.plain_ground_radiance`, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.compiled import compiled, inner

Number = Any  # a scalar
Arrays = tuple[Array, ...]
F = np.float32
at = np.uint64  # an index that is never negative: one that may be costs a loop its vector instructions
BLOCK = 1024  # points handled together
X, Y, Z, RED, GREEN, BLUE, HIDDEN, LIT = (np.int64(BLOCK * row) for row in range(8))
SCRATCH = BLOCK * 8
ZERO, ONE = F(0.0), F(1.0)


@inner
def load(values: Array, start: Number, n: Number, s: Array, row: Number) -> None:
    """Copy n numbers to a row of the scratch array."""
    for i in range(n):
        s[at(row + i)] = values[at(start + i)]


@inner
def store(s: Array, row: Number, n: Number, values: Array, start: Number) -> None:
    """Copy n numbers from a row of the scratch array."""
    for i in range(n):
        values[at(start + i)] = s[at(row + i)]


@compiled
def add_objects(
    objects: Number,
    centre: Array,
    spread: Array,
    colour: Array,
    sides: Array,
    point: Array,
    received: Array,
    hidden: Array,
) -> None:
    """Light from the objects on points [3, B, P] and the share of the backdrop that they hide, `light_from_objects`."""
    s = np.empty(SCRATCH, np.float32)
    count = point.shape[2]
    for scene in range(point.shape[1]):
        for start in range(0, count, BLOCK):
            n = min(BLOCK, count - start)
            for c in range(3):
                load(point[c, scene], start, n, s, X + BLOCK * c)
            for i in range(n):
                s[at(RED + i)], s[at(GREEN + i)], s[at(BLUE + i)], s[at(HIDDEN + i)] = ZERO, ZERO, ZERO, ZERO
            for item in range(scene * objects, (scene + 1) * objects):
                add_object(centre[:, item], spread[item], colour[:, item], sides[:, :, item], s, n)
            for i in range(n):
                s[at(HIDDEN + i)] = min(s[at(HIDDEN + i)], ONE)
            for c in range(3):
                store(s, RED + BLOCK * c, n, received[c, scene], start)
            store(s, HIDDEN, n, hidden[scene], start)


@inner
def add_object(centre: Array, spread: Number, colour: Array, sides: Array, s: Array, n: Number) -> None:
    """Add the light of one object and the share of the backdrop it hides."""
    x, y, z = centre[0], centre[1], centre[2]
    red, green, blue = colour[0], colour[1], colour[2]
    constant_r, constant_g, constant_b = sides[0, 0], sides[0, 1], sides[0, 2]
    cosine_r, cosine_g, cosine_b = sides[1, 0], sides[1, 1], sides[1, 2]
    sine_r, sine_g, sine_b = sides[2, 0], sides[2, 1], sides[2, 2]
    for i in range(n):
        a, b, c = x - s[at(X + i)], y - s[at(Y + i)], z - s[at(Z + i)]
        square = a * a + b * b + c * c
        form = spread / square
        share = z * (ONE / np.sqrt(square)) * (ONE if form > ONE else form)
        level = a * a + b * b
        flat = ONE / np.sqrt(F(1e-6) if level < F(1e-6) else level)
        a, b, bright = a * flat, b * flat, share * F(0.9)
        facing = constant_r - cosine_r * a - sine_r * b
        s[at(RED + i)] += (ZERO if facing < ZERO else facing) * (red * bright)
        facing = constant_g - cosine_g * a - sine_g * b
        s[at(GREEN + i)] += (ZERO if facing < ZERO else facing) * (green * bright)
        facing = constant_b - cosine_b * a - sine_b * b
        s[at(BLUE + i)] += (ZERO if facing < ZERO else facing) * (blue * bright)
        s[at(HIDDEN + i)] += share


@compiled
def light_ground(
    lamps: Arrays,
    albedo: Array,
    point: Array,
    lit: Array,
    received: Array,
    hidden: Array,
    backdrop: Array,
    radiance: Array,
) -> None:
    """Radiance of a matt ground [3, B, P] under the lamps, the backdrop and the objects, `plain_ground_radiance`."""
    places, forwards, colours, strengths, sunward = lamps
    s = np.empty(SCRATCH, np.float32)
    count = point.shape[2]
    for scene in range(point.shape[1]):
        for start in range(0, count, BLOCK):
            n = min(BLOCK, count - start)
            for c in range(3):
                load(point[c, scene], start, n, s, X + BLOCK * c)
            for i in range(n):
                s[at(RED + i)], s[at(GREEN + i)], s[at(BLUE + i)] = ZERO, ZERO, ZERO
            for k in range(4):
                load(lit[k, scene], start, n, s, LIT)
                if k < 3:
                    add_lamp(places[k, :, scene], forwards[k, :, scene], colours[k], strengths[k], s, n)
                else:
                    add_sun(strengths[k], max(sunward[2], ZERO), s, n)
            load(hidden[scene], start, n, s, HIDDEN)
            load(backdrop[scene], start, n, s, LIT)
            for i in range(n):
                s[at(LIT + i)] *= ONE - s[at(HIDDEN + i)]
            for c in range(3):
                share = albedo[c, scene]
                load(received[c, scene], start, n, s, HIDDEN)
                for i in range(n):
                    light = s[at(RED + BLOCK * c + i)] + s[at(HIDDEN + i)] + s[at(LIT + i)]
                    s[at(RED + BLOCK * c + i)] = light * share
                store(s, RED + BLOCK * c, n, radiance[c, scene], start)


@inner
def add_lamp(place: Array, forward: Array, colour: Array, watts: Number, s: Array, n: Number) -> None:
    """Add the irradiance of a lamp on level ground."""
    x, y, z = place[0], place[1], place[2]
    u, v, w = forward[0], forward[1], forward[2]
    red, green, blue = colour[0], colour[1], colour[2]
    for i in range(n):
        a, b, c = x - s[at(X + i)], y - s[at(Y + i)], z - s[at(Z + i)]
        square = a * a + b * b + c * c
        scale = ONE / np.sqrt(square)
        a, b, c = a * scale, b * scale, c * scale
        ahead = a * u + b * v + c * w
        strength = -(ZERO if ahead > ZERO else ahead) / square * watts * s[at(LIT + i)]
        strength = strength * (ZERO if c < ZERO else c)
        s[at(RED + i)] += red * strength
        s[at(GREEN + i)] += green * strength
        s[at(BLUE + i)] += blue * strength


@inner
def add_sun(strength: Number, cosine: Number, s: Array, n: Number) -> None:
    """Add the irradiance of the sun on level ground."""
    for i in range(n):
        light = strength * s[at(LIT + i)] * cosine
        s[at(RED + i)] += light
        s[at(GREEN + i)] += light
        s[at(BLUE + i)] += light
