"""Preprocessing: how images are resized and normalised before a user's model sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.checks import whole_number
from alebrije.errors import InputError

_LARGEST = 2048  # pixels a side: worlds also render at this size


@dataclass(frozen=True)
class Preprocessing:
    """Resize to `size` pixels a side, then subtract `mean` and divide by `std`, one number per channel.

    None skips a step. Images are resized by bilinear interpolation with antialiasing. They are never cropped: an
    object at the border is part of the scene.

    >>> import torch
    >>> prepared = Preprocessing(size=32, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))(torch.ones(2, 3, 64, 64))
    >>> prepared.shape, float(prepared.max())
    (torch.Size([2, 3, 32, 32]), 1.0)
    """

    size: int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.size is not None and whole_number("pixels (size)", self.size, least=1) > _LARGEST:
            raise InputError(f"pixels (size) must be at most {_LARGEST:,}, not {self.size:,}")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and (len(values) != 3 or not all(map(math.isfinite, values))):
                raise InputError(f"{name} must be one finite number for each of the three channels, not {values}")
        if self.std is not None and min(self.std) <= 0:
            raise InputError(f"std must be greater than 0, not {self.std}")

    def __call__(self, images: Tensor) -> Tensor:
        """Preprocess uint8 images or floats in 0..1 into new floats that share no memory with them."""
        prepared = images.float() / 255 if images.dtype == torch.uint8 else images.to(torch.float32, copy=True)
        if self.size is not None and prepared.shape[2:] != (self.size, self.size):
            prepared = F.interpolate(prepared, (self.size, self.size), mode="bilinear", antialias=True)
        if self.mean is not None:
            prepared = prepared - prepared.new_tensor(self.mean)[:, None, None]
        if self.std is not None:
            prepared = prepared / prepared.new_tensor(self.std)[:, None, None]
        return prepared

    def __str__(self) -> str:
        steps = [f"resized to {self.size} x {self.size} pixels"] if self.size is not None else []
        steps += [f"minus {_listed(self.mean)}"] if self.mean is not None else []
        steps += [f"divided by {_listed(self.std)}"] if self.std is not None else []
        return ", ".join(steps) or "unchanged"


def make_preprocessing(
    size: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> Preprocessing:
    """Make a `Preprocessing`; a single number stands for all three channels.

    >>> make_preprocessing(64, 0.5, (0.1, 0.2, 0.3))
    Preprocessing(size=64, mean=(0.5, 0.5, 0.5), std=(0.1, 0.2, 0.3))
    """
    return Preprocessing(size, _per_channel("mean", mean), _per_channel("std", std))


def to_uint8(images: Tensor) -> Tensor:
    """Images as uint8 on the CPU; uint8 images survive a round trip through floats."""
    pixels = images if images.dtype == torch.uint8 else (images.float() * 255).round().clamp(0, 255).to(torch.uint8)
    return pixels.detach().cpu()


def _per_channel(name: str, values: float | Sequence[float] | None) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        if isinstance(values, int | float):
            return (float(values),) * 3
        return tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be one number or three, not {values!r}") from None


def _listed(values: tuple[float, ...]) -> str:
    return f"({', '.join(f'{value:.4g}' for value in values)})"
