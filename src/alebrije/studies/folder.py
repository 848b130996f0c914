"""The folder of a study: its cells, the models it trained, the images it made, and samples to draw pictures from."""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.atomic import disk_trouble_named, new_folder, write_atomically
from alebrije.errors import InputError
from alebrije.results import Cell, Store
from alebrije.results.canonical import digest

Array = npt.NDArray[Any]
CELLS = "cells"
_KEY = 16  # characters of a digest in a name


class Folder:
    """Where a study keeps things; several processes may use one at once, and each may be killed at any moment.

    - `cells/` are results (`store`);
    - `runs/` are models that were trained for it, each in a folder of its plan's digest;
    - `data/` are images that several cells look at, made once;
    - `samples/` are a few arrays of a cell, small enough to keep, for the pictures of the report.

    All but the cells can be removed and made again.

    >>> import tempfile
    >>> cell = Cell(study="grouping", inputs={"seed": 0})
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = Folder(place)
    ...     folder.keep(cell, labels=np.eye(2))
    ...     folder.samples(cell)["labels"].tolist(), sorted(folder.samples(Cell(study="other", inputs={})))
    ([[1.0, 0.0], [0.0, 1.0]], [])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file; a study needs a folder")

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path.absolute()}  # another process may stand in another folder

    def ready(self) -> Folder:
        """The same folder, made if it is not there; one that cannot be written to is refused before any work."""
        with disk_trouble_named(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return self

    @property
    def store(self) -> Store:
        """The results."""
        return Store(self.path / CELLS)

    def run(self, plan: Mapping[str, Any]) -> Path:
        """The folder of the training run of a plan, as `Plan.to_json` gives it."""
        return self.path / "runs" / f"{plan['model']}-{digest(dict(plan))[:_KEY]}"

    def keep(self, cell: Cell, **arrays: npt.ArrayLike) -> None:
        """Keeps arrays for the pictures of a cell; to be called before its result is stored."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
        place = self.path / "samples"
        with disk_trouble_named(place):
            place.mkdir(parents=True, exist_ok=True)
            write_atomically(place / f"{cell.key[:_KEY]}.npz", buffer.getvalue())

    def samples(self, cell: Cell) -> dict[str, Array]:
        """The arrays that were kept for a cell; none where there are none, or where the file is damaged."""
        try:
            with np.load(self.path / "samples" / f"{cell.key[:_KEY]}.npz", allow_pickle=False) as kept:
                return {name: kept[name] for name in kept.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return {}

    def made(self, settings: Mapping[str, Any], make: Callable[[], Mapping[str, npt.ArrayLike]]) -> dict[str, Array]:
        """Arrays that follow from settings alone: made by whoever comes first, then read from the disk by all."""
        name = f"{settings.get('name', 'arrays')}-{digest(dict(settings))[:_KEY]}"
        place = self.path / "data" / name
        if not place.is_dir():
            with self.locked(name):
                if not place.is_dir():
                    arrays = {each: np.asarray(array) for each, array in make().items()}
                    with disk_trouble_named(place.parent):
                        place.parent.mkdir(parents=True, exist_ok=True)
                        with new_folder(place) as fresh:
                            for each, array in arrays.items():
                                np.save(fresh / f"{each}.npy", array, allow_pickle=False)
                            (fresh / "settings.json").write_text(json.dumps(settings, indent=1, default=str) + "\n")
        return {path.stem: np.load(path, mmap_mode="c", allow_pickle=False) for path in sorted(place.glob("*.npy"))}

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Only one process at a time is in this block for a name; a killed one lets the next in."""
        place = self.path / "locks"
        with disk_trouble_named(place):
            place.mkdir(parents=True, exist_ok=True)
            handle = os.open(place / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                import fcntl
            except ImportError:  # no such locks on Windows: the same things may be made twice, and either is whole
                yield
                return
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def opened(path: str | Path) -> Folder:
    """The folder of a study that is there."""
    folder = Folder(path)
    if not (folder.path / CELLS).is_dir():
        raise InputError(f"{folder.path}: there are no results here; `alebrije eval` and `alebrije study` make some")
    return folder
