"""Solid worlds: scenes to images by rays."""

from __future__ import annotations

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.render.clevr import ClevrLook
from alebrije.render.fragments import Sight, ground_points, see
from alebrije.render.frames import Frames
from alebrije.render.stage import Stage, stand
from alebrije.scenes import Scenes

GREY = (0.8, 0.8, 0.8)  # the ground of CLEVR


def render_solid(scenes: Scenes, size: int = 128, device: str | torch.device = "cpu") -> Frames:
    """Draw scenes of clevr, clevrtex and their kin.

    Two by two rays for every pixel on an outline, one for the others; soft shadows from the area lamps, one mirror
    bounce for metal. Masks tell what the centre of each pixel sees.
    """
    if size < 8:
        raise InputError(f"images need a size of at least 8 pixels, not {size}")
    scenes = scenes.to(device)
    return _draw_clevr(scenes, size)


def _draw_clevr(scenes: Scenes, size: int) -> Frames:
    stage = stand(scenes)
    sight = see(stage, size, grid=2, spread=1.0, least=None)
    colour = scenes.codes("color").float().reshape(-1, 3).T.contiguous()
    metal = scenes.factor("material").reshape(-1) == 1
    ground = scenes.vocabulary.background.codes
    table = torch.tensor(ground if len(ground) > 1 else [GREY], device=stage.device, dtype=torch.float32)
    look = ClevrLook(stage, colour, metal, table[scenes.background].T.contiguous())
    point, share = ground_points(stage, size, sight.fragments)
    image = (look.ground(point) * share).reshape(3, -1)
    image.index_add_(1, sight.fragments.pixel, look.objects(sight.fragments) * sight.fragments.weight)
    return _frames(stage, size, sight, look.develop(image), point)


def _frames(stage: Stage, size: int, sight: Sight, image: Tensor, ground: Tensor) -> Frames:
    pixels = (image * 255.0 + 0.5).clamp(0.0, 255.0).to(torch.uint8)
    images = pixels.reshape(3, stage.scenes, size, size).permute(1, 0, 2, 3).contiguous()
    count = stage.objects + 1
    scene = torch.arange(stage.scenes, device=stage.device)[:, None, None] * count
    seen = torch.bincount((sight.masks + scene).reshape(-1), minlength=stage.scenes * count)
    away = ground - stage.camera[..., None]
    floor = (away * stage.forward[..., None]).sum(0).reshape(sight.depth.shape)
    depth = torch.where(torch.isfinite(sight.depth), sight.depth, floor)
    return Frames(images, sight.masks, seen.reshape(-1, count)[:, 1:], sight.total, depth)
