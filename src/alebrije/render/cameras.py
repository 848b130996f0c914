"""Cameras: the rays through the pixels of an image."""

from __future__ import annotations

import torch
from torch import Tensor

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.render.stage import HALF_WIDTH, camera_axes


def pixel_rays(cameras: Tensor, size: int) -> Tensor:
    """Unit directions [..., 3, H, W] from cameras [..., 3] through the centres of the pixels of a square image.

    A camera looks at the origin with z up, through CLEVR's lens. Its position and these rays are all that the pose of
    a view is made of.

    >>> rays = pixel_rays(torch.tensor([[7.0, 0.0, 0.0]]), size=3)
    >>> rays.shape, rays[0, :, 1, 1].tolist()
    (torch.Size([1, 3, 3, 3]), [-1.0, 0.0, 0.0])
    """
    if cameras.ndim < 1 or cameras.shape[-1] != 3:
        raise InputError(f"cameras must have the shape [..., 3], not {list(cameras.shape)}")
    side = whole_number("size", size, least=1)
    flat = cameras.reshape(-1, 3)
    right, up, forward = (axis.T[:, :, None, None] for axis in camera_axes(flat.T))  # [M, 3, 1, 1]
    steps = (torch.arange(side, device=flat.device, dtype=flat.dtype) + 0.5 - side / 2) * (2 * HALF_WIDTH / side)
    rays = forward + right * steps - up * steps[:, None]
    return torch.nn.functional.normalize(rays, dim=1).reshape(*cameras.shape, side, side)
