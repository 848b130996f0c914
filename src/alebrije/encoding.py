"""Encoding: the output type of every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alebrije.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Encoding:
    """The output of a model for a batch of images: one `vector` per image, or several `slots`.

    Slot models may add `masks`, which sum to 1 over the slots; a channel, [B, K, 1, H, W], is dropped. Models with a
    decoder may add a `reconstruction`, nominally in 0..1.

    >>> import torch
    >>> Encoding(slots=torch.zeros(2, 7, 64)).codes.shape
    torch.Size([2, 7, 64])
    """

    vector: Tensor | None = None  # [B, D]
    slots: Tensor | None = None  # [B, K, D]
    masks: Tensor | None = None  # [B, K, H, W]
    reconstruction: Tensor | None = None  # [B, 3, H, W]

    def __post_init__(self) -> None:
        if (self.vector is None) == (self.slots is None):
            raise InputError("an encoding has either a vector or slots")
        if self.masks is not None and self.masks.ndim == 5 and self.masks.shape[2] == 1:
            object.__setattr__(self, "masks", self.masks[:, :, 0])
        for name, axes in (("vector", 2), ("slots", 3), ("masks", 4), ("reconstruction", 4)):
            tensor = getattr(self, name)
            if tensor is not None and tensor.ndim != axes:
                raise InputError(f"the {name} of an encoding must have {axes} axes, not shape {tuple(tensor.shape)}")
            if tensor is not None and len(tensor) != len(self.codes):
                raise InputError(f"an encoding has codes of {len(self.codes)} images but {name} of {len(tensor)}")
        if self.slots is not None and self.masks is not None and self.masks.shape[1] != self.slots.shape[1]:
            raise InputError(f"an encoding has {self.slots.shape[1]} slots but {self.masks.shape[1]} masks")

    @property
    def codes(self) -> Tensor:
        """The vector or the slots, whichever is set."""
        codes = self.slots if self.vector is None else self.vector
        assert codes is not None
        return codes

    def __len__(self) -> int:
        return len(self.codes)
