"""Read pairs of image batches for the image metrics.

Both batches are [B, C, H, W] of the same shape, uint8 or float in 0..1; a metric returns one value per image. A float
target must be in 0..1. A prediction may overshoot and is never clipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor
from alebrije.errors import InputError
from alebrije.metrics.inputs import widest_float
from alebrije.metrics.record import register

IMAGES = ("target", "predicted")
image_metric = partial(
    register,
    instrument="imagination",
    inputs=IMAGES,
    invariances=("sample order", "batch split", "dtype", "device"),
)
_OVERSHOOT = 1e-3  # allowed in a float target, for rounding
_VALUES_AT_ONCE = 1 << 22  # per batch, to bound the memory


def check_image_pair(target: ArrayOrTensor, predicted: ArrayOrTensor) -> None:
    """Raise an InputError unless both are batches [B, C, H, W] of the same shape, each uint8 or float."""
    for name, images in zip(IMAGES, (target, predicted), strict=True):
        if not isinstance(images, (np.ndarray, torch.Tensor)):
            raise InputError(f"{name} must be a numpy array or a torch tensor, got {type(images).__name__}")
        if images.ndim != 4 or 0 in images.shape:
            raise InputError(f"{name} must have shape [B, C, H, W] with no empty axis, got {list(images.shape)}")
        if not (_is_uint8(images) or _is_float(images)):
            raise InputError(f"{name} must be uint8 or float in 0..1, got dtype {images.dtype}")
    if tuple(target.shape) != tuple(predicted.shape):
        raise InputError(
            f"target and predicted must have the same shape, got {list(target.shape)} and {list(predicted.shape)}"
        )


def image_batches(
    target: ArrayOrTensor, predicted: ArrayOrTensor, values: int = _VALUES_AT_ONCE
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Checked images in 0..1, about `values` values at a time, on the device of `target`."""
    device = device_of(target)
    step = max(1, values // math.prod(target.shape[1:]))
    for start in range(0, len(target), step):
        true, guess = (
            _unit_scale(images[start : start + step], name, device)
            for name, images in zip(IMAGES, (target, predicted), strict=True)
        )
        low, high = float(true.min()), float(true.max())
        if low < -_OVERSHOOT or high > 1 + _OVERSHOOT:
            raise InputError(f"target must be uint8 or float in 0..1, got values in {low:.4g}..{high:.4g}")
        yield true, guess


def device_of(images: ArrayOrTensor) -> torch.device:
    """The device of a tensor; the CPU for a numpy array."""
    return images.device if isinstance(images, torch.Tensor) else torch.device("cpu")


def _is_uint8(images: ArrayOrTensor) -> bool:
    return bool(images.dtype == (torch.uint8 if isinstance(images, torch.Tensor) else np.uint8))


def _is_float(images: ArrayOrTensor) -> bool:
    return images.is_floating_point() if isinstance(images, torch.Tensor) else images.dtype.kind == "f"


def _unit_scale(images: ArrayOrTensor, name: str, device: torch.device) -> torch.Tensor:
    is_uint8 = _is_uint8(images)
    if isinstance(images, np.ndarray):  # torch needs native byte order, positive strides and a writable array
        images = torch.from_numpy(np.array(images, dtype=np.uint8 if is_uint8 else np.float64, order="C"))
    values = images.detach().to(device, widest_float(device))
    if not bool(values.isfinite().all()):
        raise InputError(f"{name} must be finite, but some values are NaN or infinite")
    return values / 255 if is_uint8 else values
