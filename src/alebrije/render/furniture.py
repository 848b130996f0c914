"""Furniture: every box is an object for the ray tracer; masks and counts are of whole pieces."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.render.frames import Frames
from alebrije.render.gpu_tracer import can_trace, trace_coverage
from alebrije.render.silhouettes import SilhouettePixels
from alebrije.render.stage import build_stage
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.scenes.furniture import BOXES, FURNITURE, MOST, PLAIN, TRIMS, half_height

Render = Callable[[Scenes, int], Frames]


def check_furniture(vocabulary: Vocabulary) -> None:
    """Raise an InputError unless furniture has a colour and trims that exist."""
    known = (PLAIN, *TRIMS)
    if not {"color", "trim"} <= set(vocabulary.names) or not set(vocabulary["trim"].codes) <= set(known):
        raise InputError(f"furniture needs the factors color and trim; the codes of trims are {', '.join(known)}")


def render_furniture(scenes: Scenes, size: int, render: Render) -> Frames:
    """Render scenes of furniture with the renderer of boxes, which sees up to six boxes for each piece."""
    count, objects = len(scenes), scenes.objects
    if objects * MOST > 255:
        raise InputError(f"masks hold at most {255 // MOST} pieces of furniture, not {objects}")
    boxes = boxes_of(scenes)
    frames = render(boxes, size)
    masks = (frames.masks.int() + MOST - 1).div(MOST, rounding_mode="floor").to(torch.uint8)
    visible = frames.visible.reshape(count, objects, MOST).sum(-1)
    total = covered_pixels(_alone(boxes, objects), size).reshape(count, objects)
    return Frames(frames.images, masks, visible, total, frames.depth)


def boxes_of(scenes: Scenes) -> Scenes:
    """The boxes of furniture as objects: those of the first piece first, six for each, some of them absent."""
    vocabulary, device = scenes.vocabulary, scenes.device
    table, places = (tensor.to(device) for tensor in _table(vocabulary))
    shape, size = scenes.factor("shape"), scenes.factor("size")  # [B, N]
    kind, trim, exists = table[shape].unbind(-1)  # [B, N, MOST]
    scale, rotation = scenes.codes("size"), scenes.rotation
    x, y, z = (places.to(scenes.position.dtype)[shape] * scale[..., None, None]).unbind(-1)
    cosine, sine = rotation.cos()[..., None], rotation.sin()[..., None]
    offset = torch.stack([x * cosine - y * sine, x * sine + y * cosine, z], -1)
    second = _trim_colours(vocabulary).to(device)[scenes.factor("trim"), scenes.factor("color")]
    color = torch.where(trim > 0, second[..., None], scenes.factor("color")[..., None])
    material = scenes.factor("material")[..., None].expand_as(kind)
    factors = torch.stack([color, kind, kind + len(BOXES) * size[..., None], material], -1)
    present = (exists > 0) & scenes.present[..., None]
    fields = {
        "factors": factors * present[..., None],
        "present": present,
        "position": (scenes.position[:, :, None] + offset) * present[..., None],
        "rotation": rotation[..., None] * present,
    }
    flat: dict[str, Any] = {name: tensor.flatten(1, 2) for name, tensor in fields.items()}
    return Scenes(
        _vocabulary_of_boxes(vocabulary),
        **flat,
        background=scenes.background,
        camera=scenes.camera,
        lamps=scenes.lamps,
    )


def _alone(boxes: Scenes, objects: int) -> Scenes:
    """Every piece in a scene of its own. [B * N, MOST]"""
    flat: dict[str, Any] = {name: getattr(boxes, name) for name in ("factors", "present", "position", "rotation")}
    flat = {name: tensor.reshape(-1, MOST, *tensor.shape[2:]) for name, tensor in flat.items()}
    rest = {name: getattr(boxes, name).repeat_interleave(objects, 0) for name in ("background", "camera", "lamps")}
    return Scenes(boxes.vocabulary, **flat, **rest)


def covered_pixels(scenes: Scenes, size: int) -> Tensor:
    """The number of pixels whose centres show an object. [B] int64"""
    if can_trace(scenes.device):
        return trace_coverage(build_stage(scenes), size)
    return size * size - SilhouettePixels.of(scenes, size).uncovered()


@lru_cache(maxsize=8)
def _vocabulary_of_boxes(vocabulary: Vocabulary) -> Vocabulary:
    """The vocabulary of the boxes of furniture: colours and trims, boxes, and every size of each box."""
    colors = (*vocabulary["color"].codes, *TRIMS.values())
    sizes = tuple(size * box.half_size for size in vocabulary["size"].codes for box in BOXES.values())
    return Vocabulary(
        f"boxes of {vocabulary.name}",
        (
            Factor("color", tuple(map(str, range(len(colors)))), colors),
            Factor("shape", tuple(BOXES)),
            Factor("size", tuple(map(str, range(len(sizes)))), sizes),
            vocabulary["material"],
        ),
        background=vocabulary.background,
    )


@lru_cache(maxsize=8)
def _table(vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """Of each shape: box, whether it is trim, whether it exists [shapes, MOST, 3]; offsets from the centre."""
    rows, places = [], []
    for code in vocabulary["shape"].codes:
        boxes = FURNITURE[code]
        missing = MOST - len(boxes)
        rows.append([[list(BOXES).index(box.name), box.is_trim, 1] for box in boxes] + [[0, 0, 0]] * missing)
        middles = [[*box.centre[:2], box.centre[2] - half_height(code)] for box in boxes]
        places.append(middles + [[0.0, 0.0, 0.0]] * missing)
    return torch.tensor(rows, dtype=torch.int64), torch.tensor(places, dtype=torch.float64)


@lru_cache(maxsize=8)
def _trim_colours(vocabulary: Vocabulary) -> Tensor:
    """The colour of trims, by trim and the object's colour. [trims, colours] int64"""
    count, trims = len(vocabulary["color"]), list(TRIMS)
    rows = [
        list(range(count)) if code == PLAIN else [count + trims.index(code)] * count
        for code in vocabulary["trim"].codes
    ]
    return torch.tensor(rows, dtype=torch.int64)
