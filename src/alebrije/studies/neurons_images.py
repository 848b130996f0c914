"""The images that the study of neurons looks at, what they show, and the codes that a subject gives them."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije import data, worlds
from alebrije.errors import InputError
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.studies.folder import Folder
from alebrije.studies.own_worlds import own_world
from alebrije.studies.subjects import Subject, View
from alebrije.studies.views import check_finite, looking

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

GRIDS = ("dsprites", "rooms")
MPI3D = "mpi3d"
VERSION = 1  # raised when the same settings come to other images
BLOCK = 256  # images that a subject is shown at once


@dataclass(frozen=True)
class Gallery:
    """Images of a world of all combinations: those that `alebrije make WORLD --n N --seed S --size P` makes.

    Of MPI3D, which is a file, they are rows drawn by the seed without replacement.

    >>> gallery = Gallery("dsprites", n=100, seed=0, pixels=64)
    >>> gallery.factor_names
    ('shape', 'scale', 'orientation', 'position x', 'position y')
    >>> gallery.command
    'alebrije make dsprites --n 100 --seed 0 --size 64 --out DIR'
    """

    world: str
    n: int
    seed: int
    pixels: int
    file: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides the images; of a file its checksum, not its path."""
        told: dict[str, Any] = {"world": self.world, "n": self.n, "seed": self.seed, "pixels": self.pixels}
        told["version"] = VERSION
        return told | (own_world(self.world) if self.file is None else {"checksum": self._checksum})

    @property
    def command(self) -> str:
        """What makes the very same images."""
        if self.file is not None:
            return f"data.read_mpi3d({self.file!r}, rows)"
        return f"alebrije make {self.world} --n {self.n} --seed {self.seed} --size {self.pixels} --out DIR"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The factors and their values."""
        if self.file is None:
            return worlds.get(self.world).vocabulary
        grid = data.read_mpi3d(self.file, [0], check=False)
        parts = [Factor(name, tuple(range(count))) for name, count in zip(grid.names, grid.counts, strict=True)]
        return Vocabulary(MPI3D, tuple(parts))

    @property
    def factor_names(self) -> tuple[str, ...]:
        """The factors that vary."""
        vocabulary = self.vocabulary
        return tuple(name for name, count in zip(vocabulary.names, vocabulary.counts, strict=True) if count > 1)

    def count(self, factor: str) -> int:
        """How many values a factor has."""
        return self.vocabulary.counts[self.vocabulary.names.index(factor)]

    def feature(self, name: str) -> str:
        """The factor that a paper calls `shape` or `size`; of the latter two datasets say scale."""
        return "scale" if name == "size" and "size" not in self.vocabulary.names else name

    @property
    def has_pairs(self) -> bool:
        """Whether there are shapes and sizes, of which pairs can be held out."""
        return {self.feature("size"), self.feature("shape")} <= set(self.factor_names)

    def view(self, folder: Folder) -> View:
        """The images and their scenes; made once for all who look."""
        made = folder.made({"name": f"neurons-{self.world}", **self.settings}, self._make)
        factors = np.asarray(made["factors"])
        return View(torch.from_numpy(made["images"]), self._scenes(factors))

    def factors(self, folder: Folder) -> Integers:
        """The values [N, F] of the factors that vary."""
        made = folder.made({"name": f"neurons-{self.world}", **self.settings}, self._make)
        columns = [self.vocabulary.names.index(name) for name in self.factor_names]
        return np.asarray(made["factors"][:, columns], dtype=np.int64)

    def _make(self) -> Mapping[str, npt.ArrayLike]:
        if self.file is not None:
            total = math.prod(self.vocabulary.counts)
            rows = np.random.default_rng(self.seed).choice(total, min(self.n, total), replace=False)
            grid = data.read_mpi3d(self.file, rows)
            return {"images": grid.images.numpy(), "factors": grid.factors.numpy()}
        world = worlds.get(self.world)
        scenes = world.sample(self.n, seed=self.seed)
        return {"images": world.images(scenes, self.pixels).numpy(), "factors": scenes.factors[:, 0].numpy()}

    def _scenes(self, factors: Integers) -> Scenes:
        if self.file is None:
            vocabulary = self.vocabulary
            return worlds.get(self.world).grid(np.ravel_multi_index(tuple(factors.T), vocabulary.counts))
        return Scenes.of(self.vocabulary, factors[:, None], np.zeros((len(factors), 1, 2)))

    @cached_property
    def _checksum(self) -> int:
        """That of the images in the archive, which is there to be read without them."""
        assert self.file is not None
        try:
            with zipfile.ZipFile(self.file) as archive:
                return archive.getinfo("images.npy").CRC
        except (OSError, zipfile.BadZipFile, KeyError):
            raise InputError(f"{self.file}: is damaged, or not the .npz that MPI3D was released as") from None


def gallery_of(name: str, n: int, seed: int, pixels: int) -> Gallery:
    """The images of a world by what a user types: dsprites, rooms, mpi3d:PATH, or package.module:object."""
    kind, _, path = name.partition(":")
    if kind == MPI3D:
        if not path:
            raise InputError("MPI3D is read from its file: give its path, as mpi3d:FILE.npz")
        if not Path(path).is_file():
            raise InputError(f"there is no file {path}; mpi3d:PATH needs the .npz that MPI3D was released as")
        return Gallery(MPI3D, n, seed, 64, path)
    if name not in GRIDS and (":" not in name or worlds.get(name).whole is None):
        known = f"{', '.join(GRIDS)}, mpi3d:FILE.npz, or a world of your own with the sampler Grid"
        raise InputError(f"neurons are studied where every combination is known: {known}")
    return Gallery(name, n, seed, pixels)


@dataclass(frozen=True)
class Codes:
    """Codes [N, L] and, where they were pooled, how many slots they are the mean of."""

    values: Floats
    slots: int | None = None

    @property
    def width(self) -> int:
        """The number of neurons."""
        return int(self.values.shape[1])

    @property
    def details(self) -> dict[str, Any]:
        """What is to be said about them."""
        return {} if self.slots is None else {"codes": f"the mean over {self.slots} slots"}


def codes_of(subject: Subject, gallery: Gallery, folder: Folder, identity: Mapping[str, Any]) -> Codes:
    """The codes of all images, computed once; those of slots are pooled by their mean."""

    def make() -> Mapping[str, npt.ArrayLike]:
        view, parts, slots = gallery.view(folder), [], 0
        for first in range(0, len(view), BLOCK):
            rows = slice(first, first + BLOCK)
            assert view.scenes is not None
            with looking(subject, f"here they must be of the images of `{gallery.command}`"):
                found = subject.encode(View(view.images[rows], view.scenes[rows]))
            slots = 0 if found.slots is None else found.slots.shape[1]
            parts.append((found.codes if found.slots is None else found.slots.mean(1)).float().cpu().numpy())
        return {"codes": np.concatenate(parts), "slots": np.array(slots)}

    told = {"name": "codes", "version": 1, "subject": identity, "images": gallery.settings}
    made = folder.made(told, make)
    check_finite(np.asarray(made["codes"]))
    return Codes(np.asarray(made["codes"], dtype=np.float64), int(made["slots"]) or None)
