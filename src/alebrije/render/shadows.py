"""Shadows: how much of a lamp each point sees past the objects."""

from __future__ import annotations

import torch
from torch import Tensor

from alebrije.render.library import shape_named
from alebrije.render.stage import Stage
from alebrije.render.vectors import dot, length, picked


def lit_share(
    stage: Stage, scene: Tensor | None, point: Tensor, lamp: Tensor, corners: Tensor, own: Tensor | None
) -> Tensor:
    """The share of a lamp's corners that points see. [...]

    Points are [3, M] with their `scene` [M], or [3, B, P] without. The lamp's centre is [3, B], its corners are
    [S, 3, B]. `own` [M] is the object that each point lies on: a convex one does not shade the side that faces the lamp.
    """
    radius = 0.75 * length((corners[0] - lamp)[:, :1])
    path = point - picked(lamp, scene)
    square = dot(path, path)
    pairs = []
    for item in range(stage.objects):
        centre, reach = stage.object(item)
        offset = centre - lamp
        around = reach + radius
        far = dot(offset, offset)
        limits = torch.stack([far - around.square(), (far - around * far.sqrt()).clamp_min(0.0), reach])
        bound, before, here = picked(limits, scene)
        along = dot(picked(offset, scene), path)
        # in the cone that the lamp throws past the object, and not between the two
        touched = (along * along > bound * square) & (along > before) & (here > 0)
        pairs.append(_pairs(stage, touched, own, item, scene))
    return _lit(stage, point, pairs, corners)


def sunlit(stage: Stage, scene: Tensor | None, point: Tensor, sunward: Tensor, own: Tensor | None) -> Tensor:
    """Whether points see the sun, 0 or 1; the arguments are those of `lit_share`, `sunward` is [3]. [...]"""
    pairs = []
    for item in range(stage.objects):
        centre, reach = stage.object(item)
        offset = picked(centre, scene) - point
        along = offset[0] * sunward[0] + offset[1] * sunward[1] + offset[2] * sunward[2]
        near = picked(reach[None], scene)[0]
        touched = (dot(offset, offset) - along * along < near * near) & (along > -near)
        pairs.append(_pairs(stage, touched, own, item, scene))
    return _lit(stage, point, pairs, (60.0 * sunward)[None, :, None], relative=True)


def _pairs(stage: Stage, touched: Tensor, own: Tensor | None, item: int, scene: Tensor | None) -> tuple[Tensor, Tensor]:
    """Points and objects of the pairs that must be traced."""
    if own is not None and scene is not None:
        touched = touched & ~((own == item) & stage.convex[scene * stage.objects + item])
    row = touched.reshape(-1).nonzero()[:, 0]
    inside = row.div(touched[0].numel(), rounding_mode="floor") if scene is None else scene[row]
    return row, inside * stage.objects + item


def _lit(
    stage: Stage, point: Tensor, pairs: list[tuple[Tensor, Tensor]], corners: Tensor, relative: bool = False
) -> Tensor:
    row, place = torch.cat([pair[0] for pair in pairs]), torch.cat([pair[1] for pair in pairs])
    shape, count = point.shape[1:], len(corners)
    dark = torch.zeros(count * shape.numel(), device=stage.device)
    if len(row):
        flat = point.reshape(3, -1)
        for name, rows in stage.by_shape(place):
            owner = place[rows]
            start = flat.index_select(1, row[rows])
            inside = owner.div(stage.objects, rounding_mode="floor")
            ends = corners.expand(-1, -1, stage.scenes)[:, :, inside] if not relative else corners + start
            origin, tip = stage.to_object(
                owner.repeat(count), start.repeat(1, count), ends.permute(1, 0, 2).reshape(3, -1)
            )
            hidden = shape_named(name).hides(origin, tip - origin).nonzero()[:, 0]
            number = hidden.div(len(rows), rounding_mode="floor")
            which = hidden - number * len(rows)
            dark[row[rows[which]] + number * shape.numel()] = stage.solid[owner[which]]
    return 1.0 - dark.reshape(count, *shape).mean(0)
