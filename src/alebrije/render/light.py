"""Light: the lamps of CLEVR's base scene, what of them reaches a point, and what the ground gives back.

Radiances follow the released renders: an area lamp of W watts sends W / 4 per unit of solid angle and area straight
ahead, the sun an irradiance. Lamps look at the origin wherever jitter puts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.fusing import fused
from alebrije.render.shadows import lit_shares
from alebrije.render.stage import Stage, looking
from alebrije.render.vectors import along_axes, dot, picked

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
SOFT: tuple[tuple[float, float], ...] = (
    (-0.25, -0.25),
    (0.25, 0.25),
    (-0.25, 0.25),
    (0.25, -0.25),
)  # points of a lamp, in units of its side
HARD: tuple[tuple[float, float], ...] = ((0.0, 0.0),)


def shadowed(
    stage: Stage,
    light: Lighting,
    scene: Tensor | None,
    point: Tensor,
    own: Tensor | None = None,
    points: tuple[tuple[float, float], ...] = SOFT,
) -> Tensor:
    """The share of each lamp and of the sun that points see. [4, ...]

    Points are [3, M] with their `scene` [M], or [3, B, P] without. Shadows are cast from the `points` of each lamp.
    """
    corners = []
    for lamp, place in zip(light.lamps, stage.lamps, strict=True):
        right, up, _ = looking(place)
        corners.append(torch.stack([place + (right * x + up * y) * lamp.side for x, y in points]))
    return lit_shares(stage, scene, point, torch.stack(corners), point.new_tensor(light.sunward), own)


Beam = tuple[Tensor, Tensor, Colour]


def beams(light: Lighting, lamps: Tensor, scene: Tensor | None, point: Tensor, lit: Tensor | None) -> Iterator[Beam]:
    """The light of every lamp at points: where from, as unit vectors [3, ...]; how much falls on a surface that faces
    it, [...]; and its colour. `lit` [4, ...] are the shares that the points see, all without it.
    """
    for index, (lamp, place) in enumerate(zip(light.lamps, lamps, strict=True)):
        forward = -place * dot(place, place).rsqrt()
        path = picked(place, scene) - point
        square = dot(path, path)
        toward = path * square.rsqrt()
        strength = -dot(toward, picked(forward, scene)).clamp_max(0.0) / square * (lamp.watts / 4)
        yield toward, strength if lit is None else strength * lit[index], lamp.colour
    sunward = along_axes(light.sunward, point).expand_as(point)
    strength = torch.full_like(point[0], light.sun)
    yield sunward, strength if lit is None else strength * lit[3], (1.0, 1.0, 1.0)


def tinted(amount: Tensor, colour: Colour) -> Tensor:
    """An amount of light [...] in a colour. [3, ...]"""
    return along_axes(colour, amount[None]) * amount


@fused
def irradiance(
    light: Lighting, lamps: Tensor, scene: Tensor | None, point: Tensor, normal: Tensor | None, lit: Tensor | None
) -> Tensor:
    """Direct light on surfaces with a normal, or on level ground without. [3, ...]"""
    total = torch.zeros_like(point)
    for toward, strength, colour in beams(light, lamps, scene, point, lit):
        slope = toward[2] if normal is None else dot(toward, normal)
        total = total + tinted(strength * slope.clamp_min(0.0), colour)
    return total
