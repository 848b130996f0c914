"""Rooms: one solid in the middle of a coloured room, after 3D Shapes.

The original's scene was never published, so these pictures resemble it and do not copy it. A square room is seen from
inside, slightly from above, towards one of its corners; orientation moves the camera around the object, which turns
room and object alike. Light is worked out in the values of the picture itself, as OpenGL did for the original: a
picture is then a sum of three colours and a white highlight, each times a weight that depends only on scale, shape and
orientation, and 480,000 pictures need just 480 sets of weights.
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

from alebrije.errors import InputError
from alebrije.render.frames import Frames
from alebrije.render.shapes import Hull, box_hull, sphere_hull, tube_hull
from alebrije.render.vectors import Vector, dot, unit
from alebrije.scenes import Scenes
from alebrije.scenes.grid import combinations_at

SIDE = 64  # pixels of the original
_NAMES = ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")
_COUNTS = (10, 10, 10, 8, 4, 15)
_SATURATION = 0.9
_AT_A_TIME = 32  # images whose weights fit into a core's cache
# Weights are multiples of 1 / 2048 and colours whole numbers. Their products and sums are then exact in single
# precision and even in TF32, so the order of adding cannot change a picture.
_PARTS = 2048

# Metres, z up. The object stands at the origin, and the corner that is looked at lies at (_WALL, _WALL).
_WALL = 3.3
_CAMERA_AWAY, _CAMERA_UP, _TARGET_UP = 3.05, 1.72, 0.45
_HALF_VIEW = math.tan(math.radians(24.0))
_LAMP = (-0.72, -0.16, 1.0)
_BEVEL = 0.045  # edges are sharp, but shaded as if they were rounded by this much

# The square of floor whose light is worked out beforehand, in units of an object of scale 1.
_REACH, _CELLS, _DIRECTIONS = 3.2, 128, 96
_LAMP_SPREAD = 0.22  # how wide the lamp is, which makes the shadow's edge soft


@dataclass(frozen=True)
class _Solid:
    """A convex solid about the origin, at scale 1."""

    hull: Hull
    half_height: float
    core: Callable[[Tensor], Tensor]  # points [3, M] -> the nearest points of the solid less its rounded skin

    def normal(self, point: Tensor) -> Tensor:
        """The outward normal at points [3, M] of the surface."""
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


class _Look(NamedTuple):
    """What the camera sees of a case, whatever the hues."""

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

    They are floor hue, wall hue, object hue, scale, shape and orientation.

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
    looks, case = _looks(factors, torch.ones_like(factors[:, 0]).bool(), _ORIGINAL, SIDE)
    return _painted(factors, looks, case, _ORIGINAL, SIDE)


def render_rooms(scenes: Scenes, size: int = SIDE, device: str | torch.device = "cpu") -> Frames:
    """Images, masks and depths of scenes of the vocabulary of rooms.

    The object stands in the middle of the room, wherever the scene's position is; without it, a scene has no factors
    and is an empty room of the first hues. A pixel belongs to the object if at least two of its four samples do; its
    depth is the mean over the samples of what the mask names.

    >>> from alebrije.worlds.vocabularies import ROOMS
    >>> scenes = Scenes.of(ROOMS, rooms_factors([0, 479999])[:, None], [[[0, 0]], [[0, 0]]])
    >>> frames = render_rooms(scenes)
    >>> frames.images.shape, frames.masks.unique().tolist(), frames.depth.shape
    (torch.Size([2, 3, 64, 64]), [0, 1], torch.Size([2, 64, 64]))
    """
    if not isinstance(size, int) or size < 8:
        raise InputError(f"size must be a whole number of pixels, 8 or more, not {size!r}")
    codes = _codes(scenes)
    factors, present = scenes.factors[:, 0].to(device), scenes.present[:, 0].to(device)
    looks, case = _looks(factors, present, codes, size)
    images = _painted(factors, looks, case, codes, size)
    if not looks:
        empty = factors.new_zeros(0, size, size)
        return Frames(images, empty.byte(), empty.new_zeros(0, 1), empty.new_zeros(0, 1), empty.float())
    masks = torch.stack([look.mask for look in looks])[case]
    depth = torch.stack([look.depth for look in looks])[case]
    count = masks.flatten(1).sum(1)[:, None]
    return Frames(images, masks, count, count.clone(), depth)


def _codes(scenes: Scenes) -> _Codes:
    vocabulary = scenes.vocabulary
    if vocabulary.names != _NAMES:
        raise InputError(f"rooms need the factors {', '.join(_NAMES)}, not those of {vocabulary.name}")
    if not set(vocabulary["shape"].values) <= set(_SOLIDS):
        shapes = ", ".join(map(str, vocabulary["shape"].values))
        raise InputError(f"rooms have the shapes {', '.join(_SOLIDS)}, and {vocabulary.name} has {shapes}")
    if scenes.objects != 1:
        raise InputError(f"rooms have one object, and these scenes have {scenes.objects}")
    return _Codes(*(factor.values if factor.name == "shape" else factor.codes for factor in vocabulary))


def _looks(factors: Tensor, present: Tensor, codes: _Codes, size: int) -> tuple[list[_Look], Tensor]:
    """The different looks among some scenes, and which of them each scene has, [B]."""
    scales, turns = len(codes.scale), len(codes.orientation)
    shape = torch.where(present, factors[:, 4], len(codes.shape))
    key = (shape * scales + factors[:, 3]) * turns + factors[:, 5]
    keys, case = torch.unique(key, return_inverse=True)
    see = _seen if size <= SIDE else _see  # large looks are not kept, for they would fill the memory
    looks = []
    for number in keys.tolist():
        kind, step, turn = number // (scales * turns), number // turns % scales, number % turns
        name = (*codes.shape, "")[kind]
        looks.append(see(name, float(codes.scale[step]), float(codes.orientation[turn]), size, factors.device))
    return looks, case


def _painted(factors: Tensor, looks: list[_Look], case: Tensor, codes: _Codes, size: int) -> Tensor:
    """Images [B, 3, size, size]: weights times colours."""
    images = torch.empty(len(factors), 3, size * size, dtype=torch.uint8, device=factors.device)
    if not looks:
        return images.view(-1, 3, size, size)
    weights = torch.stack([look.weights for look in looks])  # [cases, 4, H * W]
    hues = [_colours(table, factors.device)[factors[:, axis]] for axis, table in enumerate(codes[:3])]
    white = torch.full_like(hues[0], 255.0)
    colours = torch.stack([*hues, white], dim=2)  # [B, 3, 4]
    for start in range(0, len(factors), _AT_A_TIME):
        rows = slice(start, start + _AT_A_TIME)
        # Weights that sum to 1 may be rounded to at most 2 parts more, which stays below 255.5: nothing to clip.
        images[rows] = torch.bmm(colours[rows], weights.index_select(0, case[rows])).add_(0.5)
    return images.view(-1, 3, size, size)


def _colours(hues: tuple[float, ...], device: torch.device) -> Tensor:
    """[hues, 3]: whole numbers in 0..255."""
    table = [[round(255 * part) for part in colorsys.hsv_to_rgb(hue, _SATURATION, 1.0)] for hue in hues]
    return torch.tensor(table, dtype=torch.float32, device=device)


def _see(shape: str, scale: float, degrees: float, size: int, device: torch.device) -> _Look:
    """One case at a time: its rays are few enough for a core's cache, and it cannot depend on other cases."""
    camera, rays = _rays(degrees, 2 * size, device)
    solid = _SOLIDS.get(shape)
    floor = _CAMERA_UP / (-rays[2]).clamp_min(1e-6)
    sides = (_WALL - camera[:2]) / rays[:2].clamp_min(1e-6)
    far, surface = torch.stack([floor, *sides]).min(0)
    weights = rays.new_zeros(4, rays.shape[1])
    point = camera + rays * far
    weights[0] = _floor_light(point, shape, scale) * (surface == 0)
    weights[1] = _wall_light(point, surface == 1) * (surface > 0)
    hit = torch.zeros_like(floor, dtype=torch.bool)
    if solid is not None:
        raised = camera - camera.new_tensor([0.0, 0.0, solid.half_height * scale])[:, None]
        near, _ = solid.hull((raised / scale).expand_as(rays), rays / scale)
        hit = near < far
        far = torch.where(hit, near, far)
        met = (raised + rays * far) / scale
        weights *= ~hit
        weights[2:] = _object_light(solid, met, rays) * hit
    weights = _pooled(weights, size).mul(_PARTS).round().div(_PARTS)
    inside = _pooled(hit[None].float(), size)[0]
    mask = inside >= 0.5
    depth = torch.stack([~hit, hit]).float() * far  # rays advance one metre along the viewing axis per unit
    depth = _pooled(depth, size) / torch.stack([1.0 - inside, inside]).clamp_min(0.25)
    seen = torch.where(mask, depth[1], depth[0])
    return _Look(weights.flatten(1), mask.byte(), seen)


_seen = lru_cache(maxsize=math.prod(_COUNTS[3:]) + _COUNTS[5])(_see)


def _pooled(samples: Tensor, size: int) -> Tensor:
    """The mean of two by two samples, [C, size, size]."""
    return avg_pool2d(samples.view(1, -1, 2 * size, 2 * size), 2)[0]


def _rays(degrees: float, count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The camera [3, 1] and `count` squared rays [3, M] from it, of length 1 along the viewing axis.

    The mirror of the room swaps x and y; sums of sine and cosine make opposite orientations mirror each other exactly.
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


def _lamp(device: torch.device) -> Tensor:
    """The direction towards the lamp, [3, 1]."""
    return unit(torch.tensor(_LAMP, dtype=torch.float32, device=device)[:, None])


def _near(distance: Tensor, reach: float) -> Tensor:
    """1 at a distance of 0, falling to half at `reach`."""
    return 1.0 / (1.0 + (distance / reach) ** 2)


def _floor_light(point: Tensor, shape: str, scale: float) -> Tensor:
    """Darker towards the walls, in the object's shadow and where the object hides the room."""
    edge = (1.0 - 0.22 * _near(_WALL - point[0], 0.45)) * (1.0 - 0.22 * _near(_WALL - point[1], 0.45))
    open_floor = 0.97 * edge
    if shape not in _SOLIDS:
        return open_floor
    place = (point[:2] / (scale * _REACH)).T[None, None]  # [1, 1, M, 2]
    light = _floor_shade(shape, point.device)[None, None]
    return open_floor * grid_sample(light, place, padding_mode="border", align_corners=False)[0, 0, 0]


@lru_cache(maxsize=16)
def _floor_shade(shape: str, device: torch.device) -> Tensor:
    """How much light the floor around an object keeps, [cells, cells]: rows are y, columns x.

    It is the same for every scale but for size, since the lamp is far away.
    """
    solid = _SOLIDS[shape]
    cell = ((torch.arange(_CELLS, device=device, dtype=torch.float32) + 0.5) * (2 / _CELLS) - 1.0) * _REACH
    height = cell.new_full((_CELLS**2,), -solid.half_height)
    origin = torch.stack([cell.repeat(_CELLS), cell.repeat_interleave(_CELLS), height])
    lamp, sky = torch.zeros_like(height), torch.zeros_like(height)
    for step in range(_DIRECTIONS):
        # Sunflower seeds spread evenly over a disc; the disc lifted onto a half-sphere gives light by its cosine.
        radius, turn = math.sqrt((step + 0.5) / _DIRECTIONS), step * math.pi * (3.0 - math.sqrt(5.0))
        x, y = radius * math.cos(turn), radius * math.sin(turn)
        for total, seed in (
            (lamp, (_LAMP[0] + _LAMP_SPREAD * x, _LAMP[1] + _LAMP_SPREAD * y, _LAMP[2])),
            (sky, (x, y, math.sqrt(1.0 - radius * radius))),
        ):
            _, leave = solid.hull(origin, origin.new_tensor(seed)[:, None].expand_as(origin))
            total += leave <= 1e-4
    light = (0.52 * lamp + 0.48 * sky) / _DIRECTIONS
    smooth = avg_pool2d(light.view(1, 1, _CELLS, _CELLS), 3, stride=1, padding=1, count_include_pad=False)
    return smooth[0, 0]


def _wall_light(point: Tensor, first: Tensor) -> Tensor:
    """One wall faces the lamp more than the other; both are darker towards the floor and the corner."""
    height = point[2]
    from_corner = _WALL - torch.where(first, point[1], point[0])
    facing = 0.76 + 0.17 * first.to(height.dtype)
    corner = 1.0 - 0.24 * _near(from_corner, 0.5)
    bottom = 1.0 - 0.24 * _near(height, 0.4)
    return corner * bottom * facing * (0.94 + 0.03 * height).clamp(0.0, 1.0)


def _object_light(solid: _Solid, point: Tensor, rays: Tensor) -> Tensor:
    """Weights of the object's colour and of white, [2, M]: lamp, light from the room, and a highlight."""
    normal, lamp = solid.normal(point), _lamp(point.device)
    facing = dot(normal, lamp).clamp_min(0.0)
    room = 0.5 + 0.5 * normal[2]
    contact = 1.0 - 0.35 * _near(point[2] + solid.half_height, 0.16)
    colour = (0.42 + 0.22 * room) * contact + 0.36 * facing
    halfway = unit(lamp - unit(rays))
    gloss = 0.3 * dot(normal, halfway).clamp(0.0, 1.0) ** 40
    return torch.stack([colour * (1.0 - gloss), gloss])  # the two sum to 1 at most
