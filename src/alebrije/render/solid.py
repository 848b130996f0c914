"""Solid worlds: render scenes by ray tracing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.render.clevr import ClevrShader
from alebrije.render.clevrtex import DISPLACEMENT, MEAN_ALBEDO, OPACITY, ClevrtexShader
from alebrije.render.fragments import Visibility, ground_points, primary_visibility
from alebrije.render.frames import Frames
from alebrije.render.furniture import check_furniture, render_furniture
from alebrije.render.gpu_tracer import can_trace, trace_clevr, trace_clevrtex
from alebrije.render.library import shape_named
from alebrije.render.light import CLEVR_LIGHT, CLEVRTEX_LIGHT
from alebrije.render.materials import MATERIALS
from alebrije.render.stage import Stage, build_stage
from alebrije.scenes import Scenes, Vocabulary
from alebrije.scenes.furniture import is_furniture

GREY = (0.8, 0.8, 0.8)  # the ground of CLEVR
MIN_COVERAGE = 0.12  # of a pixel by an object, for the masks of CLEVRTex
METAL, RUBBER = "MyMetal", "Rubber"  # the names in its files


def render_solid(scenes: Scenes, size: int = 128, device: str | torch.device = "cpu") -> Frames:
    """Render scenes of clevr, clevrtex and similar worlds, with soft shadows and one bounce off metal.

    Worlds with colours look like CLEVR: outlines are antialiased with 2 x 2 rays a pixel, and a mask holds the object
    at the centre of each pixel. Furniture is rendered box by box. Worlds with textured materials look like CLEVRTex:
    4 x 4 rays, and as in the released masks an object counts if it covers an eighth of the pixel.
    """
    size = whole_number("size", size, least=8)
    _check(scenes)
    render = _renderer(scenes.vocabulary)
    if not len(scenes):
        return _no_frames(scenes, size, device)
    # the ray tracer needs at least one object, which may be absent
    frames = render(scenes.padded(max(1, scenes.objects)).to(device), size)
    if scenes.objects:
        return frames
    return replace(frames, visible=frames.visible[:, :0], total=frames.total[:, :0])


def _check(scenes: Scenes) -> None:
    """Raise an InputError if the scenes cannot be rendered."""
    if scenes.objects > 255:
        raise InputError(f"masks hold at most 255 objects, not {scenes.objects}")
    if scenes.camera is None or scenes.lamps is None or scenes.position.shape[-1] != 3:
        raise InputError(f"scenes of {scenes.vocabulary.name} need 3D positions, a camera and lamps to be rendered")
    if not all(bool(tensor.isfinite().all()) for _, tensor in scenes.tensors() if tensor.is_floating_point()):
        raise InputError("some positions, rotations, cameras or lamps of the scenes are NaN or infinite")
    if len(scenes) and not bool((scenes.camera[:, 2] > 0).all()):
        raise InputError("the camera must be above the ground")
    if len(scenes) and not bool((scenes.lamps.square().sum(-1) > 1e-6).all()):
        raise InputError("lamps point at the origin, so they must not be at the origin")


def _no_frames(scenes: Scenes, size: int, device: str | torch.device) -> Frames:
    images = torch.zeros(0, 3, size, size, dtype=torch.uint8, device=device)
    counts = torch.zeros(0, scenes.objects, dtype=torch.int64, device=device)
    return Frames(images, images[:, 0], counts, counts, images[:, 0].float())


def _renderer(vocabulary: Vocabulary) -> Callable[[Scenes, int], Frames]:
    """The function that renders scenes of a vocabulary."""
    names = vocabulary.names
    if {"shape", "size", "material"} <= set(names):
        _check_codes(vocabulary)
        if is_furniture(vocabulary):
            check_furniture(vocabulary)
            return partial(render_furniture, render=_render_clevr)
        if "color" in names:
            return _render_clevr
        if {*vocabulary["material"].values, *vocabulary.background.values} <= set(MATERIALS):
            return _render_clevrtex
    raise InputError(
        f"{vocabulary.name} cannot be rendered: solid worlds need the factors shape, size and material, and either a "
        f"color or only these materials and backgrounds: {', '.join(MATERIALS)}"
    )


def _check_codes(vocabulary: Vocabulary) -> None:
    """Raise an InputError unless the renderer can read the codes of shapes, sizes, colours and CLEVR's materials."""
    for code in () if is_furniture(vocabulary) else vocabulary["shape"].codes:
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


def _render_clevr(scenes: Scenes, size: int) -> Frames:
    stage = build_stage(scenes)
    colour = scenes.codes("color").float().reshape(-1, 3).T.contiguous()
    shiny = torch.tensor([code == METAL for code in scenes.vocabulary["material"].codes], device=stage.device)
    metal = shiny[scenes.factor("material")].reshape(-1)
    # backgrounds without a colour get CLEVR's grey
    grounds = [code if isinstance(code, tuple) else GREY for code in scenes.vocabulary.background.codes]
    table = torch.tensor(grounds, device=stage.device, dtype=torch.float32)
    albedo = table[scenes.background].T.contiguous()
    if can_trace(stage.device):
        return trace_clevr(stage, size, CLEVR_LIGHT, colour, metal, albedo)
    shader = ClevrShader(stage, colour, metal, albedo)
    visibility = primary_visibility(stage, size, grid=2, min_coverage=None)
    point, share = ground_points(stage, size, visibility.fragments)
    return _frames(stage, size, visibility, shader, shader.ground(point) * share, point)


def _render_clevrtex(scenes: Scenes, size: int) -> Frames:
    kinds = [
        torch.tensor([MATERIALS.index(value) for value in factor.values], device=scenes.device)
        for factor in (scenes.vocabulary["material"], scenes.vocabulary.background)
    ]
    material, floor = kinds[0][scenes.factor("material")], kinds[1][scenes.background]
    displacement, opacity = (torch.tensor(table, device=scenes.device)[material] for table in (DISPLACEMENT, OPACITY))
    stage = build_stage(scenes, displacement, opacity)
    if can_trace(stage.device):
        albedo = torch.tensor(MEAN_ALBEDO, device=stage.device).T
        return trace_clevrtex(stage, size, CLEVRTEX_LIGHT, material.reshape(-1), floor, albedo, MIN_COVERAGE)
    visibility = primary_visibility(stage, size, grid=4, min_coverage=MIN_COVERAGE)
    shader = ClevrtexShader(stage, material.reshape(-1), floor, size)
    level, share = ground_points(stage, size, visibility.fragments)
    point, normal = shader.ground_hits(level)
    return _frames(stage, size, visibility, shader, shader.ground(point, normal, share) * share, point)


def _frames(
    stage: Stage, size: int, visible: Visibility, shader: ClevrShader | ClevrtexShader, ground: Tensor, point: Tensor
) -> Frames:
    """Add the objects to the radiance of the ground [3, B, P] at points [3, B, P], and convert to pixels."""
    image, fragments = ground.reshape(3, -1), visible.fragments
    if len(fragments.pixel):
        image.index_add_(1, fragments.pixel, shader.objects(fragments) * fragments.weight)
    pixels = (shader.to_display(image) * 255.0 + 0.5).clamp(0.0, 255.0).to(torch.uint8)
    images = pixels.reshape(3, stage.scenes, size, size).permute(1, 0, 2, 3).contiguous()
    counts = torch.stack([(visible.masks == item + 1).sum((1, 2)) for item in range(stage.objects)], 1)
    offset = point - stage.camera[..., None]
    floor = (offset * stage.forward[..., None]).sum(0).reshape(visible.depth.shape)
    depth = torch.where(torch.isfinite(visible.depth), visible.depth, floor)
    return Frames(images, visible.masks, counts, visible.total, depth)
