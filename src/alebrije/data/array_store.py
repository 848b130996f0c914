"""A folder of named arrays: the first process computes them, all others read them."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.arrays import Array
from alebrije.atomic import drop_leftovers_of, explain_write_errors, named_lock, new_folder, remove_path
from alebrije.data.checked_arrays import FileRecord, map_array, write_array
from alebrije.errors import InputError
from alebrije.files import read_json

CHECKSUMS, SETTINGS = "checksums.json", "settings.json"
_LOG = logging.getLogger("alebrije")

Compute = Callable[[], Mapping[str, npt.ArrayLike]]


class ArrayStore:
    """Arrays by name, one folder each. Several processes may share them, and each may be killed at any moment.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     store = ArrayStore(Path(path) / "arrays", Path(path) / "locks")
    ...     first = store.get("ones", {"count": 3}, lambda: {"values": np.ones(3)})["values"].tolist()
    ...     first, store.get("ones", {"count": 3}, dict)["values"].tolist()
    ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    """

    def __init__(self, path: Path, locks: Path, *, sync: bool = True) -> None:
        self.path, self.locks, self.sync = path, locks, sync

    def get(self, name: str, settings: Mapping[str, Any], compute: Compute) -> dict[str, Array]:
        """The arrays of a name, computed if they are missing or damaged; `settings` are stored for people to read.

        Sizes and checksums are compared before use, and what is damaged is computed again, with one warning.
        """
        path = self.path / name
        try:
            return open_arrays(path)
        except (FileNotFoundError, InputError):
            pass  # not computed yet, or damaged
        with named_lock(self.locks, name):
            try:
                return open_arrays(path)  # another process has computed them
            except FileNotFoundError:
                pass
            except InputError as error:
                _LOG.warning("%s; the arrays are computed again", error)
                with explain_write_errors(self.path):
                    remove_path(path)
            self._write(path, settings, {array: np.asarray(values) for array, values in compute().items()})
            return open_arrays(path)

    def _write(self, path: Path, settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            drop_leftovers_of(path)
            with new_folder(path, sync=self.sync) as fresh:
                records = {
                    name: write_array(fresh / f"{name}.npy", array).model_dump() for name, array in arrays.items()
                }
                named = {"entry": path.name, "files": records}  # so that no entry is taken for another
                (fresh / CHECKSUMS).write_text(json.dumps(named, indent=1) + "\n")
                (fresh / SETTINGS).write_text(json.dumps(settings, indent=1, default=str) + "\n")


def open_arrays(folder: Path) -> dict[str, Array]:
    """The arrays of a folder, compared with their checksums; an InputError if a file is damaged or missing."""
    if not os.path.lexists(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    try:
        named = read_json(folder / CHECKSUMS)
        if named["entry"] != folder.name:
            raise InputError(f"{folder}: holds the arrays of another entry")
        records = {name: FileRecord(**record) for name, record in named["files"].items()}
        return {name: map_array(folder / f"{name}.npy", record, "c") for name, record in records.items()}
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder}: has no checksums") from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}") from error
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / CHECKSUMS}: is damaged ({type(error).__name__})") from error
