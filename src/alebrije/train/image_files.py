"""Training from files: the released files of dSprites, 3D Shapes and MPI3D, or a folder of images.

In a plan they stand in the place of a world: `dsprites:FILE`, `shapes3d:FILE`, `mpi3d:FILE` or `data:FOLDER`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.arrays import Integers
from alebrije.data import FactorImages, read_dsprites, read_mpi3d, read_shapes3d
from alebrije.data.attributes import MISSING
from alebrije.data.user_images import PREFIX, UserImages
from alebrije.errors import InputError
from alebrije.files import open_regular
from alebrije.models.learner import Batch
from alebrije.train.labels import Labels
from alebrije.train.sources import join_batches

_GRIDS: dict[str, tuple[Callable[..., FactorImages], str]] = {
    "dsprites": (read_dsprites, "npz"),
    "shapes3d": (read_shapes3d, "h5"),
    "mpi3d": (read_mpi3d, "npz"),
}
FORMS = (*(f"{kind}:FILE.{ending}" for kind, (_, ending) in _GRIDS.items()), f"{PREFIX}FOLDER")
_PART = 2**24  # bytes that are read at once
_RESIZED = 4096  # images at once
_HELD_OUT = 1_000_003  # separates the seeds of validation rows from others


def is_image_file(world: str) -> bool:
    """Whether the world of a plan names a file or a folder.

    >>> is_image_file("mpi3d:real.npz"), is_image_file("rooms"), is_image_file("my_worlds:world")
    (True, False, False)
    """
    kind, colon, _ = world.partition(":")
    return bool(colon) and (kind in _GRIDS or world.startswith(PREFIX))


def data_name(text: str) -> str:
    """Return the name, as in a plan, of data given on a command line; text without a kind is a folder.

    >>> data_name("photos"), data_name("mpi3d:real.npz")
    ('data:photos', 'mpi3d:real.npz')
    """
    return text if is_image_file(text) else f"{PREFIX}{text}"


@dataclass(frozen=True)
class Rows:
    """Some rows of a file, read when they are rendered."""

    rows: Integers

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.rows[part])


@dataclass(frozen=True)
class ImageFile:
    """A file or folder of images with, where it has them, factors and masks."""

    name: str  # as in a plan

    def __post_init__(self) -> None:
        kind, _, path = self.name.partition(":")
        if not path:
            raise InputError(f"{self.name} needs a path; the forms are {', '.join(FORMS)}")
        if kind in _GRIDS and not Path(path).is_file():
            raise InputError(f"there is no file {path}; {kind}:FILE needs the released .{_GRIDS[kind][1]} file")

    @property
    def grey(self) -> bool:
        """Whether all images are grey, so that one channel is enough."""
        return self.name.startswith("dsprites:")

    @property
    def has_masks(self) -> bool:
        """Whether every image has a mask."""
        return self._folder is not None and self._folder.has_masks

    @property
    def checksum(self) -> str:
        """A checksum of the content of a folder or of the bytes of a file."""
        if self._folder is not None:
            return self._folder.checksum(range(len(self._folder)))
        found = 0
        with open_regular(Path(self.name.partition(":")[2])) as file:
            while part := file.read(_PART):
                found = zlib.crc32(part, found)
        return f"{found:08x}"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the factors; none if a folder has no table."""
        if self._folder is not None:
            return () if self._folder.attributes is None else self._folder.attributes.names
        return self._first.names

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of values of each factor."""
        if self._folder is not None:
            attributes = self._folder.attributes
            return () if attributes is None else tuple(map(len, attributes.values))
        return self._first.counts

    def __len__(self) -> int:
        return len(self._folder) if self._folder is not None else int(np.prod(self._first.counts))

    def rows(self, count: int, seed: int, columns: Sequence[int] = ()) -> Integers:
        """Return `count` rows in random order, or all if there are no more; they have a value in each of `columns`.

        An InputError if there are none.
        """
        known = np.arange(len(self))
        if columns and self._folder is not None and self._folder.attributes is not None:
            known = np.flatnonzero((self._folder.attributes.indices[:, list(columns)] != MISSING).all(1))
            if not len(known):
                raise InputError(f"no image of {self.name} has a value of every label")
        return np.random.default_rng(seed).permutation(known)[:count].astype(np.int64)

    def read(self, rows: Integers, size: int) -> tuple[Batch, Integers | None]:
        """Return uint8 images of `size` pixels a side, with masks where there are any, and the factors [B, F]."""
        if self._folder is not None:
            frames = self._folder.read(rows)
            batch = {"images": _resized(frames.images, size)}
            if frames.masks is not None:
                batch["masks"] = _nearest(frames.masks, size)
            return batch, frames.factors
        kind, _, path = self.name.partition(":")
        grid = _GRIDS[kind][0](path, rows)
        images = grid.images[:, :1] if self.grey else grid.images
        return {"images": _resized(images, size)}, grid.factors.numpy()

    @cached_property
    def _folder(self) -> UserImages | None:
        return UserImages(Path(self.name.removeprefix(PREFIX))) if self.name.startswith(PREFIX) else None

    @cached_property
    def _first(self) -> FactorImages:
        kind, _, path = self.name.partition(":")
        return _GRIDS[kind][0](path, [0], **({} if kind == "shapes3d" else {"check": False}))


@dataclass(frozen=True)
class FileImages:
    """A scene set of the images of a file, in random order; validation images are sampled from all of them."""

    file: ImageFile
    size: int
    seed: int
    count: int  # of training images
    held_out: bool = False
    labels: Labels | None = None
    masks: bool = False  # whether to return masks

    def scenes(self, first: int, count: int) -> Rows:
        """Return rows `first` to `first + count` of the order; after the last, the first again."""
        if self.held_out:
            return Rows(np.resize(self.file.rows(first + count, self.seed + _HELD_OUT), first + count)[first:])
        return Rows(self._order[np.arange(first, first + count) % len(self._order)])

    @cached_property
    def _order(self) -> Integers:
        return self.file.rows(self.count, self.seed, () if self.labels is None else self.labels.columns)

    def render(self, scenes: Rows, device: torch.device) -> Batch:
        """Read rows as uint8 images, with labels or masks."""
        batch, factors = self.file.read(scenes.rows, self.size)
        if not self.masks:
            batch.pop("masks", None)
        if self.labels is not None:
            assert factors is not None
            batch["labels"] = self.labels.of(torch.from_numpy(np.asarray(factors)))
        return {name: tensor.to(device) for name, tensor in batch.items()}

    def all(self, device: torch.device) -> Batch:
        """Return all training images; those of a compressed file at once, because each part is read from its start."""
        total = len(self._order)
        part = _RESIZED if self.file.name.startswith(PREFIX) else total
        return join_batches(
            [self.render(self.scenes(first, min(part, total - first)), device) for first in range(0, total, part)]
        )


def _resized(images: Tensor, size: int) -> Tensor:
    """Resize uint8 images to squares by bilinear interpolation with antialiasing."""
    if images.shape[2:] == (size, size):
        return images.contiguous()
    options: dict[str, Any] = {"size": (size, size), "mode": "bilinear", "antialias": True}
    parts = (
        F.interpolate(part.float(), **options).round().clamp(0, 255).byte() for part in torch.split(images, _RESIZED)
    )
    return torch.cat(list(parts))


def _nearest(masks: Tensor, size: int) -> Tensor:
    """Resize label maps [B, H, W] to the nearest label."""
    return F.interpolate(masks[:, None].float(), (size, size), mode="nearest").squeeze(1).to(masks.dtype)
