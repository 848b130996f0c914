"""Silhouettes: where each object would be seen if it stood alone. Enough for masks and for rules about visibility."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from alebrije.render.rays import candidates, meet, view_rays
from alebrije.render.stage import Stage, stand
from alebrije.scenes import Scenes


def silhouettes(scenes: Scenes, size: int) -> Tensor:
    """Depth of every object at the centre of every pixel, whatever stands before it; infinite beside it. [B, N, H, W]

    Only additions, products, quotients and square roots are used, so that every machine sees the same pixels.
    """
    return stage_silhouettes(stand(scenes), size)


def stage_silhouettes(stage: Stage, size: int) -> Tensor:
    """The same for scenes that stand already. [B, N, H, W]"""
    place, pixel = candidates(stage, size)
    scene = place.div(stage.objects, rounding_mode="floor")
    inner = pixel - scene * (size * size)
    row = inner.div(size, rounding_mode="floor")
    toward = view_rays(stage, scene, inner - row * size + 0.5, row + 0.5, size)
    depth = torch.full((stage.scenes * stage.objects * size * size,), math.inf, device=stage.device)
    depth[place * (size * size) + inner] = meet(stage, place, stage.camera.index_select(1, scene), toward)
    return depth.reshape(stage.scenes, stage.objects, size, size)


def labels(depth: Tensor) -> Tensor:
    """Masks from silhouettes [B, N, H, W]: 0 is background, object k is k + 1, the nearest is seen. [B, H, W] uint8"""
    nearest, item = depth.min(dim=1)
    return torch.where(torch.isfinite(nearest), item + 1, torch.zeros_like(item)).to(torch.uint8)


def visible_pixels(depth: Tensor) -> Tensor:
    """In how many pixels each object is seen, from silhouettes [B, N, H, W]. [B, N] int64"""
    front = (depth == depth.amin(1, keepdim=True)) & torch.isfinite(depth)
    return front.flatten(2).sum(-1)
