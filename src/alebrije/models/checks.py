"""Checks of the settings and the images of a model."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from alebrije.checks import whole_number
from alebrije.errors import InputError


def check_positive(**settings: int) -> None:
    """Raise an InputError unless every setting is a whole number of at least 1."""
    for name, value in settings.items():
        whole_number(name, value, least=1)


def check_image_shape(images: Tensor, size: int, name: str = "images") -> Tensor:
    """Return the images; raise an InputError unless they are [B, 3, size, size].

    `alebrije.checks.check_images` also reads pixel values, which would make a training step wait for the GPU.
    """
    if images.ndim != 4 or tuple(images.shape[1:]) != (3, size, size):
        raise InputError(f"{name} must have the shape [B, 3, {size}, {size}], not {list(images.shape)}")
    return images


def check_memory(needed: int, what: str, device: torch.device) -> None:
    """Raise an InputError if something needs more bytes than the device has, in use or not."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
    elif device.type == "cpu" and hasattr(os, "sysconf"):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        return
    if needed > total:
        raise InputError(f"{what} would need about {needed / 1e9:,.0f} GB, and {device} has {total / 1e9:,.0f} GB")
