"""Turn the masks of slots into label maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor
from alebrije.errors import InputError


def labels_from_masks(masks: ArrayOrTensor) -> Any:
    """The label map [B, H, W] of soft or hard masks [B, K, H, W]: the index of the strongest mask at each pixel.

    Video masks [B, T, K, H, W] become [B, T, H, W]. The first of equal masks wins.

    >>> labels_from_masks(np.array([[[[0.9, 0.2]], [[0.1, 0.8]]]]))
    array([[[0, 1]]])
    """
    if masks.ndim not in (4, 5) or 0 in masks.shape:
        raise InputError(
            f"masks must have shape [B, K, H, W] or [B, T, K, H, W] with no empty axis, got {list(masks.shape)}"
        )
    if isinstance(masks, torch.Tensor):
        real, finite = not masks.is_complex(), bool(masks.isfinite().all())
    else:
        real = masks.dtype.kind in "fiub"
        finite = real and bool(np.isfinite(masks).all())
    if not real:
        raise InputError(f"masks must hold real numbers, got dtype {masks.dtype}")
    if not finite:
        raise InputError("masks must be finite")
    if isinstance(masks, torch.Tensor) and masks.dtype == torch.bool:
        masks = masks.byte()  # torch has no argmax for booleans
    return masks.argmax(-3)
