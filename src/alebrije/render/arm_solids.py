"""The six solids that the arm holds: where rays meet them, and how much light falls there.

Only additions, multiplications, divisions, square roots and comparisons of single elements are used: these round alike
on every device and in every batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from alebrije.render.vectors import dot

_GLOSS_SQUARINGS = 4  # the highlight falls off with the 16th power of the cosine


class Rays(NamedTuple):
    """The rays of B images: `ahead + x * right + y * up`, for all pairs of `x` and `y`, from `origin`.

    Their component along `ahead` is 1, so lengths along them are distances along the viewing axis.
    """

    origin: Tensor  # [3, B], as the three axes
    ahead: Tensor
    right: Tensor
    up: Tensor
    x: Tensor  # [B, 1, W]
    y: Tensor  # [B, H, 1]

    def along(self, vector: Tensor) -> Tensor:
        """The inner products of a vector [3, B] with every ray, [B, H, W]."""
        middle, across, high = (dot(vector, axis)[:, None, None] for axis in (self.ahead, self.right, self.up))
        return (middle + across * self.x) + high * self.y


class Frame(NamedTuple):
    """The position and the axes of a solid in each image."""

    centre: Tensor  # [3, B]
    axes: tuple[Tensor, Tensor, Tensor]  # [3, B] each
    scale: Tensor  # [B]


class Lamp(NamedTuple):
    """The direction to the lamp, and halfway between it and the camera; unit vectors [3, B]."""

    toward: Tensor
    halfway: Tensor


class Hit(NamedTuple):
    """Where rays meet a solid, [B, H, W] each."""

    inside: Tensor  # bool
    depth: Tensor  # along the viewing axis
    facing: Tensor  # cosine between the normal and the lamp, at least 0
    gloss: Tensor  # strength of the highlight, 0..1


@dataclass(frozen=True)
class Polyhedron:
    """A convex solid between planes: the points p with n . p <= distance for all (n, distance)."""

    planes: tuple[tuple[tuple[float, float, float], float], ...]

    def hit(self, rays: Rays, frame: Frame, lamp: Lamp) -> Hit:
        """Where rays enter."""
        offset = rays.origin - frame.centre
        entry = leave = facing = halfway = torch.zeros(())
        for number, (normal, distance) in enumerate(self.planes):
            world = sum_of(frame.axes, normal)
            slope = rays.along(world)
            gap = distance * frame.scale - dot(world, offset)
            at = gap[:, None, None] / torch.where(slope.abs() < 1e-9, 1e-9, slope)
            inward = slope < 0.0
            first, last = torch.where(inward, at, -math.inf), torch.where(inward, math.inf, at)
            light, shine = (dot(world, vector)[:, None, None].expand_as(at) for vector in lamp)
            if number == 0:
                entry, leave, facing, halfway = first, last, light, shine
                continue
            nearer = first > entry
            entry, leave = torch.maximum(entry, first), torch.minimum(leave, last)
            facing, halfway = torch.where(nearer, light, facing), torch.where(nearer, shine, halfway)
        return _lit(entry < leave, entry, facing, halfway)


@dataclass(frozen=True)
class Round:
    """A solid of revolution: x^2 + y^2 + square z^2 + linear z + constant <= 0, between two heights."""

    square: float
    linear: float
    constant: float
    low: float
    high: float

    def hit(self, rays: Rays, frame: Frame, lamp: Lamp) -> Hit:
        """Where rays enter."""
        scale = frame.scale[:, None, None]
        offset = rays.origin - frame.centre
        ox, oy, oz = (dot(axis, offset)[:, None, None] for axis in frame.axes)
        dx, dy, dz = (rays.along(axis) for axis in frame.axes)
        linear, constant = self.linear * scale, self.constant * scale * scale
        a = dx * dx + dy * dy + self.square * dz * dz
        b = ox * dx + oy * dy + (self.square * oz + 0.5 * linear) * dz
        c = ox * ox + oy * oy + self.square * oz * oz + linear * oz + constant
        root = b * b - a * c
        half = root.clamp_min(0.0).sqrt()
        near, far = self._side(a, b, half, dz)
        dz = torch.where(dz.abs() < 1e-9, 1e-9, dz)
        floor, lid = (self.low * scale - oz) / dz, (self.high * scale - oz) / dz
        first, last = torch.minimum(floor, lid), torch.maximum(floor, lid)
        entry, leave = torch.maximum(near, first), torch.minimum(far, last)
        inside = (entry < leave) & ((root >= 0.0) | (a < 0.0))
        on_cap = first > near
        px, py, pz = ox + entry * dx, oy + entry * dy, oz + entry * dz
        nz = self.square * pz + 0.5 * linear
        length = (px * px + py * py + nz * nz).sqrt().clamp_min(1e-6)
        cap = torch.where(dz < 0.0, 1.0, -1.0)
        lights = []
        for vector in lamp:
            lx, ly, lz = (dot(vector, axis)[:, None, None] for axis in frame.axes)
            lights.append(torch.where(on_cap, cap * lz, (px * lx + py * ly + nz * lz) / length))
        return _lit(inside, entry, *lights)

    def _side(self, a: Tensor, b: Tensor, half: Tensor, dz: Tensor) -> tuple[Tensor, Tensor]:
        """Where rays enter and leave the curved side, which opens downwards where `a` is negative."""
        if self.square >= 0.0:
            a = a.clamp_min(1e-9)
            return (-b - half) / a, (-b + half) / a
        a = torch.where(a.abs() < 1e-9, 1e-9, a)
        first, second = (-b - half) / a, (-b + half) / a
        steep, down = a < 0.0, dz < 0.0
        near = torch.where(steep, torch.where(down, torch.maximum(first, second), -math.inf), first)
        far = torch.where(steep, torch.where(down, math.inf, torch.minimum(first, second)), second)
        return near, far


def sum_of(axes: tuple[Tensor, Tensor, Tensor], factors: tuple[float, float, float]) -> Tensor:
    """The vector [3, B] with these coordinates along the axes."""
    return axes[0] * factors[0] + axes[1] * factors[1] + axes[2] * factors[2]


def _lit(inside: Tensor, depth: Tensor, facing: Tensor, halfway: Tensor) -> Hit:
    gloss = halfway.clamp(0.0, 1.0)
    for _ in range(_GLOSS_SQUARINGS):
        gloss = gloss * gloss
    return Hit(inside, depth, facing.clamp(0.0, 1.0), gloss)


def _around(sides: int, up: float, distance: float) -> list[tuple[tuple[float, float, float], float]]:
    """Planes around the z axis; `up` is the z coordinate of their normals."""
    level = math.sqrt(1.0 - up * up)
    turns = [2.0 * math.pi * side / sides for side in range(sides)]
    return [((level * math.cos(turn), level * math.sin(turn), up), distance) for turn in turns]


_UP, _DOWN = (0.0, 0.0, 1.0), (0.0, 0.0, -1.0)


def _prism(sides: int, width: float, half: float) -> Polyhedron:
    return Polyhedron((*_around(sides, 0.0, width), (_UP, half), (_DOWN, half)))


def _pyramid(width: float, half: float) -> Polyhedron:
    """A square pyramid, `2 * width` wide at the bottom and `2 * half` high."""
    slant = math.hypot(width, 2.0 * half)
    return Polyhedron((*_around(4, width / slant, half * width / slant), (_DOWN, half)))


def _cone(width: float, half: float) -> Round:
    slope = (width / (2.0 * half)) ** 2
    return Round(-slope, 2.0 * slope * half, -slope * half * half, -half, half)


# Half extents at scale 1, chosen so that all solids have roughly the same area in an image.
SOLIDS: dict[str, Polyhedron | Round] = {
    "cone": _cone(1.06, 1.0),
    "cube": _prism(4, 0.8, 0.8),
    "cylinder": Round(0.0, 0.0, -0.82 * 0.82, -0.86, 0.86),
    "hexagonal": _prism(6, 1.0, 0.5),
    "pyramid": _pyramid(0.95, 1.0),
    "sphere": Round(1.0, 0.0, -0.92 * 0.92, -0.92, 0.92),
}
# the radius of a ball about the centre that contains the solid at scale 1
REACH = {"cone": 1.46, "cube": 1.39, "cylinder": 1.19, "hexagonal": 1.26, "pyramid": 1.68, "sphere": 0.92}
