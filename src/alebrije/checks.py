"""Checks of numbers, devices and images that users pass in, with one sentence for each mistake."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from alebrije.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_OVERSHOOT = 0.01  # resizing or an autoencoder may push floats slightly outside 0..1


def whole_number(name: str, value: Any, least: int = 0) -> int:
    """`value` as an int; an InputError if it is not a whole number or is less than `least`.

    >>> whole_number("limit", 3, least=1)
    3
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise InputError(f"{name} must be at least {least}, not {number}")
    return number


def usable_device(device: str | torch.device) -> torch.device:
    """A device that torch can use here; "auto" is a GPU if there is one.

    >>> usable_device("cpu")
    device(type='cpu')
    """
    import torch

    if device == "auto":
        has_gpu = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
        return torch.device(next(name for name, available in has_gpu.items() if available))
    try:
        found = torch.device(device)
        torch.zeros(1, device=found)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        if "out of memory" in str(error):
            raise InputError(f"{device} is out of memory; other programs use all of it") from None
        raise InputError(f"torch cannot use the device {str(device)!r} on this machine") from None
    return found


def check_images(images: Tensor) -> Tensor:
    """The images as a tensor; an InputError unless they are [B, 3, H, W], uint8 or floats in 0..1.

    >>> import torch
    >>> check_images(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """
    import torch

    try:
        images = torch.as_tensor(images)
    except (RuntimeError, TypeError, ValueError):
        raise InputError(f"images must be a tensor [B, 3, H, W], not {type(images).__name__}") from None
    if images.ndim != 4 or images.shape[1] != 3 or 0 in images.shape:
        raise InputError(f"images must have the shape [B, 3, H, W], not {list(images.shape)}")
    if images.dtype != torch.uint8:
        if not images.is_floating_point():
            raise InputError(f"images must be uint8 or floats in 0..1, not {str(images.dtype).removeprefix('torch.')}")
        least, most = (float(end) for end in images.aminmax())
        if not -_OVERSHOOT <= least <= most <= 1 + _OVERSHOOT:
            raise InputError(f"images must be uint8 or floats in 0..1, but range from {least:.4g} to {most:.4g}")
    return images
