"""Inputs: what a model takes, single images, videos or several views of a scene, and what it is given beside them.

A model takes images [B, 3, H, W] unless its attribute `takes` is "videos" (images [B, T, 3, H, W]) or "views"
(images [B, V, 3, H, W]). A parameter that is called `boxes` or `cameras` gets more:

- `boxes` [B, N, 4]: of each object in the first frame, top, left, bottom and right as shares of the image; zeros for
  objects that it does not show. Only for videos.
- `cameras` [B, V, 3]: the position of the camera of each view. All cameras look at the origin.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args

import torch
from torch import Tensor, nn

from alebrije.checks import IMAGE_SHAPES
from alebrije.encoding import Shows
from alebrije.errors import InputError

CONDITIONS: Mapping[str, Shows] = {"boxes": "videos", "cameras": "views"}  # parameter -> the models that may have it
PROBED = {"videos": 6, "views": 3}  # frames or views of what probes a model


def what_it_takes(model: Any, name: str) -> Shows:
    """What a model takes, by its attribute `takes`; an InputError if that is something else.

    >>> what_it_takes(nn.Identity(), "identity")
    'images'
    """
    takes: Any = getattr(model, "takes", "images")
    if takes not in get_args(Shows):
        raise InputError(f"{name} has takes = {takes!r}; it must be 'images', 'videos' or 'views'")
    return takes  # type: ignore[no-any-return]


def parameters_for_conditions(model: Callable[..., Any], takes: Shows) -> tuple[str, ...]:
    """Which of `boxes` and `cameras` a model has as a parameter.

    >>> parameters_for_conditions(lambda videos, boxes: boxes, "videos")
    ('boxes',)
    """
    signature = signature_of(model)
    return tuple(
        name for name, kind in CONDITIONS.items() if signature and kind == takes and name in signature.parameters
    )


def signature_of(model: Callable[..., Any]) -> inspect.Signature | None:
    """The parameters that a model is called with; None for functions written in C, which may have no signature."""
    try:
        return inspect.signature(model.forward if isinstance(model, nn.Module) else model)
    except (TypeError, ValueError):
        return None


def check_kind(images: Any, takes: Shows, name: str) -> None:
    """Raise an InputError if a model is given images but takes videos or views, or the other way round."""
    axes = getattr(images, "ndim", None)
    if axes == 5 and takes == "images":
        raise InputError(
            f"{name} takes images {IMAGE_SHAPES[takes]} and cannot take videos or several views, {list(images.shape)}"
        )
    if axes == 4 and takes != "images":
        raise InputError(
            f"{name} takes {takes} {IMAGE_SHAPES[takes]} and cannot take single images, {list(images.shape)}"
        )


def check_conditions(images: Tensor, given: Mapping[str, Any], wanted: tuple[str, ...], name: str) -> dict[str, Tensor]:
    """The wanted conditions as float tensors; an InputError if one is missing or does not fit the images.

    Others are ignored, so that the same call serves models with and without them.
    """
    found: dict[str, Tensor] = {}
    for each in wanted:
        shape = "[B, N, 4], one row of boxes for each video" if each == "boxes" else "[B, V, 3], one for each view"
        value = given.get(each)
        if value is None:
            raise InputError(f"{name} needs {each} {shape}")
        try:
            tensor = torch.as_tensor(value).float()
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"{each} must be numbers {shape}, not {type(value).__name__}") from None
        expected = (len(images), None, 4) if each == "boxes" else (*images.shape[:2], 3)
        if tensor.ndim != 3 or any(size not in (None, own) for size, own in zip(expected, tensor.shape, strict=True)):
            raise InputError(f"{each} must have the shape {shape}, not {list(tensor.shape)} for {len(images)} scenes")
        found[each] = tensor
    return found


def stand_ins(wanted: tuple[str, ...], count: int, frames: int) -> dict[str, Tensor]:
    """Conditions for probing a model: the same three boxes, or cameras around the scene, for every scene."""
    boxes = torch.tensor([[0.1, 0.1, 0.4, 0.4], [0.3, 0.6, 0.5, 0.9], [0.6, 0.2, 0.9, 0.5]])
    angles = 2 * torch.pi * torch.arange(frames) / frames
    cameras = torch.stack([7.4 * angles.sin(), -7.4 * angles.cos(), torch.full((frames,), 5.3)], -1)
    made = {"boxes": boxes, "cameras": cameras}
    return {name: made[name].expand(count, -1, -1) for name in wanted}
