"""Checks of the settings and the images of a model."""

from __future__ import annotations

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
