"""Shapes: intersect rays with an object, in its own unit coordinates.

`thing` points to the object's row of numbers. KINDS is the set of kinds that the scenes may hold, one bit each.
"""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.tables import (
    BLOCK,
    CENTRE,
    CONE,
    COSINE,
    CUBE,
    CYLINDER,
    DISPLACEMENT,
    ICOSAHEDRON,
    KIND,
    MESH,
    MIDDLE,
    NORMAL_STEP,
    NUMBERS,
    SINE,
    SIZE,
    SPHERE,
    TORUS,
)
from alebrije.render.gpu.vectors import any_of, clamp, dot, length, load, step, subtract, unit, zeros

FACES: tl.constexpr = tl.constexpr(20)  # of the icosahedron
STRIDE: tl.constexpr = tl.constexpr(4)  # sphere-tracing steps taken together
STEPS: tl.constexpr = tl.constexpr(48)
CHECKED: tl.constexpr = tl.constexpr(0b100010010111)  # strides after which hits are checked
GRAZING: tl.constexpr = tl.constexpr(48)  # samples for the few rays that are still undecided
HALVINGS: tl.constexpr = tl.constexpr(5)
CLOSE: tl.constexpr = tl.constexpr(1e-3)  # a ray this close to the surface, in half-sizes, has hit it


@triton.jit
def direction_to_object(thing, direction):
    """Directions from world to unit coordinates; distances along a ray keep their world value."""
    size, cosine, sine = tl.load(thing + SIZE), tl.load(thing + COSINE), tl.load(thing + SINE)
    x, y, z = direction[0] / size, direction[1] / size, direction[2] / size
    return x * cosine + y * sine, y * cosine - x * sine, z


@triton.jit
def point_to_object(thing, point):
    """Points in unit coordinates."""
    return direction_to_object(thing, subtract(point, load(thing + CENTRE)))


@triton.jit
def direction_to_world(thing, direction):
    """Directions from unit coordinates to world coordinates."""
    cosine, sine = tl.load(thing + COSINE), tl.load(thing + SINE)
    return direction[0] * cosine - direction[1] * sine, direction[0] * sine + direction[1] * cosine, direction[2]


@triton.jit
def box_hull(origin, way, low, high):
    """Entry and exit of a ray through an axis-aligned box; the entry is infinite if it misses."""
    first_x, second_x = (low[0] - origin[0]) / way[0], (high[0] - origin[0]) / way[0]
    first_y, second_y = (low[1] - origin[1]) / way[1], (high[1] - origin[1]) / way[1]
    first_z, second_z = (low[2] - origin[2]) / way[2], (high[2] - origin[2]) / way[2]
    entry = tl.maximum(tl.minimum(first_x, second_x), tl.minimum(first_y, second_y))
    entry = tl.maximum(entry, tl.minimum(first_z, second_z))
    leave = tl.minimum(tl.maximum(first_x, second_x), tl.maximum(first_y, second_y))
    leave = tl.minimum(leave, tl.maximum(first_z, second_z))
    hit = entry <= leave
    return tl.where(hit, entry, float("inf")), tl.where(hit, leave, float("-inf"))


@triton.jit
def tube_hull(origin, way, width, low, high):
    """Entry and exit of a ray through an upright cylinder."""
    a = tl.maximum(way[0] * way[0] + way[1] * way[1], 1e-12)
    b = origin[0] * way[0] + origin[1] * way[1]
    root = b * b - a * (origin[0] * origin[0] + origin[1] * origin[1] - width * width)
    half = tl.sqrt(tl.maximum(root, 0.0))
    first, second = (low - origin[2]) / way[2], (high - origin[2]) / way[2]
    entry = tl.maximum((-b - half) / a, tl.minimum(first, second))
    leave = tl.minimum((-b + half) / a, tl.maximum(first, second))
    hit = (root >= 0.0) & (entry <= leave)
    return tl.where(hit, entry, float("inf")), tl.where(hit, leave, float("-inf"))


@triton.jit
def sphere_hull(origin, way, radius):
    """Entry and exit of a ray through a sphere."""
    a, b = dot(way, way), dot(origin, way)
    root = b * b - a * (dot(origin, origin) - radius * radius)
    half = tl.sqrt(tl.maximum(root, 0.0))
    hit = root >= 0.0
    return tl.where(hit, (-b - half) / a, float("inf")), tl.where(hit, (-b + half) / a, float("-inf"))


@triton.jit
def polyhedron_hull(origin, way, inner, centre, faces):
    """Entry and exit of a ray through a convex polyhedron whose face normals are at `faces`."""
    high = origin[2] - centre
    entry = zeros(high + way[2]) - float("inf")
    leave = zeros(high + way[2]) + float("inf")
    for face in range(FACES):
        a, b, c = load(faces + 3 * face)
        slope = way[0] * a + way[1] * b + way[2] * c
        slope = tl.where(tl.abs(slope) < 1e-9, 1e-9, slope)
        t = (inner - (origin[0] * a + origin[1] * b + high * c)) / slope
        inward = slope < 0.0
        entry = tl.where(inward, tl.maximum(entry, t), entry)
        leave = tl.where(inward, leave, tl.minimum(leave, t))
    hit = entry <= leave
    return tl.where(hit, entry, float("inf")), tl.where(hit, leave, float("-inf"))


@triton.jit
def rounded(first, second, radius):
    """Distance to a rectangle with rounded corners, from the distances to its two sides."""
    a, b = tl.maximum(first, 0.0), tl.maximum(second, 0.0)
    return tl.sqrt(a * a + b * b) + tl.minimum(tl.maximum(first, second), 0.0) - radius


@triton.jit
def cube_distance(point, half, radius):
    """A cube with rounded edges."""
    x, y, z = tl.abs(point[0]) - (half - radius), tl.abs(point[1]) - (half - radius), tl.abs(point[2]) - (half - radius)
    inside = tl.minimum(tl.maximum(tl.maximum(x, y), z), 0.0)
    x, y, z = tl.maximum(x, 0.0), tl.maximum(y, 0.0), tl.maximum(z, 0.0)
    return tl.sqrt(x * x + y * y + z * z) + inside - radius


@triton.jit
def block_distance(point, halves):
    """A box with sharp edges."""
    x, y, z = tl.abs(point[0]) - halves[0], tl.abs(point[1]) - halves[1], tl.abs(point[2]) - halves[2]
    inside = tl.minimum(tl.maximum(tl.maximum(x, y), z), 0.0)
    x, y, z = tl.maximum(x, 0.0), tl.maximum(y, 0.0), tl.maximum(z, 0.0)
    return tl.sqrt(x * x + y * y + z * z) + inside


@triton.jit
def cylinder_distance(point, width, height, radius):
    """An upright cylinder with rounded rims."""
    wide = tl.sqrt(point[0] * point[0] + point[1] * point[1])
    return rounded(wide - (width - radius), tl.abs(point[2]) - (height - radius), radius)


@triton.jit
def cone_distance(point, width, bottom, top, rim, tip):
    """An upright cone with a rounded rim and tip."""
    slant = tl.sqrt(width * width + (top - bottom) * (top - bottom))
    across, up = (top - bottom) / slant, width / slant
    wide, above = tl.sqrt(point[0] * point[0] + point[1] * point[1]), point[2] - (top - tip / up)
    round_tip = tl.sqrt(wide * wide + above * above) - tip
    side = tl.where(above * across > wide * up, round_tip, wide * across + (point[2] - top) * up)
    side, under = side + rim, bottom + rim - point[2]
    beyond = tl.minimum(side + up * under, under + up * side)
    corner = tl.sqrt(tl.maximum(side * side + under * under + (2.0 * up) * side * under, 0.0)) / across
    return tl.where(beyond > 0.0, corner, tl.maximum(side, under)) - rim


@triton.jit
def torus_distance(point, ring, wide, high, centre):
    """A flat torus whose tube is an upright ellipse."""
    a, b = (tl.sqrt(point[0] * point[0] + point[1] * point[1]) - ring) / wide, (point[2] - centre) / high
    out = tl.sqrt(a * a + b * b)
    return out * (out - 1.0) / tl.maximum(tl.sqrt(a / wide * (a / wide) + b / high * (b / high)), 1e-6)


@triton.jit
def polyhedron_distance(point, inner, centre, faces):
    """A convex polyhedron; a lower bound outside."""
    high = point[2] - centre
    outermost = zeros(high) - inner
    for face in range(FACES):
        a, b, c = load(faces + 3 * face)
        outermost = tl.maximum(outermost, point[0] * a + point[1] * b + high * c)
    return outermost - inner


@triton.jit
def mesh_distance(point, numbers, assets):
    """A mesh: trilinear interpolation of its distance field; outside the grid, at its nearest point."""
    count_x, count_y, count_z = load(numbers + 1)
    cell, quantum = tl.load(numbers + 7), tl.load(numbers + 8)
    x = clamp((point[0] - tl.load(numbers + 4)) / cell, 0.0, count_x - 1.001)
    y = clamp((point[1] - tl.load(numbers + 5)) / cell, 0.0, count_y - 1.001)
    z = clamp((point[2] - tl.load(numbers + 6)) / cell, 0.0, count_z - 1.001)
    left, low, bottom = tl.floor(x), tl.floor(y), tl.floor(z)
    u, v, w = x - left, y - low, z - bottom
    column = count_z.to(tl.int32)
    plane = count_y.to(tl.int32) * column
    corner = assets + tl.load(numbers).to(tl.int32) + left.to(tl.int32) * plane + low.to(tl.int32) * column
    near = face_distance(tl.load(corner + bottom.to(tl.int32)), v, w, quantum)
    far = face_distance(tl.load(corner + bottom.to(tl.int32) + plane), v, w, quantum)
    return near + (far - near) * u


@triton.jit
def face_distance(corners, v, w, quantum):
    """Interpolate in a face of a grid cell, whose four corners are 16 bits each."""
    front, back = corners.to(tl.int32), (corners >> 32).to(tl.int32)
    near, above = ((front << 16) >> 16).to(tl.float32) * quantum, (front >> 16).to(tl.float32) * quantum
    near += (above - near) * w
    far, above = ((back << 16) >> 16).to(tl.float32) * quantum, (back >> 16).to(tl.float32) * quantum
    far += (above - far) * w
    return near + (far - near) * v


@triton.jit
def faces_of(numbers, assets):
    """The normals of an icosahedron's faces."""
    return (assets + tl.load(numbers + 2).to(tl.int32)).to(tl.pointer_type(tl.float32), bitcast=True)


@triton.jit
def distance_to(thing, assets, point, KINDS: tl.constexpr):
    """Signed distance of points in unit coordinates."""
    kind, numbers = tl.load(thing + KIND), thing + NUMBERS
    distance = zeros(point[2])
    if (KINDS >> CUBE) % 2 == 1:
        if kind == CUBE:
            distance = cube_distance(point, tl.load(numbers), tl.load(numbers + 1))
    if (KINDS >> CYLINDER) % 2 == 1:
        if kind == CYLINDER:
            distance = cylinder_distance(point, tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2))
    if (KINDS >> SPHERE) % 2 == 1:
        if kind == SPHERE:
            distance = length(point) - 1.0
    if (KINDS >> MESH) % 2 == 1:
        if kind == MESH:
            distance = mesh_distance(point, numbers, assets)
    if (KINDS >> CONE) % 2 == 1:
        if kind == CONE:
            width, bottom, top = load(numbers)
            distance = cone_distance(point, width, bottom, top, tl.load(numbers + 3), tl.load(numbers + 4))
    if (KINDS >> ICOSAHEDRON) % 2 == 1:
        if kind == ICOSAHEDRON:
            faces = faces_of(numbers, assets)
            distance = polyhedron_distance(point, tl.load(numbers), tl.load(numbers + 1), faces)
    if (KINDS >> TORUS) % 2 == 1:
        if kind == TORUS:
            ring, wide, high = load(numbers)
            distance = torus_distance(point, ring, wide, high, tl.load(numbers + 3))
    if (KINDS >> BLOCK) % 2 == 1:
        if kind == BLOCK:
            distance = block_distance(point, load(numbers))
    return distance


@triton.jit
def hull_of(thing, assets, origin, way, KINDS: tl.constexpr):
    """Where rays enter and leave the hull of the object."""
    kind, numbers = tl.load(thing + KIND), thing + NUMBERS
    like = origin[2] + way[2]
    entry, leave = zeros(like) + float("inf"), zeros(like) - float("inf")
    if (KINDS >> CUBE) % 2 == 1:
        if kind == CUBE:
            half = tl.load(numbers + 2)
            entry, leave = box_hull(origin, way, (-half, -half, -half), (half, half, half))
    if (KINDS >> CYLINDER) % 2 == 1:
        if kind == CYLINDER:
            half = tl.load(numbers + 4)
            entry, leave = tube_hull(origin, way, tl.load(numbers + 3), -half, half)
    if (KINDS >> SPHERE) % 2 == 1:
        if kind == SPHERE:
            entry, leave = sphere_hull(origin, way, 1.0)
    if (KINDS >> MESH) % 2 == 1:
        if kind == MESH:
            low, cell = load(numbers + 4), tl.load(numbers + 7)
            count_x, count_y, count_z = load(numbers + 1)
            high = step(low, (count_x - 1.0, count_y - 1.0, count_z - 1.0), cell)
            entry, leave = box_hull(origin, way, low, high)
    if ((KINDS >> CONE) % 2 == 1) | ((KINDS >> TORUS) % 2 == 1):
        if (kind == CONE) | (kind == TORUS):
            width, low, high = load(numbers + 5)
            entry, leave = tube_hull(origin, way, width, low, high)
    if (KINDS >> ICOSAHEDRON) % 2 == 1:
        if kind == ICOSAHEDRON:
            faces = faces_of(numbers, assets)
            entry, leave = polyhedron_hull(origin, way, tl.load(numbers), tl.load(numbers + 1), faces)
    if (KINDS >> BLOCK) % 2 == 1:
        if kind == BLOCK:
            wide, deep, high = load(numbers)
            entry, leave = box_hull(origin, way, (-wide, -deep, -high), (wide, deep, high))
    return entry, leave


@triton.jit
def enter(thing, assets, origin, way, KINDS: tl.constexpr, DISPLACED: tl.constexpr):
    """Where rays enter and leave the displaced hull; the entry is infinite if they miss."""
    start, along = origin, way
    if DISPLACED:
        kind = tl.load(thing + KIND)
        push = tl.where((kind == SPHERE) | (kind == ICOSAHEDRON) | (kind == BLOCK), tl.load(thing + DISPLACEMENT), 0.0)
        grown = 1.0 + push
        start = origin[0] / grown, origin[1] / grown, (origin[2] + tl.load(thing + MIDDLE) * push) / grown
        along = way[0] / grown, way[1] / grown, way[2] / grown
    entry, leave = hull_of(thing, assets, start, along, KINDS)
    if DISPLACED:
        # the ground hides whatever is displaced below it
        ground = (-1.0 - origin[2]) / tl.minimum(way[2], -1e-9)
        leave = tl.where(way[2] < 0.0, tl.minimum(leave, ground), leave)
    begin = tl.maximum(entry, 0.0)
    return tl.where(leave <= begin, float("inf"), begin), leave


@triton.jit
def intersect(
    thing, assets, origin, way, active, close, farthest, KINDS: tl.constexpr, DISPLACED: tl.constexpr
):  # fmt: skip
    """Distance along active rays at which they first hit the surface from outside, infinite if they miss.

    A ray within `close` of the surface has hit it. Rays are not followed beyond `farthest`.
    """
    kind = tl.load(thing + KIND)
    t, leave = enter(thing, assets, origin, way, KINDS, DISPLACED)
    hit = tl.where(active, t, float("inf"))
    if (kind != SPHERE) & (kind != ICOSAHEDRON) & (kind != BLOCK):
        hit = march(thing, assets, origin, way, hit, leave, close, farthest, KINDS, DISPLACED)
    return hit


@triton.jit
def march(thing, assets, origin, way, t, leave, close, farthest, KINDS: tl.constexpr, DISPLACED: tl.constexpr):
    """Sphere tracing; then, for the few rays that graze a face, the first of many samples, refined by bisection.

    Both are one loop, so that the distance is compiled once.
    """
    scale = 1.0 / length(way)
    hit, first = zeros(t) + float("inf"), zeros(t) + float("inf")
    low, high = zeros(t), zeros(t)
    active = t < float("inf")
    t, leave = tl.where(active, t, 0.0), tl.where(active, leave, 0.0)  # finite, since grids are read at these points
    step_index, undecided = 0, any_of(active)
    while undecided & (step_index < STEPS + GRAZING + 1 + HALVINGS):
        sample = step_index - STEPS  # negative while tracing
        place = t
        if sample > GRAZING:
            place = (low + high) * 0.5
        elif sample >= 0:
            place = t + (leave - t) / GRAZING * sample
        gap = distance_to(thing, assets, step(origin, way, place), KINDS)
        if DISPLACED:
            gap -= tl.load(thing + DISPLACEMENT)
        near = gap < close
        if sample < 0:
            t = tl.where(active, t + tl.maximum(gap, 0.0) * scale, t)
            if (step_index % STRIDE == STRIDE - 1) & ((CHECKED >> (step_index // STRIDE)) % 2 == 1):
                # drop rays that hit the surface or left the hull: only a few grazing rays remain
                inside = t <= leave
                hit = tl.where(active & inside & near, t, hit)
                active = active & inside & (gap >= close) & (t < farthest)
                undecided = any_of(active)
        elif sample <= GRAZING:
            first = tl.where(near & (first == float("inf")), place, first)
            low, high = first - (leave - t) / GRAZING, first
        else:
            low, high = tl.where(near, low, place), tl.where(near, place, high)
        step_index += 1
    return tl.where(active & (first < float("inf")), high, hit)


@triton.jit
def normal_at(thing, assets, point, KINDS: tl.constexpr):
    """The outward unit normal at world points on or near the surface."""
    local = point_to_object(thing, point)
    width = tl.load(thing + NORMAL_STEP)
    across, along, above = local
    if tl.load(thing + KIND) != SPHERE:
        across, along, above = zeros(local[2]), zeros(local[2]), zeros(local[2])
        for side in range(6):
            axis, sign = side // 2, 1.0 - 2.0 * (side % 2)
            x = tl.where(axis == 0, local[0] + sign * width, local[0])
            y = tl.where(axis == 1, local[1] + sign * width, local[1])
            z = tl.where(axis == 2, local[2] + sign * width, local[2])
            distance = distance_to(thing, assets, (x, y, z), KINDS) * sign
            across = tl.where(axis == 0, across + distance, across)
            along = tl.where(axis == 1, along + distance, along)
            above = tl.where(axis == 2, above + distance, above)
    return direction_to_world(thing, unit((across, along, above)))
