"""Preprocessing: what happens to images at a stranger's door, written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.data.checks import whole_number
from alebrije.errors import InputError

_LARGEST = 2048  # pixels a side: images are also drawn at this size
_OVERSHOOT = 0.01  # floats a little past 0..1, as a resizing or an autoencoder leaves them


@dataclass(frozen=True)
class Preprocessing:
    """Resize to `size` pixels a side, then subtract `mean` and divide by `std`, a number for each colour.

    What is None is not done. Images are resized whole, by bilinear interpolation with antialiasing, and never cropped:
    an object at the border is part of the scene.

    >>> import torch
    >>> prepared = Preprocessing(size=32, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))(torch.ones(2, 3, 64, 64))
    >>> prepared.shape, float(prepared.max())
    (torch.Size([2, 3, 32, 32]), 1.0)
    """

    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.size is not None and whole_number("pixels (size)", self.size, 1) > _LARGEST:
            raise InputError(f"pixels (size) must be at most {_LARGEST:,}, not {self.size:,}")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and (len(values) != 3 or not all(map(math.isfinite, values))):
                raise InputError(f"{name} must be a number for each of the three colours, not {values}")
        if self.std is not None and min(self.std) <= 0:
            raise InputError(f"std must be greater than 0, not {self.std}")

    def __call__(self, images: Tensor) -> Tensor:
        """Floats of a memory of their own, from uint8 images or floats in 0..1."""
        prepared = images.float() / 255 if images.dtype == torch.uint8 else images.to(torch.float32, copy=True)
        if self.size is not None and prepared.shape[2:] != (self.size, self.size):
            prepared = F.interpolate(prepared, (self.size, self.size), mode="bilinear", antialias=True)
        if self.mean is not None:
            prepared = prepared - prepared.new_tensor(self.mean)[:, None, None]
        if self.std is not None:
            prepared = prepared / prepared.new_tensor(self.std)[:, None, None]
        return prepared

    def __str__(self) -> str:
        done = [f"resized to {self.size} x {self.size} pixels"] if self.size is not None else []
        done += [f"less {self._in_words(self.mean)}"] if self.mean is not None else []
        done += [f"divided by {self._in_words(self.std)}"] if self.std is not None else []
        return ", ".join(done) or "as they are"

    def _in_words(self, values: tuple[float, ...]) -> str:
        return f"({', '.join(f'{value:.4g}' for value in values)})"


def preprocessing(
    size: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> Preprocessing:
    """A `Preprocessing` from what is easy to type: one number stands for all three colours.

    >>> preprocessing(64, 0.5, (0.1, 0.2, 0.3))
    Preprocessing(size=64, mean=(0.5, 0.5, 0.5), std=(0.1, 0.2, 0.3))
    """
    return Preprocessing(size, _triple("mean", mean), _triple("std", std))


def _triple(name: str, values: float | Sequence[float] | None) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        if isinstance(values, int | float):
            return (float(values),) * 3
        return tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or three, not {values!r}") from None


def as_bytes(images: Tensor) -> Tensor:
    """Images as uint8 on the CPU; floats that were made from bytes give the same bytes again."""
    pixels = images if images.dtype == torch.uint8 else (images.float() * 255).round().clamp(0, 255).to(torch.uint8)
    return pixels.detach().cpu()


def check_images(images: Tensor) -> Tensor:
    """The images, refused unless they are [B, 3, H, W], and uint8 or floats in 0..1.

    >>> check_images(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """
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
            raise InputError(f"images must be uint8 or floats in 0..1, but these reach from {least:.4g} to {most:.4g}")
    return images
