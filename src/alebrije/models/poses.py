"""Poses: where a view is seen from, as numbers for a network (Sajjadi et al. 2022, OSRT; as in stelzner/osrt).

Everything is in the frame of the first camera: it is at the origin, and its axes are right, up and forward. So a
network cannot know where in the world it is, and any view can be the first.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.render import pixel_rays
from alebrije.render.stage import camera_axes

OCTAVES = 15
FIRST_OCTAVE = -5  # of positions; directions start at 0
POSE = 2 * 2 * 3 * OCTAVES  # numbers of a pose: sines and cosines of three coordinates, of position and direction


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


def embed(coordinates: Tensor, first_octave: int) -> Tensor:
    """Sines and cosines of coordinates [..., C] at 15 octaves. [..., 2 * 15 * C]"""
    octaves = torch.arange(first_octave, first_octave + OCTAVES, device=coordinates.device, dtype=torch.float32)
    angles = (coordinates.float()[..., None] * (math.pi * 2.0**octaves)).flatten(-2)
    return torch.cat((angles.sin(), angles.cos()), -1)


def embedded_poses(cameras: Tensor, size: int) -> Tensor:
    """The pose of every pixel of views, [B, V, H, W, 180]: embeddings of the camera's position and of the ray."""
    with torch.autocast(cameras.device.type, enabled=False):  # bfloat16 cannot tell fast waves apart
        positions, rays = poses_of(cameras.float(), size)
        directions = embed(rays.permute(0, 1, 3, 4, 2), 0)  # [B, V, H, W, 90]
        places = embed(positions, FIRST_OCTAVE)[:, :, None, None].expand(directions.shape)
        return torch.cat((places, directions), -1)


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
