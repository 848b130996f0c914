"""Rays: intersect them with objects and find the first hit.

Rays are lists, not grids. An object is tested only in the pixels inside its bounding sphere, and each shape only for
its own rays, so the cost grows with what is visible rather than with pixels times objects times shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.compiling import is_compiled
from alebrije.render.library import shape_named
from alebrije.render.stage import HALF_WIDTH, Stage
from alebrije.render.vectors import dot

CENTRE = ((0.5, 0.5),)
RAY_OFFSET = 1.5e-2  # how far a secondary ray starts from its surface, in half-sizes, so as not to hit it again


@dataclass(frozen=True, eq=False)
class Hits:
    """Camera rays that hit an object, with the nearest object of each ray."""

    instance: Tensor  # [M] int64, scene * objects + object
    pixel: Tensor  # [M] int64, scene * size * size + pixel
    ray: Tensor  # [M] int64, index of the ray within its pixel
    depth: Tensor  # [M] distance along the viewing axis


def bounding_circles(stage: Stage, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Column, row and squared radius of a circle in the image around each bounding sphere; -1 without an object.

    [instances] each
    """
    scene = torch.arange(stage.scenes, device=stage.device).repeat_interleave(stage.objects)
    offset = stage.centre - stage.camera[:, scene]
    depth = dot(offset, stage.forward[:, scene])
    across = dot(offset, stage.right[:, scene]) / depth
    above = dot(offset, stage.up[:, scene]) / depth
    scale = size / (2 * HALF_WIDTH)
    # a sphere projects to an ellipse: bound it by the circle of its longer half axis
    tangent = stage.reach / (dot(offset, offset) - stage.reach.square()).clamp_min(1e-3).sqrt()
    slant = 1.0 + across.square() + above.square()
    radius = tangent * slant / (1.0 - tangent.square() * (slant - 1.0)).clamp_min(0.1) * scale + 1.5
    in_front = (stage.kind >= 0) & (depth > 0.1)
    bound = torch.where(in_front, radius.square(), torch.full_like(radius, -1.0))
    return across * scale + size / 2, size / 2 - above * scale, bound


def candidate_pixels(stage: Stage, size: int) -> tuple[Tensor, Tensor]:
    """The instance and pixel of all C pixels that the bounding sphere of an instance may cover. [C] each"""
    column, row, bound = bounding_circles(stage, size)
    grid = torch.arange(size, device=stage.device) + 0.5
    beside = (grid - column[:, None]).square()  # [instances, W]
    under = (grid - row[:, None]).square()  # [instances, H]
    inside = under[:, :, None] + beside[:, None, :] < bound[:, None, None]
    flat = inside.reshape(-1).nonzero()[:, 0]
    instance = flat.div(size * size, rounding_mode="floor")
    pixel = flat - instance * (size * size)
    return instance, pixel + stage.scene_of(instance) * (size * size)


def view_rays(stage: Stage, scene: Tensor, column: Tensor, row: Tensor, size: int) -> Tensor:
    """Directions of camera rays through image positions in pixels, scaled to a depth of 1. [3, M]"""
    scale = 2.0 * HALF_WIDTH / size
    across = (column - size / 2) * scale
    down = (row - size / 2) * scale
    direction = stage.forward.index_select(1, scene) + stage.right.index_select(1, scene) * across
    return direction - stage.up.index_select(1, scene) * down


def intersect(stage: Stage, instance: Tensor, point: Tensor, direction: Tensor) -> Tensor:
    """Distance along each ray at which it hits its instance, infinite if it misses. [M]"""
    if is_compiled(stage.device):
        from alebrije.render import cpu_tracer

        return cpu_tracer.intersect(stage, instance, point, direction)
    distance = torch.full((len(instance),), math.inf, device=stage.device)
    for name, rows in stage.by_shape(instance):
        owner = instance[rows]
        origin = stage.point_to_object(owner, point.index_select(1, rows))
        way = stage.direction_to_object(owner, direction.index_select(1, rows))
        displacement = None if stage.displacement is None else stage.displacement[owner]
        distance[rows] = shape_named(name).intersect(origin, way, displacement)
    return distance


def surface_normals(stage: Stage, instance: Tensor, point: Tensor) -> Tensor:
    """Outward unit normals at points [3, M] on the surfaces of instances. [3, M]"""
    if is_compiled(stage.device):
        from alebrije.render import cpu_tracer

        return cpu_tracer.surface_normals(stage, instance, point)
    normal = torch.empty_like(point)
    for name, rows in stage.by_shape(instance):
        owner = instance[rows]
        local = stage.point_to_object(owner, point.index_select(1, rows))
        normal[:, rows] = stage.direction_to_world(owner, shape_named(name).normal(local))
    return normal


def nearest_hit(
    stage: Stage, scene: Tensor, point: Tensor, direction: Tensor, own: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The first hit of each ray: its distance, infinite if there is none, and the instance. [M] each

    `own` [M] is the object that a ray starts from; a convex one cannot be hit by its own rays. Directions are unit.
    """
    if is_compiled(stage.device):
        from alebrije.render import cpu_tracer

        return cpu_tracer.nearest_hit(stage, scene, point, direction, own)
    best = torch.full((len(scene),), math.inf, device=stage.device)
    hit = torch.zeros_like(scene)
    for item in range(stage.objects):
        instance = scene * stage.objects + item
        offset = stage.centre.index_select(1, instance) - point
        along, reach = dot(offset, direction), stage.reach[instance]
        near = (dot(offset, offset) - along * along < reach * reach) & (along > -reach) & (reach > 0)
        if own is not None:
            near = near & ~((own == item) & stage.convex[instance])
        rows = near.nonzero()[:, 0]
        if len(rows):
            distance = intersect(stage, instance[rows], point.index_select(1, rows), direction.index_select(1, rows))
            closer = (distance < best[rows]).nonzero()[:, 0]
            best[rows[closer]] = distance[closer]
            hit[rows[closer]] = instance[rows[closer]]
    return best, hit


def first_hits(
    stage: Stage, size: int, instance: Tensor, pixel: Tensor, offsets: tuple[tuple[float, float], ...]
) -> tuple[Hits, Tensor]:
    """The nearest hits of camera rays through C candidate pixels at each subpixel offset, and the coverage. [C]

    Coverage is the share of a candidate's rays that hit its instance, ignoring objects in front of it.
    """
    rays, scene = len(offsets), stage.scene_of(instance)
    inner = pixel - scene * (size * size)
    row = inner.div(size, rounding_mode="floor")
    column = inner - row * size
    shift = torch.tensor(offsets, device=stage.device)  # [S, 2]
    x, y = (column[:, None] + shift[:, 0]).reshape(-1), (row[:, None] + shift[:, 1]).reshape(-1)
    if rays > 1:
        instance, pixel, scene = (tensor.repeat_interleave(rays) for tensor in (instance, pixel, scene))
    ray = torch.arange(rays, device=stage.device).repeat(len(inner))
    direction = view_rays(stage, scene, x, y, size)
    depth = intersect(stage, instance, stage.camera.index_select(1, scene), direction)
    covered = torch.isfinite(depth)
    rows = covered.nonzero()[:, 0]
    instance, pixel, ray, depth = instance[rows], pixel[rows], ray[rows], depth[rows]
    sample = pixel * rays + ray
    closest = torch.full((stage.scenes * size * size * rays,), math.inf, device=stage.device)
    closest.scatter_reduce_(0, sample, depth, "amin")
    front = (depth == closest[sample]).nonzero()[:, 0]
    # of objects hit at exactly the same depth, keep the first
    owner = torch.full_like(closest, math.inf)
    owner.scatter_reduce_(0, sample[front], instance[front].float(), "amin")
    front = front[owner[sample[front]] == instance[front].float()]
    hits = Hits(instance[front], pixel[front], ray[front], depth[front])
    return hits, covered.reshape(-1, rays).float().mean(1)
