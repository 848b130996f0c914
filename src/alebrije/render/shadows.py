"""Shadows: how much of each lamp every point sees past the objects."""

from __future__ import annotations

import torch
from torch import Tensor

from alebrije.render.fusing import fused
from alebrije.render.library import shape_named
from alebrije.render.stage import Stage
from alebrije.render.vectors import dot, length, picked

SUN_AWAY = 60.0  # where a ray to the sun may end


def lit_shares(
    stage: Stage, scene: Tensor | None, point: Tensor, corners: Tensor, sunward: Tensor, own: Tensor | None
) -> Tensor:
    """The share of each lamp's corners that points see, the sun last. [lamps + 1, ...]

    Points are [3, M] with their `scene` [M], or [3, B, P] without. `corners` [lamps, S, 3, B] are S points of a lamp;
    for the sun, which is a point, the S shares are one. `own` [M] is the object that each point lies on: a convex one
    never shades its lit side. Where several objects shade a point, what they leave is multiplied.
    """
    points, wide = point.reshape(3, -1), point[0, 0].numel()
    lit = torch.ones((len(stage.lamps) + 1) * points.shape[1], device=stage.device)
    for item in range(stage.objects):
        places = slice(item, None, stage.objects)
        centre, reach = stage.centre[:, places], stage.reach[places]
        flags = touched(stage.lamps, centre, reach, stage.convex[places], corners, sunward, scene, point, own, item)
        body = torch.cat([centre, torch.stack([stage.size, stage.cosine, stage.sine, stage.solid])[:, places]])
        for index, name in enumerate(stage.shapes):
            kind = picked((stage.kind[places] == index)[None], scene)[0]
            beam = (flags & kind).reshape(-1).nonzero()[:, 0]
            if len(beam):
                seen = _past(name, beam, body, corners, sunward, scene, points, wide)
                lit[beam] = lit[beam] * seen
    return lit.reshape(-1, *point.shape[1:])


@fused
def touched(
    lamps: Tensor,
    centre: Tensor,
    reach: Tensor,
    convex: Tensor,
    corners: Tensor,
    sunward: Tensor,
    scene: Tensor | None,
    point: Tensor,
    own: Tensor | None,
    item: int,
) -> Tensor:
    """Between which points and lamps an object's bounding sphere stands. [lamps + 1, ...] bool"""
    free = picked(reach[None] > 0, scene)[0]
    if own is not None:
        free = free & ~((own == item) & picked(convex[None], scene)[0])
    flags = []
    for index in range(len(lamps)):
        lamp = lamps[index]
        offset = centre - lamp
        around = reach + 0.75 * length(corners[index, 0] - lamp)
        far = dot(offset, offset)
        path = point - picked(lamp, scene)
        along = dot(picked(offset, scene), path)
        bound = picked((far - around.square())[None], scene)[0]
        before = picked((far - around * far.sqrt()).clamp_min(0.0)[None], scene)[0]
        # in the cone that the lamp throws past the object, and not between the two
        flags.append((along * along > bound * dot(path, path)) & (along > before) & free)
    offset = picked(centre, scene) - point
    along = offset[0] * sunward[0] + offset[1] * sunward[1] + offset[2] * sunward[2]
    near = picked(reach[None], scene)[0]
    flags.append((dot(offset, offset) - along * along < near * near) & (along > -near) & free)
    return torch.stack(flags)


def _past(
    name: str,
    beam: Tensor,
    body: Tensor,
    corners: Tensor,
    sunward: Tensor,
    scene: Tensor | None,
    points: Tensor,
    wide: int,
) -> Tensor:
    """The share of the light that passes an object of the named shape, in beams that may meet it. [K]"""
    shape = shape_named(name)
    if shape.shade is not None:
        return shape.leaves(to_lamps, beam, body, corners, sunward, scene, points, wide)
    origin, way, solid = to_lamps(beam, body, corners, sunward, scene, points, wide)
    samples = corners.shape[1]
    hidden = shape.meet(origin.reshape(3, -1), way.reshape(3, -1), strides=3) < 1.0
    return 1.0 - hidden.reshape(samples, -1).float().mean(0) * solid


@fused
def to_lamps(
    beam: Tensor, body: Tensor, corners: Tensor, sunward: Tensor, scene: Tensor | None, points: Tensor, wide: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Rays from points to the corners of lamps, in unit coordinates of an object, [3, S, K] each, and its density [K].

    A beam is a lamp and a point in one number; `body` [7, B] holds centre, size, cosine, sine and density.
    """
    lamp = beam.div(points.shape[1], rounding_mode="floor")
    row = beam - lamp * points.shape[1]
    inside = row.div(wide, rounding_mode="floor") if scene is None else scene[row]
    x, y, z, size, cosine, sine, solid = body[:, inside]
    start = points[:, row]
    lamps, samples, _, scenes = corners.shape
    table = corners.permute(2, 1, 0, 3).reshape(3, samples, lamps * scenes)
    ends = table[:, :, lamp.clamp_max(lamps - 1) * scenes + inside]  # [3, S, K]
    ends = torch.where(lamp == lamps, (start + SUN_AWAY * sunward[:, None])[:, None], ends)
    centre = torch.stack([x, y, z])

    def local(point: Tensor) -> Tensor:
        a, b, c = (point - centre[:, None]) / size
        return torch.stack([a * cosine + b * sine, b * cosine - a * sine, c])

    origin = local(start[:, None].expand_as(ends))
    return origin, local(ends) - origin, solid
