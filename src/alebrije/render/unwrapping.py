"""UV unwrapping: texture coordinates of the eight shapes and the ground."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.errors import InputError
from alebrije.suggest import did_you_mean

Unwrapped = tuple[Tensor, Tensor, Tensor]

# Direction of u on the ground of the released images, 25.3 degrees off the x axis, and the side of one tile.
GROUND_U = (0.9041, -0.4274, 0.0)
GROUND_TILE = 37.4
# Direction across the courses of the icosahedron.
SLANT = (-0.35, -0.25, 1.0)
# Radius and height of the ring inside the torus, and the half-axes of its tube.
_TORUS_RING, _TORUS_HEIGHT, _TORUS_WIDE, _TORUS_HIGH = 0.62, -0.515, 0.43, 0.545


def texture_coordinates(shape: str, point: Tensor, normal: Tensor) -> Unwrapped:
    """Coordinates uv [M, 2] in tiles, and the unit tangents [M, 3] along which u and v grow.

    Points are in unit coordinates of the shape (half-size 1, z up), so that a texture scales with its object; for
    "ground" they are in world coordinates. Both tangents are orthogonal to `normal` and u x v = normal.

    >>> uv, _, _ = texture_coordinates("sphere", torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]]))
    >>> uv.tolist()
    [[0.5, 0.5]]
    """
    if shape not in _UNWRAPPINGS:
        raise InputError(f"there is no shape {shape!r}{did_you_mean(shape, _UNWRAPPINGS)}")
    return _UNWRAPPINGS[shape](point, normal)


def _with_tangents(uv: Tensor, along_u: Tensor, normal: Tensor) -> Unwrapped:
    flat = along_u - (along_u * normal).sum(-1, keepdim=True) * normal
    tangent_u = F.normalize(flat, dim=-1)
    return uv, tangent_u, torch.linalg.cross(normal, tangent_u)


def around_the_axis(shape: str, point: Tensor) -> Tensor:
    """Coordinates uv [M, 2] of a round shape; u runs once around the z axis."""
    return torch.stack((torch.atan2(point[:, 1], point[:, 0]) / (2 * math.pi) + 0.5, ROUND[shape](point)), -1)


def _cylindrical(shape: str, point: Tensor, normal: Tensor) -> Unwrapped:
    x, y, _ = point.unbind(-1)
    east = torch.stack((-y, x, torch.zeros_like(x)), -1)
    # East is undefined on the axis, so use any direction.
    east = torch.where(torch.hypot(x, y)[:, None] < 1e-6, torch.tensor([1.0, 0.0, 0.0], device=x.device), east)
    return _with_tangents(around_the_axis(shape, point), east, normal)


def _sphere(point: Tensor) -> Tensor:
    return torch.atan2(point[:, 2], torch.hypot(point[:, 0], point[:, 1])) / math.pi + 0.5


def _cylinder(point: Tensor) -> Tensor:
    """v runs up the side, then to the middle of the top."""
    inward = (1 - torch.hypot(point[:, 0], point[:, 1])) * torch.sign(point[:, 2])
    return 0.2575 * (point[:, 2] + 1 + inward)


def _cone(point: Tensor) -> Tensor:
    return 0.326 * (point[:, 2] + 1)


def _teapot(point: Tensor) -> Tensor:
    """v runs up the belly, then inwards over the lid."""
    return 0.26 * (point[:, 2] + 1 - 0.7 * torch.hypot(point[:, 0], point[:, 1]))


def _torus(point: Tensor) -> Tensor:
    """u runs around the axis and v around the tube, with the seam inside the hole."""
    outwards = (torch.hypot(point[:, 0], point[:, 1]) - _TORUS_RING) / _TORUS_WIDE
    upwards = (point[:, 2] - _TORUS_HEIGHT) / _TORUS_HIGH
    return torch.atan2(upwards, outwards) / (4 * math.pi) + 0.25


def _planar(point: Tensor, normal: Tensor, along_u: Tensor, along_v: Tensor, tiles_per_length: float) -> Unwrapped:
    u, v = (point * along_u).sum(-1), (point * along_v).sum(-1)
    return _with_tangents(torch.stack((u, v), -1) * tiles_per_length + 0.5, along_u, normal)


def _box_face(normal: Tensor) -> Tensor:
    """The outward axis of the box face that is closest to a normal, [M, 3]."""
    face = normal.abs().argmax(-1)
    return F.one_hot(face, 3).to(normal.dtype) * torch.sign(normal.gather(-1, face[:, None]))


def _boxed(point: Tensor, normal: Tensor, along_sides: Tensor, tiles_per_length: float) -> Unwrapped:
    """Each face of a box separately: u runs along x on top and bottom, and along `along_sides` on the sides."""
    face = _box_face(normal)
    along_u = torch.where(face[:, 2:].abs() > 0.5, _axis(normal, 0), along_sides)
    return _planar(point, normal, along_u, torch.linalg.cross(face, along_u), tiles_per_length)


def _cube(point: Tensor, normal: Tensor) -> Unwrapped:
    """Four faces per tile. Courses run vertically on the sides, as in the released images."""
    return _boxed(point, normal, _axis(normal, 2), 0.125)


def _monkey(point: Tensor, normal: Tensor) -> Unwrapped:
    """Courses run horizontally on all sides of the head."""
    return _boxed(point, normal, torch.linalg.cross(_axis(normal, 2), _box_face(normal)), 0.17)


def _icosahedron(point: Tensor, normal: Tensor) -> Unwrapped:
    """Each face separately. Courses are slanted, as in the released images."""
    slant = F.normalize(normal.new_tensor([SLANT]).expand_as(normal), dim=-1)
    along_u = F.normalize(torch.linalg.cross(slant, normal), dim=-1)
    return _planar(point, normal, along_u, torch.linalg.cross(normal, along_u), 0.173)


def _ground(point: Tensor, normal: Tensor) -> Unwrapped:
    """The floor and the backdrop that curves up from it towards smaller u; height counts as distance."""
    along_u = normal.new_tensor(GROUND_U).expand_as(normal)
    along_v = torch.linalg.cross(_axis(normal, 2), along_u)
    u = (point * along_u).sum(-1) - point[:, 2]
    v = (point * along_v).sum(-1)
    uv = torch.stack((u, v), -1) / GROUND_TILE + 0.5
    return _with_tangents(uv, torch.linalg.cross(along_v, normal), normal)


def _axis(like: Tensor, index: int) -> Tensor:
    return F.one_hot(torch.tensor(index, device=like.device), 3).to(like.dtype).expand_as(like)


ROUND: dict[str, Callable[[Tensor], Tensor]] = {  # v of the shapes that are unwrapped around their axis
    "cone": _cone,
    "cylinder": _cylinder,
    "teapot": _teapot,
    "sphere": _sphere,
    "torus": _torus,
}
_UNWRAPPINGS: dict[str, Callable[[Tensor, Tensor], Unwrapped]] = {
    **{shape: partial(_cylindrical, shape) for shape in ROUND},
    "cube": _cube,
    "block": _cube,
    "monkey": _monkey,
    "icosahedron": _icosahedron,
    "ground": _ground,
}
