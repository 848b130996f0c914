"""The result folder of studies: results, trained models, corpora, and samples for pictures."""

from __future__ import annotations

import errno
import io
import os
import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.arrays import Array
from alebrije.atomic import explain_write_errors, named_lock, write_atomically
from alebrije.data.array_store import ArrayStore, Compute
from alebrije.data.machine_cache import CacheUnusableError, machine_cache
from alebrije.errors import InputError
from alebrije.files import RECORDS, check_unpacked_size, open_regular
from alebrije.results import Cell, Store
from alebrije.results.canonical_json import digest
from alebrije.studies.stages import SCORING, StageName, in_stage
from alebrije.worlds.user_worlds import CONTENTS

CELLS = "cells"
_KEY = 16  # characters of a digest in a name
_OWNER = "cell"  # the array of samples that holds the key of their cell


class ResultFolder:
    """Where studies keep their files. Several processes may share one, and each may be killed at any moment.

    - `cells/`: results (`store`)
    - `runs/`: models trained for a study, one folder per plan
    - `data/`: codes, heads and corpora that several cells use, computed once
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
        stored = {name: np.asarray(array) for name, array in arrays.items()} | {_OWNER: np.array(cell.key)}
        np.savez_compressed(buffer, **stored)  # type: ignore[arg-type]
        path = self.path / "samples"
        with explain_write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(path / f"{cell.key[:_KEY]}.npz", buffer.getvalue())

    def samples(self, cell: Cell) -> dict[str, Array]:
        """The stored arrays of a cell; none if there are none or the file is damaged."""
        try:
            with (
                open_regular(self.path / "samples" / f"{cell.key[:_KEY]}.npz", RECORDS) as file,
                zipfile.ZipFile(file) as archive,
            ):
                check_unpacked_size(archive, file.name, RECORDS)
                with np.load(file, allow_pickle=False) as stored:
                    kept = {name: stored[name] for name in stored.files}
        except Exception:  # a damaged archive fails in many ways
            return {}
        owner = kept.pop(_OWNER, None)  # older samples lack it
        return kept if owner is None or str(owner) == cell.key else {}

    def cached(self, settings: Mapping[str, Any], compute: Compute, stage: StageName = SCORING) -> dict[str, Array]:
        """Arrays that depend only on settings: the first process computes them, all others read them.

        Sizes and checksums are compared before use, and what is damaged is computed again, with one warning.
        """
        return self._cached(settings, _counted(stage, "", compute))

    def images(self, settings: Mapping[str, Any], render: Compute, device: str = "cpu") -> dict[str, Array]:
        """As `cached`, for images of alebrije's worlds: they are rendered once per machine if it has a cache for them.

        A world of the user may depend on unknown files, so its images stay in the result folder.
        """
        return self._shared(settings, _counted("rendering", str(settings.get("name", "")), render), device)

    def weights(self, settings: Mapping[str, Any], train: Compute, device: str = "cpu") -> dict[str, Array]:
        """As `images`, for the weights of a network of alebrije that learns from such images alone."""
        return self._shared(settings, _counted("training", str(settings.get("name", "")), train), device)

    def _shared(self, settings: Mapping[str, Any], compute: Compute, device: str) -> dict[str, Array]:
        cache = machine_cache()
        kind = device.partition(":")[0]
        own = settings if kind == "cpu" else {**settings, "device": kind}
        if cache is None or CONTENTS in settings or (self.path / "data" / _name(own)).exists():
            return self._cached(own, compute)
        try:
            with in_stage("reading and waiting"):
                return cache.get(settings, compute, device)
        except CacheUnusableError as error:
            computed = error.arrays
            return self._cached(own, compute if computed is None else lambda: computed)

    def _cached(self, settings: Mapping[str, Any], compute: Compute) -> dict[str, Array]:
        with in_stage("reading and waiting"):
            return ArrayStore(self.path / "data", self._locks).get(_name(settings), settings, compute)

    def locked(self, name: str) -> AbstractContextManager[None]:
        """A lock: one process at a time runs this block for a name. A killed process releases it."""
        return named_lock(self._locks, name)

    @property
    def _locks(self) -> Path:
        return self.path / "locks"


def _counted(name: StageName, about: str, compute: Compute) -> Compute:
    """The same computation, counted for a stage."""

    def counted() -> Mapping[str, npt.ArrayLike]:
        with in_stage(name, about):
            return compute()

    return counted


def _name(settings: Mapping[str, Any]) -> str:
    """The name of arrays with these settings."""
    return f"{settings.get('name', 'arrays')}-{digest(dict(settings))[:_KEY]}"


def open_results(path: str | Path) -> ResultFolder:
    """An existing result folder."""
    folder = ResultFolder(path)
    if not (folder.path / CELLS).is_dir():
        raise InputError(f"{folder.path}: no results here; `alebrije eval` and `alebrije study` write some")
    return folder
