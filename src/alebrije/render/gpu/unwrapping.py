"""UV unwrapping: texture coordinates of the eight shapes and the ground, and the direction in which u grows."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.brdf import PI
from alebrije.render.gpu.patterns import sign
from alebrije.render.gpu.vectors import choose, cross, dot, scale, subtract, unit, zeros

# The kinds of unwrapping, in the order of the table of objects.
WRAP_CONE: tl.constexpr = tl.constexpr(0)
WRAP_CUBE: tl.constexpr = tl.constexpr(1)
WRAP_CYLINDER: tl.constexpr = tl.constexpr(2)
WRAP_MONKEY: tl.constexpr = tl.constexpr(3)
WRAP_ICOSAHEDRON: tl.constexpr = tl.constexpr(4)
WRAP_TEAPOT: tl.constexpr = tl.constexpr(5)
WRAP_SPHERE: tl.constexpr = tl.constexpr(6)
WRAP_TORUS: tl.constexpr = tl.constexpr(7)

GROUND_X: tl.constexpr = tl.constexpr(0.9041)  # direction of u on the ground
GROUND_Y: tl.constexpr = tl.constexpr(-0.4274)
GROUND_TILE: tl.constexpr = tl.constexpr(37.4)


@triton.jit
def atan2(y, x):
    """The angle of (x, y), by Hastings' polynomial; the error is below 1e-7."""
    wide, high = tl.abs(x), tl.abs(y)
    ratio = tl.minimum(wide, high) / tl.maximum(tl.maximum(wide, high), 1e-30)
    s = ratio * ratio
    series = s * (0.0429096138 + s * (-0.0161657367 + s * 0.0028662257))
    series = s * (0.1999355085 + s * (-0.1420889944 + s * (0.1065626393 + s * (-0.0752896400 + series))))
    angle = ratio * (1.0 + s * (-0.3333314528 + series))
    angle = tl.where(high > wide, PI / 2 - angle, angle)
    angle = tl.where(x < 0, PI - angle, angle)
    return tl.where(y < 0, -angle, angle)


@triton.jit
def tangent_along(along, normal):
    """The unit tangent of a surface along a direction."""
    return unit(subtract(along, scale(normal, dot(along, normal))))


@triton.jit
def unwrap(wrap, point, normal):
    """Coordinates u and v in tiles, and the unit tangent along u, in unit coordinates of a shape."""
    x, y, z = point
    blank = zeros(x)
    if (wrap == WRAP_CUBE) | (wrap == WRAP_MONKEY):
        u, v, along = boxed(wrap, point, normal)
    elif wrap == WRAP_ICOSAHEDRON:
        # each face separately
        slant = unit((blank - 0.35, blank - 0.25, blank + 1.0))
        along = unit(cross(slant, normal))
        u, v = dot(point, along) * 0.173 + 0.5, dot(point, cross(normal, along)) * 0.173 + 0.5
    else:
        # u runs once around the z axis
        wide = tl.sqrt(x * x + y * y)
        u, v = atan2(y, x) / (2 * PI) + 0.5, 0.326 * (z + 1)
        if wrap == WRAP_SPHERE:
            v = atan2(z, wide) / PI + 0.5
        elif wrap == WRAP_CYLINDER:
            v = 0.2575 * (z + 1 + (1 - wide) * sign(z))
        elif wrap == WRAP_TEAPOT:
            v = 0.26 * (z + 1 - 0.7 * wide)
        elif wrap == WRAP_TORUS:
            v = atan2((z + 0.515) / 0.545, (wide - 0.62) / 0.43) / (4 * PI) + 0.25
        along = choose(wide < 1e-6, (blank + 1.0, blank, blank), (-y, x, blank))
    return u, v, tangent_along(along, normal)


@triton.jit
def boxed(wrap, point, normal):
    """Each face of a box separately: u runs along x on top and bottom, on the sides up a cube and around a monkey."""
    blank = zeros(point[0])
    wide, deep, high = tl.abs(normal[0]), tl.abs(normal[1]), tl.abs(normal[2])
    by_x = (wide >= deep) & (wide >= high)
    by_y = (deep >= high) & (wide < deep)
    face = (
        tl.where(by_x, sign(normal[0]), 0.0),
        tl.where(by_y, sign(normal[1]), 0.0),
        tl.where(by_x | by_y, 0.0, sign(normal[2])),
    )
    if wrap == WRAP_CUBE:
        along, tiles = (blank, blank, blank + 1.0), 0.125
    else:
        along, tiles = (-face[1], face[0], blank), 0.17  # (0, 0, 1) x face
    along = choose(tl.abs(face[2]) > 0.5, (blank + 1.0, blank, blank), along)
    return dot(point, along) * tiles + 0.5, dot(point, cross(face, along)) * tiles + 0.5, along


@triton.jit
def unwrap_ground(point, normal):
    """The floor and the backdrop that curves up from it towards smaller u, in world coordinates."""
    u = point[0] * GROUND_X + point[1] * GROUND_Y - point[2]
    v = point[1] * GROUND_X - point[0] * GROUND_Y
    blank = zeros(u)
    along = cross((blank - GROUND_Y, blank + GROUND_X, blank), normal)
    return u / GROUND_TILE + 0.5, v / GROUND_TILE + 0.5, tangent_along(along, normal)
