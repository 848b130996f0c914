"""Solid worlds: scenes to images by rays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.render.clevr import ClevrLook
from alebrije.render.clevrtex import SOLID, SWELL, ClevrtexLook
from alebrije.render.fragments import Sight, ground_points, see
from alebrije.render.frames import Frames
from alebrije.render.library import shape_named
from alebrije.render.materials import MATERIALS
from alebrije.render.stage import Stage, stand
from alebrije.scenes import Scenes, Vocabulary

GREY = (0.8, 0.8, 0.8)  # the ground of CLEVR
METAL, RUBBER = "MyMetal", "Rubber"  # as its files call them


def render_solid(scenes: Scenes, size: int = 128, device: str | torch.device = "cpu") -> Frames:
    """Draw scenes of clevr, clevrtex and their kin.

    Worlds with colours are drawn as CLEVR: two by two rays for every pixel on an outline, and masks that tell what the
    centre of each pixel sees. Worlds of textured materials are drawn as CLEVRTex: four by four rays on outlines, and as
    in the released masks an object is there if it covers an eighth of the pixel. Shadows are soft, metal mirrors once.
    """
    _check(scenes, size)
    draw = _painter(scenes.vocabulary)
    if not len(scenes):
        return _nothing(scenes, size, device)
    # a scene without places for objects is one with an absent object
    frames = draw(scenes.padded(max(1, scenes.objects)).to(device), size)
    if scenes.objects:
        return frames
    return replace(frames, visible=frames.visible[:, :0], total=frames.total[:, :0])


def _check(scenes: Scenes, size: object) -> None:
    """Raise an InputError for what cannot be drawn, whatever the look."""
    if isinstance(size, bool) or not isinstance(size, Integral) or int(size) < 8:
        raise InputError(f"images need a whole number of at least 8 pixels a side, not {size!r}")
    if scenes.objects > 255:
        raise InputError(f"masks tell at most 255 objects apart, not {scenes.objects}")
    if scenes.camera is None or scenes.lamps is None or scenes.position.shape[-1] != 3:
        raise InputError(f"scenes of {scenes.vocabulary.name} need positions in space, a camera and lamps to be drawn")
    if not all(bool(tensor.isfinite().all()) for _, tensor in scenes.tensors() if tensor.is_floating_point()):
        raise InputError("scenes with numbers that are not finite cannot be drawn")
    if len(scenes) and not bool((scenes.camera[:, 2] > 0).all()):
        raise InputError("the camera must stand above the ground")
    if len(scenes) and not bool((scenes.lamps.square().sum(-1) > 1e-6).all()):
        raise InputError("a lamp at the origin lights nothing: lamps look at the origin")


def _nothing(scenes: Scenes, size: int, device: str | torch.device) -> Frames:
    images = torch.zeros(0, 3, size, size, dtype=torch.uint8, device=device)
    counts = torch.zeros(0, scenes.objects, dtype=torch.int64, device=device)
    return Frames(images, images[:, 0], counts, counts, images[:, 0].float())


def _painter(vocabulary: Vocabulary) -> Callable[[Scenes, int], Frames]:
    """How scenes of a vocabulary are drawn."""
    known = vocabulary.names
    if {"shape", "size", "material"} <= set(known):
        _check_codes(vocabulary)
        if "color" in known:
            return _draw_clevr
        if {*vocabulary["material"].values, *vocabulary.background.values} <= set(MATERIALS):
            return _draw_clevrtex
    raise InputError(
        f"{vocabulary.name} cannot be drawn: solid worlds have the factors shape, size and material, and a color "
        f"or all its materials and backgrounds among {', '.join(MATERIALS)}"
    )


def _check_codes(vocabulary: Vocabulary) -> None:
    """The codes of shapes, sizes, colours and CLEVR's materials are what the renderer reads."""
    for code in vocabulary["shape"].codes:
        shape_named(code)
    if not all(isinstance(code, int | float) and code > 0 for code in vocabulary["size"].codes):
        raise InputError(f"the sizes of {vocabulary.name} must be positive numbers, not {vocabulary['size'].codes}")
    if "color" in vocabulary:
        for code in vocabulary["color"].codes:
            if not (isinstance(code, tuple) and len(code) == 3 and all(0 <= channel <= 1 for channel in code)):
                raise InputError(f"the colours of {vocabulary.name} must be three numbers in 0..1, not {code!r}")
        for code in vocabulary["material"].codes:
            if code not in (METAL, RUBBER):
                raise InputError(f"the materials of {vocabulary.name} must be {RUBBER} or {METAL}, not {code!r}")


def _draw_clevr(scenes: Scenes, size: int) -> Frames:
    stage = stand(scenes)
    sight = see(stage, size, grid=2, least=None)
    colour = scenes.codes("color").float().reshape(-1, 3).T.contiguous()
    shiny = torch.tensor([code == METAL for code in scenes.vocabulary["material"].codes], device=stage.device)
    metal = shiny[scenes.factor("material")].reshape(-1)
    # a ground without a colour of its own is CLEVR's
    grounds = [code if isinstance(code, tuple) else GREY for code in scenes.vocabulary.background.codes]
    table = torch.tensor(grounds, device=stage.device, dtype=torch.float32)
    look = ClevrLook(stage, colour, metal, table[scenes.background].T.contiguous())
    point, share = ground_points(stage, size, sight.fragments)
    image = (look.ground(point) * share).reshape(3, -1)
    if len(sight.fragments.pixel):
        image.index_add_(1, sight.fragments.pixel, look.objects(sight.fragments) * sight.fragments.weight)
    return _frames(stage, size, sight, look.develop(image), point)


def _draw_clevrtex(scenes: Scenes, size: int) -> Frames:
    kinds = [
        torch.tensor([MATERIALS.index(value) for value in factor.values], device=scenes.device)
        for factor in (scenes.vocabulary["material"], scenes.vocabulary.background)
    ]
    material, floor = kinds[0][scenes.factor("material")], kinds[1][scenes.background]
    swell, solid = (torch.tensor(table, device=scenes.device)[material] for table in (SWELL, SOLID))
    stage = stand(scenes, swell, solid)
    sight = see(stage, size, grid=4, least=0.12)
    look = ClevrtexLook(stage, material.reshape(-1), floor, size)
    level, share = ground_points(stage, size, sight.fragments)
    point, normal = look.floor_points(level)
    image = (look.ground(point, normal, share) * share).reshape(3, -1)
    if len(sight.fragments.pixel):
        image.index_add_(1, sight.fragments.pixel, look.objects(sight.fragments) * sight.fragments.weight)
    return _frames(stage, size, sight, look.develop(image), point)


def _frames(stage: Stage, size: int, sight: Sight, image: Tensor, ground: Tensor) -> Frames:
    pixels = (image * 255.0 + 0.5).clamp(0.0, 255.0).to(torch.uint8)
    images = pixels.reshape(3, stage.scenes, size, size).permute(1, 0, 2, 3).contiguous()
    seen = torch.stack([(sight.masks == item + 1).sum((1, 2)) for item in range(stage.objects)], 1)
    away = ground - stage.camera[..., None]
    floor = (away * stage.forward[..., None]).sum(0).reshape(sight.depth.shape)
    depth = torch.where(torch.isfinite(sight.depth), sight.depth, floor)
    return Frames(images, sight.masks, seen, sight.total, depth)
