"""The images on which neurons are examined: one object, with every combination of factors."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije import data, worlds
from alebrije.arrays import Array, Integers
from alebrije.errors import InputError
from alebrije.files import open_regular
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import View
from alebrije.worlds.user_worlds import user_world_inputs

SEED, PIXELS = 0, 64
_WORLDS = ("dsprites", "rooms", "arm")
_FILES = {"mpi3d": ("MPI3D", "npz"), "shapes3d": ("3D Shapes", "h5")}  # read from a released file: title, its ending
_VERSION = 1  # raised when the same settings give other images


@dataclass(frozen=True)
class Corpus:
    """Images of a world with every combination, the same as from `alebrije make WORLD --n N --seed S --size P`.

    MPI3D and 3D Shapes are read from a file; its rows are sampled without replacement.

    >>> corpus = Corpus("dsprites", images=100)
    >>> corpus.factor_names
    ('shape', 'scale', 'orientation', 'position x', 'position y')
    >>> corpus.command
    'alebrije make dsprites --n 100 --seed 0 --size 64 --out DIR'
    """

    world: str
    images: int
    seed: int = SEED
    pixels: int = PIXELS
    file: str | None = None  # of MPI3D or 3D Shapes

    @classmethod
    def of(cls, world: str, images: int) -> Corpus:
        """The corpus of dsprites, rooms, arm, mpi3d:PATH, shapes3d:PATH or package.module:object.

        An InputError for other worlds.
        """
        kind, _, path = world.partition(":")
        if kind in _FILES:
            title, ending = _FILES[kind]
            if not path:
                raise InputError(f"{title} is read from its file: give its path, as in {kind}:FILE.{ending}")
            if not Path(path).is_file():
                raise InputError(f"there is no file {path}; {kind}:PATH needs the released .{ending} file of {title}")
            return cls(kind, images, file=path)
        if world not in _WORLDS and (":" not in world or worlds.get(world).whole is None):
            files = ", ".join(f"{name}:FILE.{ending}" for name, (_, ending) in _FILES.items())
            known = f"{', '.join(_WORLDS)}, {files}, or a world of your own with the sampler Grid"
            raise InputError(f"neurons needs a world with every combination: {known}")
        return cls(world, images)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the images. A file counts by its checksum, not by its path."""
        about = {"world": self.world, "n": self.images, "seed": self.seed, "pixels": self.pixels, "version": _VERSION}
        return about | (user_world_inputs(self.world) if self.file is None else {"checksum": self._checksum})

    @property
    def command(self) -> str:
        """The command or the call that gives the same images."""
        if self.file is not None:
            return f"data.read_{self.world}({self.file!r}, rows)"
        return f"alebrije make {self.world} --n {self.images} --seed {self.seed} --size {self.pixels} --out DIR"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The factors and their values."""
        if self.file is None:
            return worlds.get(self.world).vocabulary
        grid = self._read([0], check=False)
        factors = [Factor(name, tuple(range(count))) for name, count in zip(grid.names, grid.counts, strict=True)]
        return Vocabulary(self.world, tuple(factors))

    @property
    def factor_names(self) -> tuple[str, ...]:
        """The factors that vary."""
        vocabulary = self.vocabulary
        return tuple(name for name, count in zip(vocabulary.names, vocabulary.counts, strict=True) if count > 1)

    def count(self, factor: str) -> int:
        """The number of values of a factor."""
        return self.vocabulary.counts[self.vocabulary.names.index(factor)]

    def feature(self, name: str) -> str:
        """The factor that the paper calls `shape` or `size`; some worlds call the size scale."""
        return "scale" if name == "size" and "size" not in self.vocabulary.names else name

    @property
    def has_pairs(self) -> bool:
        """Whether shape and size vary, so that pairs of them can be held out."""
        return {self.feature("size"), self.feature("shape")} <= set(self.factor_names)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out or divided into bins: nothing of a world."""
        return ()

    def view(self, folder: ResultFolder, device: str = "cpu") -> View:
        """The images and their scenes, rendered on `device` or read when they are first needed."""
        arrays = self._arrays(folder, device)
        return View(torch.from_numpy(arrays["images"]), self._scenes(np.asarray(arrays["factors"])))

    def factors(self, folder: ResultFolder, device: str = "cpu") -> Integers:
        """The values [N, F] of the factors that vary."""
        columns = [self.vocabulary.names.index(name) for name in self.factor_names]
        return np.asarray(self._arrays(folder, device)["factors"][:, columns], dtype=np.int64)

    def _arrays(self, folder: ResultFolder, device: str) -> dict[str, Array]:
        settings = {"name": f"neurons-{self.world}", **self.settings}
        if self.file is not None:
            return folder.cached(settings, self._render)
        return folder.images(settings, partial(self._render, device), device)

    def _render(self, device: str = "cpu") -> Mapping[str, npt.ArrayLike]:
        if self.file is not None:
            total = math.prod(self.vocabulary.counts)
            rows = np.random.default_rng(self.seed).choice(total, min(self.images, total), replace=False)
            grid = self._read(rows)
            return {"images": grid.images.numpy(), "factors": grid.factors.numpy()}
        world = worlds.get(self.world)
        scenes = world.sample(self.images, seed=self.seed)
        images = world.images(scenes, self.pixels, device).cpu()
        return {"images": images.numpy(), "factors": scenes.factors[:, 0].numpy()}

    def _scenes(self, factors: Integers) -> Scenes:
        if self.file is None:
            return worlds.get(self.world).grid(np.ravel_multi_index(tuple(factors.T), self.vocabulary.counts))
        return Scenes.of(self.vocabulary, factors[:, None], np.zeros((len(factors), 1, 2)))

    def _read(self, rows: Sequence[int] | Integers, check: bool = True) -> data.FactorImages:
        assert self.file is not None
        if self.world == "shapes3d":
            return data.read_shapes3d(self.file, rows)
        return data.read_mpi3d(self.file, rows, check=check)

    @cached_property
    def _checksum(self) -> int:
        """The CRC of the images, which an archive stores in its directory, or that of a whole HDF5 file."""
        assert self.file is not None
        try:
            with open_regular(self.file) as file:
                if self.world == "shapes3d":
                    return _crc(file)
                with zipfile.ZipFile(file) as archive:
                    return archive.getinfo("images.npy").CRC
        except (OSError, zipfile.BadZipFile, KeyError):
            title, ending = _FILES[self.world]
            raise InputError(f"{self.file}: is damaged, or not the released .{ending} file of {title}") from None


def _crc(file: IO[bytes]) -> int:
    """The CRC of all that is left in a file; the 255 MB of 3D Shapes take less than a second."""
    found = 0
    while block := file.read(1 << 20):
        found = zlib.crc32(block, found)
    return found
