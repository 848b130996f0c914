"""Direct light: the lamps of CLEVR's base scene and the irradiance they cause at a point.

Radiances follow the released renders: an area lamp of W watts emits W / 4 per unit of solid angle and area along its
axis; the sun is given by its irradiance. Lamps point at the origin wherever jitter puts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.fusing import fused
from alebrije.render.shadows import unshadowed_share
from alebrije.render.stage import Stage, camera_axes
from alebrije.render.vectors import along_axes, dot, picked

Colour = tuple[float, float, float]
Points = tuple[tuple[float, float], ...]


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
# Sample points of a lamp for soft and for hard shadows, in units of its side.
SOFT: Points = ((-0.25, -0.25), (0.25, 0.25), (-0.25, 0.25), (0.25, -0.25))
HARD: Points = ((0.0, 0.0),)


def light_visibility(
    stage: Stage,
    light: Lighting,
    scene: Tensor | None,
    point: Tensor,
    own: Tensor | None = None,
    samples: Points = SOFT,
) -> Tensor:
    """The share of each lamp and of the sun that is visible from points. [4, ...]

    Points are [3, M] with their `scene` [M], or [3, B, P] without. Shadow rays go to the `samples` of each lamp.
    """
    lamp_points = []
    for lamp, position in zip(light.lamps, stage.lamps, strict=True):
        right, up, _ = camera_axes(position)
        lamp_points.append(torch.stack([position + (right * x + up * y) * lamp.side for x, y in samples]))
    return unshadowed_share(stage, scene, point, torch.stack(lamp_points), point.new_tensor(light.sunward), own)


def incident_light(
    light: Lighting, lamps: Tensor, scene: Tensor | None, point: Tensor, lit: Tensor | None
) -> Iterator[tuple[Tensor, Tensor, Colour]]:
    """Yield the light of every lamp at points: the unit vector to it, [3, ...]; the irradiance on a surface that faces
    it, [...]; and its colour. `lit` [4, ...] are the visible shares of the lamps; without it there are no shadows.
    """
    for index, (lamp, position) in enumerate(zip(light.lamps, lamps, strict=True)):
        forward = -position * dot(position, position).rsqrt()
        path = picked(position, scene) - point
        square = dot(path, path)
        to_light = path * square.rsqrt()
        strength = -dot(to_light, picked(forward, scene)).clamp_max(0.0) / square * (lamp.watts / 4)
        yield to_light, strength if lit is None else strength * lit[index], lamp.colour
    sunward = along_axes(light.sunward, point).expand_as(point)
    strength = torch.full_like(point[0], light.sun)
    yield sunward, strength if lit is None else strength * lit[3], (1.0, 1.0, 1.0)


def tinted(amount: Tensor, colour: Colour) -> Tensor:
    """An amount of light [...] times a colour. [3, ...]"""
    return along_axes(colour, amount[None]) * amount


@fused
def irradiance(
    light: Lighting, lamps: Tensor, scene: Tensor | None, point: Tensor, normal: Tensor | None, lit: Tensor | None
) -> Tensor:
    """Irradiance of direct light on surfaces with a normal, or on level ground without. [3, ...]"""
    total = torch.zeros_like(point)
    for to_light, strength, colour in incident_light(light, lamps, scene, point, lit):
        cosine = to_light[2] if normal is None else dot(to_light, normal)
        total = total + tinted(strength * cosine.clamp_min(0.0), colour)
    return total
