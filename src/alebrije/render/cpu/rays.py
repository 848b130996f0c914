"""Shapes, first hits, shadows and normals on a CPU, for long lists of rays: `shapes`, `rays` and `shadows`.

Rays are handled in blocks that belong to one object. `root` is the address of the function that takes square roots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.compiled import compiled, inner
from alebrije.render.cpu.roots import floor, take_roots

Number = Any  # a scalar
Arrays = tuple[Array, ...]
at = np.uint64  # an index that is never negative: one that may be costs a loop its vector instructions
BLOCK = 1024  # rays handled together
# Rows of the scratch array: rays in unit coordinates, how far they are, and intermediate values.
OX, OY, OZ, DX, DY, DZ, PUSH, HIT = (np.int64(BLOCK * row) for row in range(8))
SX, SY, SZ, WX, WY, WZ, ENTRY, LEAVE = (np.int64(BLOCK * row) for row in range(8, 16))
TX, TY, TZ, VX, VY, VZ, MOVED, T, END, SCALE = (np.int64(BLOCK * row) for row in range(16, 26))
PX, PY, PZ, GAP, U, V, W, AT, LOW, HIGH = (np.int64(BLOCK * row) for row in range(26, 36))
SCRATCH = BLOCK * 36

BALL, BOX, TUBE, SOLID, FIELD, CONE, RING, SHARP = range(8)  # of bodies; `SOLID` is a polyhedron
# Columns of the tables of shapes: forms, flags, place and size of a field.
DISTANCE, HULL, SHADOW, EXACT, CONVEX, FIRST, ROWS, COLUMNS, HEIGHT = range(9)
ABOUT, AROUND, SHADE, CENTRE, STEP = 0, 8, 16, 24, 25  # numbers of distance, hull and shadow hull; middle; normal step

HIT_CLOSE, SHADOW_CLOSE = np.float32(1e-3), np.float32(1e-2)
ZERO, ONE, TWO, INFINITE = np.float32(0.0), np.float32(1.0), np.float32(2.0), np.float32(np.inf)
LEAST_SLOPE, LEAST_SQUARE, LEAST_LENGTH = np.float32(1e-9), np.float32(1e-12), np.float32(1e-6)
FIRST_HITS, OWN_HITS, SHADOWS, NORMALS = range(4)  # tasks
MARCH, SAMPLES, HALVINGS = 48, 49, 5  # steps, then samples and bisections for the rays still undecided
CHECKS = (4, 8, 12, 20, 32, 48)  # steps after which rays are dropped


@inner
def larger(a: Number, b: Number) -> Number:
    """The larger number; NaN if one is NaN, as in torch."""
    return a if a > b or a != a else b


@inner
def smaller(a: Number, b: Number) -> Number:
    """The smaller number; NaN if one is NaN, as in torch."""
    return a if a < b or a != a else b


@inner
def set_hits(s: Array, entry: Number, leave: Number, missed: bool, i: Number) -> None:
    """Store where a ray enters and leaves a hull."""
    s[at(ENTRY + i)] = INFINITE if missed else entry
    s[at(LEAVE + i)] = -INFINITE if missed else leave


@inner
def hull_hits(form: Number, numbers: Array, place: Number, faces: Array, s: Array, n: Number, root: Number) -> None:
    """Where n rays from S along W enter and leave a hull: `sphere_hull`, `box_hull`, `tube_hull`, `polyhedron_hull`."""
    a, b, c = numbers[place], numbers[place + 1], numbers[place + 2]
    d, e, f = numbers[place + 3], numbers[place + 4], numbers[place + 5]
    if form == BALL:
        for i in range(n):
            x, y, z, dx, dy, dz = (
                s[at(SX + i)],
                s[at(SY + i)],
                s[at(SZ + i)],
                s[at(WX + i)],
                s[at(WY + i)],
                s[at(WZ + i)],
            )
            s[at(U + i)] = dx * dx + dy * dy + dz * dz
            s[at(V + i)] = x * dx + y * dy + z * dz
            s[at(W + i)] = s[at(V + i)] * s[at(V + i)] - s[at(U + i)] * (x * x + y * y + z * z - a)
            s[at(GAP + i)] = larger(s[at(W + i)], ZERO)
        take_roots(s, GAP, n, root)
        for i in range(n):
            first, last = (
                (-s[at(V + i)] - s[at(GAP + i)]) / s[at(U + i)],
                (-s[at(V + i)] + s[at(GAP + i)]) / s[at(U + i)],
            )
            set_hits(s, first, last, s[at(W + i)] < ZERO, i)
    elif form == BOX:
        for i in range(n):
            dx, dy, dz = s[at(WX + i)], s[at(WY + i)], s[at(WZ + i)]
            x0, x1 = (a - s[at(SX + i)]) / dx, (d - s[at(SX + i)]) / dx
            y0, y1 = (b - s[at(SY + i)]) / dy, (e - s[at(SY + i)]) / dy
            z0, z1 = (c - s[at(SZ + i)]) / dz, (f - s[at(SZ + i)]) / dz
            entry = larger(larger(smaller(x0, x1), smaller(y0, y1)), smaller(z0, z1))
            leave = smaller(smaller(larger(x0, x1), larger(y0, y1)), larger(z0, z1))
            set_hits(s, entry, leave, not entry <= leave, i)
    elif form == TUBE:
        for i in range(n):
            x, y, dx, dy = s[at(SX + i)], s[at(SY + i)], s[at(WX + i)], s[at(WY + i)]
            s[at(U + i)] = larger(dx * dx + dy * dy, LEAST_SQUARE)
            s[at(V + i)] = x * dx + y * dy
            s[at(W + i)] = s[at(V + i)] * s[at(V + i)] - s[at(U + i)] * (x * x + y * y - a)
            s[at(GAP + i)] = larger(s[at(W + i)], ZERO)
        take_roots(s, GAP, n, root)
        for i in range(n):
            first, last = (b - s[at(SZ + i)]) / s[at(WZ + i)], (c - s[at(SZ + i)]) / s[at(WZ + i)]
            entry = larger((-s[at(V + i)] - s[at(GAP + i)]) / s[at(U + i)], smaller(first, last))
            leave = smaller((-s[at(V + i)] + s[at(GAP + i)]) / s[at(U + i)], larger(first, last))
            set_hits(s, entry, leave, s[at(W + i)] < ZERO or not entry <= leave, i)
    else:
        solid_hull(faces, a, b, s, n)


@inner
def solid_hull(faces: Array, inner: Number, centre: Number, s: Array, n: Number) -> None:
    """Where n rays from S along W enter and leave a polyhedron."""
    for i in range(n):
        s[at(ENTRY + i)], s[at(LEAVE + i)] = -INFINITE, INFINITE
    for k in range(len(faces)):
        a, b, c = faces[k, 0], faces[k, 1], faces[k, 2]
        for i in range(n):
            slope = s[at(WX + i)] * a + s[at(WY + i)] * b + s[at(WZ + i)] * c
            slope = LEAST_SLOPE if abs(slope) < LEAST_SLOPE else slope
            t = (inner - (s[at(SX + i)] * a + s[at(SY + i)] * b + (s[at(SZ + i)] - centre) * c)) / slope
            entry, leave = s[at(ENTRY + i)], s[at(LEAVE + i)]
            s[at(ENTRY + i)] = larger(entry, t) if slope < ZERO else entry
            s[at(LEAVE + i)] = leave if slope < ZERO else smaller(leave, t)
    for i in range(n):
        entry, leave = s[at(ENTRY + i)], s[at(LEAVE + i)]
        set_hits(s, entry, leave, not entry <= leave, i)


@inner
def gaps(
    form: Number, forms: Array, numbers: Array, faces: Array, fields: Array, s: Array, n: Number, root: Number
) -> None:
    """The signed distances GAP of n points P to a surface."""
    a, b, c, d = numbers[0], numbers[1], numbers[2], numbers[3]
    if form == FIELD:
        field_gaps(forms, a, b, c, d, fields, s, n)
    elif form == BOX:
        for i in range(n):
            x, y, z = abs(s[at(PX + i)]) - a, abs(s[at(PY + i)]) - a, abs(s[at(PZ + i)]) - a
            s[at(U + i)] = smaller(larger(larger(x, y), z), ZERO)
            x, y, z = larger(x, ZERO), larger(y, ZERO), larger(z, ZERO)
            s[at(GAP + i)] = x * x + y * y + z * z
        take_roots(s, GAP, n, root)
        for i in range(n):
            s[at(GAP + i)] = s[at(GAP + i)] + s[at(U + i)] - b
    elif form == SHARP:
        for i in range(n):
            x, y, z = abs(s[at(PX + i)]) - a, abs(s[at(PY + i)]) - b, abs(s[at(PZ + i)]) - c
            s[at(U + i)] = smaller(larger(larger(x, y), z), ZERO)
            x, y, z = larger(x, ZERO), larger(y, ZERO), larger(z, ZERO)
            s[at(GAP + i)] = x * x + y * y + z * z
        take_roots(s, GAP, n, root)
        for i in range(n):
            s[at(GAP + i)] = s[at(GAP + i)] + s[at(U + i)]
    elif form == TUBE:
        for i in range(n):
            s[at(V + i)] = s[at(PX + i)] * s[at(PX + i)] + s[at(PY + i)] * s[at(PY + i)]
        take_roots(s, V, n, root)
        for i in range(n):
            wide, high = s[at(V + i)] - a, abs(s[at(PZ + i)]) - b
            s[at(U + i)] = smaller(larger(wide, high), ZERO)
            wide, high = larger(wide, ZERO), larger(high, ZERO)
            s[at(GAP + i)] = wide * wide + high * high
        take_roots(s, GAP, n, root)
        for i in range(n):
            s[at(GAP + i)] = s[at(GAP + i)] + s[at(U + i)] - c
    elif form == SOLID:
        for i in range(n):
            s[at(GAP + i)] = -a
        for k in range(len(faces)):
            fx, fy, fz = faces[k, 0], faces[k, 1], faces[k, 2]
            for i in range(n):
                s[at(GAP + i)] = larger(
                    s[at(GAP + i)], s[at(PX + i)] * fx + s[at(PY + i)] * fy + (s[at(PZ + i)] - b) * fz
                )
        for i in range(n):
            s[at(GAP + i)] = s[at(GAP + i)] - a
    elif form == CONE:
        cone_gaps(numbers, s, n, root)
    else:
        ring_gaps(a, b, c, d, s, n, root)


@inner
def cone_gaps(numbers: Array, s: Array, n: Number, root: Number) -> None:
    """Signed distances to a cone."""
    ball, tip, across, up = numbers[0], numbers[1], numbers[2], numbers[3]
    top, rim, base, twice = numbers[4], numbers[5], numbers[6], numbers[7]
    for i in range(n):
        s[at(V + i)] = s[at(PX + i)] * s[at(PX + i)] + s[at(PY + i)] * s[at(PY + i)]
    take_roots(s, V, n, root)
    for i in range(n):
        above = s[at(PZ + i)] - ball
        s[at(U + i)] = s[at(V + i)] * s[at(V + i)] + above * above
    take_roots(s, U, n, root)
    for i in range(n):
        z, wide = s[at(PZ + i)], s[at(V + i)]
        above = z - ball
        side = s[at(U + i)] - tip if above * across > wide * up else wide * across + (z - top) * up
        side, under = side + rim, base - z
        s[at(U + i)], s[at(V + i)] = side, under
        s[at(W + i)] = larger(side * side + under * under + twice * side * under, ZERO)
    take_roots(s, W, n, root)
    for i in range(n):
        side, under = s[at(U + i)], s[at(V + i)]
        beyond = smaller(side + up * under, under + up * side)
        s[at(GAP + i)] = (s[at(W + i)] / across if beyond > ZERO else larger(side, under)) - rim


@inner
def ring_gaps(ring: Number, wide: Number, high: Number, centre: Number, s: Array, n: Number, root: Number) -> None:
    """Signed distances to a flat torus."""
    for i in range(n):
        s[at(V + i)] = s[at(PX + i)] * s[at(PX + i)] + s[at(PY + i)] * s[at(PY + i)]
    take_roots(s, V, n, root)
    for i in range(n):
        a, b = (s[at(V + i)] - ring) / wide, (s[at(PZ + i)] - centre) / high
        s[at(U + i)] = a * a + b * b
        a, b = a / wide, b / high
        s[at(W + i)] = a * a + b * b
    take_roots(s, U, n, root)
    take_roots(s, W, n, root)
    for i in range(n):
        s[at(GAP + i)] = s[at(U + i)] * (s[at(U + i)] - ONE) / larger(s[at(W + i)], LEAST_LENGTH)


@inner
def clamped(value: Number, most: Number) -> Number:
    """A number clamped to 0..most."""
    return smaller(larger(value, ZERO), most)


@inner
def field_gaps(
    forms: Array, low_x: Number, low_y: Number, low_z: Number, cell: Number, fields: Array, s: Array, n: Number
) -> None:
    """Signed distances from a field on a grid, interpolated trilinearly."""
    first, rows, column, levels = forms[FIRST], forms[ROWS], forms[COLUMNS], forms[HEIGHT]
    plane, wide, high, begin = column * levels, np.int32(column), np.int32(levels), np.int32(first)
    # not quite the last corner, so that its neighbours are on the grid
    most_x, most_y = np.float32(rows - 1.001), np.float32(column - 1.001)
    most_z = np.float32(levels - 1.001)
    for i in range(n):
        x = clamped((s[at(PX + i)] - low_x) / cell, most_x)
        y = clamped((s[at(PY + i)] - low_y) / cell, most_y)
        z = clamped((s[at(PZ + i)] - low_z) / cell, most_z)
        left, front, bottom = floor(x), floor(y), floor(z)
        u, v, w = x - left, y - front, z - bottom
        corner = np.int32(np.int32(np.int32(np.int32(left) * wide) + np.int32(front)) * high)
        corner = np.int32(corner + np.int32(np.int32(bottom) + begin))
        e, f = fields[at(corner)], fields[at(corner + 1)]
        near = e + (f - e) * w
        e, f = fields[at(corner + levels)], fields[at(corner + levels + 1)]
        near = near + ((e + (f - e) * w) - near) * v
        e, f = fields[at(corner + plane)], fields[at(corner + plane + 1)]
        far = e + (f - e) * w
        e, f = fields[at(corner + plane + levels)], fields[at(corner + plane + levels + 1)]
        far = far + ((e + (f - e) * w) - far) * v
        s[at(GAP + i)] = near + (far - near) * u


@inner
def flag_near(
    pose: Array, instance: Number, point: Array, direction: Array, start: Number, n: Number, flags: Array
) -> None:
    """Flag the rays that meet the bounding sphere of an object."""
    centre_x, centre_y, centre_z, reach = pose[0, instance], pose[1, instance], pose[2, instance], pose[6, instance]
    for i in range(n):
        a, b, c = (
            centre_x - point[0, at(start + i)],
            centre_y - point[1, at(start + i)],
            centre_z - point[2, at(start + i)],
        )
        along = a * direction[0, at(start + i)] + b * direction[1, at(start + i)] + c * direction[2, at(start + i)]
        flags[i] = (a * a + b * b + c * c - along * along < reach * reach) & (along > -reach)


@inner
def flag_sun(pose: Array, instance: Number, point: Array, sun: Array, start: Number, n: Number, flags: Array) -> None:
    """Flag the points whose rays to the sun meet the bounding sphere of an object."""
    centre_x, centre_y, centre_z, reach = pose[0, instance], pose[1, instance], pose[2, instance], pose[6, instance]
    sun_x, sun_y, sun_z = sun[0, 0], sun[0, 1], sun[0, 2]
    for i in range(n):
        x, y, z = (
            centre_x - point[0, at(start + i)],
            centre_y - point[1, at(start + i)],
            centre_z - point[2, at(start + i)],
        )
        along = x * sun_x + y * sun_y + z * sun_z
        flags[i] = (x * x + y * y + z * z - along * along < reach * reach) & (along > -reach)


@inner
def flag_shaded(
    bounds: Array, instance: Number, point: Array, place: Array, start: Number, n: Number, flags: Array
) -> None:
    """Flag the points in the shadow cone of an object's bounding sphere, from a lamp at a place."""
    a, b, c = bounds[0, instance], bounds[1, instance], bounds[2, instance]
    bound, nearest = bounds[3, instance], bounds[4, instance]
    lamp_x, lamp_y, lamp_z = place[0], place[1], place[2]
    for i in range(n):
        x, y, z = point[0, at(start + i)] - lamp_x, point[1, at(start + i)] - lamp_y, point[2, at(start + i)] - lamp_z
        along = a * x + b * y + c * z
        flags[i] = (along * along > bound * (x * x + y * y + z * z)) & (along > nearest)


@inner
def keep_flagged(flags: Array, own: Array, spared: Number, start: Number, n: Number, chosen: Array) -> Number:
    """List the flagged rays that do not start on the object `spared`, and return their number."""
    kept = np.int64(0)
    for i in range(n):
        if flags[i] and (len(own) == 0 or own[start + i] != spared):
            chosen[kept] = start + i
            kept += 1
    return kept


@inner
def load_rays(point: Array, direction: Array, chosen: Array, s: Array) -> None:
    """Load rays."""
    for i in range(len(chosen)):
        ray = chosen[i]
        s[at(OX + i)], s[at(OY + i)], s[at(OZ + i)] = point[0, at(ray)], point[1, at(ray)], point[2, at(ray)]
        s[at(DX + i)], s[at(DY + i)], s[at(DZ + i)] = (
            direction[0, at(ray)],
            direction[1, at(ray)],
            direction[2, at(ray)],
        )


@inner
def load_shadow_rays(point: Array, targets: Array, fixed: bool, chosen: Array, s: Array) -> None:
    """Load rays from points to each target, [S, 3]; a `fixed` target is the ray itself."""
    n = len(chosen)
    for k in range(len(targets)):
        a, b, c = targets[k, 0], targets[k, 1], targets[k, 2]
        for i in range(n):
            x, y, z = point[0, at(chosen[i])], point[1, at(chosen[i])], point[2, at(chosen[i])]
            j = k * n + i
            s[at(OX + j)], s[at(OY + j)], s[at(OZ + j)] = x, y, z
            s[at(DX + j)], s[at(DY + j)], s[at(DZ + j)] = (
                a if fixed else a - x,
                b if fixed else b - y,
                c if fixed else c - z,
            )


@inner
def to_object(pose: Array, instance: Number, push: Number, s: Array, n: Number) -> None:
    """Turn n rays O, D to the unit coordinates of an instance."""
    centre_x, centre_y, centre_z, size = pose[0, instance], pose[1, instance], pose[2, instance], pose[3, instance]
    cosine, sine = pose[4, instance], pose[5, instance]
    for i in range(n):
        x, y = (s[at(OX + i)] - centre_x) / size, (s[at(OY + i)] - centre_y) / size
        s[at(OX + i)], s[at(OY + i)], s[at(OZ + i)] = (
            x * cosine + y * sine,
            y * cosine - x * sine,
            (s[at(OZ + i)] - centre_z) / size,
        )
        x, y = s[at(DX + i)] / size, s[at(DY + i)] / size
        s[at(DX + i)], s[at(DY + i)], s[at(DZ + i)] = x * cosine + y * sine, y * cosine - x * sine, s[at(DZ + i)] / size
        s[at(PUSH + i)] = push


@inner
def run_end(groups: Array, start: Number) -> Number:
    """The end of the run of equal groups that begins at `start`, at most a block long."""
    stop = min(len(groups), start + BLOCK)
    end = start + 1
    while end < stop and groups[end] == groups[start]:
        end += 1
    return end


@inner
def meet_hull(
    forms: Array, numbers: Array, faces: Array, shadow: bool, grounded: bool, s: Array, n: Number, root: Number
) -> None:
    """Where n rays from O along D enter and leave a hull, `Shape.enter`; `HIT` is where they enter."""
    exact, middle = forms[EXACT] == 1 and not shadow, numbers[CENTRE]
    for i in range(n):
        push = s[at(PUSH + i)] if exact else ZERO
        s[at(SX + i)], s[at(SY + i)] = s[at(OX + i)] / (ONE + push), s[at(OY + i)] / (ONE + push)
        s[at(SZ + i)] = (s[at(OZ + i)] + middle * push) / (ONE + push)
        s[at(WX + i)], s[at(WY + i)], s[at(WZ + i)] = (
            s[at(DX + i)] / (ONE + push),
            s[at(DY + i)] / (ONE + push),
            s[at(DZ + i)] / (ONE + push),
        )
    hull_hits(forms[SHADOW] if shadow else forms[HULL], numbers, SHADE if shadow else AROUND, faces, s, n, root)
    if not shadow:
        for i in range(n):
            leave, down = s[at(LEAVE + i)], s[at(DZ + i)]
            if grounded:
                ground = (-ONE - s[at(OZ + i)]) / smaller(down, -LEAST_SLOPE)
                leave = smaller(leave, ground) if down < ZERO else leave
            begin = larger(s[at(ENTRY + i)], ZERO)
            s[at(LEAVE + i)] = leave
            s[at(HIT + i)] = INFINITE if leave <= begin else begin


@inner
def gather(s: Array, from_place: Number, to_place: Number) -> None:
    """Copy an active ray to another place."""
    s[at(TX + to_place)], s[at(TY + to_place)], s[at(TZ + to_place)] = (
        s[at(TX + from_place)],
        s[at(TY + from_place)],
        s[at(TZ + from_place)],
    )
    s[at(VX + to_place)], s[at(VY + to_place)], s[at(VZ + to_place)] = (
        s[at(VX + from_place)],
        s[at(VY + from_place)],
        s[at(VZ + from_place)],
    )
    s[at(MOVED + to_place)], s[at(T + to_place)] = s[at(MOVED + from_place)], s[at(T + from_place)]
    s[at(END + to_place)], s[at(SCALE + to_place)] = s[at(END + from_place)], s[at(SCALE + from_place)]


@inner
def begin_march(who: Array, s: Array, n: Number, root: Number) -> Number:
    """List the rays that meet the hull, and return their number."""
    active = np.int64(0)
    for i in range(n):
        if s[at(HIT + i)] < INFINITE:
            who[active] = i
            s[at(TX + active)], s[at(TY + active)], s[at(TZ + active)] = s[at(OX + i)], s[at(OY + i)], s[at(OZ + i)]
            s[at(VX + active)], s[at(VY + active)], s[at(VZ + active)] = s[at(DX + i)], s[at(DY + i)], s[at(DZ + i)]
            s[at(MOVED + active)], s[at(T + active)], s[at(END + active)] = (
                s[at(PUSH + i)],
                s[at(HIT + i)],
                s[at(LEAVE + i)],
            )
            active += 1
        s[at(HIT + i)] = INFINITE
    for i in range(active):
        s[at(SCALE + i)] = s[at(VX + i)] * s[at(VX + i)] + s[at(VY + i)] * s[at(VY + i)] + s[at(VZ + i)] * s[at(VZ + i)]
    take_roots(s, SCALE, active, root)
    for i in range(active):
        s[at(SCALE + i)] = ONE / s[at(SCALE + i)]
    return active


@inner
def drop_decided(close: Number, who: Array, s: Array, n: Number) -> Number:
    """Store hits, drop rays that hit the surface or left the hull, and return how many remain."""
    kept = np.int64(0)
    for i in range(n):
        inside, near = s[at(T + i)] <= s[at(END + i)], s[at(GAP + i)] < close
        if near and inside:
            s[HIT + who[i]] = s[at(T + i)]
        elif inside:
            who[kept] = who[i]
            gather(s, i, kept)
            kept += 1
    return kept


@inner
def place_tests(turn: Number, s: Array, n: Number) -> None:
    """Set AT, where rays are tested in this turn: at the end of the last step, at a sample or in the middle."""
    for i in range(n):
        if turn < MARCH:
            s[at(AT + i)] = s[at(T + i)]
        elif turn < MARCH + SAMPLES:
            s[at(AT + i)] = s[at(T + i)] + s[at(SCALE + i)] * np.float32(turn - MARCH)
        else:
            s[at(AT + i)] = (s[at(LOW + i)] + s[at(HIGH + i)]) / TWO
        s[at(PX + i)] = s[at(TX + i)] + s[at(VX + i)] * s[at(AT + i)]
        s[at(PY + i)] = s[at(TY + i)] + s[at(VY + i)] * s[at(AT + i)]
        s[at(PZ + i)] = s[at(TZ + i)] + s[at(VZ + i)] * s[at(AT + i)]


@inner
def use_tests(turn: Number, close: Number, s: Array, n: Number) -> None:
    """Take a step, keep the first sample that is inside, or halve the interval."""
    for i in range(n):
        gap = s[at(GAP + i)] - s[at(MOVED + i)]
        s[at(GAP + i)] = gap
        if turn < MARCH:
            s[at(T + i)] = s[at(T + i)] + larger(gap, ZERO) * s[at(SCALE + i)]
        elif turn < MARCH + SAMPLES:
            if gap < close and not s[at(HIGH + i)] < INFINITE:
                s[at(LOW + i)], s[at(HIGH + i)] = s[at(AT + i)] - s[at(SCALE + i)], s[at(AT + i)]
        elif gap < close:
            s[at(HIGH + i)] = s[at(AT + i)]
        else:
            s[at(LOW + i)] = s[at(AT + i)]


@inner
def begin_search(s: Array, n: Number) -> None:
    """Turn the scale of n rays into the distance between samples."""
    for i in range(n):
        s[at(SCALE + i)] = (s[at(END + i)] - s[at(T + i)]) / np.float32(SAMPLES - 1)
        s[at(LOW + i)], s[at(HIGH + i)] = INFINITE, INFINITE


@inner
def march(
    forms: Array,
    numbers: Array,
    faces: Array,
    fields: Array,
    close: Number,
    who: Array,
    s: Array,
    n: Number,
    root: Number,
) -> None:
    """Distances HIT at which n rays hit a surface pushed out by PUSH, `Shape.intersect`."""
    active = begin_march(who, s, n, root)
    for turn in range(MARCH + SAMPLES + HALVINGS):
        if turn in CHECKS:
            active = drop_decided(close, who, s, active)
        if active == 0:
            break
        if turn == MARCH:
            begin_search(s, active)
        place_tests(turn, s, active)
        gaps(forms[DISTANCE], forms, numbers, faces, fields, s, active, root)
        use_tests(turn, close, s, active)
    for i in range(active):
        s[HIT + who[i]] = s[at(HIGH + i)]


@inner
def find_normals(forms: Array, numbers: Array, faces: Array, fields: Array, s: Array, n: Number, root: Number) -> None:
    """Unit normals D at n points O, `Shape.normal`."""
    if forms[DISTANCE] == BALL:
        for i in range(n):
            s[at(DX + i)], s[at(DY + i)], s[at(DZ + i)] = s[at(OX + i)], s[at(OY + i)], s[at(OZ + i)]
    else:
        for turn in range(6):
            move_points(turn, numbers[STEP], s, n)
            gaps(forms[DISTANCE], forms, numbers, faces, fields, s, n, root)
            row = DX + BLOCK * (turn // 2)
            for i in range(n):
                s[at(row + i)] = s[at(GAP + i)] if turn % 2 == 0 else s[at(row + i)] - s[at(GAP + i)]
    for i in range(n):
        s[at(U + i)] = s[at(DX + i)] * s[at(DX + i)] + s[at(DY + i)] * s[at(DY + i)] + s[at(DZ + i)] * s[at(DZ + i)]
    take_roots(s, U, n, root)
    for i in range(n):
        size = larger(s[at(U + i)], LEAST_SQUARE)
        s[at(DX + i)], s[at(DY + i)], s[at(DZ + i)] = s[at(DX + i)] / size, s[at(DY + i)] / size, s[at(DZ + i)] / size


@inner
def move_points(turn: Number, step: Number, s: Array, n: Number) -> None:
    """The points P: O moved by a step along an axis, forwards or backwards."""
    move = step if turn % 2 == 0 else -step
    for i in range(n):
        s[at(PX + i)] = s[at(OX + i)] + move if turn < 2 else s[at(OX + i)]
        s[at(PY + i)] = s[at(OY + i)] + move if turn == 2 or turn == 3 else s[at(OY + i)]
        s[at(PZ + i)] = s[at(OZ + i)] + move if turn > 3 else s[at(OZ + i)]


@inner
def store_hits(instance: Number, chosen: Array, s: Array, best: Array, hit: Array) -> None:
    """Keep the hits that are nearer than those found before."""
    for i in range(len(chosen)):
        if s[at(HIT + i)] < best[0, chosen[i]]:
            best[0, chosen[i]] = s[at(HIT + i)]
            hit[chosen[i]] = instance


@inner
def store_shadows(hull: bool, opacity: Number, samples: Number, chosen: Array, s: Array, lit: Array) -> None:
    """Multiply the visible share of a lamp by the share of its light that passes an object."""
    n = len(chosen)
    for i in range(n):
        blocked = ZERO
        for k in range(samples):
            j = k * n + i
            if s[at(ENTRY + j)] < ONE and s[at(LEAVE + j)] > ZERO if hull else s[at(HIT + j)] < ONE:
                blocked += ONE
        lit[chosen[i]] *= ONE - blocked / np.float32(samples) * opacity


@inner
def store_normals(pose: Array, instance: Number, chosen: Array, s: Array, normal: Array) -> None:
    """Store the normals in world coordinates."""
    cosine, sine = pose[4, instance], pose[5, instance]
    for i in range(len(chosen)):
        x, y = s[at(DX + i)], s[at(DY + i)]
        normal[0, chosen[i]] = x * cosine - y * sine
        normal[1, chosen[i]] = x * sine + y * cosine
        normal[2, chosen[i]] = s[at(DZ + i)]


@inner
def choose(
    task: Number,
    lights: Arrays,
    pose: Array,
    instance: Number,
    lamp: Number,
    group: Number,
    point: Array,
    direction: Array,
    start: Number,
    n: Number,
    flags: Array,
) -> None:
    """Flag the rays of a run that may meet an object, by its bounding sphere."""
    bounds, lamps, targets, sun = lights
    if task == SHADOWS and lamp == len(targets):
        flag_sun(pose, instance, point, sun, start, n, flags)
    elif task == SHADOWS:
        flag_shaded(bounds[lamp], instance, point, lamps[lamp, group], start, n, flags)
    elif task == FIRST_HITS:
        flag_near(pose, instance, point, direction, start, n, flags)
    else:
        flags[:] = True


@compiled
def trace(
    task: Number,
    world: Arrays,
    pose: Array,
    kind: Array,
    objects: Number,
    grounded: bool,
    root: Number,
    groups: Array,
    own: Array,
    point: Array,
    direction: Array,
    lights: Arrays,
    found: Array,
    hit: Array,
) -> None:
    """Find the FIRST_HITS of rays in their scene or OWN_HITS with their instance, SHADOWS on points, or their NORMALS.

    A group [M] is a scene, or an instance, as if each object had a scene of its own. `found` is the distance [1, M],
    the share of each lamp [lamps + 1, M], or the normal [3, M].
    """
    forms, numbers, faces, fields = world
    _, _, targets, sun = lights
    s, who, listed = np.empty(SCRATCH, np.float32), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    flags, start = np.ones(BLOCK, np.bool_), np.int64(0)
    sources = len(targets) + 1 if task == SHADOWS else 1
    while start < len(groups):
        group, end = groups[start], run_end(groups, start)
        for pick in range(objects * sources):
            item, lamp = pick // sources, pick % sources
            instance = group * objects + item
            shape, from_sun = kind[instance], lamp == len(targets)
            if shape < 0 or not pose[6, instance] > ZERO:
                continue
            choose(task, lights, pose, instance, lamp, group, point, direction, start, end - start, flags)
            kept = keep_flagged(flags, own, item if forms[shape, CONVEX] == 1 else -2, start, end - start, listed)
            rays = sun[1:] if from_sun else targets[lamp, group]
            samples = len(rays) if task == SHADOWS else 1
            hull, most = task == SHADOWS and forms[shape, SHADOW] >= 0, BLOCK // samples
            for first in range(0, kept, most):
                chosen = listed[first : min(first + most, kept)]
                if task == SHADOWS:
                    load_shadow_rays(point, rays, from_sun, chosen, s)
                else:
                    load_rays(point, direction, chosen, s)
                n = len(chosen) * samples
                to_object(pose, instance, ZERO if task == SHADOWS else pose[8, instance], s, n)
                if task == NORMALS:
                    find_normals(forms[shape], numbers[shape], faces, fields, s, n, root)
                    store_normals(pose, instance, chosen, s, found)
                    continue
                meet_hull(forms[shape], numbers[shape], faces, hull, grounded, s, n, root)
                if not hull and forms[shape, EXACT] == 0:
                    close = SHADOW_CLOSE if task == SHADOWS else HIT_CLOSE
                    march(forms[shape], numbers[shape], faces, fields, close, who, s, n, root)
                if task == SHADOWS:
                    store_shadows(hull, pose[7, instance], samples, chosen, s, found[lamp])
                else:
                    store_hits(instance, chosen, s, found, hit)
        start = end
