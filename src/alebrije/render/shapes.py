"""Shapes: intersect rays with a cube, a sphere or a monkey, in the shape's own unit coordinates.

A shape has half-size 1 and z up. It is a signed distance field (negative inside) in a tight convex hull whose entry and
exit along a ray have a closed form. Sphere tracing starts at the entry, so flat faces are hit at once and only rounded
edges take steps. Distances are exact or too small, never too large, so no ray steps over a shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from alebrije.render.fusing import fused
from alebrije.render.vectors import Triple, Vector, dot, length, unit

Distance = Callable[[Tensor], Tensor]  # points [3, M] -> [M]
Hull = Callable[[Vector, Vector], tuple[Tensor, Tensor]]  # origins, directions [3, M] -> entry, exit [M]

STRIDE = 4  # sphere-tracing steps taken together
STRIDES = (1, 1, 1, 2, 3, 4)  # strides between two checks for hits: the last few rays need more steps
SAMPLES, HALVINGS = 48, 5  # samples and bisections for the few rays that are still undecided
CLOSE = 1e-3  # a ray this close to the surface, in half-sizes, has hit it: a sixtieth of a pixel


@dataclass(frozen=True)
class Formula:
    """A distance or a hull, with the name of its form and the numbers in it, which compiled code needs."""

    function: Callable[..., Any]
    form: str
    numbers: tuple[float, ...] = ()
    faces: tuple[tuple[float, ...], ...] = ()

    def __call__(self, *vectors: Any) -> Any:
        """Apply it to points, or to origins and directions."""
        return self.function(*vectors)


def _length(*parts: Tensor) -> Tensor:
    total = parts[0] * parts[0]
    for part in parts[1:]:
        total = total + part * part
    return total.sqrt()


def _rounded(first: Tensor, second: Tensor, radius: float) -> Tensor:
    """Distance to a rectangle with corners rounded by `radius`, from the distances to its two sides."""
    outside = _length(first.clamp_min(0.0), second.clamp_min(0.0))
    return outside + torch.maximum(first, second).clamp_max(0.0) - radius


def cube_distance(half: float, radius: float) -> Distance:
    """A cube with rounded edges."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point.abs() - (half - radius)
        inside = torch.maximum(torch.maximum(x, y), z).clamp_max(0.0)
        return _length(x.clamp_min(0.0), y.clamp_min(0.0), z.clamp_min(0.0)) + inside - radius

    return Formula(distance, "box", (half - radius, radius))


def block_distance(halves: tuple[float, float, float]) -> Distance:
    """A box with sharp edges."""
    wide, deep, high = halves

    def distance(point: Tensor) -> Tensor:
        x, y, z = point.abs()
        x, y, z = x - wide, y - deep, z - high
        inside = torch.maximum(torch.maximum(x, y), z).clamp_max(0.0)
        return _length(x.clamp_min(0.0), y.clamp_min(0.0), z.clamp_min(0.0)) + inside

    return Formula(distance, "block", halves)


def cylinder_distance(width: float, height: float, radius: float) -> Distance:
    """An upright cylinder with rounded rims."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point
        return _rounded(_length(x, y) - (width - radius), z.abs() - (height - radius), radius)

    return Formula(distance, "tube", (width - radius, height - radius, radius))


def sphere_distance(point: Tensor) -> Tensor:
    """The unit sphere."""
    return _length(*point) - 1.0


def cone_distance(width: float, bottom: float, top: float, rim: float, tip: float) -> Distance:
    """An upright cone, its rim rounded by the radius `rim` and its tip by `tip`; if sharp, it would end at `top`."""
    slant = math.hypot(width, top - bottom)
    across, up = (top - bottom) / slant, width / slant
    ball = top - tip / up  # centre of the rounded tip

    def distance(point: Tensor) -> Tensor:
        x, y, z = point
        wide, above = _length(x, y), z - ball
        round_tip = _length(wide, above) - tip
        side = torch.where(above * across > wide * up, round_tip, wide * across + (z - top) * up)
        side, under = side + rim, bottom + rim - z
        # the rim is sharper than a right angle, so measure along the normals of its two sides
        beyond = torch.minimum(side + up * under, under + up * side)
        corner = (side * side + under * under + (2.0 * up) * side * under).clamp_min(0.0).sqrt() / across
        return torch.where(beyond > 0.0, corner, torch.maximum(side, under)) - rim

    return Formula(distance, "cone", (ball, tip, across, up, top, rim, bottom + rim, 2.0 * up))


def torus_distance(ring: float, wide: float, high: float, centre: float) -> Distance:
    """A flat torus whose tube is an upright ellipse; outside the distance is at most 3 percent too small."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point
        a, b = (_length(x, y) - ring) / wide, (z - centre) / high
        out = _length(a, b)
        return out * (out - 1.0) / _length(a / wide, b / high).clamp_min(1e-6)

    return Formula(distance, "ring", (ring, wide, high, centre))


def polyhedron_distance(normals: tuple[tuple[float, ...], ...], inner: float, centre: float) -> Distance:
    """A convex polyhedron with faces at `inner` from its centre on the z axis; a lower bound outside."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point[0], point[1], point[2] - centre
        outermost = torch.full_like(x, -inner)
        for a, b, c in normals:
            outermost = torch.maximum(outermost, x * a + y * b + z * c)
        return outermost - inner

    return Formula(distance, "solid", (inner, centre), normals)


def sphere_hull(radius: float) -> Hull:
    """Entry and exit of a ray through a sphere about the origin; the entry is infinite if it misses."""

    def hull(origin: Vector, direction: Vector) -> tuple[Tensor, Tensor]:
        a, b = dot(direction, direction), dot(origin, direction)
        c = dot(origin, origin) - radius * radius
        root = b * b - a * c
        half = root.clamp_min(0.0).sqrt()
        missed = root < 0.0
        return ((-b - half) / a).masked_fill(missed, math.inf), ((-b + half) / a).masked_fill(missed, -math.inf)

    return Formula(hull, "ball", (radius * radius,))


def box_hull(low: tuple[float, float, float], high: tuple[float, float, float]) -> Hull:
    """Entry and exit of a ray through an axis-aligned box."""

    def hull(origin: Vector, direction: Vector) -> tuple[Tensor, Tensor]:
        entries, exits = [], []
        for start, way, least, most in zip(origin, direction, low, high, strict=True):
            first, second = (least - start) / way, (most - start) / way
            entries.append(torch.minimum(first, second))
            exits.append(torch.maximum(first, second))
        entry = torch.maximum(torch.maximum(entries[0], entries[1]), entries[2])
        leave = torch.minimum(torch.minimum(exits[0], exits[1]), exits[2])
        missed = ~(entry <= leave)
        return entry.masked_fill(missed, math.inf), leave.masked_fill(missed, -math.inf)

    return Formula(hull, "box", (*low, *high))


def tube_hull(width: float, low: float, high: float) -> Hull:
    """Entry and exit of a ray through an upright cylinder."""

    def hull(origin: Vector, direction: Vector) -> tuple[Tensor, Tensor]:
        ox, oy, oz = origin
        dx, dy, dz = direction
        a = (dx * dx + dy * dy).clamp_min(1e-12)
        b = ox * dx + oy * dy
        root = b * b - a * (ox * ox + oy * oy - width * width)
        half = root.clamp_min(0.0).sqrt()
        first, second = (low - oz) / dz, (high - oz) / dz
        entry = torch.maximum((-b - half) / a, torch.minimum(first, second))
        leave = torch.minimum((-b + half) / a, torch.maximum(first, second))
        missed = (root < 0.0) | ~(entry <= leave)
        return entry.masked_fill(missed, math.inf), leave.masked_fill(missed, -math.inf)

    return Formula(hull, "tube", (width * width, low, high))


def polyhedron_hull(normals: tuple[tuple[float, ...], ...], inner: float, centre: float) -> Hull:
    """Entry and exit of a ray through a convex polyhedron with faces at `inner` from its centre on the z axis."""

    def hull(origin: Vector, direction: Vector) -> tuple[Tensor, Tensor]:
        ox, oy, oz = origin[0], origin[1], origin[2] - centre
        dx, dy, dz = direction
        entry, leave = torch.full_like(ox, -math.inf), torch.full_like(ox, math.inf)
        for a, b, c in normals:
            slope = dx * a + dy * b + dz * c
            slope = torch.where(slope.abs() < 1e-9, torch.full_like(slope, 1e-9), slope)
            t = (inner - (ox * a + oy * b + oz * c)) / slope
            inward = slope < 0.0
            entry = torch.where(inward, torch.maximum(entry, t), entry)
            leave = torch.where(inward, leave, torch.minimum(leave, t))
        missed = ~(entry <= leave)
        return entry.masked_fill(missed, math.inf), leave.masked_fill(missed, -math.inf)

    return Formula(hull, "solid", (inner, centre), normals)


@dataclass(frozen=True)
class Shape:
    """A shape in unit coordinates: its signed distance, its hull and its bounding sphere."""

    name: str
    distance: Distance
    hull: Hull
    reach: float  # radius of the bounding sphere about the origin
    convex: bool = True  # a convex shape casts no shadow on itself
    hull_is_exact: bool = False  # needs no sphere tracing
    middle: float = 0.0  # height of the fixed point of such a shape when its surface is displaced
    shadow_hull: Hull | None = None  # a convex body with nearly the same shadow, for speed
    normal_step: float = 1e-3  # half the step of the finite difference for normals
    numbers: tuple[float, ...] = ()  # its dimensions, for ray tracers that are not written in torch

    def enter(self, origin: Tensor, direction: Tensor, displacement: Tensor | None) -> tuple[Tensor, Tensor]:
        """Where rays enter and leave the displaced hull; the entry is infinite if they miss. [M] each"""
        start, way = origin, direction
        if self.hull_is_exact and displacement is not None:
            x, y, z = origin
            start = torch.stack([x, y, z + self.middle * displacement]) / (1.0 + displacement)
            way = direction / (1.0 + displacement)
        entry, leave = self.hull(start, way)
        if displacement is not None:
            # the ground hides whatever is displaced below it
            ground = (-1.0 - origin[2]) / direction[2].clamp_max(-1e-9)
            leave = torch.where(direction[2] < 0.0, torch.minimum(leave, ground), leave)
        begin = entry.clamp_min(0.0)
        return begin.masked_fill(leave <= begin, math.inf), leave

    @cached_property
    def march(self) -> Callable[..., tuple[Tensor, Tensor]]:
        """One stride of sphere tracing: the new distance along rays, and the distance to the surface. [M] each"""

        def march(origin: Tensor, direction: Tensor, t: Tensor, displacement: Tensor | None) -> tuple[Tensor, Tensor]:
            scale = 1.0 / length(direction)
            gap = t
            for _ in range(STRIDE):
                gap = self.distance(origin + direction * t)
                if displacement is not None:
                    gap = gap - displacement
                t = t + gap.clamp_min(0.0) * scale
            return t, gap

        return fused(march)

    def intersect(
        self, origin: Tensor, direction: Tensor, displacement: Tensor | None = None, close: float = CLOSE
    ) -> Tensor:
        """Distance along rays [3, M] at which they first hit the surface from outside, infinite if they miss. [M]

        `displacement` [M] moves the surface outwards; a ray within `close` of it has hit it.
        """
        hit, leave = self.enter(origin, direction, displacement)
        if self.hull_is_exact:
            return hit
        rows = torch.isfinite(hit).nonzero()[:, 0]
        t, leave = hit[rows], leave[rows]
        hit = hit.fill_(math.inf)
        for strides in STRIDES:
            start, way = origin.index_select(1, rows), direction.index_select(1, rows)
            pushed = None if displacement is None else displacement[rows]
            gap = t
            for _ in range(strides):
                t, gap = self.march(start, way, t, pushed)
            # drop rays that hit the surface or left the hull: only a few grazing rays remain
            inside, near = t <= leave, gap < close
            done = (near & inside).nonzero()[:, 0]
            hit[rows[done]] = t[done]
            active = (inside & ~near).nonzero()[:, 0]
            rows, t, leave = rows[active], t[active], leave[active]
            if not len(rows):
                return hit
        start, way = origin.index_select(1, rows), direction.index_select(1, rows)
        pushed = None if displacement is None else displacement[rows]
        hit[rows] = self._search_grazing(start, way, t, leave, pushed, close)
        return hit

    def _search_grazing(
        self, origin: Tensor, direction: Tensor, t: Tensor, leave: Tensor, displacement: Tensor | None, close: float
    ) -> Tensor:
        """Where rays that graze a face hit it: the first of many samples, refined by bisection. [M]"""

        def inside(samples: Tensor) -> Tensor:
            # the distance takes one long list of points: flatten the samples [K, M]
            point = origin[:, None] + direction[:, None] * samples
            gap = self.distance(point.reshape(3, -1)).reshape(samples.shape)
            return (gap if displacement is None else gap - displacement) < close

        step = (leave - t) / SAMPLES
        samples = t + step * torch.arange(SAMPLES + 1, device=t.device)[:, None]
        first = torch.where(inside(samples), samples, torch.full_like(samples, math.inf)).amin(0, keepdim=True)
        low, high = first - step, first
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_inside = inside(middle)
            low, high = torch.where(is_inside, low, middle), torch.where(is_inside, middle, high)
        return torch.where(torch.isfinite(first), high, first)[0]

    @cached_property
    def transmittance(self) -> Callable[..., Tensor]:
        """The share of light that passes the shadow hull, [K].

        The first argument computes, from the others, rays that end after the length of their direction, [S, K] per
        coordinate, and the opacity [K] of the object.
        """
        shadow_hull = self.shadow_hull
        assert shadow_hull is not None

        def transmittance(make_rays: Callable[..., tuple[Triple, Triple, Tensor]], *arguments: Any) -> Tensor:
            origin, way, opacity = make_rays(*arguments)
            entry, leave = shadow_hull(origin, way)
            return 1.0 - ((entry < 1.0) & (leave > 0.0)).float().mean(0) * opacity

        return fused(transmittance)

    def normal(self, point: Tensor) -> Tensor:
        """The outward unit normal at points [3, M] on or near the surface. [3, M]"""
        if self.name == "sphere":
            return unit(point)
        x, y, z = point
        step = self.normal_step
        across = self.distance(torch.stack([x + step, y, z])) - self.distance(torch.stack([x - step, y, z]))
        along = self.distance(torch.stack([x, y + step, z])) - self.distance(torch.stack([x, y - step, z]))
        above = self.distance(torch.stack([x, y, z + step])) - self.distance(torch.stack([x, y, z - step]))
        return unit(torch.stack([across, along, above]))
