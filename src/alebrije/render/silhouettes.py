"""Silhouettes: the depth of each object rendered alone. Enough for masks and for rules about visibility."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from alebrije.render.rays import candidate_pixels, intersect, view_rays
from alebrije.render.stage import build_stage
from alebrije.scenes import Scenes


def silhouettes(scenes: Scenes, size: int) -> Tensor:
    """Depth of every object at the centre of every pixel, ignoring occlusion; infinite outside it. [B, N, H, W]

    Only additions, products, quotients and square roots are used, so all machines give the same pixels.
    """
    stage = build_stage(scenes)
    instance, pixel = candidate_pixels(stage, size)
    scene = stage.scene_of(instance)
    inner = pixel - scene * (size * size)
    row = inner.div(size, rounding_mode="floor")
    direction = view_rays(stage, scene, inner - row * size + 0.5, row + 0.5, size)
    depth = torch.full((stage.scenes * stage.objects * size * size,), math.inf, device=stage.device)
    depth[instance * (size * size) + inner] = intersect(stage, instance, stage.camera.index_select(1, scene), direction)
    return depth.reshape(stage.scenes, stage.objects, size, size)


def visible_masks(depth: Tensor) -> Tensor:
    """Masks of the nearest object, from silhouettes [B, N, H, W]: 0 is background, object k is k + 1. [B, H, W]"""
    nearest, item = depth.min(dim=1)
    return torch.where(torch.isfinite(nearest), item + 1, torch.zeros_like(item)).to(torch.uint8)


def visible_pixels(depth: Tensor) -> Tensor:
    """Number of pixels in which each object is visible, from silhouettes [B, N, H, W]. [B, N] int64"""
    front = (depth == depth.amin(1, keepdim=True)) & torch.isfinite(depth)
    return front.flatten(2).sum(-1)
