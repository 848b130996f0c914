"""Shapes: where a ray meets a cube, a sphere, a monkey, in the shape's own unit coordinates.

A shape has half-size 1 and z up. Each is a signed distance (negative inside) and a tight convex hull whose entry and
exit along a ray have a closed form: the ray is walked from the entry by the distance itself, so flat faces are met at
once and only rounded edges take steps. Distances are exact or too small, never too large, so no ray steps over a shape.
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
Walk = Callable[..., tuple[Tensor, Tensor]]
Hull = Callable[[Vector, Vector], tuple[Tensor, Tensor]]  # origins, directions [3, M] -> entry, exit [M]

STRIDE = 4  # steps along a ray that are taken together
STRIDES = (1, 1, 1, 2, 3, 4)  # strides between two looks at which rays have arrived: the few that are left walk longer
LOOKS, HALVINGS = 48, 5  # for the few rays that have not arrived even then
CLOSE = 1e-3  # a ray this near, in units of the half-size, has met the surface: a sixtieth of a pixel


def _length(*parts: Tensor) -> Tensor:
    total = parts[0] * parts[0]
    for part in parts[1:]:
        total = total + part * part
    return total.sqrt()


def _rounded(first: Tensor, second: Tensor, radius: float) -> Tensor:
    """Distance to a rectangle's corner rounded by `radius`, from the distances to its two sides."""
    outside = _length(first.clamp_min(0.0), second.clamp_min(0.0))
    return outside + torch.maximum(first, second).clamp_max(0.0) - radius


def cube_distance(half: float, radius: float) -> Distance:
    """A cube with rounded edges."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point.abs() - (half - radius)
        inside = torch.maximum(torch.maximum(x, y), z).clamp_max(0.0)
        return _length(x.clamp_min(0.0), y.clamp_min(0.0), z.clamp_min(0.0)) + inside - radius

    return distance


def cylinder_distance(width: float, height: float, radius: float) -> Distance:
    """An upright cylinder with rounded rims."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point
        return _rounded(_length(x, y) - (width - radius), z.abs() - (height - radius), radius)

    return distance


def sphere_distance(point: Tensor) -> Tensor:
    """The unit sphere."""
    return _length(*point) - 1.0


def cone_distance(width: float, bottom: float, top: float, rim: float, tip: float) -> Distance:
    """An upright cone, its rim rounded by the radius `rim` and its tip by `tip`; sharp, it would end at `top`."""
    slant = math.hypot(width, top - bottom)
    across, up = (top - bottom) / slant, width / slant
    ball = top - tip / up  # the middle of the tip

    def distance(point: Tensor) -> Tensor:
        x, y, z = point
        wide, above = _length(x, y), z - ball
        round_tip = _length(wide, above) - tip
        side = torch.where(above * across > wide * up, round_tip, wide * across + (z - top) * up)
        side, under = side + rim, bottom + rim - z
        # the rim is sharper than a right angle: how far a point lies beyond it along the normals of its two sides
        beyond = torch.minimum(side + up * under, under + up * side)
        corner = (side * side + under * under + (2.0 * up) * side * under).clamp_min(0.0).sqrt() / across
        return torch.where(beyond > 0.0, corner, torch.maximum(side, under)) - rim

    return distance


def torus_distance(ring: float, wide: float, high: float, centre: float) -> Distance:
    """A torus lying flat whose tube is an upright ellipse; outside at most 3 percent too small."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point
        a, b = (_length(x, y) - ring) / wide, (z - centre) / high
        out = _length(a, b)
        return out * (out - 1.0) / _length(a / wide, b / high).clamp_min(1e-6)

    return distance


def polyhedron_distance(normals: tuple[tuple[float, ...], ...], inner: float, centre: float) -> Distance:
    """A convex body with faces at `inner` from its centre on the axis; a lower bound outside."""

    def distance(point: Tensor) -> Tensor:
        x, y, z = point[0], point[1], point[2] - centre
        outermost = torch.full_like(x, -inner)
        for a, b, c in normals:
            outermost = torch.maximum(outermost, x * a + y * b + z * c)
        return outermost - inner

    return distance


def sphere_hull(radius: float) -> Hull:
    """Entry and exit of a ray through a sphere about the origin; the entry is infinite where it misses."""

    def hull(origin: Vector, direction: Vector) -> tuple[Tensor, Tensor]:
        a, b = dot(direction, direction), dot(origin, direction)
        c = dot(origin, origin) - radius * radius
        root = b * b - a * c
        half = root.clamp_min(0.0).sqrt()
        missed = root < 0.0
        return ((-b - half) / a).masked_fill(missed, math.inf), ((-b + half) / a).masked_fill(missed, -math.inf)

    return hull


def box_hull(low: tuple[float, float, float], high: tuple[float, float, float]) -> Hull:
    """Entry and exit of a ray through an upright box."""

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

    return hull


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

    return hull


def polyhedron_hull(normals: tuple[tuple[float, ...], ...], inner: float, centre: float) -> Hull:
    """Entry and exit of a ray through a convex body with faces at `inner` from its centre on the axis."""

    def hull(origin: Vector, direction: Vector) -> tuple[Tensor, Tensor]:
        ox, oy, oz = origin[0], origin[1], origin[2] - centre
        dx, dy, dz = direction
        entry, leave = torch.full_like(ox, -math.inf), torch.full_like(ox, math.inf)
        for a, b, c in normals:
            slope = dx * a + dy * b + dz * c
            slope = torch.where(slope.abs() < 1e-9, torch.full_like(slope, 1e-9), slope)
            far = (inner - (ox * a + oy * b + oz * c)) / slope
            inward = slope < 0.0
            entry = torch.where(inward, torch.maximum(entry, far), entry)
            leave = torch.where(inward, leave, torch.minimum(leave, far))
        missed = ~(entry <= leave)
        return entry.masked_fill(missed, math.inf), leave.masked_fill(missed, -math.inf)

    return hull


@dataclass(frozen=True)
class Shape:
    """A shape in unit coordinates: its distance, its hull, a sphere around it, and whether it can shade itself."""

    name: str
    distance: Distance
    hull: Hull
    reach: float  # radius of a sphere about the origin that holds it
    convex: bool = True
    hull_is_shape: bool = False  # no walking needed
    middle: float = 0.0  # height about which such a shape grows when its surface is pushed outwards
    shade: Hull | None = None  # a convex body that casts nearly the same shadow, for speed
    slope: float = 1e-3  # half the step of the finite difference that gives normals

    @cached_property
    def enter(self) -> Walk:
        """Where rays enter and leave the hull, `swell` counted: start, or infinity, and end. [M] each"""

        def enter(origin: Tensor, direction: Tensor, swell: Tensor | None) -> tuple[Tensor, Tensor]:
            start, way = origin, direction
            if self.hull_is_shape and swell is not None:
                x, y, z = origin
                start = torch.stack([x, y, z + self.middle * swell]) / (1.0 + swell)
                way = direction / (1.0 + swell)
            entry, leave = self.hull(start, way)
            if swell is not None:
                # what is pushed below the ground that the shape stands on cannot be seen
                ground = (-1.0 - origin[2]) / direction[2].clamp_max(-1e-9)
                leave = torch.where(direction[2] < 0.0, torch.minimum(leave, ground), leave)
            begin = entry.clamp_min(0.0)
            return begin.masked_fill(leave <= begin, math.inf), leave

        return enter

    @cached_property
    def advance(self) -> Walk:
        """A stride of steps along rays: how far they have come, and how near the surface they are. [M] each"""

        def advance(origin: Tensor, direction: Tensor, far: Tensor, swell: Tensor | None) -> tuple[Tensor, Tensor]:
            pace = 1.0 / length(direction)
            gap = far
            for _ in range(STRIDE):
                gap = self.distance(origin + direction * far)
                if swell is not None:
                    gap = gap - swell
                far = far + gap.clamp_min(0.0) * pace
            return far, gap

        return fused(advance)

    def meet(self, origin: Tensor, direction: Tensor, swell: Tensor | None = None, close: float = CLOSE) -> Tensor:
        """How far along rays [3, M] the surface is first met from outside, infinite where it is not. [M]

        `swell` [M] pushes the surface outwards; a ray as near as `close` has met it.
        """
        met, leave = self.enter(origin, direction, swell)
        if self.hull_is_shape:
            return met
        rows = torch.isfinite(met).nonzero()[:, 0]
        far, leave = met[rows], leave[rows]
        met = met.fill_(math.inf)
        for strides in STRIDES:
            start, way = origin.index_select(1, rows), direction.index_select(1, rows)
            push = None if swell is None else swell[rows]
            gap = far
            for _ in range(strides):
                far, gap = self.advance(start, way, far, push)
            # rays that have arrived or left the hull leave the list: what remains are the grazing few
            inside, near = far <= leave, gap < close
            done = (near & inside).nonzero()[:, 0]
            met[rows[done]] = far[done]
            going = (inside & ~near).nonzero()[:, 0]
            rows, far, leave = rows[going], far[going], leave[going]
            if not len(rows):
                return met
        met[rows] = self._searched(
            origin.index_select(1, rows),
            direction.index_select(1, rows),
            far,
            leave,
            0.0 if swell is None else swell[rows],
            close,
        )
        return met

    def _searched(
        self, origin: Tensor, direction: Tensor, far: Tensor, leave: Tensor, swell: Tensor | float, close: float
    ) -> Tensor:
        """Where rays that creep along a face meet it after all: the first of many points, then halved towards. [M]"""

        def inside(there: Tensor) -> Tensor:
            # several points of each ray, [K, M], are one long list to the distance
            point = origin[:, None] + direction[:, None] * there
            gap = self.distance(point.reshape(3, -1)).reshape(there.shape)
            return gap - swell < close

        stride = (leave - far) / LOOKS
        there = far + stride * torch.arange(LOOKS + 1, device=far.device)[:, None]
        found = torch.where(inside(there), there, torch.full_like(there, math.inf)).amin(0, keepdim=True)
        low, high = found - stride, found
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            deep = inside(middle)
            low, high = torch.where(deep, low, middle), torch.where(deep, middle, high)
        return torch.where(torch.isfinite(found), high, found)[0]

    @cached_property
    def leaves(self) -> Callable[..., Tensor]:
        """The share of rays that pass the body which stands for the shape in shadows.

        The first argument makes, from the others, rays that end after one direction's length, [S, K] per coordinate,
        and the density [K] of the object; the answer is [K].
        """
        shade = self.shade
        assert shade is not None

        def leaves(rays: Callable[..., tuple[Triple, Triple, Tensor]], *arguments: Any) -> Tensor:
            origin, way, solid = rays(*arguments)
            entry, leave = shade(origin, way)
            return 1.0 - ((entry < 1.0) & (leave > 0.0)).float().mean(0) * solid

        return fused(leaves)

    @cached_property
    def normal(self) -> Callable[[Tensor], Tensor]:
        """The outward unit normal at points [3, M] on or near the surface. [3, M]"""

        def normal(point: Tensor) -> Tensor:
            if self.name == "sphere":
                return unit(point)
            x, y, z = point
            step = self.slope
            across = self.distance(torch.stack([x + step, y, z])) - self.distance(torch.stack([x - step, y, z]))
            along = self.distance(torch.stack([x, y + step, z])) - self.distance(torch.stack([x, y - step, z]))
            above = self.distance(torch.stack([x, y, z + step])) - self.distance(torch.stack([x, y, z - step]))
            return unit(torch.stack([across, along, above]))

        return normal
