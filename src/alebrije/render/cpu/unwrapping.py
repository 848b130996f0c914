"""Compiled texture coordinates on a CPU: the arithmetic of `unwrapping`, in the same order.

Coordinates of round shapes need inverse tangents, which torch computes in its own way: only their tangents are here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.compiled import compiled, inner
from alebrije.render.cpu.roots import fma, take_roots

Number = Any  # a scalar
F = np.float32
at = np.uint64  # an index that is never negative: one that may be costs a loop its vector instructions
BLOCK = 1024
X, Y, Z, NX, NY, NZ, AX, AY, AZ, LU, LV = (np.int64(BLOCK * row) for row in range(11))
SCRATCH = BLOCK * 11
ROUND, CUBE, MONKEY, ICOSAHEDRON = range(4)  # ways to unwrap
ZERO, ONE, LEAST = F(0.0), F(1.0), F(1e-12)


@inner
def load(values: Array, start: Number, n: Number, s: Array, row: Number) -> None:
    """Copy n vectors to three rows of the scratch array."""
    for c in range(3):
        vectors = values[c]
        for i in range(n):
            s[at(row + BLOCK * c + i)] = vectors[at(start + i)]


@inner
def store(s: Array, row: Number, n: Number, values: Array, start: Number) -> None:
    """Copy n vectors from three rows of the scratch array."""
    for c in range(3):
        vectors = values[c]
        for i in range(n):
            vectors[at(start + i)] = s[at(row + BLOCK * c + i)]


@inner
def straighten(s: Array, n: Number, fused: bool) -> None:
    """Make the vectors A orthogonal to the normals and of unit length; `fused` rounds as torch does for rows."""
    for i in range(n):
        a, b, c, x, y, z = s[at(AX + i)], s[at(AY + i)], s[at(AZ + i)], s[at(NX + i)], s[at(NY + i)], s[at(NZ + i)]
        share = a * x + b * y + c * z
        a, b, c = a - share * x, b - share * y, c - share * z
        square = fma(c, c, fma(b, b, a * a)) if fused else a * a + b * b + c * c
        size = max(np.sqrt(square), LEAST)
        s[at(AX + i)], s[at(AY + i)], s[at(AZ + i)] = a / size, b / size, c / size


@compiled
def map_ground(
    point: Array, normal: Array, samples: Number, axis: Array, tile: Number, uv: Array, along: Array
) -> None:
    """Coordinates and tangents of the ground at samples [3, R * M] with M normals."""
    s = np.empty(SCRATCH, np.float32)
    points = normal.shape[1]
    east, north = axis[0], axis[1]
    for first in range(0, points * samples, points):
        for start in range(0, points, BLOCK):
            n = min(BLOCK, points - start)
            load(point, first + start, n, s, X)
            load(normal, start, n, s, NX)
            for i in range(n):
                x, y, z = s[at(X + i)], s[at(Y + i)], s[at(Z + i)]
                s[at(LU + i)] = (x * east + y * north + z * ZERO - z) / tile + F(0.5)
                s[at(LV + i)] = (x * -north + y * east + z * ZERO) / tile + F(0.5)
                x, y, z = s[at(NX + i)], s[at(NY + i)], s[at(NZ + i)]
                s[at(AX + i)], s[at(AY + i)], s[at(AZ + i)] = east * z, -(-north * z), fma(-north, y, -(east * x))
            straighten(s, n, True)
            for i in range(n):
                uv[at(first + start + i), 0], uv[at(first + start + i), 1] = s[at(LU + i)], s[at(LV + i)]
            store(s, AX, n, along, first + start)


@inner
def turn(pose: Array, instance: Number, s: Array, n: Number, root: Number) -> None:
    """Turn n points and directions to unit coordinates of an instance, and the directions to unit length."""
    x0, y0, z0, size = pose[0, instance], pose[1, instance], pose[2, instance], pose[3, instance]
    cosine, sine = pose[4, instance], pose[5, instance]
    for i in range(n):
        x, y = (s[at(X + i)] - x0) / size, (s[at(Y + i)] - y0) / size
        s[at(X + i)], s[at(Y + i)], s[at(Z + i)] = (
            x * cosine + y * sine,
            y * cosine - x * sine,
            (s[at(Z + i)] - z0) / size,
        )
        x, y, z = s[at(NX + i)] / size, s[at(NY + i)] / size, s[at(NZ + i)] / size
        x, y = x * cosine + y * sine, y * cosine - x * sine
        s[at(NX + i)], s[at(NY + i)], s[at(NZ + i)] = x, y, z
        s[at(LU + i)] = x * x + y * y + z * z
    take_roots(s, LU, n, root)
    for i in range(n):
        length = max(s[at(LU + i)], LEAST)
        s[at(NX + i)], s[at(NY + i)], s[at(NZ + i)] = (
            s[at(NX + i)] / length,
            s[at(NY + i)] / length,
            s[at(NZ + i)] / length,
        )


@inner
def face_of(x: Number, y: Number, z: Number) -> tuple[Number, Number, Number]:
    """The outward axis of the box face that is closest to a normal."""
    a, b, c = abs(x), abs(y), abs(z)
    first, second = a >= b and a >= c, b > a and b >= c
    third = not first and not second
    signs = (x > ZERO) - (x < ZERO), (y > ZERO) - (y < ZERO), (z > ZERO) - (z < ZERO)
    return F(signs[0] if first else 0), F(signs[1] if second else 0), F(signs[2] if third else 0)


@inner
def start_tangents(way: Number, slant: Array, s: Array, n: Number) -> None:
    """The direction A along which u grows, not yet orthogonal to the normal, and plane coordinates U, V."""
    tiles = F(0.125) if way == CUBE else (F(0.17) if way == MONKEY else F(0.173))
    for i in range(n):
        x, y, z = s[at(NX + i)], s[at(NY + i)], s[at(NZ + i)]
        if way == ROUND:
            middle = np.sqrt(np.float64(s[at(X + i)]) ** 2 + np.float64(s[at(Y + i)]) ** 2) < F(1e-6)
            a, b, c = ONE if middle else -s[at(Y + i)], ZERO if middle else s[at(X + i)], ZERO
            p, q, r = ZERO, ZERO, ZERO
        elif way == ICOSAHEDRON:
            a = fma(slant[1], z, -(slant[2] * y))
            b = fma(slant[2], x, -(slant[0] * z))
            c = fma(slant[0], y, -(slant[1] * x))
            size = max(np.sqrt(fma(c, c, fma(b, b, a * a))), LEAST)
            a, b, c = a / size, b / size, c / size
            p, q, r = fma(y, c, -(z * b)), fma(z, a, -(x * c)), fma(x, b, -(y * a))
        else:
            x, y, z = face_of(x, y, z)
            if abs(z) > F(0.5):
                a, b, c = ONE, ZERO, ZERO
            elif way == CUBE:
                a, b, c = ZERO, ZERO, ONE
            else:
                a, b, c = -y, x, ZERO
            p, q, r = fma(y, c, -(z * b)), fma(z, a, -(x * c)), fma(x, b, -(y * a))
        s[at(AX + i)], s[at(AY + i)], s[at(AZ + i)] = a, b, c
        s[at(LU + i)] = (s[at(X + i)] * a + s[at(Y + i)] * b + s[at(Z + i)] * c) * tiles + F(0.5)
        s[at(LV + i)] = (s[at(X + i)] * p + s[at(Y + i)] * q + s[at(Z + i)] * r) * tiles + F(0.5)


@compiled
def map_objects(
    pose: Array,
    ways: Array,
    slant: Array,
    root: Number,
    instance: Array,
    point: Array,
    normal: Array,
    samples: Number,
    local: Array,
    uv: Array,
    along: Array,
) -> None:
    """Places in unit coordinates, texture coordinates and tangents at samples [3, R * M] on M instances."""
    s = np.empty(SCRATCH, np.float32)
    points, start = len(instance), np.int64(0)
    while start < points * samples:
        place = start % points
        owner, end = instance[place], place + 1
        stop: Number = min(place + BLOCK, points)
        while end < stop and instance[end] == owner:
            end += 1
        n = end - place
        load(point, start, n, s, X)
        load(normal, place, n, s, NX)
        turn(pose, owner, s, n, root)
        store(s, X, n, local, start)
        way = ways[owner]
        start_tangents(way, slant, s, n)
        for i in range(n):
            uv[at(start + i), 0], uv[at(start + i), 1] = s[at(LU + i)], s[at(LV + i)]
        straighten(s, n, True)
        cosine, sine = pose[4, owner], pose[5, owner]
        for i in range(n):
            x, y = s[at(AX + i)], s[at(AY + i)]
            s[at(AX + i)], s[at(AY + i)] = x * cosine - y * sine, x * sine + y * cosine
        store(s, AX, n, along, start)
        start += n
