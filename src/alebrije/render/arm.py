"""Arm: one solid at the end of an arm with two segments, after MPI3D.

The original shows photographs or renderings of one machine, so these images have its factors but their own look. The
arm turns around a post (horizontal) and bends at its elbow (vertical), and the solid turns with it. A stripe on the
wall and a ring on the floor have the background's colour.

An image is drawn in layers: the stage, which depends only on the camera; shadows on its floor; the two segments; and
the solid, in a window around its centre. Only additions, multiplications, divisions, square roots and comparisons of
single elements are used: these round alike on every device and in every batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.render.arm_solids import REACH, SOLIDS, Frame, Lamp, Rays
from alebrije.render.frames import Frames
from alebrije.render.vectors import dot
from alebrije.scenes import Scenes, Vocabulary
from alebrije.scenes.grid import combinations_at

SIDE = 64  # pixels a side of the original
_NAMES = ("color", "shape", "size", "camera height", "background", "horizontal", "vertical")
_COUNTS = (6, 6, 2, 3, 3, 40, 40)
_BATCH = 32  # images at a time on a CPU: few enough for its caches
_MANY = 1024  # on other devices
_OBJECT, _ARM = 1, 2  # in masks

# Lengths are in metres, z up. The post stands at the origin; the camera looks along +y from in front of it.
_TARGET, _AWAY, _HALF_VIEW = 0.66, 4.4, 0.36
_SHOULDER, _LIFT = 0.78, 38.0  # height of the shoulder; elevation of the upper segment in degrees
_UPPER, _FORE = 0.52, 0.56  # lengths of the segments
_NEAREST = 3.0  # no centre of a solid is nearer to the camera, along the viewing axis
_EDGE = 1.13  # how much larger a ball looks at the edge of an image than in its middle, at most
_GRIP = 0.8  # the centre of a solid of scale 1 is so far past the hand
_RADII = (0.085, 0.062, 0.048)  # of the post and the segments
_GREYS = (150.0, 205.0, 232.0)
_LAMP = (-0.45, -0.62, 1.0)
_WALL, _STRIPE = 1.7, (0.12, 0.72)  # radius of the round wall; the heights of its stripe
_RING = (1.12, 1.42)  # radii of the ring on the floor
_SAMPLES, _STAGE_SAMPLES = 2, 4  # along each side of a pixel
_SHADOW, _PENUMBRA = 0.5, 0.05  # the share of light that a shadow takes; the width of its edge


class _Stage(NamedTuple):
    """What does not depend on the arm, for some images: [B, H, W]."""

    grey: Tensor  # 0..255, without the stripe and the ring
    stripe: Tensor  # the weight of the background's colour
    floor: Tensor  # 1 where shadows fall
    x: Tensor  # of the point of the floor
    y: Tensor
    depth: Tensor


class _Layer(NamedTuple):
    """The arm in some images: how much of each pixel it covers, its brightness 0..255 and its distance, [B, H, W]."""

    cover: Tensor
    grey: Tensor
    depth: Tensor


class _Pose(NamedTuple):
    """Where the parts of the arm are in each image."""

    shoulder: Tensor  # [3, B]
    elbow: Tensor
    hand: Tensor
    solid: Frame


class _Solid(NamedTuple):
    """A solid in the windows around it, [B, w * w] each."""

    at: Tensor  # index of the pixel
    cover: Tensor
    colour: Tensor  # weight of its colour
    white: Tensor  # weight of white
    depth: Tensor


def arm_factors(indices: Any) -> Tensor:
    """The factors [B, 7] of images by their index in MPI3D, 0..1036799, the last factor fastest.

    They are color, shape, size, camera height, background, horizontal and vertical.

    >>> arm_factors([0, 41, 1_036_799]).tolist()
    [[0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 1], [5, 5, 1, 2, 2, 39, 39]]
    """
    return combinations_at(indices, _COUNTS)


def render_arm(scenes: Scenes, size: int = SIDE, device: str | torch.device = "cpu") -> Frames:
    """Render images, masks and depths of scenes with the vocabulary of arm.

    Masks are 1 on the solid and 2 on the arm; a pixel belongs to what covers at least half of it. A scene without an
    object has no factors and shows the empty hand at the first ones.

    >>> from alebrije.worlds.vocabularies import ARM
    >>> scenes = Scenes.of(ARM, arm_factors([0, 700_000])[:, None], [[[0, 0]], [[0, 0]]])
    >>> frames = render_arm(scenes)
    >>> frames.images.shape, frames.masks.unique().tolist()
    (torch.Size([2, 3, 64, 64]), [0, 1, 2])
    """
    size = whole_number("size", size, least=8)
    _check(scenes)
    device = torch.device(device)
    count = len(scenes)
    factors, present = scenes.factors[:, 0].to(device), scenes.present[:, 0].to(device)
    images = torch.empty(count, 3, size, size, dtype=torch.uint8, device=device)
    masks = torch.empty(count, size, size, dtype=torch.uint8, device=device)
    depth = torch.empty(count, size, size, device=device)
    for rows, look in _blocks(scenes.vocabulary, factors, present):
        images[rows], masks[rows], depth[rows] = _draw(factors[rows], look, scenes.vocabulary, size)
    visible = (masks == _OBJECT).flatten(1).sum(1)[:, None]
    return Frames(images, masks, visible, visible.clone(), depth)


def _check(scenes: Scenes) -> None:
    vocabulary = scenes.vocabulary
    if vocabulary.names != _NAMES:
        raise InputError(f"arm needs the factors {', '.join(_NAMES)}; {vocabulary.name} has others")
    if not set(vocabulary["shape"].values) <= set(SOLIDS):
        shapes = ", ".join(map(str, vocabulary["shape"].values))
        raise InputError(f"arm supports the shapes {', '.join(SOLIDS)}; {vocabulary.name} has {shapes}")
    if scenes.objects != 1:
        raise InputError(f"arm has one object, not {scenes.objects}")


class _Look(NamedTuple):
    """The solid that all images of a block show."""

    shape: str
    scale: float


def _blocks(vocabulary: Vocabulary, factors: Tensor, present: Tensor) -> Iterator[tuple[Tensor, _Look | None]]:
    """Rows of images that show the same solid, or none, in blocks."""
    sizes = vocabulary["size"].codes
    looks = [_Look(shape, size) for shape in vocabulary["shape"].values for size in sizes]
    kinds = torch.where(present, factors[:, 1] * len(sizes) + factors[:, 2], len(looks))
    step = _BATCH if factors.device.type == "cpu" else _MANY
    for kind, look in enumerate((*looks, None)):
        rows = torch.nonzero(kinds == kind)[:, 0]
        for start in range(0, len(rows), step):
            yield rows[start : start + step], look


def _draw(factors: Tensor, look: _Look | None, vocabulary: Vocabulary, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images, masks and depths of one block."""
    device = factors.device
    codes = {factor.name: factor.codes for factor in vocabulary}
    colour, _, _, height, background, horizontal, vertical = factors.unbind(1)
    stages, posts = _stages(codes["camera height"], size, device)
    stage, post = _Stage(*(field[height] for field in stages)), _Layer(*(field[height] for field in posts))
    across = _centres(size, size, device)
    rays, lamp = _view(codes["camera height"], height, across[None, None], -across[None, :, None])
    pose = _pose(_angles(codes["horizontal"], device)[horizontal], _angles(codes["vertical"], device)[vertical], look)
    upper = _capsule(rays, pose.shoulder, pose.elbow, _RADII[1], _GREYS[1], lamp, size)
    arm = _joined(_joined(post, upper), _capsule(rays, pose.elbow, pose.hand, _RADII[2], _GREYS[2], lamp, size))
    kept = (1.0 - arm.cover) * _light(stage, pose, look)
    grey, stripe, own = stage.grey * kept, stage.stripe * kept, torch.zeros_like(kept)
    layers = _Layers(grey + arm.cover * arm.grey, stripe.clone(), own, *_nearest(arm, stage))
    if look is not None:
        _add_solid(layers, _solid(look, rays, pose.solid, lamp, size), arm, grey, stripe)
    tint, paint = _table(codes["background"], device)[background], _table(codes["color"], device)[colour]
    images = torch.empty(len(factors), 3, size, size, dtype=torch.uint8, device=device)
    for channel in range(3):
        level = layers.grey + layers.stripe * tint[:, channel, None, None] + layers.own * paint[:, channel, None, None]
        images[:, channel] = level.add_(0.5).clamp_(0.0, 255.0)
    return images, layers.mask, layers.depth


class _Layers(NamedTuple):
    """All layers together, [B, H, W] each; changed in place."""

    grey: Tensor  # 0..255
    stripe: Tensor  # weight of the background's colour
    own: Tensor  # weight of the solid's colour
    mask: Tensor
    depth: Tensor


def _nearest(arm: _Layer, stage: _Stage) -> tuple[Tensor, Tensor]:
    """Masks and depths without the solid."""
    covered = arm.cover >= 0.5
    return covered.to(torch.uint8) * _ARM, torch.where(covered, arm.depth, stage.depth)


def _add_solid(layers: _Layers, solid: _Solid, arm: _Layer, grey: Tensor, stripe: Tensor) -> None:
    """Add the solid in front of the arm or behind it; `grey` and `stripe` are the shares of the stage alone."""

    def there(field: Tensor) -> Tensor:
        return field.flatten(1).gather(1, solid.at)

    def put(field: Tensor, values: Tensor) -> None:
        field.view(len(field), -1).scatter_(1, solid.at, values)

    front = solid.depth < there(arm.depth)
    cover = torch.where(front, solid.cover, solid.cover * (1.0 - there(arm.cover)))
    hidden_grey = solid.cover * torch.where(front, there(layers.grey), there(grey))
    put(layers.grey, there(layers.grey) - hidden_grey + cover * solid.white * 255.0)
    put(layers.stripe, there(stripe) * (1.0 - solid.cover))
    put(layers.own, cover * solid.colour)
    seen = cover >= 0.5
    put(layers.mask, torch.where(seen, _OBJECT, there(layers.mask)).to(torch.uint8))
    put(layers.depth, torch.where(seen, solid.depth, there(layers.depth)))


@lru_cache(maxsize=32)
def _table(codes: tuple[Any, ...], device: torch.device) -> Tensor:
    """The codes of a factor as numbers."""
    return torch.tensor(codes, dtype=torch.float32, device=device)


def _centres(count: int, size: int, device: torch.device, first: Tensor | float = 0.0) -> Tensor:
    """The centres of `count` pixels from pixel `first` on, in tangents of the viewing angle."""
    index = torch.arange(count, device=device, dtype=torch.float32)
    return ((index + first) + (0.5 - 0.5 * size)) * (2.0 * _HALF_VIEW / size)


@lru_cache(maxsize=16)
def _cameras(elevations: tuple[float, ...], device: torch.device) -> tuple[Tensor, ...]:
    """Position, the three axes, the lamp and the direction halfway to it, of each camera: [3, cameras] each."""
    columns: list[tuple[Sequence[float], ...]] = []
    for degrees in elevations:
        sin, cos = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
        lamp = _normalised(_LAMP)
        halfway = _normalised((lamp[0], lamp[1] - cos, lamp[2] + sin))
        origin = (0.0, -_AWAY * cos, _TARGET + _AWAY * sin)
        columns.append((origin, (0.0, cos, -sin), (1.0, 0.0, 0.0), (0.0, sin, cos), lamp, halfway))
    return tuple(
        torch.tensor(each, dtype=torch.float32, device=device).T.contiguous() for each in zip(*columns, strict=True)
    )


def _normalised(vector: Sequence[float]) -> tuple[float, ...]:
    return tuple(each / math.hypot(*vector) for each in vector)


def _view(elevations: tuple[float, ...], camera: Tensor, x: Tensor, y: Tensor) -> tuple[Rays, Lamp]:
    """The rays of the cameras of some images, and the lamp."""
    origin, ahead, right, up, lamp, halfway = (each[:, camera] for each in _cameras(elevations, camera.device))
    return Rays(origin, ahead, right, up, x, y), Lamp(lamp, halfway)


@lru_cache(maxsize=8)
def _angles(degrees: tuple[float, ...], device: torch.device) -> Tensor:
    """Cosine and sine of angles, [values, 2], computed in double precision on the CPU."""
    found = [(math.cos(math.radians(each)), math.sin(math.radians(each))) for each in degrees]
    return torch.tensor(found, dtype=torch.float32, device=device)


def _pose(horizontal: Tensor, vertical: Tensor, look: _Look | None) -> _Pose:
    """The arm for cosines and sines [B, 2]: horizontally 0 points at the camera, vertically 0 is level."""
    (cos, sin), (level, rise) = horizontal.unbind(1), vertical.unbind(1)
    zero, lift = torch.zeros_like(cos), math.radians(_LIFT)
    reach, height = _UPPER * math.cos(lift), _SHOULDER + _UPPER * math.sin(lift)
    elbow = torch.stack([sin * reach, cos * -reach, zero + height])
    along = torch.stack([sin * level, -cos * level, rise])
    axes = (along, torch.stack([cos, sin, zero]), torch.stack([-sin * rise, cos * rise, level]))
    hand = elbow + along * _FORE
    scale = zero + (1.0 if look is None else look.scale)
    solid = Frame(hand + along * (scale * _GRIP), axes, scale)
    return _Pose(torch.stack([zero, zero, zero + _SHOULDER]), elbow, hand, solid)


def _capsule(rays: Rays, start: Tensor, end: Tensor, radius: float, grey: float, lamp: Lamp, size: int) -> _Layer:
    """A cylinder with round ends, from the distance at which each ray passes its axis."""

    def each(values: Tensor) -> Tensor:
        return values[:, None, None]

    axis, offset = end - start, rays.origin - start
    b, f, lamp_way = rays.along(axis), rays.along(offset), rays.along(lamp.toward)
    c, e, g = each(dot(axis, axis)), each(dot(axis, offset)), each(dot(offset, offset))
    square = 1.0 + rays.x * rays.x + rays.y * rays.y  # squared length of the rays
    share = ((e * square - b * f) / (c * square - b * b)).clamp_(0.0, 1.0)  # of the axis, to the point nearest the ray
    far = (share * b - f) / square
    out = (g + share * (share * c - 2.0 * e)) - far * far * square  # squared distance between ray and axis
    out = out.clamp_min_(0.0).sqrt_() / radius
    cover = (0.5 + (1.0 - out) * (radius * size / (2.0 * _HALF_VIEW)) / far).clamp_(0.0, 1.0)
    side = (1.0 - out * out).clamp_min_(0.0).sqrt_()  # of the normal, towards the camera
    lit = (each(dot(offset, lamp.toward)) - share * each(dot(axis, lamp.toward)) + far * lamp_way) * (1.0 / radius)
    lit = (lit - side * each(dot(lamp.toward, rays.ahead))).clamp_(0.0, 1.0)
    return _Layer(cover, (0.42 + 0.58 * lit) * grey, far - radius * side)


def _joined(first: _Layer, second: _Layer) -> _Layer:
    """Two parts of the arm; the nearer one is seen where both are."""
    nearer = ((second.depth < first.depth) | (first.cover <= 0.0)) & (second.cover > 0.0)
    cover = torch.maximum(first.cover, second.cover)
    return _Layer(cover, torch.where(nearer, second.grey, first.grey), torch.where(nearer, second.depth, first.depth))


def _light(stage: _Stage, pose: _Pose, look: _Look | None) -> Tensor:
    """The share of light that reaches the stage past the arm and the solid, [B, H, W]."""
    shoulder, elbow, hand = (_shadow_of(point) for point in (pose.shoulder, pose.elbow, pose.hand))
    shade = torch.maximum(_shadow(stage, shoulder, elbow, _RADII[1]), _shadow(stage, elbow, hand, _RADII[2]))
    if look is not None:
        centre = _shadow_of(pose.solid.centre)
        shade = torch.maximum(shade, _shadow(stage, centre, centre, 0.9 * look.scale))
    return 1.0 - (_SHADOW * stage.floor) * shade


def _shadow_of(point: Tensor) -> tuple[Tensor, Tensor]:
    """Where the shadow of a point [3, B] falls on the floor."""
    return point[0] - point[2] * (_LAMP[0] / _LAMP[2]), point[1] - point[2] * (_LAMP[1] / _LAMP[2])


def _shadow(stage: _Stage, start: tuple[Tensor, Tensor], end: tuple[Tensor, Tensor], radius: float) -> Tensor:
    """How dark the shadow of a part from `start` to `end` is, 0..1."""
    (x, y), along_x, along_y = (each[:, None, None] for each in start), end[0] - start[0], end[1] - start[1]
    across_x, across_y = stage.x - x, stage.y - y
    if start is not end:
        square = (along_x * along_x + along_y * along_y).clamp_min(1e-9)
        by_x, by_y = (along_x / square)[:, None, None], (along_y / square)[:, None, None]
        share = (across_x * by_x + across_y * by_y).clamp_(0.0, 1.0)
        across_x = across_x - share * along_x[:, None, None]
        across_y = across_y - share * along_y[:, None, None]
    distance = (across_x * across_x + across_y * across_y).sqrt_()
    return (0.5 + (radius - distance) * (0.5 / _PENUMBRA)).clamp_(0.0, 1.0)


def _solid(look: _Look, rays: Rays, frame: Frame, lamp: Lamp, size: int) -> _Solid:
    """The solids of some images, in windows of equal size around their centres."""
    reach, scale = REACH[look.shape] * look.scale, size / (2.0 * _HALF_VIEW)
    width = min(size, 2 * math.ceil(_EDGE * reach / math.sqrt(_NEAREST**2 - reach**2) * scale) + 2)
    offset = frame.centre - rays.origin
    away = dot(offset, rays.ahead)
    column, row = dot(offset, rays.right) / away * scale, dot(offset, rays.up) / away * -scale
    left, top = ((each + 0.5 * (size - width)).round().clamp(0, size - width) for each in (column, row))
    fine = _SAMPLES * width
    x = _centres(fine, _SAMPLES * size, left.device, _SAMPLES * left[:, None])[:, None, :]
    y = -_centres(fine, _SAMPLES * size, left.device, _SAMPLES * top[:, None])[:, :, None]
    hit = SOLIDS[look.shape].hit(rays._replace(x=x, y=y), frame, lamp)
    white = 0.3 * hit.gloss
    colour = (0.46 + 0.54 * hit.facing) * (1.0 - white)
    inside = hit.inside.float()
    count = _pooled(inside)
    share = 1.0 / count.clamp_min(1.0)
    fields = [_pooled(torch.where(hit.inside, field, 0.0)) * share for field in (colour, white, hit.depth)]
    span = torch.arange(width, device=left.device)
    at = (top.long()[:, None] + span)[:, :, None] * size + (left.long()[:, None] + span)[:, None, :]
    colour, white, depth = (field.flatten(1) for field in fields)
    return _Solid(at.flatten(1), (count * (1.0 / _SAMPLES**2)).flatten(1), colour, white, depth)


def _pooled(field: Tensor, count: int = _SAMPLES) -> Tensor:
    """The sum over the samples of each pixel, always in the same order."""
    parts = [field[:, row::count, column::count] for row in range(count) for column in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@lru_cache(maxsize=16)
def _stages(elevations: tuple[float, ...], size: int, device: torch.device) -> tuple[_Stage, _Layer]:
    """The stage and the post, seen by each camera."""
    cameras = torch.arange(len(elevations))
    fine = _STAGE_SAMPLES * size
    across = _centres(fine, fine, torch.device("cpu"))
    rays, _ = _view(elevations, cameras, across[None, None], -across[None, :, None])
    unit_vectors = torch.eye(3)[:, :, None].expand(3, 3, len(elevations))
    dx, dy, dz = (rays.along(vector) for vector in unit_vectors)
    ox, oy, oz = (each[:, None, None] for each in rays.origin)
    a, b, c = dx * dx + dy * dy, ox * dx + oy * dy, ox * ox + oy * oy - _WALL * _WALL
    to_wall = (-b + (b * b - a * c).clamp_min(0.0).sqrt()) / a
    to_floor = torch.where(dz < -1e-6, -oz / dz.clamp_max(-1e-6), math.inf)
    on_floor = to_floor < to_wall
    far = torch.where(on_floor, to_floor, to_wall)
    x, y, z = ox + far * dx, oy + far * dy, oz + far * dz
    middle = (x * x + y * y).sqrt()
    ring = on_floor & (middle > _RING[0]) & (middle < _RING[1])
    stripe = ~on_floor & (z > _STRIPE[0]) & (z < _STRIPE[1])
    corner = 1.0 - 0.35 / (1.0 + ((_WALL - middle) / 0.25) ** 2)
    height = (1.0 - 0.25 * z).clamp(0.3, 1.0) * (0.8 - 0.2 * x / _WALL)
    light = torch.where(on_floor, corner, height)
    weight = light * (ring * 0.72 + stripe * 0.9)
    grey = light * torch.where(on_floor, 92.0, 34.0) * ~(ring | stripe)
    fields = (grey, weight, on_floor.float(), x, y, far)
    stage = _Stage(*(_pooled(field, _STAGE_SAMPLES) / _STAGE_SAMPLES**2 for field in fields))
    across = _centres(size, size, torch.device("cpu"))
    rays, lamp = _view(elevations, cameras, across[None, None], -across[None, :, None])
    foot, top = (torch.tensor([[0.0], [0.0], [height]]).expand(3, len(elevations)) for height in (0.0, _SHOULDER))
    layer = _capsule(rays, foot, top, _RADII[0], _GREYS[0], lamp, size)
    return _Stage(*(field.to(device) for field in stage)), _Layer(*(field.to(device) for field in layer))
