"""Rendering by compiled code, for tensors on a CPU.

Each function has the name and the arithmetic of the plain one that calls it, and returns the same bits.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Array
from alebrije.render.bounce import backdrop_light
from alebrije.render.compiling import square_root_address
from alebrije.render.cpu import bounce, clevrtex, materials, rays, unwrapping
from alebrije.render.fields import DistanceField
from alebrije.render.library import shape_named
from alebrije.render.light import Lighting
from alebrije.render.shadows import SUN_DISTANCE
from alebrije.render.shapes import Formula, Shape, sphere_distance
from alebrije.render.stage import Stage
from alebrije.render.unwrapping import GROUND_TILE, GROUND_U, ROUND, SLANT, around_the_axis
from alebrije.render.vectors import dot, length

_FORMS = ("ball", "box", "tube", "solid", "field", "cone", "ring", "block")  # in the order of `cpu.rays`
_WAYS = {
    "cube": unwrapping.CUBE,
    "block": unwrapping.CUBE,
    "monkey": unwrapping.MONKEY,
    "icosahedron": unwrapping.ICOSAHEDRON,
}


def _arrays(*tensors: Tensor) -> list[Array]:
    """Contiguous arrays that share memory with tensors where possible."""
    return [tensor.contiguous().numpy() for tensor in tensors]


def _poses(stage: Stage) -> Array:
    """Centre, size, cosine, sine, reach, opacity and displacement of the objects. [9, instances]"""
    moved = torch.zeros_like(stage.size) if stage.displacement is None else stage.displacement
    rows = [*stage.centre, stage.size, stage.cosine, stage.sine, stage.reach, stage.opacity, moved]
    poses: Array = torch.stack(rows).numpy()
    return poses


@cache
def _tables(names: tuple[str, ...]) -> tuple[Array, Array, Array, Array]:
    """Forms, numbers, faces and fields of shapes."""
    shapes = [shape_named(name) for name in names]
    forms, numbers = np.zeros((len(shapes), 9), np.int64), np.zeros((len(shapes), 26), np.float32)
    faces, fields, filled = np.zeros((0, 3), np.float32), [np.zeros(0, np.float32)], 0
    parts = (rays.DISTANCE, rays.ABOUT), (rays.HULL, rays.AROUND), (rays.SHADOW, rays.SHADE)
    for row, shape in enumerate(shapes):
        for (column, place), part in zip(parts, (_formula(shape), shape.hull, shape.shadow_hull), strict=True):
            forms[row, column] = -1
            if isinstance(part, Formula):
                forms[row, column] = _FORMS.index(part.form)
                numbers[row, place : place + len(part.numbers)] = part.numbers
                faces = np.array(part.faces, np.float32) if part.faces else faces
        forms[row, rays.EXACT], forms[row, rays.CONVEX] = shape.hull_is_exact, shape.convex
        numbers[row, rays.CENTRE], numbers[row, rays.STEP] = shape.middle, shape.normal_step
        if isinstance(shape.distance, DistanceField):
            forms[row, rays.FIRST :] = filled, *shape.distance.grid.shape
            fields.append(shape.distance.grid.reshape(-1).numpy())
            filled += len(fields[-1])
    return forms, numbers, faces, np.concatenate(fields)


def _formula(shape: Shape) -> Formula | None:
    """The distance of a shape as a formula."""
    distance = shape.distance
    if isinstance(distance, DistanceField):
        return Formula(distance, "field", (*distance.low, distance.cell))
    if distance is sphere_distance:
        return Formula(distance, "ball")
    return distance if isinstance(distance, Formula) else None


def _trace(
    task: int,
    stage: Stage,
    objects: int,
    group: Tensor,
    own: Tensor | None,
    point: Tensor,
    direction: Tensor,
    found: Tensor,
    lights: tuple[Tensor, ...] | None = None,
) -> Tensor:
    """Run a task on rays and return the instances that they hit. [M]"""
    hit = torch.zeros_like(group)
    if lights is None:
        lights = torch.zeros(0, 0, 0), torch.zeros(0, 0, 0), torch.zeros(0, 0, 0, 0), torch.zeros(0, 0)
    grounded = stage.displacement is not None and task != rays.SHADOWS
    lists = _arrays(group, torch.zeros(0, dtype=torch.int64) if own is None else own, point, direction)
    given: list[Any] = [_tables(stage.shapes), _poses(stage), stage.kind.numpy(), objects, grounded]
    given += [square_root_address(), *lists, tuple(_arrays(*lights)), *_arrays(found, hit)]
    rays.trace(task, *given)
    return hit


def intersect(stage: Stage, instance: Tensor, point: Tensor, direction: Tensor) -> Tensor:
    """Distance along each ray at which it hits its instance, infinite if it misses. [M]"""
    distance = torch.full((1, len(instance)), torch.inf)
    _trace(rays.OWN_HITS, stage, 1, instance, None, point, direction, distance)
    return distance[0]


def surface_normals(stage: Stage, instance: Tensor, point: Tensor) -> Tensor:
    """Outward unit normals at points [3, M] on the surfaces of instances. [3, M]"""
    normal = torch.empty(point.shape)
    _trace(rays.NORMALS, stage, 1, instance, None, point, point, normal)
    return normal


def nearest_hit(
    stage: Stage, scene: Tensor, point: Tensor, direction: Tensor, own: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The first hit of each ray: its distance, infinite if there is none, and the instance. [M] each"""
    best = torch.full((1, len(scene)), torch.inf)
    hit = _trace(rays.FIRST_HITS, stage, stage.objects, scene, own, point, direction, best)
    return best[0], hit


def unshadowed_share(
    stage: Stage, scene: Tensor | None, point: Tensor, lamp_points: Tensor, sun: Tensor, own: Tensor | None
) -> Tensor:
    """The share of each lamp's sample points that is visible from points, the sun last. [lamps + 1, ...]"""
    points, bounds = point.reshape(3, -1), []
    owner = torch.arange(stage.scenes).repeat_interleave(stage.objects)
    for lamp, corners in zip(stage.lamps, lamp_points, strict=True):
        offset, radius = stage.centre - lamp[:, owner], stage.reach + 0.75 * length(corners[0] - lamp)[owner]
        square = dot(offset, offset)
        nearest = (square - radius * square.sqrt()).clamp_min(0.0)
        bounds.append(torch.stack([*offset, square - radius.square(), nearest]))
    if scene is None:
        scene = torch.arange(stage.scenes).repeat_interleave(point[0, 0].numel())
    # positions of lamps [lamps, B, 3] and of their samples [lamps, B, S, 3]; the way to the sun and its shadow rays
    places, targets = stage.lamps.transpose(1, 2), lamp_points.permute(0, 3, 1, 2)
    lights = (torch.stack(bounds), places, targets, torch.stack([sun, SUN_DISTANCE * sun]))
    lit = torch.ones(len(stage.lamps) + 1, points.shape[1])
    _trace(rays.SHADOWS, stage, stage.objects, scene, own, points, points, lit, lights)
    return lit.reshape(-1, *point.shape[1:])


def surface_samples(material: Tensor, uv: Tensor, normal: Tensor, along: Tensor) -> list[Tensor] | None:
    """Albedo, specular and bumped normal [3, M], alpha and opacity [M] at samples, or None far off the origin."""
    if uv.numel() and not float(uv.abs().max()) < materials.MOST:
        return None
    found = [*(torch.empty(3, len(uv)) for _ in range(3)), torch.empty(len(uv)), torch.empty(len(uv))]
    given: list[Any] = [*_arrays(material, uv, normal, along), square_root_address(), *_arrays(*found)]
    materials.texture(*given)
    return found


def ground_coordinates(around: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
    """Texture coordinates [R * M, 2] of the ground at samples [3, R, M], and tangents [3, R * M]."""
    samples, points = around.shape[1:]
    uv, along = torch.empty(samples * points, 2), torch.empty(3, samples * points)
    axis, tile = np.array(GROUND_U, np.float32), np.float32(GROUND_TILE)
    given: list[Any] = [*_arrays(around.reshape(3, -1), normal), samples, axis, tile, *_arrays(uv, along)]
    unwrapping.map_ground(*given)
    return uv, along


def object_coordinates(stage: Stage, instance: Tensor, around: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
    """Texture coordinates [R * M, 2] of objects at samples [3, R, M], and tangents [3, R * M]."""
    samples, points = around.shape[1:]
    uv, along, local = torch.empty(samples * points, 2), torch.empty(3, samples * points), torch.empty(around.shape)
    names = [shape_named(name).name for name in stage.shapes]
    ways = torch.tensor([_WAYS.get(name, unwrapping.ROUND) for name in names])[stage.kind]
    lists = _arrays(instance, around.reshape(3, -1), normal)
    given: list[Any] = [_poses(stage), ways.numpy(), _slant(), square_root_address(), *lists, samples]
    given += _arrays(local.reshape(3, -1), uv, along)
    unwrapping.map_objects(*given)
    for name, rows in stage.by_shape(instance.repeat(samples)):
        if shape_named(name).name in ROUND:
            uv[rows] = around_the_axis(shape_named(name).name, local.reshape(3, -1).index_select(1, rows).T)
    return uv, along


@cache
def _slant() -> Array:
    """The unit vector across the courses of the icosahedron."""
    slant: Array = torch.nn.functional.normalize(torch.tensor([SLANT]).expand(16, 3), dim=-1)[0].numpy().copy()
    return slant


def _lights(light: Lighting, lamps: Tensor) -> tuple[Array, ...]:
    """Places and forward axes [3, 3, B] of the lamps, colours and strengths of all lights, and the way to the sun."""
    forwards = torch.stack([-place * dot(place, place).rsqrt() for place in lamps])
    colours = np.array([*(lamp.colour for lamp in light.lamps), (1.0, 1.0, 1.0)], np.float32)
    strengths = np.array([*(lamp.watts / 4 for lamp in light.lamps), light.sun], np.float32)
    return *_arrays(lamps, forwards), colours, strengths, np.array(light.sunward, np.float32)


def sample_radiance(light: Lighting, lamps: Tensor, scene: Tensor, *parts: Tensor) -> Tensor:
    """Radiance of a diffuse and a glossy lobe under the lamps, the mean over R samples. [3, M]

    The parts are point, normal, view, lit, received and gloss, then albedo, specular, alpha, bumped and opacity.
    """
    lists, surface = _arrays(scene, *parts[:6]), tuple(_arrays(*(part.flatten(-2) for part in parts[6:])))
    grazing, radiance = torch.empty(4, len(scene)), torch.empty(parts[6].shape)
    given: list[Any] = [_lights(light, lamps), *lists, surface, square_root_address(), grazing.numpy()]
    clevrtex.gloss(*[*given, np.zeros((3, 0), np.float32)])
    # powers are left to torch, which does not round them exactly
    for row in grazing:
        row.copy_(row**5)
    clevrtex.gloss(*[*given, radiance.flatten(1).numpy()])
    return radiance.mean(1)


def light_from_objects(stage: Stage, colour: Tensor, sides: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """Irradiance on the ground [3, B, P] from the objects, and the share of the backdrop that they hide. [B, P]"""
    size = stage.size * (stage.reach > 0)
    received, hidden = torch.empty(point.shape), torch.empty(point.shape[1:])
    given = _arrays(stage.centre, 1.2 * size * size, colour, sides, point, received, hidden)
    bounce.add_objects(stage.objects, *given)
    return received, hidden


def plain_ground_radiance(
    light: Lighting, lamps: Tensor, point: Tensor, lit: Tensor, received: Tensor, hidden: Tensor, albedo: Tensor
) -> Tensor:
    """Radiance of a matt ground lit by the lamps, the backdrop and the objects. [3, B, P]"""
    radiance = torch.empty(point.shape)
    given = _arrays(albedo / math.pi, point, lit, received, hidden, backdrop_light(point), radiance)
    bounce.light_ground(_lights(light, lamps), *given)
    return radiance
