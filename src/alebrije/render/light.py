"""Light: the lamps of CLEVR's base scene, what of them reaches a point, and what the ground gives back.

Radiances follow the released renders: an area lamp of W watts sends W / 4 per unit of solid angle and area straight
ahead, the sun an irradiance. Lamps look at the origin wherever jitter puts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.shadows import lit_share, sunlit
from alebrije.render.stage import Stage, looking
from alebrije.render.vectors import dot, picked

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Lamp:
    """A square lamp."""

    watts: float
    side: float
    colour: Colour


@dataclass(frozen=True)
class Lighting:
    """Key, back and fill lamp, and the sun."""

    lamps: tuple[Lamp, Lamp, Lamp]
    sun: float
    sunward: Colour = (0.4145, -0.1946, 0.8890)


CLEVR_LIGHT = Lighting(
    (Lamp(100.0, 0.5, (1.0, 0.932, 0.817)), Lamp(50.0, 1.0, (1.0, 1.0, 1.0)), Lamp(30.0, 0.5, (0.762, 0.818, 1.0))),
    sun=0.45,
)
CLEVRTEX_LIGHT = Lighting(
    (Lamp(500.0, 0.5, (1.0, 0.932, 0.817)), Lamp(350.0, 1.0, (1.0, 1.0, 1.0)), Lamp(200.0, 0.2, (0.762, 0.818, 1.0))),
    sun=0.85,
)
SOFT = ((-0.25, -0.25), (0.25, 0.25), (-0.25, 0.25), (0.25, -0.25))  # points of a lamp, in units of its side
HARD = ((0.0, 0.0),)


@dataclass(frozen=True, eq=False)
class Beam:
    """Light of one lamp at points: where from, how much falls on a surface that faces it, and its colour."""

    toward: Tensor  # [3, ...] unit
    strength: Tensor  # [...], shadows counted
    colour: Colour


def beams(
    stage: Stage,
    light: Lighting,
    scene: Tensor | None,
    point: Tensor,
    own: Tensor | None = None,
    points: tuple[tuple[float, float], ...] = SOFT,
) -> Iterator[Beam]:
    """The light of every lamp at points, [3, M] with their `scene` [M] or [3, B, P] without.

    Shadows are cast from the `points` of each lamp; with none there are no shadows.
    """
    for lamp, place in zip(light.lamps, stage.lamps, strict=True):
        right, up, forward = looking(place)
        path = picked(place, scene) - point
        square = dot(path, path)
        toward = path * square.rsqrt()
        facing = -dot(toward, picked(forward, scene))
        strength = facing.clamp_min(0.0) / square * (lamp.watts / 4)
        if points:
            corners = torch.stack([place + (right * x + up * y) * lamp.side for x, y in points])
            strength = strength * lit_share(stage, scene, point, place, corners, own)
        yield Beam(toward, strength, lamp.colour)
    sunward = point.new_tensor(light.sunward)
    strength = torch.full_like(point[0], light.sun)
    if points:
        strength = strength * sunlit(stage, scene, point, sunward, own)
    yield Beam(sunward.reshape(3, *[1] * (point.ndim - 1)).expand_as(point), strength, (1.0, 1.0, 1.0))


def tinted(amount: Tensor, colour: Colour) -> Tensor:
    """An amount of light [...] in a colour. [3, ...]"""
    return torch.stack([amount * channel for channel in colour])


def irradiance(
    stage: Stage,
    light: Lighting,
    scene: Tensor | None,
    point: Tensor,
    normal: Tensor | None = None,
    own: Tensor | None = None,
    points: tuple[tuple[float, float], ...] = SOFT,
) -> Tensor:
    """Direct light on surfaces with a normal, or on level ground without. [3, ...]"""
    total = torch.zeros_like(point)
    for beam in beams(stage, light, scene, point, own, points):
        slope = beam.toward[2] if normal is None else dot(beam.toward, normal)
        total = total + tinted(beam.strength * slope.clamp_min(0.0), beam.colour)
    return total
