"""Bounced light, without tracing it: what the ground, the backdrop and the objects give to one another.

One bounce in closed form. The ground lights what stands on it like an endless plane; the backdrop adds what was
measured on the released pictures; an object lights the ground like a sphere of its size, with the light that falls on
its sides.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from alebrije.render.fusing import fused
from alebrije.render.light import HARD, Lighting, irradiance, shadowed
from alebrije.render.stage import Stage
from alebrije.render.vectors import dot, on_ground, picked

AZIMUTHS = 8  # directions in which the sides of an object are lit


def backdrop(point: Tensor) -> Tensor:
    """Light of the curved backdrop on the ground, growing towards it along the view of CLEVR's camera. [...]"""
    behind = point[1] * 0.6563 - point[0] * 0.7545
    return 0.035 + 0.13 * torch.sigmoid((behind - 6.0) / 3.5)


@fused
def ground_radiance(
    light: Lighting, lamps: Tensor, scene: Tensor | None, point: Tensor, albedo: Tensor, lit: Tensor | None
) -> Tensor:
    """What the ground sends back at points on it, the objects' own bounce aside; `albedo` is [3, B]. [3, ...]"""
    falling = irradiance(light, lamps, scene, point, None, lit) + backdrop(point)
    return falling * picked(albedo / math.pi, scene)


def from_ground(light: Lighting, lamps: Tensor, scene: Tensor, point: Tensor, normal: Tensor, albedo: Tensor) -> Tensor:
    """Light that surfaces receive from the ground beside them and from the backdrop. [3, M]"""
    height = point[2].clamp_min(0.05)
    beside = on_ground(point + normal * height)
    below = ground_radiance(light, lamps, scene, beside, albedo, None) * math.pi
    share = (1.0 - normal[2]) / 2
    return below * (share * 0.8) + backdrop(point) * (1.0 - share)


def from_objects(stage: Stage, light: Lighting, point: Tensor, colour: Tensor) -> tuple[Tensor, Tensor]:
    """Light that the ground [3, B, P] receives from the objects, and the share of the backdrop that they hide.

    `colour` [3, places] is what the objects reflect.
    """
    received, hidden = torch.zeros_like(point), torch.zeros_like(point[0])
    sides, here = lit_sides(stage, light), stage.reach > 0
    for item in range(stage.objects):
        places = slice(item, None, stage.objects)
        centre, size = stage.centre[:, places], stage.size[places] * here[places]
        received, hidden = add_object(centre, size, colour[:, places], sides[:, :, places], point, received, hidden)
    return received, hidden.clamp_max(1.0)


@fused
def add_object(
    centre: Tensor, size: Tensor, colour: Tensor, sides: Tensor, point: Tensor, received: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """Add the light of one object of every scene to what the ground receives, and its share of the sky."""
    constant, cosine, sine = sides[..., None]
    offset = centre[..., None] - point
    square = dot(offset, offset)
    # a sphere above level ground, seen under a small angle
    share = centre[2][:, None] * square.rsqrt() * ((1.2 * size * size)[:, None] / square).clamp_max(1.0)
    flat = (offset[0].square() + offset[1].square()).clamp_min(1e-6).rsqrt()
    facing = constant - cosine * (offset[0] * flat) - sine * (offset[1] * flat)
    return received + facing.clamp_min(0.0) * (colour[..., None] * (share * 0.9)), hidden + share


def lit_sides(stage: Stage, light: Lighting) -> Tensor:
    """Light on the sides of objects by direction: constant, cosine and sine part. [3, 3, places]"""
    angle = torch.arange(AZIMUTHS, device=stage.device) * (2 * math.pi / AZIMUTHS)
    x, y = angle.cos(), angle.sin()
    places = len(stage.size)
    normal = torch.stack([x, y, torch.zeros_like(x)])[:, None].expand(3, places, AZIMUTHS)
    point = stage.centre[..., None] + normal * (1.05 * stage.size)[:, None]
    point = torch.stack([point[0], point[1], 0.6 * point[2]]).reshape(3, -1)
    place = torch.arange(places, device=stage.device).repeat_interleave(AZIMUTHS)
    scene = place.div(stage.objects, rounding_mode="floor")
    lit = shadowed(stage, light, scene, point, place % stage.objects, HARD)
    falling = irradiance(light, stage.lamps, scene, point, normal.reshape(3, -1), lit).reshape(3, places, AZIMUTHS)
    return torch.stack([falling.mean(-1), 2 * (falling * x).mean(-1), 2 * (falling * y).mean(-1)])
