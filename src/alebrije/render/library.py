"""The shapes of the published worlds, by the names that the released files give them.

The numbers were measured against the released masks: half of the episodes fitted, the other half confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from alebrije.errors import InputError
from alebrije.render.fields import load_field
from alebrije.render.shapes import (
    Shape,
    box_hull,
    cone_distance,
    cube_distance,
    cylinder_distance,
    polyhedron_distance,
    polyhedron_hull,
    sphere_distance,
    sphere_hull,
    torus_distance,
    tube_hull,
)

SWELL = 0.055  # room in the hulls for the materials that push a surface outwards


def _clevr_cube() -> Shape:
    half = 0.9955
    # the shadow of a rounded cube is that of a slightly smaller one that stands clear of the ground
    shade = box_hull((-0.98, -0.98, -0.9), (0.98, 0.98, 0.97))
    return Shape("cube", cube_distance(half, 0.162), box_hull((-half,) * 3, (half,) * 3), 1.61, shade=shade)


def _sphere() -> Shape:
    return Shape("sphere", sphere_distance, sphere_hull(1.0), 1.06, hull_is_shape=True, shade=sphere_hull(1.0))


def _clevr_cylinder() -> Shape:
    hull, shade = tube_hull(1.0, -0.996, 0.996), tube_hull(0.995, -0.97, 0.99)
    return Shape("cylinder", cylinder_distance(1.0, 0.996, 0.039), hull, 1.405, shade=shade)


def _monkey() -> Shape:
    field = load_field("monkey")
    return Shape("monkey", field, box_hull(field.low, field.high), 1.5, convex=False, slope=0.03)


def _teapot() -> Shape:
    field = load_field("teapot")
    return Shape("teapot", field, box_hull(field.low, field.high), 1.6, convex=False, slope=0.03)


def _cone() -> Shape:
    top, bottom, width = 1.011, -1.005, 0.976
    distance = cone_distance(width, bottom, top, rim=0.086, tip=0.035)
    return Shape("cone", distance, tube_hull(1.0 + SWELL, bottom - SWELL, top + SWELL), 1.45)


def _cube() -> Shape:
    half = 0.9965
    hull = box_hull((-half - SWELL,) * 3, (half + SWELL,) * 3)
    return Shape(
        "cube", cube_distance(half, 0.118), hull, 1.78, shade=box_hull((-0.98, -0.98, -0.93), (0.98, 0.98, 0.97))
    )


def _cylinder() -> Shape:
    hull, shade = tube_hull(1.0 + SWELL, -1.0 - SWELL, 1.0 + SWELL), tube_hull(0.99, -0.95, 0.98)
    return Shape("cylinder", cylinder_distance(1.0, 1.0, 0.072), hull, 1.5, shade=shade)


def _icosahedron() -> Shape:
    """An icosahedron on one of its faces."""
    around, centre, turn = 1.001, -0.19, math.radians(30.5)
    inner = around * math.sqrt((5 + 2 * math.sqrt(5)) / 15)
    # seen from above, the faces lean at four heights: three steep ones and six mild ones, below and above
    lean = math.acos((3 + math.sqrt(5)) / (4 * math.sqrt(2)))
    faces = [(-1.0, 0.0), (1.0, 0.0)]
    for third in range(3):
        corner = turn + third * 2 * math.pi / 3
        side = corner + math.pi / 3
        faces += [(-math.sqrt(5) / 3, side), (math.sqrt(5) / 3, corner)]
        faces += [(-1 / 3, corner - lean), (-1 / 3, corner + lean), (1 / 3, side - lean), (1 / 3, side + lean)]
    normals = tuple(
        (math.sqrt(1 - up * up) * math.cos(azimuth), math.sqrt(1 - up * up) * math.sin(azimuth), up)
        for up, azimuth in faces
    )
    distance, hull = polyhedron_distance(normals, inner, centre), polyhedron_hull(normals, inner, centre)
    return Shape("icosahedron", distance, hull, 1.26, hull_is_shape=True, middle=centre, shade=hull)


def _torus() -> Shape:
    ring, wide, high, centre = 0.65, 0.348, 0.476, -0.516
    distance = torus_distance(ring, wide, high, centre)
    hull = tube_hull(ring + wide + SWELL, centre - high - SWELL, centre + high + SWELL)
    return Shape("torus", distance, hull, 1.5, convex=False)


_SHAPES: dict[str, Callable[[], Shape]] = {
    "SmoothCube_v2": _clevr_cube,
    "Sphere": _sphere,
    "SmoothCylinder": _clevr_cylinder,
    "Suzanne": _monkey,
    "Cone": _cone,
    "Cube": _cube,
    "Cylinder": _cylinder,
    "Icosahedron": _icosahedron,
    "NewellTeapot": _teapot,
    "Torus": _torus,
}


@cache
def shape_named(name: str) -> Shape:
    """A shape by the name that the released files give it."""
    if name not in _SHAPES:
        raise InputError(f"there is no shape {name!r}; there are {', '.join(_SHAPES)}")
    return _SHAPES[name]()
