"""Rays: which object each one meets first, and what stands in its way.

Rays are lists, not grids. An object is tried only for the pixels inside its bounding sphere, and each shape only for
its own rays, so the cost follows what is seen rather than pixels times objects times shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.library import shape_named
from alebrije.render.stage import HALF_WIDTH, Stage
from alebrije.render.vectors import dot

CENTRE = ((0.5, 0.5),)


@dataclass(frozen=True, eq=False)
class Hits:
    """Rays through pixels that meet objects, nearest first where several are met."""

    place: Tensor  # [M] int64, which object: scene * objects + object
    pixel: Tensor  # [M] int64, scene * size * size + pixel
    ray: Tensor  # [M] int64, which of the pixel's rays
    depth: Tensor  # [M] distance along the viewing axis


def candidates(stage: Stage, size: int) -> tuple[Tensor, Tensor]:
    """Object and pixel of all pixels near an object's bounding sphere. [C] each"""
    scene = torch.arange(stage.scenes, device=stage.device).repeat_interleave(stage.objects)
    offset = stage.centre - stage.camera[:, scene]
    depth = dot(offset, stage.forward[:, scene])
    across = dot(offset, stage.right[:, scene]) / depth
    above = dot(offset, stage.up[:, scene]) / depth
    scale = size / (2 * HALF_WIDTH)
    # the image of a sphere is an ellipse: bound it by the circle of its longer half axis
    tangent = stage.reach / (dot(offset, offset) - stage.reach.square()).clamp_min(1e-3).sqrt()
    slant = 1.0 + across.square() + above.square()
    radius = tangent * slant / (1.0 - tangent.square() * (slant - 1.0)).clamp_min(0.1) * scale + 1.5
    seen = (stage.kind >= 0) & (depth > 0.1)
    bound = torch.where(seen, radius.square(), torch.full_like(radius, -1.0))
    grid = torch.arange(size, device=stage.device) + 0.5
    beside = (grid - (across * scale + size / 2)[:, None]).square()  # [places, W]
    under = (grid - (size / 2 - above * scale)[:, None]).square()  # [places, H]
    inside = under[:, :, None] + beside[:, None, :] < bound[:, None, None]
    flat = inside.reshape(-1).nonzero()[:, 0]
    place = flat.div(size * size, rounding_mode="floor")
    pixel = flat - place * (size * size)
    return place, pixel + place.div(stage.objects, rounding_mode="floor") * (size * size)


def view_rays(stage: Stage, scene: Tensor, column: Tensor, row: Tensor, size: int) -> Tensor:
    """Directions of view through points of the image, in pixels, scaled so that their depth is 1. [3, M]"""
    scale = 2.0 * HALF_WIDTH / size
    across = (column - size / 2) * scale
    down = (row - size / 2) * scale
    toward = stage.forward.index_select(1, scene) + stage.right.index_select(1, scene) * across
    return toward - stage.up.index_select(1, scene) * down


def meet(stage: Stage, place: Tensor, point: Tensor, direction: Tensor) -> Tensor:
    """How far along each ray its object is met, infinite where it is not. [M]"""
    found = torch.full((len(place),), math.inf, device=stage.device)
    for name, rows in stage.by_shape(place):
        owner = place[rows]
        (origin,) = stage.to_object(owner, point.index_select(1, rows))
        way = stage.to_object_way(owner, direction.index_select(1, rows))
        swell = None if stage.swell is None else stage.swell[owner]
        found[rows] = shape_named(name).meet(origin, way, swell)
    return found


def normals(stage: Stage, place: Tensor, point: Tensor) -> Tensor:
    """Outward unit normals at points [3, M] on objects. [3, M]"""
    found = torch.empty_like(point)
    for name, rows in stage.by_shape(place):
        owner = place[rows]
        (local,) = stage.to_object(owner, point.index_select(1, rows))
        found[:, rows] = stage.to_world(owner, shape_named(name).normal(local))
    return found


def nearest(
    stage: Stage, scene: Tensor, point: Tensor, direction: Tensor, own: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The first object that rays meet: how far along, infinite where there is none, and which place. [M] each

    `own` [M] is the object a ray starts from: a convex one cannot meet itself. Directions have unit length.
    """
    best = torch.full((len(scene),), math.inf, device=stage.device)
    which = torch.zeros_like(scene)
    for item in range(stage.objects):
        place = scene * stage.objects + item
        offset = stage.centre.index_select(1, place) - point
        along, reach = dot(offset, direction), stage.reach[place]
        near = (dot(offset, offset) - along * along < reach * reach) & (along > -reach) & (reach > 0)
        if own is not None:
            near = near & ~((own == item) & stage.convex[place])
        rows = near.nonzero()[:, 0]
        if len(rows):
            far = meet(stage, place[rows], point.index_select(1, rows), direction.index_select(1, rows))
            closer = (far < best[rows]).nonzero()[:, 0]
            best[rows[closer]] = far[closer]
            which[rows[closer]] = place[rows[closer]]
    return best, which


def first_hits(
    stage: Stage, size: int, place: Tensor, pixel: Tensor, offsets: tuple[tuple[float, float], ...]
) -> tuple[Hits, Tensor]:
    """What the camera sees through C candidate pixels at each offset within them, and what it would see of each object.

    The second answer is the share of each candidate's rays that meet its object, whatever stands before it. [C]
    """
    rays, scene = len(offsets), place.div(stage.objects, rounding_mode="floor")
    inner = pixel - scene * (size * size)
    row = inner.div(size, rounding_mode="floor")
    column = inner - row * size
    shift = torch.tensor(offsets, device=stage.device)  # [S, 2]
    columns, rows = (column[:, None] + shift[:, 0]).reshape(-1), (row[:, None] + shift[:, 1]).reshape(-1)
    if rays > 1:
        place, pixel, scene = (tensor.repeat_interleave(rays) for tensor in (place, pixel, scene))
    ray = torch.arange(rays, device=stage.device).repeat(len(inner))
    toward = view_rays(stage, scene, columns, rows, size)
    depth = meet(stage, place, stage.camera.index_select(1, scene), toward)
    alone = torch.isfinite(depth)
    met = alone.nonzero()[:, 0]
    place, pixel, ray, depth = place[met], pixel[met], ray[met], depth[met]
    slot = pixel * rays + ray
    nearest = torch.full((stage.scenes * size * size * rays,), math.inf, device=stage.device)
    nearest.scatter_reduce_(0, slot, depth, "amin")
    front = (depth == nearest[slot]).nonzero()[:, 0]
    # of objects met at exactly the same depth the first is seen
    owner = torch.full_like(nearest, math.inf)
    owner.scatter_reduce_(0, slot[front], place[front].float(), "amin")
    front = front[owner[slot[front]] == place[front].float()]
    hits = Hits(place[front], pixel[front], ray[front], depth[front])
    return hits, alone.reshape(-1, rays).float().mean(1)
