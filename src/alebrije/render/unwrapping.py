"""Texture coordinates of the eight shapes and of the ground."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.errors import InputError

Unwrapped = tuple[Tensor, Tensor, Tensor]

# The released pictures' ground is unwrapped along this direction, 25.3 degrees off the x axis; one tile measures this.
_GROUND_U = (0.9041, -0.4274, 0.0)
_GROUND_TILE = 37.4
# The ring that runs inside the torus: its radius and height, and the tube's half-axes.
_TORUS_RING, _TORUS_HEIGHT, _TORUS_WIDE, _TORUS_HIGH = 0.62, -0.515, 0.43, 0.545


def texture_coordinates(shape: str, point: Tensor, normal: Tensor) -> Unwrapped:
    """Coordinates uv [M, 2] in tiles, and the unit directions [M, 3] in which u and v grow along the surface.

    Points are in the shape's own coordinates (half-size 1, z up), so that a texture grows with its object; for "ground"
    they are in the world's. The directions are at right angles to `normal` and to each other, with u x v = normal.

    >>> uv, _, _ = texture_coordinates("sphere", torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0]]))
    >>> uv.tolist()
    [[0.5, 0.5]]
    """
    if shape not in _UNWRAPPINGS:
        raise InputError(f"shape must be one of {', '.join(_UNWRAPPINGS)}, got {shape!r}")
    return _UNWRAPPINGS[shape](point, normal)


def _frame(uv: Tensor, along_u: Tensor, normal: Tensor) -> Unwrapped:
    flat = along_u - (along_u * normal).sum(-1, keepdim=True) * normal
    tangent_u = F.normalize(flat, dim=-1)
    return uv, tangent_u, torch.linalg.cross(normal, tangent_u)


def _around(point: Tensor, normal: Tensor, v: Tensor) -> Unwrapped:
    """Once around the z axis is one tile of u."""
    x, y, _ = point.unbind(-1)
    u = torch.atan2(y, x) / (2 * math.pi) + 0.5
    east = torch.stack((-y, x, torch.zeros_like(x)), -1)
    # On the axis itself east is undefined, and any direction does.
    east = torch.where(torch.hypot(x, y)[:, None] < 1e-6, torch.tensor([1.0, 0.0, 0.0], device=x.device), east)
    return _frame(torch.stack((u, v), -1), east, normal)


def _sphere(point: Tensor, normal: Tensor) -> Unwrapped:
    latitude = torch.atan2(point[:, 2], torch.hypot(point[:, 0], point[:, 1]))
    return _around(point, normal, latitude / math.pi + 0.5)


def _cylinder(point: Tensor, normal: Tensor) -> Unwrapped:
    """Up the side, then on towards the middle of the lid."""
    inward = (1 - torch.hypot(point[:, 0], point[:, 1])) * torch.sign(point[:, 2])
    return _around(point, normal, 0.2575 * (point[:, 2] + 1 + inward))


def _cone(point: Tensor, normal: Tensor) -> Unwrapped:
    return _around(point, normal, 0.326 * (point[:, 2] + 1))


def _teapot(point: Tensor, normal: Tensor) -> Unwrapped:
    """Rings up the belly, which go on inwards over the lid."""
    return _around(point, normal, 0.26 * (point[:, 2] + 1 - 0.7 * torch.hypot(point[:, 0], point[:, 1])))


def _torus(point: Tensor, normal: Tensor) -> Unwrapped:
    """Around the axis in u; around the tube in v, with the seam inside the hole."""
    outwards = (torch.hypot(point[:, 0], point[:, 1]) - _TORUS_RING) / _TORUS_WIDE
    upwards = (point[:, 2] - _TORUS_HEIGHT) / _TORUS_HIGH
    return _around(point, normal, torch.atan2(upwards, outwards) / (4 * math.pi) + 0.25)


def _flat(point: Tensor, normal: Tensor, along_u: Tensor, along_v: Tensor, tiles_per_length: float) -> Unwrapped:
    u, v = (point * along_u).sum(-1), (point * along_v).sum(-1)
    return _frame(torch.stack((u, v), -1) * tiles_per_length + 0.5, along_u, normal)


def _box_side(normal: Tensor) -> Tensor:
    """The outward direction of the side of a box that a normal faces most, [M, 3]."""
    side = normal.abs().argmax(-1)
    return F.one_hot(side, 3).to(normal.dtype) * torch.sign(normal.gather(-1, side[:, None]))


def _cube(point: Tensor, normal: Tensor) -> Unwrapped:
    """Four sides to a tile. Courses stand upright on the walls, as in the released pictures."""
    side = _box_side(normal)
    x, z = _axis(normal, 0), _axis(normal, 2)
    along_u = torch.where(side[:, 2:].abs() > 0.5, x, z)
    return _flat(point, normal, along_u, torch.linalg.cross(side, along_u), 0.125)


def _monkey(point: Tensor, normal: Tensor) -> Unwrapped:
    """Level courses on all sides of the head."""
    side = _box_side(normal)
    x, z = _axis(normal, 0), _axis(normal, 2)
    along_u = torch.where(side[:, 2:].abs() > 0.5, x, torch.linalg.cross(z, side))
    return _flat(point, normal, along_u, torch.linalg.cross(side, along_u), 0.17)


def _icosahedron(point: Tensor, normal: Tensor) -> Unwrapped:
    """Each face by itself; courses rise slantwise, as in the released pictures."""
    slant = F.normalize(normal.new_tensor([[-0.35, -0.25, 1.0]]).expand_as(normal), dim=-1)
    along_u = F.normalize(torch.linalg.cross(slant, normal), dim=-1)
    return _flat(point, normal, along_u, torch.linalg.cross(normal, along_u), 0.173)


def _ground(point: Tensor, normal: Tensor) -> Unwrapped:
    """The floor, and the backdrop that curves up from it against the u direction: climbing counts as going back."""
    along_u = normal.new_tensor(_GROUND_U).expand_as(normal)
    along_v = torch.linalg.cross(_axis(normal, 2), along_u)
    u = (point * along_u).sum(-1) - point[:, 2]
    v = (point * along_v).sum(-1)
    uv = torch.stack((u, v), -1) / _GROUND_TILE + 0.5
    return _frame(uv, torch.linalg.cross(along_v, normal), normal)


def _axis(like: Tensor, index: int) -> Tensor:
    return F.one_hot(torch.tensor(index, device=like.device), 3).to(like.dtype).expand_as(like)


_UNWRAPPINGS: dict[str, Callable[[Tensor, Tensor], Unwrapped]] = {
    "cone": _cone,
    "cube": _cube,
    "cylinder": _cylinder,
    "monkey": _monkey,
    "icosahedron": _icosahedron,
    "teapot": _teapot,
    "sphere": _sphere,
    "torus": _torus,
    "ground": _ground,
}
