"""Silhouettes: the depth of each object rendered alone. Enough for masks and for rules about visibility."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.rays import candidate_pixels, intersect, view_rays
from alebrije.render.stage import build_stage
from alebrije.scenes import Scenes


@dataclass(frozen=True, eq=False)
class SilhouettePixels:
    """The M pixels that objects cover, each object rendered alone: a list, because objects are small.

    Only additions, products, quotients and square roots are used, so all machines give the same pixels.
    """

    scenes: int
    objects: int
    size: int
    instance: Tensor  # [M] int64, scene * objects + object
    pixel: Tensor  # [M] int64, scene * size * size + pixel
    depth: Tensor  # [M] distance along the viewing axis

    @classmethod
    def of(cls, scenes: Scenes, size: int) -> SilhouettePixels:
        """The silhouettes at the centre of every pixel."""
        stage = build_stage(scenes)
        instance, pixel = candidate_pixels(stage, size)
        scene = stage.scene_of(instance)
        inner = pixel - scene * (size * size)
        row = inner.div(size, rounding_mode="floor")
        direction = view_rays(stage, scene, inner - row * size + 0.5, row + 0.5, size)
        depth = intersect(stage, instance, stage.camera.index_select(1, scene), direction)
        hit = torch.isfinite(depth).nonzero()[:, 0]
        return cls(stage.scenes, stage.objects, size, instance[hit], pixel[hit], depth[hit])

    def visible(self) -> Tensor:
        """Number of pixels in which each object is the nearest. [B, N] int64"""
        nearest = torch.full((self.scenes * self.size**2,), math.inf, device=self.depth.device)
        nearest.scatter_reduce_(0, self.pixel, self.depth, "amin")
        front = self.instance[self.depth == nearest[self.pixel]]
        return torch.bincount(front, minlength=self.scenes * self.objects).reshape(self.scenes, self.objects)

    def uncovered(self) -> Tensor:
        """Number of pixels that show the ground. [B] int64"""
        shown = torch.ones(self.scenes * self.size**2, dtype=torch.bool, device=self.pixel.device)
        shown[self.pixel] = False
        return shown.reshape(self.scenes, -1).sum(1)

    def sets(self) -> Tensor:
        """Number of pixels that each set of objects covers; bit k of a set is object k. [B, 2 ** N] int64"""
        count, pixels = 2**self.objects, self.size**2
        scene = torch.arange(self.scenes, device=self.pixel.device)
        sets = (scene * count).repeat_interleave(pixels)
        sets.index_add_(0, self.pixel, torch.ones_like(self.instance) << (self.instance % self.objects))
        return torch.bincount(sets, minlength=count * self.scenes).reshape(self.scenes, count)


def silhouettes(scenes: Scenes, size: int) -> Tensor:
    """Depth of every object at the centre of every pixel, ignoring occlusion; infinite outside it. [B, N, H, W]"""
    found = SilhouettePixels.of(scenes, size)
    depth = torch.full((found.scenes * found.objects * size * size,), math.inf, device=found.depth.device)
    inner = found.pixel % (size * size)
    depth[found.instance * (size * size) + inner] = found.depth
    return depth.reshape(found.scenes, found.objects, size, size)


def visible_masks(depth: Tensor) -> Tensor:
    """Masks of the nearest object, from silhouettes [B, N, H, W]: 0 is background, object k is k + 1. [B, H, W]"""
    nearest, item = depth.min(dim=1)
    return torch.where(torch.isfinite(nearest), item + 1, torch.zeros_like(item)).to(torch.uint8)


def visible_pixels(depth: Tensor) -> Tensor:
    """Number of pixels in which each object is visible, from silhouettes [B, N, H, W]. [B, N] int64"""
    front = (depth == depth.amin(1, keepdim=True)) & torch.isfinite(depth)
    return front.flatten(2).sum(-1)
