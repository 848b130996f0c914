"""Turn the masks of slots into label maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor
from alebrije.checks import check_array, checked
from alebrije.errors import InputError


@checked
def labels_from_masks(masks: ArrayOrTensor, video: bool | None = None) -> Any:
    """The label map [B, H, W] of soft or hard masks [B, K, H, W]: the index of the strongest mask at each pixel.

    Video masks [B, T, K, H, W] become [B, T, H, W]. Masks may keep their channel, [B, K, 1, H, W] or
    [B, T, K, 1, H, W]. So five axes with a third one of 1 are images with a channel; if they are a video with a single
    slot, say ``video=True``. The first of equal masks wins.

    >>> labels_from_masks(np.array([[[[0.9, 0.2]], [[0.1, 0.8]]]]))
    array([[[0, 1]]])
    """
    masks = check_masks(masks, video)
    if isinstance(masks, torch.Tensor) and masks.dtype == torch.bool:
        masks = masks.byte()  # torch has no argmax for booleans
    return masks.argmax(-3)


def check_masks(masks: ArrayOrTensor, video: bool | None = None) -> Any:
    """The masks [B, K, H, W] or [B, T, K, H, W] without a channel; an InputError unless they are real and finite."""
    check_array("masks", masks)
    if video not in (None, True, False):
        raise InputError(f"video must be True, False or None, not {video!r}")
    shape = list(masks.shape)
    channel = (masks.ndim == 6 and shape[3] == 1) or (masks.ndim == 5 and shape[2] == 1 and video is not True)
    if channel:
        masks = masks.squeeze(-3)
    wanted = {True: (5,), False: (4,), None: (4, 5)}[video]
    if masks.ndim not in wanted or 0 in shape:
        shapes = {True: "[B, T, K, H, W]", False: "[B, K, H, W]", None: "[B, K, H, W] or [B, T, K, H, W]"}[video]
        raise InputError(f"masks must have shape {shapes} with no empty axis, got {shape}")
    if isinstance(masks, torch.Tensor):
        real, finite = not masks.is_complex(), bool(masks.isfinite().all())
    else:
        real = masks.dtype.kind in "fiub"
        finite = real and bool(np.isfinite(masks).all())
    if not real:
        raise InputError(f"masks must hold real numbers, got dtype {masks.dtype}")
    if not finite:
        raise InputError("masks must be finite")
    return masks
