"""Indirect light without path tracing: one bounce between ground, backdrop and objects, in closed form.

The ground lights objects like an infinite plane. The backdrop adds light as measured on the released images. An object
lights the ground like a sphere of its size that reflects the irradiance on its sides.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from alebrije.render.compiling import is_compiled
from alebrije.render.fusing import fused
from alebrije.render.light import HARD, Lighting, irradiance, light_visibility
from alebrije.render.stage import Stage
from alebrije.render.vectors import dot, on_ground, picked

AZIMUTHS = 8  # directions in which the irradiance on an object's sides is sampled


def backdrop_light(point: Tensor) -> Tensor:
    """Irradiance from the curved backdrop, which grows towards it along the view of CLEVR's camera. [...]"""
    behind = point[1] * 0.6563 - point[0] * 0.7545
    return 0.035 + 0.13 * torch.sigmoid((behind - 6.0) / 3.5)


@fused
def ground_radiance(
    light: Lighting, lamps: Tensor, scene: Tensor | None, point: Tensor, albedo: Tensor, lit: Tensor | None
) -> Tensor:
    """Radiance of the ground at points on it, without light from the objects; `albedo` is [3, B]. [3, ...]"""
    incident = irradiance(light, lamps, scene, point, None, lit) + backdrop_light(point)
    return incident * picked(albedo / math.pi, scene)


def light_from_ground(
    light: Lighting, lamps: Tensor, scene: Tensor, point: Tensor, normal: Tensor, albedo: Tensor
) -> Tensor:
    """Irradiance on surfaces from the ground beside them and from the backdrop. [3, M]"""
    height = point[2].clamp_min(0.05)
    beside = on_ground(point + normal * height)
    below = ground_radiance(light, lamps, scene, beside, albedo, None) * math.pi
    share = (1.0 - normal[2]) / 2
    return below * (share * 0.8) + backdrop_light(point) * (1.0 - share)


def light_from_objects(stage: Stage, light: Lighting, point: Tensor, colour: Tensor) -> tuple[Tensor, Tensor]:
    """Irradiance on the ground [3, B, P] from the objects, and the share of the backdrop that they hide.

    `colour` [3, instances] is the albedo of the objects.
    """
    sides, present = side_irradiance(stage, light), stage.reach > 0
    if is_compiled(stage.device):
        from alebrije.render import cpu_tracer

        return cpu_tracer.light_from_objects(stage, colour, sides, point)
    received, hidden = torch.zeros_like(point), torch.zeros_like(point[0])
    for item in range(stage.objects):
        items = slice(item, None, stage.objects)
        centre, size = stage.centre[:, items], stage.size[items] * present[items]
        received, hidden = add_object_light(centre, size, colour[:, items], sides[:, :, items], point, received, hidden)
    return received, hidden.clamp_max(1.0)


@fused
def add_object_light(
    centre: Tensor, size: Tensor, colour: Tensor, sides: Tensor, point: Tensor, received: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """Add the light of one object of every scene to `received`, and the share of the backdrop it hides to `hidden`."""
    constant, cosine, sine = sides[..., None]
    offset = centre[..., None] - point
    square = dot(offset, offset)
    # form factor of a sphere above level ground, for small solid angles
    share = centre[2][:, None] * square.rsqrt() * ((1.2 * size * size)[:, None] / square).clamp_max(1.0)
    flat = (offset[0].square() + offset[1].square()).clamp_min(1e-6).rsqrt()
    facing = constant - cosine * (offset[0] * flat) - sine * (offset[1] * flat)
    return received + facing.clamp_min(0.0) * (colour[..., None] * (share * 0.9)), hidden + share


def side_irradiance(stage: Stage, light: Lighting) -> Tensor:
    """Irradiance on the sides of objects by azimuth: constant, cosine and sine term. [3, 3, instances]"""
    angle = torch.arange(AZIMUTHS, device=stage.device) * (2 * math.pi / AZIMUTHS)
    x, y = angle.cos(), angle.sin()
    count = len(stage.size)
    normal = torch.stack([x, y, torch.zeros_like(x)])[:, None].expand(3, count, AZIMUTHS)
    point = stage.centre[..., None] + normal * (1.05 * stage.size)[:, None]
    point = torch.stack([point[0], point[1], 0.6 * point[2]]).reshape(3, -1)
    instance = torch.arange(count, device=stage.device).repeat_interleave(AZIMUTHS)
    scene = stage.scene_of(instance)
    lit = light_visibility(stage, light, scene, point, instance % stage.objects, HARD)
    incident = irradiance(light, stage.lamps, scene, point, normal.reshape(3, -1), lit).reshape(3, count, AZIMUTHS)
    return torch.stack([incident.mean(-1), 2 * (incident * x).mean(-1), 2 * (incident * y).mean(-1)])
