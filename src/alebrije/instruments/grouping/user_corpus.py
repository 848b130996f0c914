"""A user's own images with masks, on which grouping is tested as on a world."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije.arrays import Integers
from alebrije.data.user_images import PREFIX, UserImages, user_images
from alebrije.encoding import Shows
from alebrije.errors import InputError
from alebrije.instruments.grouping.images import SEED, Corpus
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import View


class UserCorpus(Corpus):
    """The images of `data:FOLDER` with their masks."""

    @classmethod
    def of(cls, world: str, images: int, pixels: int, frames: int | None = None, one_view: bool = False) -> UserCorpus:
        """The corpus of a folder, at the size of its images; an InputError if they have no masks."""
        data = user_images(world)
        assert data is not None
        if not data.has_masks:
            folder = world.removeprefix(PREFIX)
            raise InputError(f"{folder}: has no masks, so grouping cannot be tested; add a folder masks")
        return cls(world, images, data.read([0]).images.shape[-1])  # frames and views: it has none

    @property
    def shows(self) -> Shows:
        """Single images."""
        return "images"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the images: their content, not where they are."""
        return {"name": "grouping-data", "images": len(self._rows), "seed": SEED, "checksum": self._content}

    def view(self, folder: ResultFolder, device: str = "cpu") -> View:
        """The images and masks. There are no scenes behind them."""
        arrays = folder.cached(self.settings, self._read, "reading and waiting")
        images, masks = (torch.from_numpy(np.asarray(arrays[name])) for name in ("images", "masks"))
        return View(images, None, masks)

    def _read(self) -> Mapping[str, npt.ArrayLike]:
        frames = self._data.read(self._rows)
        assert frames.masks is not None
        return {"images": frames.images.numpy(), "masks": frames.masks.numpy()}

    @cached_property
    def _data(self) -> UserImages:
        data = user_images(self.world)
        assert data is not None
        return data

    @cached_property
    def _rows(self) -> Integers:
        return self._data.rows(self.images, SEED)

    @cached_property
    def _content(self) -> str:
        return self._data.checksum(self._rows)


def corpus_of(world: str, images: int, pixels: int, frames: int | None = None, one_view: bool = False) -> Corpus:
    """The corpus of a world, or of `data:FOLDER`; an InputError if it cannot be used."""
    kind = UserCorpus if world.startswith(PREFIX) else Corpus
    return kind.of(world, images, pixels, frames, one_view)
