"""The shapes of the published worlds, by their names in the released files.

Their dimensions were fitted to the released masks of half of the episodes and confirmed on the other half.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

from alebrije.errors import InputError
from alebrije.render.fields import load_field
from alebrije.render.shapes import (
    Shape,
    block_distance,
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
from alebrije.scenes.furniture import BOXES, Box
from alebrije.suggest import did_you_mean

MARGIN = 0.055  # margin of the hulls for materials that displace the surface


def _sphere() -> Shape:
    return Shape("sphere", sphere_distance, sphere_hull(1.0), 1.06, hull_is_exact=True, shadow_hull=sphere_hull(1.0))


def _mesh(name: str, reach: float) -> Shape:
    field = load_field(name)
    return Shape(name, field, box_hull(field.low, field.high), reach, convex=False, normal_step=0.03)


def _cone() -> Shape:
    top, bottom, width = 1.011, -1.005, 0.976
    rim, tip = 0.086, 0.035
    distance = cone_distance(width, bottom, top, rim, tip)
    width_and_ends = 1.0 + MARGIN, bottom - MARGIN, top + MARGIN
    numbers = (width, bottom, top, rim, tip, *width_and_ends)
    return Shape("cone", distance, tube_hull(*width_and_ends), 1.45, numbers=numbers)


def _cube(half: float, edge: float, reach: float, shadow_bottom: float, margin: float) -> Shape:
    hull = box_hull((-half - margin,) * 3, (half + margin,) * 3)
    # a rounded cube casts the shadow of a slightly smaller box above the ground
    shadow, shadow_top = 0.98, 0.97
    shadow_hull = box_hull((-shadow, -shadow, shadow_bottom), (shadow, shadow, shadow_top))
    numbers = half, edge, half + margin, shadow, shadow_bottom, shadow_top
    return Shape("cube", cube_distance(half, edge), hull, reach, shadow_hull=shadow_hull, numbers=numbers)


def _block(box: Box) -> Shape:
    """A part of furniture, in units of its own half-size."""
    x, y, z = (half / box.half_size for half in box.halves)
    hull = box_hull((-x, -y, -z), (x, y, z))
    reach = math.sqrt(x * x + y * y + z * z) + 1e-3
    distance, numbers = block_distance((x, y, z)), (x, y, z)
    return Shape("block", distance, hull, reach, hull_is_exact=True, shadow_hull=hull, numbers=numbers)


def _cylinder(half: float, rim: float, reach: float, shadow: tuple[float, float, float], margin: float) -> Shape:
    hull = tube_hull(1.0 + margin, -half - margin, half + margin)
    numbers = 1.0, half, rim, 1.0 + margin, half + margin, *shadow
    distance, shadow_hull = cylinder_distance(1.0, half, rim), tube_hull(*shadow)
    return Shape("cylinder", distance, hull, reach, shadow_hull=shadow_hull, numbers=numbers)


def _icosahedron() -> Shape:
    """An icosahedron on one of its faces."""
    around, centre, turn = 1.001, -0.19, math.radians(30.5)
    inner = around * math.sqrt((5 + 2 * math.sqrt(5)) / 15)
    # besides top and bottom, three steep and six mild faces point down, and as many up
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
    numbers = inner, centre, *(part for normal in normals for part in normal)
    return Shape(
        "icosahedron", distance, hull, 1.26, hull_is_exact=True, middle=centre, shadow_hull=hull, numbers=numbers
    )


def _torus() -> Shape:
    ring, wide, high, centre = 0.65, 0.348, 0.476, -0.516
    distance = torus_distance(ring, wide, high, centre)
    width_and_ends = ring + wide + MARGIN, centre - high - MARGIN, centre + high + MARGIN
    numbers = (ring, wide, high, centre, 0.0, *width_and_ends)
    return Shape("torus", distance, tube_hull(*width_and_ends), 1.5, convex=False, numbers=numbers)


_SHAPES: dict[str, Callable[[], Shape]] = {
    "SmoothCube_v2": lambda: _cube(0.9955, 0.162, 1.61, shadow_bottom=-0.9, margin=0.0),
    "Sphere": _sphere,
    "SmoothCylinder": lambda: _cylinder(0.996, 0.039, 1.405, (0.995, -0.97, 0.99), margin=0.0),
    "Suzanne": lambda: _mesh("monkey", 1.5),
    "Cone": _cone,
    "Cube": lambda: _cube(0.9965, 0.118, 1.78, shadow_bottom=-0.93, margin=MARGIN),
    "Cylinder": lambda: _cylinder(1.0, 0.072, 1.5, (0.99, -0.95, 0.98), margin=MARGIN),
    "Icosahedron": _icosahedron,
    "NewellTeapot": lambda: _mesh("teapot", 1.6),
    "Torus": _torus,
    **{name: partial(_block, box) for name, box in BOXES.items()},
}


@cache
def shape_named(name: str) -> Shape:
    """The shape with this name in the released files."""
    if name not in _SHAPES:
        raise InputError(f"there is no shape {name!r}{did_you_mean(name, _SHAPES)}")
    return _SHAPES[name]()
