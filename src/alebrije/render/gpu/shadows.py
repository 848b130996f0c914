"""Shadows: the share of a light that is visible past the objects."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.shapes import (
    box_hull,
    direction_to_object,
    faces_of,
    intersect,
    point_to_object,
    polyhedron_hull,
    sphere_hull,
    tube_hull,
)
from alebrije.render.gpu.tables import (
    BLOCK,
    CENTRE,
    CONVEX,
    CUBE,
    CYLINDER,
    ICOSAHEDRON,
    KIND,
    LIGHT,
    LIGHTS,
    NUMBERS,
    OBJECT,
    OPACITY,
    REACH,
    SAMPLES,
    SPHERE,
    SPREAD,
)
from alebrije.render.gpu.vectors import any_of, dot, load, scale, subtract, zeros

SHADOW_CLOSE: tl.constexpr = tl.constexpr(1e-2)  # a shadow ray this close to a surface, in half-sizes, is blocked
SUN_DISTANCE: tl.constexpr = tl.constexpr(60.0)  # length of a shadow ray to the sun
SUN: tl.constexpr = tl.constexpr(3)  # the last light
HULLS: tl.constexpr = tl.constexpr(
    0b10100111
)  # kinds with a convex body for shadows: cube, cylinder, sphere, icosahedron, block


@triton.jit
def visible_share(
    scene, things, count, assets, light, point, own, active, KINDS: tl.constexpr, SOFT: tl.constexpr
):  # fmt: skip
    """The share of a light that is visible from points: of four of its points if shadows are soft, else of its centre.

    `own` is the object that each point lies on; a convex one never shades its lit side. Where several objects shade a
    point, their transmittances are multiplied.
    """
    lit = zeros(point[2]) + 1.0
    for item in range(count):
        thing = things + item * OBJECT
        shaded = active & may_shade(scene, thing, light, point, own != item, SOFT)
        if any_of(shaded):
            passed = transmittance(scene, thing, assets, light, point, shaded, KINDS, SOFT)
            lit = tl.where(shaded, lit * passed, lit)
    return lit


@triton.jit
def may_shade(scene, thing, light, point, is_other, SOFT: tl.constexpr):
    """Whether the object's bounding sphere may shade points from a light."""
    source = scene + LIGHTS + light * LIGHT
    reach, centre, position = tl.load(thing + REACH), load(thing + CENTRE), load(source)
    if light < SUN:
        offset = subtract(centre, position)
        radius = reach
        if SOFT:
            radius += tl.load(source + SPREAD)
        square = dot(offset, offset)
        path = subtract(point, position)
        along = dot(offset, path)
        nearest = tl.maximum(square - radius * tl.sqrt(square), 0.0)
        # in the shadow cone behind the object, not between object and lamp
        near = (along * along > (square - radius * radius) * dot(path, path)) & (along > nearest)
    else:
        toward = subtract(centre, point)
        ahead = dot(toward, position)
        near = (dot(toward, toward) - ahead * ahead < reach * reach) & (ahead > -reach)
    return near & (reach > 0) & (is_other | (tl.load(thing + CONVEX) == 0))


@triton.jit
def transmittance(scene, thing, assets, light, point, shaded, KINDS: tl.constexpr, SOFT: tl.constexpr):
    """The share of the light that passes an object."""
    source = scene + LIGHTS + light * LIGHT
    origin = point_to_object(thing, point)
    samples = 1
    if SOFT:
        samples = tl.where(light < SUN, 4, 1)  # the sun is a point
    blocked = zeros(point[2])
    for sample in range(samples):
        if light < SUN:
            target = source
            if SOFT:
                target = source + SAMPLES + 3 * sample
            path = subtract(load(target), point)
        else:
            x, y, z = scale(load(source), SUN_DISTANCE)
            path = x + zeros(point[2]), y + zeros(point[2]), z + zeros(point[2])
        way = direction_to_object(thing, path)
        blocked += tl.where(is_blocked(thing, assets, origin, way, shaded, KINDS), 1.0, 0.0)
    return 1.0 - blocked / samples * tl.load(thing + OPACITY)


@triton.jit
def is_blocked(thing, assets, origin, way, active, KINDS: tl.constexpr):
    """Whether an object blocks rays that end after the length of their direction.

    Some shapes have a convex body with nearly the same shadow, for speed.
    """
    kind, numbers = tl.load(thing + KIND), thing + NUMBERS
    entry, leave = zeros(way[2]) + float("inf"), zeros(way[2]) + float("inf")
    if (KINDS >> CUBE) % 2 == 1:
        if kind == CUBE:
            half, bottom, top = load(numbers + 3)
            entry, leave = box_hull(origin, way, (-half, -half, bottom), (half, half, top))
    if (KINDS >> CYLINDER) % 2 == 1:
        if kind == CYLINDER:
            width, low, high = load(numbers + 5)
            entry, leave = tube_hull(origin, way, width, low, high)
    if (KINDS >> SPHERE) % 2 == 1:
        if kind == SPHERE:
            entry, leave = sphere_hull(origin, way, 1.0)
    if (KINDS >> ICOSAHEDRON) % 2 == 1:
        if kind == ICOSAHEDRON:
            faces = faces_of(numbers, assets)
            entry, leave = polyhedron_hull(origin, way, tl.load(numbers), tl.load(numbers + 1), faces)
    if (KINDS >> BLOCK) % 2 == 1:
        if kind == BLOCK:
            wide, deep, high = load(numbers)
            entry, leave = box_hull(origin, way, (-wide, -deep, -high), (wide, deep, high))
    if (KINDS & HULLS) != KINDS:
        if (kind != CUBE) & (kind != CYLINDER) & (kind != SPHERE) & (kind != ICOSAHEDRON) & (kind != BLOCK):
            entry = intersect(thing, assets, origin, way, active, SHADOW_CLOSE, 1.0, KINDS, False)
    return (entry < 1.0) & (leave > 0.0)
