"""Rooms: one solid in the middle of a coloured room, after 3D Shapes.

The scene of the original was never published, so these images resemble it but do not copy it. The camera is inside a
square room and looks slightly down at one of its corners; orientation moves it around the object. Shading is computed
in display values, as OpenGL did for the original. An image is then a sum of three colours and a white highlight, each
times a weight that depends only on scale, shape and orientation, and 480,000 images need just 480 sets of weights.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, grid_sample

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.render.frames import Frames
from alebrije.render.shapes import Hull, box_hull, sphere_hull, tube_hull
from alebrije.render.vectors import Vector, dot, unit
from alebrije.scenes import Scenes
from alebrije.scenes.grid import combinations_at

SIDE = 64  # pixels a side of the original
_NAMES = ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")
_COUNTS = (10, 10, 10, 8, 4, 15)
_SATURATION = 0.9
_BATCH = 32  # few enough images for their weights to fit a core's cache
# Weights are multiples of 1 / 2048 and colours are integers. Their products and sums are then exact in float32 and even
# in TF32, so the order of summation cannot change an image.
_STEPS = 2048

# Metres, z up. The object stands at the origin; the visible corner of the room is at (_WALL, _WALL).
_WALL = 3.3
_CAMERA_AWAY, _CAMERA_UP, _TARGET_UP = 3.05, 1.72, 0.45
_HALF_VIEW = math.tan(math.radians(24.0))
_LAMP = (-0.72, -0.16, 1.0)
_BEVEL = 0.045  # sharp edges are shaded as if rounded by this radius

# The square of floor whose shadow is precomputed, in units of an object of scale 1.
_REACH, _CELLS, _DIRECTIONS = 3.2, 128, 96
_LAMP_SPREAD = 0.22  # size of the lamp, which softens the shadow's edge


@dataclass(frozen=True)
class _Solid:
    """A convex solid about the origin, at scale 1."""

    hull: Hull
    half_height: float
    core: Callable[[Tensor], Tensor]  # points [3, M] -> nearest points of the solid shrunk by its bevel

    def normal(self, point: Tensor) -> Tensor:
        """Outward normals at points [3, M] on the surface."""
        return unit(point - self.core(point))


def _cube(half: float) -> _Solid:
    inner = half - _BEVEL
    return _Solid(box_hull((-half, -half, -half), (half, half, half)), half, lambda point: point.clamp(-inner, inner))


def _cylinder(radius: float, half: float) -> _Solid:
    def core(point: Tensor) -> Tensor:
        x, y, z = point
        across = (x * x + y * y).sqrt().clamp_min(1e-6)
        kept = ((radius - _BEVEL) / across).clamp_max(1.0)
        return torch.stack([x * kept, y * kept, z.clamp(_BEVEL - half, half - _BEVEL)])

    return _Solid(tube_hull(radius, -half, half), half, core)


def _sphere(radius: float) -> _Solid:
    return _Solid(sphere_hull(radius), radius, torch.zeros_like)


def _capsule(radius: float, half: float) -> _Solid:
    straight = half - radius
    tube, ball = tube_hull(radius, -straight, straight), sphere_hull(radius)

    def hull(origin: Vector, direction: Vector) -> tuple[Tensor, Tensor]:
        entry, leave = tube(origin, direction)
        for height in (-straight, straight):
            first, last = ball((origin[0], origin[1], origin[2] - height), direction)
            entry, leave = torch.minimum(entry, first), torch.maximum(leave, last)
        return entry, leave

    def core(point: Tensor) -> Tensor:
        x, _, z = point
        return torch.stack([torch.zeros_like(x), torch.zeros_like(x), z.clamp(-straight, straight)])

    return _Solid(hull, half, core)


_SOLIDS = {
    "cube": _cube(0.42),
    "cylinder": _cylinder(0.43, 0.46),
    "sphere": _sphere(0.5),
    "capsule": _capsule(0.35, 0.62),
}


class _View(NamedTuple):
    """What the camera sees for one scale, shape and orientation, independent of the hues."""

    weights: Tensor  # [4, H * W] float32 in [0, 1]: floor, wall, object and white
    mask: Tensor  # [H, W] uint8
    depth: Tensor  # [H, W] float32


class _Codes(NamedTuple):
    """The values of the factors, in the order of _NAMES."""

    floor: tuple[float, ...]
    wall: tuple[float, ...]
    object: tuple[float, ...]
    scale: tuple[float, ...]
    shape: tuple[str, ...]
    orientation: tuple[float, ...]


_HUES = tuple(step / 10 for step in range(10))
_ORIGINAL = _Codes(
    *3 * (_HUES,),
    tuple(0.75 + 0.5 * step / 7 for step in range(8)),
    tuple(_SOLIDS),
    tuple(-30.0 + 60.0 * step / 14 for step in range(15)),
)


def rooms_factors(indices: Any) -> Tensor:
    """The factors [B, 6] of images by their index in 3D Shapes, 0..479999, the last factor fastest.

    The factors are floor hue, wall hue, object hue, scale, shape and orientation.

    >>> rooms_factors([0, 16, 479999]).tolist()
    [[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1], [9, 9, 9, 7, 3, 14]]
    """
    return combinations_at(indices, _COUNTS)


def rooms_images(indices: Any, device: str | torch.device = "cpu") -> Tensor:
    """Images [B, 3, 64, 64] uint8 by their index in 3D Shapes.

    >>> image = rooms_images([479999])[0]
    >>> image.shape, image[:, 60, 32].argmax().item()  # the last floor is pink: mostly red
    (torch.Size([3, 64, 64]), 0)
    """
    factors = rooms_factors(indices).to(device)
    views, view_index = _views(factors, torch.ones_like(factors[:, 0]).bool(), _ORIGINAL, SIDE)
    return _coloured(factors, views, view_index, _ORIGINAL, SIDE)


def render_rooms(scenes: Scenes, size: int = SIDE, device: str | torch.device = "cpu") -> Frames:
    """Render images, masks and depths of scenes with the vocabulary of rooms.

    The object stands in the middle of the room, whatever its position in the scene. A scene without an object has no
    factors and is an empty room of the first hues. A pixel belongs to the object if at least two of its four samples
    do; its depth is the mean over the samples that agree with the mask.

    >>> from alebrije.worlds.vocabularies import ROOMS
    >>> scenes = Scenes.of(ROOMS, rooms_factors([0, 479999])[:, None], [[[0, 0]], [[0, 0]]])
    >>> frames = render_rooms(scenes)
    >>> frames.images.shape, frames.masks.unique().tolist(), frames.depth.shape
    (torch.Size([2, 3, 64, 64]), [0, 1], torch.Size([2, 64, 64]))
    """
    size = whole_number("size", size, least=8)
    codes = _codes(scenes)
    factors, present = scenes.factors[:, 0].to(device), scenes.present[:, 0].to(device)
    views, view_index = _views(factors, present, codes, size)
    images = _coloured(factors, views, view_index, codes, size)
    if not views:
        empty = factors.new_zeros(0, size, size)
        return Frames(images, empty.byte(), empty.new_zeros(0, 1), empty.new_zeros(0, 1), empty.float())
    masks = torch.stack([view.mask for view in views])[view_index]
    depth = torch.stack([view.depth for view in views])[view_index]
    count = masks.flatten(1).sum(1)[:, None]
    return Frames(images, masks, count, count.clone(), depth)


def _codes(scenes: Scenes) -> _Codes:
    vocabulary = scenes.vocabulary
    if vocabulary.names != _NAMES:
        raise InputError(f"rooms need the factors {', '.join(_NAMES)}; {vocabulary.name} has others")
    if not set(vocabulary["shape"].values) <= set(_SOLIDS):
        shapes = ", ".join(map(str, vocabulary["shape"].values))
        raise InputError(f"rooms support the shapes {', '.join(_SOLIDS)}; {vocabulary.name} has {shapes}")
    if scenes.objects != 1:
        raise InputError(f"rooms have one object, not {scenes.objects}")
    return _Codes(*(factor.values if factor.name == "shape" else factor.codes for factor in vocabulary))


def _views(factors: Tensor, present: Tensor, codes: _Codes, size: int) -> tuple[list[_View], Tensor]:
    """The distinct views among some scenes, and the index of each scene's view, [B]."""
    scales, turns = len(codes.scale), len(codes.orientation)
    shape = torch.where(present, factors[:, 4], len(codes.shape))
    key = (shape * scales + factors[:, 3]) * turns + factors[:, 5]
    keys, view_index = torch.unique(key, return_inverse=True)
    trace = _trace_cached if size <= SIDE else _trace  # large views are not cached: they would fill the memory
    views = []
    for code in keys.tolist():
        kind, step, turn = code // (scales * turns), code // turns % scales, code % turns
        name = (*codes.shape, "")[kind]
        views.append(trace(name, float(codes.scale[step]), float(codes.orientation[turn]), size, factors.device))
    return views, view_index


def _coloured(factors: Tensor, views: list[_View], view_index: Tensor, codes: _Codes, size: int) -> Tensor:
    """Images [B, 3, size, size]: the colours of every scene times the weights of its view."""
    images = torch.empty(len(factors), 3, size * size, dtype=torch.uint8, device=factors.device)
    if not views:
        return images.view(-1, 3, size, size)
    weights = torch.stack([view.weights for view in views])  # [views, 4, H * W]
    hues = [_colours(table, factors.device)[factors[:, axis]] for axis, table in enumerate(codes[:3])]
    white = torch.full_like(hues[0], 255.0)
    colours = torch.stack([*hues, white], dim=2)  # [B, 3, 4]
    for start in range(0, len(factors), _BATCH):
        rows = slice(start, start + _BATCH)
        # Rounding adds at most 2 / 2048 to weights that sum to 1, which stays below 255.5: no clipping needed.
        images[rows] = torch.bmm(colours[rows], weights.index_select(0, view_index[rows])).add_(0.5)
    return images.view(-1, 3, size, size)


def _colours(hues: tuple[float, ...], device: torch.device) -> Tensor:
    """Colours [hues, 3]: integers in 0..255."""
    table = [[round(255 * part) for part in colorsys.hsv_to_rgb(hue, _SATURATION, 1.0)] for hue in hues]
    return torch.tensor(table, dtype=torch.float32, device=device)


def _trace(shape: str, scale: float, degrees: float, size: int, device: torch.device) -> _View:
    """Trace one view. Its rays fit a core's cache, and it cannot depend on other views."""
    camera, rays = _rays(degrees, 2 * size, device)
    solid = _SOLIDS.get(shape)
    floor = _CAMERA_UP / (-rays[2]).clamp_min(1e-6)
    sides = (_WALL - camera[:2]) / rays[:2].clamp_min(1e-6)
    distance, surface = torch.stack([floor, *sides]).min(0)
    weights = rays.new_zeros(4, rays.shape[1])
    point = camera + rays * distance
    weights[0] = _floor_light(point, shape, scale) * (surface == 0)
    weights[1] = _wall_light(point, surface == 1) * (surface > 0)
    hit = torch.zeros_like(floor, dtype=torch.bool)
    if solid is not None:
        raised = camera - camera.new_tensor([0.0, 0.0, solid.half_height * scale])[:, None]
        near, _ = solid.hull((raised / scale).expand_as(rays), rays / scale)
        hit = near < distance
        distance = torch.where(hit, near, distance)
        point = (raised + rays * distance) / scale
        weights *= ~hit
        weights[2:] = _object_light(solid, point, rays) * hit
    weights = _pooled(weights, size).mul(_STEPS).round().div(_STEPS)
    inside = _pooled(hit[None].float(), size)[0]
    mask = inside >= 0.5
    depth = torch.stack([~hit, hit]).float() * distance  # rays have length 1 along the viewing axis
    depth = _pooled(depth, size) / torch.stack([1.0 - inside, inside]).clamp_min(0.25)
    return _View(weights.flatten(1), mask.byte(), torch.where(mask, depth[1], depth[0]))


_trace_cached = lru_cache(maxsize=math.prod(_COUNTS[3:]) + _COUNTS[5])(_trace)


def _pooled(samples: Tensor, size: int) -> Tensor:
    """The mean over 2 x 2 samples, [C, size, size]."""
    return avg_pool2d(samples.view(1, -1, 2 * size, 2 * size), 2)[0]


def _rays(degrees: float, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The camera [3, 1] and `count` squared rays [3, M] from it, of length 1 along the viewing axis.

    Mirroring the room swaps x and y; sums of sine and cosine make opposite orientations mirror each other exactly.
    """
    sin, cos = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    ahead_x, ahead_y = (cos - sin) * math.sqrt(0.5), (cos + sin) * math.sqrt(0.5)
    away, drop = _CAMERA_AWAY, _CAMERA_UP - _TARGET_UP
    level, down = away / math.hypot(away, drop), drop / math.hypot(away, drop)
    across = (torch.arange(count, device=device, dtype=torch.float32) + 0.5) * (2 / count) - 1.0
    right = (across * _HALF_VIEW).repeat(count)
    above = (-across * _HALF_VIEW).repeat_interleave(count)
    ahead = level + above * down
    rays = torch.stack([ahead * ahead_x + right * ahead_y, ahead * ahead_y - right * ahead_x, above * level - down])
    camera = torch.tensor([-away * ahead_x, -away * ahead_y, _CAMERA_UP], dtype=torch.float32, device=device)
    return camera[:, None], rays


def _falloff(distance: Tensor, reach: float) -> Tensor:
    """A falloff from 1 at distance 0 to half at `reach`."""
    return 1.0 / (1.0 + (distance / reach) ** 2)


def _floor_light(point: Tensor, shape: str, scale: float) -> Tensor:
    """Light on the floor: darker near the walls, in the object's shadow and where the object occludes the room."""
    edge = (1.0 - 0.22 * _falloff(_WALL - point[0], 0.45)) * (1.0 - 0.22 * _falloff(_WALL - point[1], 0.45))
    open_floor = 0.97 * edge
    if shape not in _SOLIDS:
        return open_floor
    grid = (point[:2] / (scale * _REACH)).T[None, None]  # [1, 1, M, 2]
    light = _floor_shadow(shape, point.device)[None, None]
    return open_floor * grid_sample(light, grid, padding_mode="border", align_corners=False)[0, 0, 0]


@lru_cache(maxsize=16)
def _floor_shadow(shape: str, device: torch.device) -> Tensor:
    """The share of light that reaches the floor around an object, [cells, cells]: rows are y, columns x.

    It only scales with the object, because the lamp is far away.
    """
    solid = _SOLIDS[shape]
    cell = ((torch.arange(_CELLS, device=device, dtype=torch.float32) + 0.5) * (2 / _CELLS) - 1.0) * _REACH
    height = cell.new_full((_CELLS**2,), -solid.half_height)
    origin = torch.stack([cell.repeat(_CELLS), cell.repeat_interleave(_CELLS), height])
    lamp, sky = torch.zeros_like(height), torch.zeros_like(height)
    for step in range(_DIRECTIONS):
        # A sunflower spiral covers a disc evenly; projected up to a hemisphere it weights light by its cosine.
        radius, turn = math.sqrt((step + 0.5) / _DIRECTIONS), step * math.pi * (3.0 - math.sqrt(5.0))
        x, y = radius * math.cos(turn), radius * math.sin(turn)
        for total, direction in (
            (lamp, (_LAMP[0] + _LAMP_SPREAD * x, _LAMP[1] + _LAMP_SPREAD * y, _LAMP[2])),
            (sky, (x, y, math.sqrt(1.0 - radius * radius))),
        ):
            _, leave = solid.hull(origin, origin.new_tensor(direction)[:, None].expand_as(origin))
            total += leave <= 1e-4
    light = (0.52 * lamp + 0.48 * sky) / _DIRECTIONS
    smooth = avg_pool2d(light.view(1, 1, _CELLS, _CELLS), 3, stride=1, padding=1, count_include_pad=False)
    return smooth[0, 0]


def _wall_light(point: Tensor, first: Tensor) -> Tensor:
    """Light on the walls: the first faces the lamp more, and both are darker near the floor and the corner."""
    height = point[2]
    from_corner = _WALL - torch.where(first, point[1], point[0])
    facing = 0.76 + 0.17 * first.to(height.dtype)
    corner = 1.0 - 0.24 * _falloff(from_corner, 0.5)
    bottom = 1.0 - 0.24 * _falloff(height, 0.4)
    return corner * bottom * facing * (0.94 + 0.03 * height).clamp(0.0, 1.0)


def _object_light(solid: _Solid, point: Tensor, rays: Tensor) -> Tensor:
    """Weights of the object's colour (lamp and light from the room) and of white (highlight), [2, M]."""
    normal, lamp = solid.normal(point), unit(point.new_tensor(_LAMP)[:, None])  # [3, M], [3, 1]
    facing = dot(normal, lamp).clamp_min(0.0)
    room = 0.5 + 0.5 * normal[2]
    contact = 1.0 - 0.35 * _falloff(point[2] + solid.half_height, 0.16)
    colour = (0.42 + 0.22 * room) * contact + 0.36 * facing
    halfway = unit(lamp - unit(rays))
    gloss = 0.3 * dot(normal, halfway).clamp(0.0, 1.0) ** 40
    return torch.stack([colour * (1.0 - gloss), gloss])  # the two sum to at most 1
