"""Shadows: the share of each lamp that is visible from every point past the objects."""

from __future__ import annotations

import torch
from torch import Tensor

from alebrije.render.compiling import is_compiled
from alebrije.render.fusing import fused
from alebrije.render.library import shape_named
from alebrije.render.stage import Stage
from alebrije.render.vectors import Triple, dot, length, picked

SHADOW_CLOSE = 1e-2  # a shadow ray this close to a surface, in half-sizes, is blocked: no shadow is that sharp
SUN_DISTANCE = 60.0  # length of a shadow ray to the sun


def unshadowed_share(
    stage: Stage, scene: Tensor | None, point: Tensor, lamp_points: Tensor, sun: Tensor, own: Tensor | None
) -> Tensor:
    """The share of each lamp's sample points that is visible from points, the sun last. [lamps + 1, ...]

    Points are [3, M] with their `scene` [M], or [3, B, P] without. `lamp_points` [lamps, S, 3, B] are S samples of each
    lamp; the sun is a point and needs one. `own` [M] is the object that each point lies on; a convex one never shades
    its lit side. Where several objects shade a point, their transmittances are multiplied.
    """
    if is_compiled(stage.device):
        from alebrije.render import cpu_tracer

        return cpu_tracer.unshadowed_share(stage, scene, point, lamp_points, sun, own)
    points, per_scene = point.reshape(3, -1), point[0, 0].numel()
    lit = torch.ones((len(stage.lamps) + 1) * points.shape[1], device=stage.device)
    for item in range(stage.objects):
        items = slice(item, None, stage.objects)
        centre, reach = stage.centre[:, items], stage.reach[items]
        shaded = may_shade(stage.lamps, centre, reach, stage.convex[items], lamp_points, sun, scene, point, own, item)
        pose = torch.cat([centre, torch.stack([stage.size, stage.cosine, stage.sine, stage.opacity])[:, items]])
        for index, name in enumerate(stage.shapes):
            kind = picked((stage.kind[items] == index)[None], scene)[0]
            pair = torch.stack([flag & kind for flag in shaded]).reshape(-1).nonzero()[:, 0]
            if len(pair):
                passed = _transmittance(name, pair, pose, lamp_points, sun, scene, points, per_scene)
                lit[pair] = lit[pair] * passed
    return lit.reshape(-1, *point.shape[1:])


@fused
def may_shade(
    lamps: Tensor,
    centre: Tensor,
    reach: Tensor,
    convex: Tensor,
    lamp_points: Tensor,
    sun: Tensor,
    scene: Tensor | None,
    point: Tensor,
    own: Tensor | None,
    item: int,
) -> tuple[Tensor, ...]:
    """Whether an object's bounding sphere may shade points from each lamp and the sun. [...] bool each"""
    casts = picked(reach[None] > 0, scene)[0]
    if own is not None:
        casts = casts & ~((own == item) & picked(convex[None], scene)[0])
    flags = []
    for index in range(len(lamps)):
        lamp = lamps[index]
        offset = centre - lamp
        radius = reach + 0.75 * length(lamp_points[index, 0] - lamp)
        square = dot(offset, offset)
        path = point - picked(lamp, scene)
        along = dot(picked(offset, scene), path)
        bound = picked((square - radius.square())[None], scene)[0]
        nearest = picked((square - radius * square.sqrt()).clamp_min(0.0)[None], scene)[0]
        # in the shadow cone behind the object, not between object and lamp
        flags.append((along * along > bound * dot(path, path)) & (along > nearest) & casts)
    offset = picked(centre, scene) - point
    along = offset[0] * sun[0] + offset[1] * sun[1] + offset[2] * sun[2]
    near = picked(reach[None], scene)[0]
    flags.append((dot(offset, offset) - along * along < near * near) & (along > -near) & casts)
    return tuple(flags)


def _transmittance(
    name: str,
    pair: Tensor,
    pose: Tensor,
    lamp_points: Tensor,
    sun: Tensor,
    scene: Tensor | None,
    points: Tensor,
    per_scene: int,
) -> Tensor:
    """The share of the light that passes an object of the named shape, for K shadow rays that may hit it. [K]"""
    shape = shape_named(name)
    if shape.shadow_hull is not None:
        return shape.transmittance(shadow_rays, pair, pose, lamp_points, sun, scene, points, per_scene)
    origin, direction, opacity = shadow_rays(pair, pose, lamp_points, sun, scene, points, per_scene)
    origins, directions = torch.stack(origin).reshape(3, -1), torch.stack(direction).reshape(3, -1)
    blocked = shape.intersect(origins, directions, close=SHADOW_CLOSE) < 1.0
    return 1.0 - blocked.reshape(lamp_points.shape[1], -1).float().mean(0) * opacity


@fused
def shadow_rays(
    pair: Tensor, pose: Tensor, lamp_points: Tensor, sun: Tensor, scene: Tensor | None, points: Tensor, per_scene: int
) -> tuple[Triple, Triple, Tensor]:
    """Rays from points to the samples of lamps in unit coordinates of an object, and the object's opacity.

    `pair` [K] encodes a lamp and a point in one number; `pose` [7, B] is centre, size, cosine, sine and opacity. Each
    coordinate of a ray is [S, K], the opacity [K].
    """
    lamp = pair.div(points.shape[1], rounding_mode="floor")
    row = pair - lamp * points.shape[1]
    batch = row.div(per_scene, rounding_mode="floor") if scene is None else scene[row]
    size, cosine, sine, opacity = pose[3][batch], pose[4][batch], pose[5][batch], pose[6][batch]
    lamps, samples, _, scenes = lamp_points.shape
    table = lamp_points.permute(2, 1, 0, 3).reshape(3, samples, lamps * scenes)
    column = lamp.clamp_max(lamps - 1) * scenes + batch
    origin, ray = [], []
    for axis in range(3):
        start = points[axis][row]
        origin.append((start - pose[axis][batch]) / size)
        # coordinates stay separate: fused code would compute them three times if they were stacked here
        path = torch.where(lamp == lamps, SUN_DISTANCE * sun[axis], table[axis][:, column] - start)
        ray.append(path / size)
    local_origin = (origin[0] * cosine + origin[1] * sine, origin[1] * cosine - origin[0] * sine, origin[2])
    local_ray = (ray[0] * cosine + ray[1] * sine, ray[1] * cosine - ray[0] * sine, ray[2])
    start_x, start_y, start_z = (part.expand(samples, -1) for part in local_origin)
    return (start_x, start_y, start_z), local_ray, opacity
