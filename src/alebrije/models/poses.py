"""Poses: where a view is seen from, as numbers for a network (Sajjadi et al. 2022, OSRT; as in stelzner/osrt).

Everything is in the frame of the first camera: it is at the origin, and its axes are right, up and forward. So a
network cannot know where in the world it is, and any view can be the first.

The release has 15 octaves. In images of 64 pixels, octaves of directions above the sixth are faster than the pixels: to
a network they are noise, which it needs many steps to ignore. So the number of octaves is a setting.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from alebrije.errors import InputError
from alebrije.models.checks import check_positive
from alebrije.render import pixel_rays
from alebrije.render.stage import camera_axes

OCTAVES = 15  # of the release
FIRST_OCTAVE = -5  # of positions; directions start at 0


def pose_size(octaves: int) -> int:
    """The numbers of a pose: sines and cosines of three coordinates, of position and direction.

    >>> pose_size(15)
    180
    """
    check_positive(octaves=octaves)
    return 2 * 2 * 3 * octaves


def poses_of(cameras: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Positions [B, V, 3] and unit ray directions [B, V, 3, H, W] of views, seen from the first of `cameras` [B, V, 3].

    >>> positions, rays = poses_of(torch.tensor([[[7.0, 0.0, 0.0], [0.0, 7.0, 0.0]]]), size=1)
    >>> positions[0].tolist(), rays[0, 0, :, 0, 0].tolist()
    ([[0.0, 0.0, 0.0], [7.0, 0.0, 7.0]], [0.0, 0.0, 1.0])
    """
    axes = torch.stack(camera_axes(cameras[:, 0].T), 0).permute(2, 0, 1)  # [B, 3, 3], rows are the new axes
    positions = (cameras - cameras[:, :1]) @ axes.mT
    rays = torch.einsum("bij,bvjhw->bvihw", axes, pixel_rays(cameras, size))
    return positions, rays


def embed(coordinates: Tensor, first: int, count: int) -> Tensor:
    """Sines and cosines of coordinates [..., C] at `count` octaves from the `first`. [..., 2 * count * C]"""
    octaves = torch.arange(first, first + count, device=coordinates.device, dtype=torch.float32)
    angles = (coordinates.float()[..., None] * (math.pi * 2.0**octaves)).flatten(-2)
    return torch.cat((angles.sin(), angles.cos()), -1)


def embedded_poses(cameras: Tensor, size: int, octaves: int) -> Tensor:
    """The pose of every pixel of views, [B, V, H, W, P]: embeddings of the camera's position and of the ray."""
    with torch.autocast(cameras.device.type, enabled=False):  # bfloat16 cannot tell fast waves apart
        positions, rays = poses_of(cameras.float(), size)
        directions = embed(rays.permute(0, 1, 3, 4, 2), 0, octaves)  # [B, V, H, W, P / 2]
        places = embed(positions, FIRST_OCTAVE, octaves)[:, :, None, None].expand(directions.shape)
        return torch.cat((places, directions), -1)


def balance_poses(layer: nn.Conv2d) -> None:
    """Scale the weights of the numbers of a pose so that together they count as much as the three colours.

    Otherwise the colours are lost among fast waves, and learning takes several times as long.
    """
    with torch.no_grad():
        layer.weight[:, 3:] *= math.sqrt(3 / (layer.in_channels - 3))


def check_views(images: Tensor, cameras: Tensor, size: int, least: int) -> Tensor:
    """Return the images; raise an InputError unless they are [B, V, 3, size, size] with cameras [B, V, 3]."""
    if images.ndim != 5 or tuple(images.shape[2:]) != (3, size, size):
        raise InputError(f"images must have the shape [B, V, 3, {size}, {size}], not {list(images.shape)}")
    if tuple(cameras.shape) != (*images.shape[:2], 3):
        raise InputError(f"cameras must have the shape {[*images.shape[:2], 3]}, not {list(cameras.shape)}")
    if images.shape[1] < least:
        raise InputError(f"this model needs at least {least} views, not {images.shape[1]}")
    return images


def shuffled_views(images: Tensor, cameras: Tensor) -> tuple[Tensor, Tensor]:
    """The views of every scene from a random one on, so that any view can be the first."""
    count, views = cameras.shape[:2]
    first = torch.randint(views, (count, 1), device=cameras.device)
    order = (first + torch.arange(views, device=cameras.device)) % views  # [B, V]
    rows = torch.arange(count, device=cameras.device)[:, None]
    return images[rows, order], cameras[rows, order]
