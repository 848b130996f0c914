"""A user's own images with attributes, on which neurons are examined as on a world."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.arrays import Array, Integers
from alebrije.data.attributes import Attributes
from alebrije.data.user_images import PREFIX, UserImages, user_images
from alebrije.errors import InputError
from alebrije.instruments.neurons.images import SEED, Corpus
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.studies.folder import ResultFolder

_LEAST = 20  # images; with fewer, no metric says anything
_LEAST_TOGETHER = 5  # images of each shape and size, so that pairs of them can be held out


class UserCorpus(Corpus):
    """The images of `data:FOLDER` that have a value of every attribute; attributes are factors."""

    @classmethod
    def of(cls, world: str, images: int) -> UserCorpus:
        """The corpus of a folder; an InputError if its images have no attributes."""
        data = user_images(world)
        assert data is not None
        folder = world.removeprefix(PREFIX)
        if data.attributes is None:
            raise InputError(f"{folder}: has no table of attributes, so neurons cannot be examined; add attributes.csv")
        if len(data.attributes.complete) < _LEAST:
            raise InputError(
                f"{folder}: {len(data.attributes.complete)} images have a value of every attribute; "
                f"neurons needs at least {_LEAST}"
            )
        frames = data.read([0])
        return cls(world, images, SEED, frames.images.shape[-1], file=folder)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the images: their content, not where they are."""
        return {"world": "data", "n": len(self._rows), "seed": self.seed, "checksum": self._content}

    @property
    def command(self) -> str:
        """The call that gives the same images."""
        return f"data.UserImages({self.file!r}).read(rows)"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The attributes and their values."""
        known = zip(self._attributes.names, self._attributes.values, strict=True)
        return Vocabulary("data", tuple(Factor(name, values) for name, values in known))

    @property
    def has_pairs(self) -> bool:
        """Whether there are a shape and a size, and images of each of their combinations."""
        if not super().has_pairs:
            return False
        names = self._attributes.names
        columns = [names.index(self.feature(name)) for name in ("shape", "size")]
        counts = [self.vocabulary.counts[column] for column in columns]
        together = self._attributes.indices[self._rows][:, columns]
        number = np.bincount(np.ravel_multi_index(tuple(together.T), counts), minlength=int(np.prod(counts)))
        return bool(number.min() >= _LEAST_TOGETHER)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the table or divided into bins."""
        return self._attributes.notes

    def _arrays(self, folder: ResultFolder, device: str) -> dict[str, Array]:
        return folder.cached({"name": "neurons-data", **self.settings}, self._render, "reading and waiting")

    def _render(self, device: str = "cpu") -> Mapping[str, npt.ArrayLike]:
        frames = self._data.read(self._rows)
        assert frames.factors is not None
        return {"images": frames.images.numpy(), "factors": frames.factors}

    def _scenes(self, factors: Integers) -> Scenes:
        return Scenes.of(self.vocabulary, factors[:, None], np.zeros((len(factors), 1, 2)))

    @cached_property
    def _data(self) -> UserImages:
        data = user_images(self.world)
        assert data is not None
        return data

    @property
    def _attributes(self) -> Attributes:
        attributes = self._data.attributes
        assert attributes is not None
        return attributes

    @cached_property
    def _rows(self) -> Integers:
        return self._data.rows(self.images, self.seed, with_attributes=True)

    @cached_property
    def _content(self) -> str:
        return self._data.checksum(self._rows)


def corpus_of(world: str, images: int) -> Corpus:
    """The corpus of a world, or of `data:FOLDER`; an InputError if it cannot be used."""
    kind = UserCorpus if world.startswith(PREFIX) else Corpus
    return kind.of(world, images)
