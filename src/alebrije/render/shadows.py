"""Shadows: how much of each lamp every point sees past the objects."""

from __future__ import annotations

import torch
from torch import Tensor

from alebrije.render.fusing import fused
from alebrije.render.library import shape_named
from alebrije.render.stage import Stage
from alebrije.render.vectors import dot, picked

SUN_AWAY = 60.0  # where a ray to the sun may end


def lit_shares(
    stage: Stage, scene: Tensor | None, point: Tensor, corners: Tensor, sunward: Tensor, own: Tensor | None
) -> Tensor:
    """The share of each lamp's corners that points see, the sun last. [lamps + 1, ...]

    Points are [3, M] with their `scene` [M], or [3, B, P] without. `corners` is [lamps, S, 3, B]: S points of each lamp;
    for the sun, which is a point, the S shares are one. `own` [M] is the object that each point lies on: a convex one
    never shades its lit side.
    """
    flags = touched(
        stage.lamps, corners, stage.centre, stage.reach, stage.convex, sunward, scene, point, own, stage.objects
    )
    lights, count, samples = len(stage.lamps) + 1, point[0].numel(), corners.shape[1]
    flat = flags.reshape(-1).nonzero()[:, 0]
    group = flat.div(count, rounding_mode="floor")
    row = flat - group * count
    light = group.div(stage.objects, rounding_mode="floor")
    inside = row.div(point[0, 0].numel(), rounding_mode="floor") if scene is None else scene[row]
    place = inside * stage.objects + (group - light * stage.objects)
    dark = torch.zeros(samples * lights * count, device=stage.device)
    points = point.reshape(3, -1)
    for name, rows in stage.by_shape(place):
        owner, lamp, start = place[rows], light[rows], points.index_select(1, row[rows])
        turn = torch.stack([stage.size[owner], stage.cosine[owner], stage.sine[owner]])
        origin, way = to_lamps(corners, sunward, lamp, inside[rows], stage.centre.index_select(1, owner), turn, start)
        hidden = shape_named(name).hides(origin, way).nonzero()[:, 0]
        sample = hidden.div(len(rows), rounding_mode="floor")
        which = hidden - sample * len(rows)
        dark[sample * (lights * count) + lamp[which] * count + row[rows[which]]] = stage.solid[owner[which]]
    return 1.0 - dark.reshape(samples, lights, *point.shape[1:]).mean(0)


@fused
def touched(
    lamps: Tensor,
    corners: Tensor,
    centre: Tensor,
    reach: Tensor,
    convex: Tensor,
    sunward: Tensor,
    scene: Tensor | None,
    point: Tensor,
    own: Tensor | None,
    objects: int,
) -> Tensor:
    """Which objects' bounding spheres stand between points and lamps. [(lamps + 1) * objects, ...] bool"""
    flags = []
    for lamp, spots in zip(lamps, corners, strict=True):
        radius = 0.75 * (spots[0] - lamp).square().sum(0).sqrt()
        path = point - picked(lamp, scene)
        square = dot(path, path)
        for item in range(objects):
            offset = centre[:, item::objects] - lamp
            around = reach[item::objects] + radius
            far = dot(offset, offset)
            bound = picked((far - around.square())[None], scene)[0]
            before = picked((far - around * far.sqrt()).clamp_min(0.0)[None], scene)[0]
            along = dot(picked(offset, scene), path)
            # in the cone that the lamp throws past the object, and not between the two
            flags.append((along * along > bound * square) & (along > before))
    for item in range(objects):
        offset = picked(centre[:, item::objects], scene) - point
        along = offset[0] * sunward[0] + offset[1] * sunward[1] + offset[2] * sunward[2]
        near = picked(reach[None, item::objects], scene)[0]
        flags.append((dot(offset, offset) - along * along < near * near) & (along > -near))
    for index, flag in enumerate(flags):
        item = index % objects
        free = picked(reach[None, item::objects] > 0, scene)[0]
        if own is not None:
            free = free & ~((own == item) & picked(convex[None, item::objects], scene)[0])
        flags[index] = flag & free
    return torch.stack(flags)


@fused
def to_lamps(
    corners: Tensor, sunward: Tensor, lamp: Tensor, scene: Tensor, centre: Tensor, turn: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """Rays from points [3, K] to the corners of their lamps, in unit coordinates of the objects. [3, S * K] each"""
    size, cosine, sine = turn
    lamps, samples, _, scenes = corners.shape
    table = corners.permute(2, 1, 0, 3).reshape(3, samples, lamps * scenes)
    ends = table[:, :, lamp.clamp_max(lamps - 1) * scenes + scene]  # [3, S, K]
    away = start + SUN_AWAY * sunward[:, None]
    ends = torch.where(lamp == lamps, away[:, None], ends)

    def local(point: Tensor) -> Tensor:
        x, y, z = (point - centre[:, None]) / size
        return torch.stack([x * cosine + y * sine, y * cosine - x * sine, z])

    origin = local(start[:, None].expand_as(ends))
    return origin.reshape(3, -1), (local(ends) - origin).reshape(3, -1)
