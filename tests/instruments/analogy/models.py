"""Models with slots and vectors of known quality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.results.cells import Label
from alebrije.studies.model import View


@dataclass(frozen=True)
class ExtraSlots:
    """A random direction per object, then a second slot for one of the objects, then a slot of noise."""

    masked: bool = True
    kind: str = "slots"
    labels: Mapping[str, Label] = field(default_factory=lambda: {"model": "extra slots"})

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"extra slots": self.masked}

    def encode(self, view: View) -> Encoding:
        noise = torch.Generator().manual_seed(int(view.images.long().sum()))
        if view.scenes is None:
            return Encoding(slots=torch.randn(len(view), 8, 64, generator=noise), masks=self.masks(view, 8))
        scenes = view.scenes
        slots = torch.zeros(len(view), 8, 64)
        for row in range(len(view)):
            present = scenes.present[row].nonzero()[:, 0].tolist()
            for index in present:
                known = [*scenes.factors[row, index].tolist(), *scenes.position[row, index].tolist()]
                own = torch.Generator().manual_seed(abs(hash(tuple(known))) % 2**40)
                slots[row, index] = torch.randn(64, generator=own)
            twin = present[int(torch.randint(len(present), (1,), generator=noise))]
            slots[row, 6] = 1.5 * slots[row, twin]
            slots[row, 7] = torch.randn(64, generator=noise)
        return Encoding(slots=slots, masks=self.masks(view, 8))

    def masks(self, view: View, slots: int) -> Tensor | None:
        """Masks in which all slots but the last are visible."""
        if not self.masked:
            return None
        masks = torch.zeros(len(view), slots, 4, slots)
        for slot in range(slots - 1):
            masks[:, slot, :, slot] = 1
        return masks

    def group(self, view: View) -> Tensor | None:
        return None

    def decode(self, codes: Tensor) -> Tensor | None:
        return None


@dataclass(frozen=True)
class NotFinite(ExtraSlots):
    """Slots with one number that is NaN or infinite, and true groups."""

    bad: float = math.nan

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"not finite": str(self.bad)}

    def encode(self, view: View) -> Encoding:
        slots = torch.ones(len(view), 3, 5)
        slots[0, 0, 0] = self.bad
        return Encoding(slots=slots, masks=self.masks(view, 3))

    def group(self, view: View) -> Tensor | None:
        return None if view.masks is None else view.masks.long()


class MeanColours(nn.Module):
    """The mean colour of each quarter of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


class Constant(nn.Module):
    """The same code for all images."""

    def forward(self, images: Tensor) -> Tensor:
        return images.new_ones(len(images), 5)


class SlotsAt(nn.Module):
    """Four slots for images of one size; with `varied`, three for bright batches."""

    def __init__(self, side: int, varied: bool = False) -> None:
        super().__init__()
        self.side, self.varied = side, varied

    def forward(self, images: Tensor) -> Encoding:
        if images.shape[-1] != self.side:
            raise ValueError("the wrong size")
        slots = nn.functional.adaptive_avg_pool2d(images, 2).flatten(2).transpose(1, 2)
        return Encoding(slots=slots[:, :3] if self.varied and images.mean() > 0.48 else slots)


class Tokens(nn.Module):
    """A token for each patch, as a transformer has, and a decoder of slots that no mean of tokens fits."""

    def __init__(self, side: int = 12) -> None:
        super().__init__()
        self.side = side

    def forward(self, images: Tensor) -> Encoding:
        tokens = nn.functional.adaptive_avg_pool2d(images, self.side).flatten(2).transpose(1, 2)
        masks = nn.functional.one_hot(torch.arange(self.side**2)).float().view(-1, self.side, self.side)
        return Encoding(slots=tokens, masks=masks.expand(len(images), -1, -1, -1))

    def decode(self, slots: Tensor) -> Tensor:
        return slots.reshape(len(slots), self.side, self.side, 3).permute(0, 3, 1, 2)
