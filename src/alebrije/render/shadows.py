"""Shadows: how much of each lamp every point sees past the objects."""

from __future__ import annotations

import torch
from torch import Tensor

from alebrije.render.fusing import fused
from alebrije.render.library import shape_named
from alebrije.render.stage import Stage
from alebrije.render.vectors import Triple, dot, length, picked

SHADOW_CLOSE = 1e-2  # a ray to a lamp this near a surface, in half-sizes, is stopped: no shadow is that sharp
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
            beam = torch.stack([flag & kind for flag in flags]).reshape(-1).nonzero()[:, 0]
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
) -> tuple[Tensor, ...]:
    """Between which points and lamps an object's bounding sphere stands, for each lamp and the sun. [...] bool each"""
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
    return tuple(flags)


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
    hidden = shape.meet(torch.stack(origin).reshape(3, -1), torch.stack(way).reshape(3, -1), close=SHADOW_CLOSE) < 1.0
    return 1.0 - hidden.reshape(corners.shape[1], -1).float().mean(0) * solid


@fused
def to_lamps(
    beam: Tensor, body: Tensor, corners: Tensor, sunward: Tensor, scene: Tensor | None, points: Tensor, wide: int
) -> tuple[Triple, Triple, Tensor]:
    """Rays from points to the corners of lamps in unit coordinates of an object, and the object's density.

    A beam is a lamp and a point in one number; `body` [7, B] holds centre, size, cosine, sine and density. Each
    coordinate of a ray is [S, K], the density [K].
    """
    lamp = beam.div(points.shape[1], rounding_mode="floor")
    row = beam - lamp * points.shape[1]
    inside = row.div(wide, rounding_mode="floor") if scene is None else scene[row]
    size, cosine, sine, solid = body[3][inside], body[4][inside], body[5][inside], body[6][inside]
    lamps, samples, _, scenes = corners.shape
    table = corners.permute(2, 1, 0, 3).reshape(3, samples, lamps * scenes)
    spot = lamp.clamp_max(lamps - 1) * scenes + inside
    origin, way = [], []
    for axis in range(3):
        start = points[axis][row]
        origin.append((start - body[axis][inside]) / size)
        # coordinates stay apart: stacking them here would have them computed three times over
        path = torch.where(lamp == lamps, SUN_AWAY * sunward[axis], table[axis][:, spot] - start)
        way.append(path / size)
    turned = (origin[0] * cosine + origin[1] * sine, origin[1] * cosine - origin[0] * sine, origin[2])
    headed = (way[0] * cosine + way[1] * sine, way[1] * cosine - way[0] * sine, way[2])
    start_x, start_y, start_z = (part.expand(samples, -1) for part in turned)
    return (start_x, start_y, start_z), headed, solid
