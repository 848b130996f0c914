"""The result folder of studies: results, trained models, corpora, and samples for pictures."""

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

from alebrije.arrays import Array
from alebrije.atomic import explain_write_errors, new_folder, write_atomically
from alebrije.errors import InputError
from alebrije.results import Cell, Store
from alebrije.results.canonical_json import digest

CELLS = "cells"
_KEY = 16  # characters of a digest in a name


class ResultFolder:
    """Where studies keep their files. Several processes may share one, and each may be killed at any moment.

    - `cells/`: results (`store`)
    - `runs/`: models trained for a study, one folder per plan
    - `data/`: corpora and codes that several cells use, computed once
    - `samples/`: a few small arrays of each cell, for the pictures of the report

    Everything but the cells can be removed and is computed again when needed.

    >>> import tempfile
    >>> cell = Cell(study="grouping", inputs={"seed": 0})
    >>> with tempfile.TemporaryDirectory() as path:
    ...     folder = ResultFolder(path)
    ...     folder.keep_samples(cell, labels=np.eye(2))
    ...     folder.samples(cell)["labels"].tolist(), sorted(folder.samples(Cell(study="other", inputs={})))
    ([[1.0, 0.0], [0.0, 1.0]], [])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file, not a folder")

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path.absolute()}  # another process may have another current directory

    def ready(self) -> ResultFolder:
        """The same folder, created if needed; an error if it cannot be written to."""
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return self

    @property
    def store(self) -> Store:
        """The results."""
        return Store(self.path / CELLS)

    def run_path(self, plan: Mapping[str, Any]) -> Path:
        """The folder of the training run of a plan in its JSON form."""
        return self.path / "runs" / f"{plan['model']}-{digest(dict(plan))[:_KEY]}"

    def keep_samples(self, cell: Cell, **arrays: npt.ArrayLike) -> None:
        """Store arrays for the pictures of a cell. Call it before the result is stored."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
        path = self.path / "samples"
        with explain_write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(path / f"{cell.key[:_KEY]}.npz", buffer.getvalue())

    def samples(self, cell: Cell) -> dict[str, Array]:
        """The stored arrays of a cell; none if there are none or the file is damaged."""
        try:
            with np.load(self.path / "samples" / f"{cell.key[:_KEY]}.npz", allow_pickle=False) as kept:
                return {name: kept[name] for name in kept.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return {}

    def cached(
        self, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, npt.ArrayLike]]
    ) -> dict[str, Array]:
        """Arrays that depend only on settings: the first process computes them, all others read them."""
        name = f"{settings.get('name', 'arrays')}-{digest(dict(settings))[:_KEY]}"
        path = self.path / "data" / name
        if not path.is_dir():
            with self.locked(name):
                if not path.is_dir():
                    arrays = {array: np.asarray(values) for array, values in compute().items()}
                    with explain_write_errors(path.parent):
                        path.parent.mkdir(parents=True, exist_ok=True)
                        with new_folder(path) as fresh:
                            for array, values in arrays.items():
                                np.save(fresh / f"{array}.npy", values, allow_pickle=False)
                            (fresh / "settings.json").write_text(json.dumps(settings, indent=1, default=str) + "\n")
        return {file.stem: np.load(file, mmap_mode="c", allow_pickle=False) for file in sorted(path.glob("*.npy"))}

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """A lock: one process at a time runs this block for a name. A killed process releases it."""
        path = self.path / "locks"
        with explain_write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            handle = os.open(path / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                import fcntl
            except ImportError:  # Windows has no such locks: arrays may be computed twice, and either copy is complete
                yield
                return
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def open_results(path: str | Path) -> ResultFolder:
    """An existing result folder."""
    folder = ResultFolder(path)
    if not (folder.path / CELLS).is_dir():
        raise InputError(f"{folder.path}: no results here; `alebrije eval` and `alebrije study` write some")
    return folder
