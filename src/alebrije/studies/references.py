"""References: stand-in models whose answers are known."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.results.cells import Label
from alebrije.scenes import Scenes
from alebrije.studies.model import Model, View
from alebrije.suggest import did_you_mean

REFERENCES: Mapping[str, str] = {
    "pixels": "the image itself",
    "oracle": "the true factors and masks",
    "projection": "a random projection of the true factors",
    "noise": "numbers unrelated to the image",
}
POSITIONS = "pixels with positions"  # the yardstick of models whose tokens are clustered; nobody asks for it by name
ALL_REFERENCES: Mapping[str, str] = {
    "pixels": REFERENCES["pixels"],
    POSITIONS: "clusters of the colours and positions of pixels",
    **REFERENCES,
}
_KMEANS_ROUNDS = 10


@dataclass(frozen=True)
class Pixels:
    """The image itself, resized to `size` pixels a side. Each instrument sets a size unless one is given.

    It groups pixels by clusters of colour.
    """

    size: int | None = None
    clusters: int = 7

    @property
    def labels(self) -> Mapping[str, Label]:
        """pixels"""
        return {"model": "pixels"}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The size and the number of clusters."""
        return {"reference": "pixels", "version": 1, "size": self.size, "clusters": self.clusters}

    def encode(self, view: View) -> Encoding:
        """All pixels as one vector."""
        frames = resized(view.images.flatten(0, -4), self.size or view.images.shape[-1])
        return Encoding(vector=frames.reshape(len(view), -1))

    def group(self, view: View) -> Tensor | None:
        """The colour cluster of each pixel; all frames of a video, or all views, have the same clusters."""
        whole = view.images.movedim(-3, 1).flatten(2, -2)  # [B, 3, T * H, W]
        return colour_clusters(whole, self.clusters).reshape(*view.images.shape[:-3], *view.images.shape[-2:])

    def decode(self, codes: Tensor) -> Tensor | None:
        """The image again."""
        side = math.isqrt(codes.shape[1] // 3)
        return codes.reshape(-1, 3, side, side).clamp(0, 1)


@dataclass(frozen=True)
class Oracle:
    """The truth: one slot per object with its one-hot factors and its position, and one for a coloured background.

    In worlds with one object per scene, the code is one number per factor. With `project`, the code is a random
    projection of the sum of the slots to that many numbers, which adds and subtracts like the scenes do.
    """

    project: int | None = None
    seed: int = 0

    @property
    def labels(self) -> Mapping[str, Label]:
        """oracle or projection"""
        return {"model": "oracle" if self.project is None else "projection"}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The projection."""
        return {"reference": "oracle", "version": 1, "project": self.project, "seed": self.seed}

    def encode(self, view: View) -> Encoding:
        """The factors of the scenes."""
        if view.scenes is None:
            raise InputError("the oracle needs the scenes behind the images, and these images have none")
        if view.scenes.objects == 1 and self.project is None:
            counts = torch.tensor(view.scenes.vocabulary.counts)
            return Encoding(vector=view.scenes.factors[:, 0] / (counts - 1).clamp_min(1))
        slots = factor_slots(view.scenes)
        if self.project is None:
            return Encoding(slots=slots)
        generator = torch.Generator().manual_seed(self.seed)
        directions = torch.randn(slots.shape[2], self.project, generator=generator) / self.project**0.5
        return Encoding(vector=slots.sum(1) @ directions)

    def group(self, view: View) -> Tensor | None:
        """The true masks."""
        return None if view.masks is None else view.masks.long()

    def decode(self, codes: Tensor) -> Tensor | None:
        """None: it has no decoder."""
        return None


@dataclass(frozen=True)
class Noise:
    """Random numbers that depend only on the bytes of the image."""

    width: int = 64
    groups: int = 7
    seed: int = 0

    @property
    def labels(self) -> Mapping[str, Label]:
        """noise"""
        return {"model": "noise"}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The width, the number of groups and the seed."""
        return {"reference": "noise", "version": 1, "width": self.width, "groups": self.groups, "seed": self.seed}

    def encode(self, view: View) -> Encoding:
        """A vector of normal noise per image."""
        return Encoding(vector=torch.stack([torch.randn(self.width, generator=g) for g in self._generators(view)]))

    def group(self, view: View) -> Tensor | None:
        """A random group per pixel."""
        shape = (*view.images.shape[1:-3], *view.images.shape[-2:])
        return torch.stack([torch.randint(self.groups, shape, generator=g) for g in self._generators(view)])

    def decode(self, codes: Tensor) -> Tensor | None:
        """None: it has no decoder."""
        return None

    def _generators(self, view: View) -> list[torch.Generator]:
        """A generator per image, seeded by its bytes."""
        seeds = (
            hashlib.blake2b(image.numpy().tobytes(), digest_size=7, salt=self.seed.to_bytes(8, "big")).digest()
            for image in view.images.cpu()
        )
        return [torch.Generator().manual_seed(int.from_bytes(seed, "big")) for seed in seeds]


def reference(name: str, pixels: int | None = None) -> Model:
    """A reference by its name; `pixels` is the size of the reference `pixels`."""
    makers: dict[str, Callable[[], Model]] = {
        "pixels": lambda: Pixels(pixels),
        "oracle": Oracle,
        "projection": lambda: Oracle(project=256),
        "noise": Noise,
    }
    if name not in makers:
        raise InputError(f"there is no reference {name!r}{did_you_mean(name, makers)}")
    return makers[name]()


def is_pixels(model: Model) -> bool:
    """Whether a model is the reference `pixels`."""
    return isinstance(model, Pixels)


def with_pixels(model: Model, pixels: int) -> Model:
    """The same model; the reference `pixels` gets this size unless it has one."""
    return replace(model, size=pixels) if isinstance(model, Pixels) and model.size is None else model


def factor_slots(scenes: Scenes) -> Tensor:
    """One-hot factors and position of each object [B, N, D], zeros for absent objects.

    If the background has several colours, one more slot holds its colour.
    """
    vocabulary, present = scenes.vocabulary, scenes.present
    parts = [F.one_hot(scenes.factors[..., axis], count) for axis, count in enumerate(vocabulary.counts)]
    objects = torch.cat([part.float() for part in (*parts, scenes.position)], -1) * present[..., None]
    if len(vocabulary.background) < 2:
        return objects
    background = F.one_hot(scenes.background, len(vocabulary.background)).float()
    padded = F.pad(background, (objects.shape[2], 0))[:, None]
    return torch.cat([F.pad(objects, (0, background.shape[1])), padded], 1)


def resized(images: Tensor, size: int) -> Tensor:
    """Images uint8 as floats in 0..1, `size` pixels a side."""
    floats = images.float() / 255
    if images.shape[-1] == size and images.shape[-2] == size:
        return floats
    return F.interpolate(floats, (size, size), mode="bilinear", antialias=True)


def colour_clusters(images: Tensor, clusters: int) -> Tensor:
    """K-means of the colours of each image [B, H, W], with farthest-point initialisation."""
    pixels = (images.float() / 255).flatten(2).transpose(1, 2)  # [B, P, 3]
    centres = pixels.median(1, keepdim=True).values  # [B, 1, 3]
    for _ in range(clusters - 1):
        farthest = torch.cdist(pixels, centres).amin(2).argmax(1)
        centres = torch.cat([centres, pixels[torch.arange(len(pixels)), farthest][:, None]], 1)
    for _ in range(_KMEANS_ROUNDS):
        nearest = F.one_hot(torch.cdist(pixels, centres).argmin(2), clusters).float()  # [B, P, K]
        counts = nearest.sum(1)[..., None]
        centres = torch.where(counts > 0, nearest.transpose(1, 2) @ pixels / counts.clamp_min(1), centres)
    return torch.cdist(pixels, centres).argmin(2).reshape(-1, *images.shape[-2:])
