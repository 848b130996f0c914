"""The ray tracer on a GPU: the same images as the torch path, from a few Triton kernels that compile in seconds.

The torch path computes on lists of points, hundreds of small kernels for each batch. Here a program traces a tile of an
image from rays to colours. The kernels are in `alebrije.render.gpu`.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alebrije.kernels import HAS_TRITON
from alebrije.render.fields import DistanceField
from alebrije.render.frames import Frames
from alebrije.render.library import shape_named
from alebrije.render.light import CLEVR_LIGHT, SOFT, Lighting
from alebrije.render.rays import bounding_circles
from alebrije.render.stage import Stage, camera_axes
from alebrije.render.vectors import length

KINDS = ("cube", "cylinder", "sphere", "mesh", "cone", "icosahedron", "torus", "block")  # in the order of `gpu.tables`
WRAPS = ("cone", "cube", "cylinder", "monkey", "icosahedron", "teapot", "sphere", "torus")  # of `gpu.unwrapping`
SCENE, OBJECT, LIGHT = 112, 40, 24  # numbers per scene, object and light in the tables of `gpu.tables`
# The noises of each material, in the order of `gpu.materials`: columns, rows, seed and octaves.
NOISES = (
    ((80, 80, 101, 3), (30, 60, 103, 2)),
    ((90, 120, 201, 2), (24, 24, 202, 1)),
    ((240, 240, 301, 1),),
    ((360, 300, 401, 2), (40, 480, 402, 1), (10, 10, 404, 1), (420, 60, 403, 1)),
    ((310, 310, 501, 2), (12, 12, 502, 1)),
    ((64, 64, 601, 3), (7, 7, 602, 2), (130, 130, 603, 1)),
    ((60, 60, 703, 2),),
    ((9, 32, 802, 1), (5, 100, 803, 3), (24, 512, 804, 1)),
)
MEMORY = 1 << 30  # bytes of what kernels pass on to each other, for the scenes traced at a time
_COMPILED: set[tuple[Any, ...]] = set()


def can_trace(device: torch.device) -> bool:
    """Whether kernels can be compiled for a device."""
    return HAS_TRITON and device.type == "cuda"


@lru_cache(maxsize=8)
def shape_table(device: torch.device, names: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """What materials and shapes are made of, [A] int64, and a row of numbers for each shape, [shapes, 13].

    The former are settings of noises, then distance fields and faces. A row holds the kind, the middle, the step of
    normals, the dimensions, and how a texture is wrapped around it.
    """
    parts, rows = [torch.tensor(_noise_settings(), dtype=torch.float32).view(torch.int64)], []
    for name in names:
        shape, offset = shape_named(name), sum(map(len, parts))
        field, numbers, kind = shape.distance, shape.numbers, shape.name
        if isinstance(field, DistanceField):
            kind, numbers = "mesh", (offset, *field.grid.shape, *field.low, field.cell, field.quantum)
            parts.append(packed_field(field))
        elif kind == "icosahedron":
            kind, numbers, faces = kind, (*numbers[:2], offset), torch.tensor(numbers[2:], dtype=torch.float32)
            parts.append(faces.view(torch.int64))
        numbers = (*numbers, *[0.0] * (9 - len(numbers)))
        wrap = WRAPS.index("cube" if shape.name == "block" else shape.name)
        rows.append([KINDS.index(kind), shape.middle, shape.normal_step, *numbers, wrap])
    return torch.cat(parts).to(device), torch.tensor(rows, dtype=torch.float32, device=device)


def _noise_settings() -> list[float]:
    """Numbers of `NOISES`, four noises per material: columns, rows, seed, octaves, and the weight of the first."""
    settings: list[float] = []
    for noises in NOISES:
        for columns, rows, seed, octaves in noises:
            settings += [columns, rows, seed, octaves, 1.0 / (1.0 - 0.5**octaves)]
        settings += [0.0] * (5 * (4 - len(noises)))
    return settings


def packed_field(field: DistanceField) -> Tensor:
    """A distance field with four neighbours in each number, 16 bits each: a point's own, above, behind, and both."""
    steps = (field.grid / field.quantum).round().long()
    behind = torch.cat([steps[:, 1:], steps[:, -1:]], 1)
    packed = torch.zeros_like(steps)
    for index, plane in enumerate((steps, behind)):
        above = torch.cat([plane[..., 1:], plane[..., -1:]], 2)
        packed |= ((plane & 0xFFFF) | (above & 0xFFFF) << 16) << (32 * index)
    return packed.reshape(-1)


def _kinds(names: tuple[str, ...]) -> int:
    """The set of kinds among shapes, one bit each."""
    rows = shape_table(torch.device("cpu"), names)[1]
    return sum(1 << kind for kind in {int(row[0]) for row in rows.tolist()})


def scene_table(stage: Stage, light: Lighting, albedo: Tensor, floor: Tensor | None = None) -> Tensor:
    """The numbers of each scene, [B, SCENE]; `albedo` [3, B] is the ground's, `floor` [B] its material."""
    table = torch.zeros(stage.scenes, SCENE, device=stage.device)
    view = torch.cat([stage.camera, stage.right, stage.up, stage.forward, albedo]).T
    table[:, :15] = view
    if floor is not None:
        table[:, 15] = floor.float()
    for index, (lamp, position) in enumerate(zip(light.lamps, stage.lamps, strict=True)):
        right, up, _ = camera_axes(position)
        points = [position + (right * x + up * y) * lamp.side for x, y in SOFT]
        aim = -position * (position * position).sum(0).rsqrt()
        power = torch.full_like(position[:1], lamp.watts / 4)
        tint = position.new_tensor(lamp.colour)[:, None].expand_as(position)
        spread = 0.75 * length(points[0] - position)[None]
        row = torch.cat([position, aim, power, tint, spread, *points])
        table[:, 16 + LIGHT * index : 16 + LIGHT * index + len(row)] = row.T
    start = 16 + LIGHT * len(light.lamps)
    table[:, start : start + 3] = table.new_tensor(light.sunward)
    table[:, start + 6] = light.sun
    table[:, start + 7 : start + 10] = 1.0
    return table


def object_table(stage: Stage, size: int, colour: Tensor, material: Tensor) -> Tensor:
    """The numbers of each object, [instances, OBJECT]; `colour` [3, instances] and `material` [instances]."""
    shapes = shape_table(stage.device, stage.shapes)[1][stage.kind.clamp_min(0)]
    blank = torch.zeros_like(stage.size)
    push = blank if stage.displacement is None else stage.displacement
    pose = [*stage.centre, stage.size, stage.cosine, stage.sine, stage.reach, push, stage.opacity]
    rows = [*pose, stage.convex.float(), shapes[:, 0], *bounding_circles(stage, size), *colour, material.float()]
    sides = shapes.new_zeros(len(blank), 9)  # computed by a kernel
    return torch.cat([torch.stack(rows, 1), shapes[:, 1:12], sides, shapes[:, 12:], shapes.new_zeros(len(blank), 1)], 1)


def trace_clevr(stage: Stage, size: int, light: Lighting, colour: Tensor, metal: Tensor, albedo: Tensor) -> Frames:
    """Render a stage with CLEVR's shader, whose arguments these are; see `ClevrShader`."""
    from alebrije.render.gpu.clevr import paint_ground, paint_objects, paint_reflections

    tables = scene_table(stage, light, albedo), object_table(stage, size, colour, metal)
    return _trace(stage, size, *tables, (paint_objects, paint_reflections, paint_ground), grid=2, least=0.0)


def trace_clevrtex(
    stage: Stage, size: int, light: Lighting, material: Tensor, floor: Tensor, albedo: Tensor, least: float
) -> Frames:
    """Render a stage with CLEVRTex's shader, given `material` [instances], `floor` [B] and their albedos [3, M].

    A mask holds the object that covers most of a pixel, at least the share `least`.
    """
    from alebrije.render.gpu.clevrtex import paint_far_walls, paint_ground, paint_objects, paint_surroundings

    scenes = scene_table(stage, light, albedo.index_select(1, floor), floor)
    objects = object_table(stage, size, albedo.index_select(1, material), material)
    shader = (paint_objects, paint_far_walls, paint_ground, paint_surroundings)
    return _trace(stage, size, scenes, objects, shader, grid=4, least=least, noting=True)


def _trace(
    stage: Stage,
    size: int,
    scenes: Tensor,
    objects: Tensor,
    shader: tuple[Any, ...],
    grid: int,
    least: float,
    noting: bool = False,
) -> Frames:
    """Find what is visible with `grid` squared rays in the pixels on outlines, then run the kernels of a shader."""
    from alebrije.render.gpu import light, tables, visibility

    count = stage.objects
    images = torch.empty(stage.scenes, 3, size, size, dtype=torch.uint8, device=stage.device)
    masks, depths = torch.empty_like(images[:, 0]), scenes.new_empty(stage.scenes, size, size)
    totals = torch.zeros(stage.scenes, count, dtype=torch.int32, device=stage.device)
    tiles = math.ceil(size / int(tables.WIDE)) * math.ceil(size / int(tables.HIGH))
    launches = [Launch(light.side_irradiance, count), Launch(visibility.camera_hits, tiles)]
    launches.append(Launch(visibility.find_pieces, tiles, warps=grid * grid // 4))
    launches += [Launch(kernel, tiles) for kernel in shader]
    constants = {"KINDS": _kinds(stage.shapes), "GRID": grid, "DISPLACED": stage.displacement is not None}
    assets = shape_table(stage.device, stage.shapes)[0]
    step = max(1, min(MEMORY // (32 * (count + 2) * size * size), 1 << 15))  # a grid has at most 65,535 rows
    for start in range(0, stage.scenes, step):
        part = slice(start, start + step)
        row = scenes[part]
        pieces = row.new_empty(len(row), count + 1, 4, size, size)
        frames = images[part], masks[part], depths[part], totals[part]
        passed_on = pieces, torch.empty_like(pieces) if noting else pieces, row.new_empty(len(row), 3, size, size)
        everything = (row, objects.view(stage.scenes, count, -1)[part], assets, *frames, torch.empty_like(masks[part]))
        _run(launches, (*everything, *passed_on, least, count, size), constants, stage.device)
    visible = torch.stack([(masks == item + 1).sum((1, 2)) for item in range(count)], 1)
    return Frames(images, masks, visible, totals.long(), depths)


def trace_coverage(stage: Stage, size: int) -> Tensor:
    """The number of pixels whose centres show an object. [B] int64"""
    from alebrije.render.gpu import tables, visibility

    count, albedo = stage.objects, stage.camera.new_zeros(3, stage.scenes)
    scenes = scene_table(stage, CLEVR_LIGHT, albedo)
    objects = object_table(stage, size, stage.centre, stage.size).view(stage.scenes, count, -1)
    tiles = math.ceil(size / int(tables.WIDE)) * math.ceil(size / int(tables.HIGH))
    constants = {"KINDS": _kinds(stage.shapes), "GRID": 2, "DISPLACED": False}
    assets = shape_table(stage.device, stage.shapes)[0]
    step = max(1, min(MEMORY // (32 * (count + 2) * size * size), 1 << 15))
    covered = torch.empty(stage.scenes, dtype=torch.int64, device=stage.device)
    for start in range(0, stage.scenes, step):
        part = slice(start, start + step)
        row = scenes[part]
        labels = torch.empty(len(row), size, size, dtype=torch.uint8, device=stage.device)
        depths, pieces = row.new_empty(labels.shape), row.new_empty(len(row), count + 1, 4, size, size)
        unused = labels, labels, depths, labels  # images, masks, depths and totals
        passed_on = labels, pieces, pieces, depths
        arguments = (row, objects[part], assets, *unused, *passed_on, 0.0, count, size)
        _run([Launch(visibility.camera_hits, tiles)], arguments, constants, stage.device)
        covered[part] = (labels > 0).sum((1, 2))
    return covered


class Launch(NamedTuple):
    """A kernel, its programs per scene, and its warps per program."""

    kernel: Any
    programs: int
    warps: int = 1


def _run(launches: list[Launch], arguments: tuple[Any, ...], constants: dict[str, int], device: torch.device) -> None:
    """Run kernels one after another. Those that are new to this process are compiled first, side by side."""
    scenes = len(arguments[0])
    options = [{**constants, "num_warps": launch.warps, "num_stages": 1} for launch in launches]
    key = (tuple(launch.kernel for launch in launches), *constants.values(), device)
    if key not in _COMPILED and device.type == "cuda":

        def compile_one(launch: Launch, option: dict[str, int]) -> None:
            with torch.cuda.device(device):
                launch.kernel.warmup(*arguments, grid=(launch.programs, scenes), **option)

        _settle_keys()
        with ThreadPoolExecutor(len(launches)) as threads:
            list(threads.map(compile_one, launches, options))
        _COMPILED.add(key)
    with torch.cuda.device(device if device.type == "cuda" else -1):  # Triton launches on the current device
        for launch, option in zip(launches, options, strict=True):
            launch.kernel[launch.programs, scenes](*arguments, **option)


@cache
def _settle_keys() -> None:
    """Compute the keys by which Triton finds compiled kernels on disk, always in the same order.

    A key depends on which functions had theirs computed before, so threads would make it differ from run to run.
    """
    from alebrije.render.gpu import clevr, clevrtex, light, visibility

    for module in (light, visibility, clevr, clevrtex):
        for name in sorted(vars(module)):
            getattr(vars(module)[name], "cache_key", None)
