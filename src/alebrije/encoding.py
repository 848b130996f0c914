"""The one thing every model gives: an Encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alebrije.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Encoding:
    """What a model makes of a batch of images: one `vector` each, or one for each of several `slots`.

    Slot models also tell where each slot is seen (`masks`, which add up to one over the slots), and models that can
    draw give the images back (`reconstruction`, in 0..1 up to what the model gets wrong).

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
        for name, axes in (("vector", 2), ("slots", 3), ("masks", 4), ("reconstruction", 4)):
            tensor = getattr(self, name)
            if tensor is not None and tensor.ndim != axes:
                raise InputError(f"the {name} of an encoding must have {axes} axes, not shape {tuple(tensor.shape)}")
            if tensor is not None and len(tensor) != len(self.codes):
                raise InputError(f"an encoding has {len(self.codes)} images but its {name} {len(tensor)}")
        if self.slots is not None and self.masks is not None and self.masks.shape[1] != self.slots.shape[1]:
            raise InputError(f"an encoding has {self.slots.shape[1]} slots but {self.masks.shape[1]} masks")

    @property
    def codes(self) -> Tensor:
        """The vector or the slots, whichever there are."""
        codes = self.slots if self.vector is None else self.vector
        assert codes is not None
        return codes

    def __len__(self) -> int:
        return len(self.codes)
