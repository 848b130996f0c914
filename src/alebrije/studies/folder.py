"""The result folder of studies: results, trained models, corpora, and samples for pictures."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.arrays import Array
from alebrije.atomic import explain_write_errors, new_folder, remove_path, write_atomically
from alebrije.data.checked_arrays import FileRecord, map_array, write_array
from alebrije.errors import InputError
from alebrije.files import RECORDS, check_unpacked_size, open_regular, read_json
from alebrije.results import Cell, Store
from alebrije.results.canonical_json import digest

CELLS = "cells"
_KEY = 16  # characters of a digest in a name
_CHECKSUMS = "checksums.json"  # of the arrays in a folder of `data`
_OWNER = "cell"  # the array of samples that holds the key of their cell
_LOG = logging.getLogger("alebrije")


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

    def cached(
        self, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, npt.ArrayLike]]
    ) -> dict[str, Array]:
        """Arrays that depend only on settings: the first process computes them, all others read them.

        Sizes and checksums are compared before use, and what is damaged is computed again, with one warning.
        """
        name = f"{settings.get('name', 'arrays')}-{digest(dict(settings))[:_KEY]}"
        path = self.path / "data" / name
        try:
            return _open_arrays(path)
        except (FileNotFoundError, InputError):
            pass  # not computed yet, or damaged
        with self.locked(name):
            try:
                return _open_arrays(path)  # another process has computed them
            except FileNotFoundError:
                pass
            except InputError as error:
                _LOG.warning("%s; the arrays are computed again", error)
                with explain_write_errors(path.parent):
                    remove_path(path)
            arrays = {array: np.asarray(values) for array, values in compute().items()}
            with explain_write_errors(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
                with new_folder(path) as fresh:
                    _write_arrays(fresh, arrays, settings)
            return _open_arrays(path)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """A lock: one process at a time runs this block for a name. A killed process releases it."""
        path = self.path / "locks"
        with explain_write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            handle = _open_lock(path / f"{name}.lock")
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


def _write_arrays(folder: Path, arrays: Mapping[str, Array], settings: Mapping[str, Any]) -> None:
    """Write arrays, their checksums, and their settings for people to read."""
    records = {name: write_array(folder / f"{name}.npy", array).model_dump() for name, array in arrays.items()}
    (folder / _CHECKSUMS).write_text(json.dumps(records, indent=1) + "\n")
    (folder / "settings.json").write_text(json.dumps(settings, indent=1, default=str) + "\n")


def _open_arrays(folder: Path) -> dict[str, Array]:
    """The arrays of a folder, compared with their checksums; an InputError if a file is damaged or missing."""
    if not os.path.lexists(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    try:
        records = {name: FileRecord(**record) for name, record in read_json(folder / _CHECKSUMS).items()}
        return {name: map_array(folder / f"{name}.npy", record, "c") for name, record in records.items()}
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder}: has no checksums") from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}") from error
    except InputError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{folder / _CHECKSUMS}: is damaged ({type(error).__name__})") from error


def _open_lock(path: Path) -> int:
    """Open a lock file, created if needed."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, not a lock file; remove it")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path}: is not a regular file; remove it")
    return handle


def open_results(path: str | Path) -> ResultFolder:
    """An existing result folder."""
    folder = ResultFolder(path)
    if not (folder.path / CELLS).is_dir():
        raise InputError(f"{folder.path}: no results here; `alebrije eval` and `alebrije study` write some")
    return folder
