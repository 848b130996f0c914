"""A folder of results: one file per cell, whole or not there."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from alebrije.atomic import disk_trouble_named, write_atomically
from alebrije.errors import InputError
from alebrije.results.cells import Cell, Result
from alebrije.results.schema import from_text, to_text

DONE, FAILED, ASIDE = ".json", ".failed.json", ".damaged"
_SLUG, _KEY = 80, 16  # characters of the readable part of a name, and of the key in it
_NAMED = re.compile(rf"(?:.*-)?([0-9a-f]{{{_KEY}}})(?:\.failed)?\.json")


class DamagedResultWarning(UserWarning):
    """A file among the results is not one; the message names it and says why."""


@dataclass(frozen=True)
class Problem:
    """A file among the results that is not one."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Store:
    """The results in a folder. Several processes may read and write it at once, and each may be killed at any moment.

    What was done is kept under a name of its own that is never written twice, apart from the failures of the same
    cell: so no failure can replace it, whoever comes last, and no lock is needed. A file that was cut short, changed
    by hand, renamed or is of something else is never taken for a result and never removed: a
    `DamagedResultWarning` names it, `problems` lists it, and its cell is missing.

    >>> import tempfile
    >>> cell = Cell(study="neurons", labels={"model": "beta-vae"}, inputs={"seed": 0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     _ = store.put(Result.done(cell, {"SNC": 0.5}, seconds=1))
    ...     store.get(cell).values["SNC"].score, store.missing([cell])
    (0.5, [])
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: is a file; results need a folder")

    def get(self, cell: Cell) -> Result | None:
        """What is stored for a cell: done, else failed, else None."""
        return self._get(cell)

    def _get(self, cell: Cell, *, warn: bool = True) -> Result | None:
        key = cell.key
        near = self.folder / name_of(cell)
        found = _best(self._read([near], warn)).get(key)
        if found is None:  # failed, or stored when its labels had other words
            found = _best(self._read((path for path in self._files(key[:_KEY]) if path != near), warn)).get(key)
        return found

    def has_file(self, cell: Cell) -> bool:
        """Whether something is stored under the name of a cell, which `get` may still refuse."""
        return any((self.folder / name_of(cell, ending)).exists() for ending in (DONE, FAILED))

    def put(self, result: Result) -> Result:
        """Stores a result and gives what is now stored for its cell.

        That is an earlier one if it was done: the first whole one wins. A failure is replaced by whatever comes later.
        A damaged file in its place is set aside without a word: whoever found its cell missing was warned of it.
        """
        cell, text = result.cell, to_text(result)
        with disk_trouble_named(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            kept = self._get(cell, warn=False)
            if kept is not None and kept.status == "done":
                return kept
            if result.status == "failed":
                path = self.folder / name_of(cell, FAILED)
                if path.exists() and not self._is_whole(path):
                    _set_aside(path)
                write_atomically(path, text)
                return self._get(cell, warn=False) or result
            path = self.folder / name_of(cell)
            write_atomically(path, text, replace=False)
            if self._is_whole(path):  # ours, or that of another who came first
                stored = self._open(path)
            else:
                _set_aside(path)
                write_atomically(path, text)
                stored = result
            if kept is not None:
                self._drop_failures(cell.key)
        return stored

    def all(self) -> list[Result]:
        """Every result, one for each cell, in the order of the files' names."""
        return list(_best(self._read(self._files())).values())

    def failed(self) -> list[Result]:
        """The results of cells that have failed and were not done since."""
        return [result for result in self.all() if result.status == "failed"]

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that were not done: never begun, killed, damaged, or failed. Each key once, in their order."""
        done = {result.key for result in self.all() if result.status == "done"}
        by_key: dict[str, Cell] = {}
        for cell in cells:
            by_key.setdefault(cell.key, cell)
        return [cell for key, cell in by_key.items() if key not in done]

    def problems(self) -> list[Problem]:
        """Files among the results that are not results, and those that were set aside."""
        found = []
        for path in self._files():
            try:
                self._open(path)
            except FileNotFoundError:
                continue
            except InputError as error:
                found.append(Problem(path, str(error)))
        aside = "was damaged and set aside when its cell was computed again; it may be removed"
        return found + [Problem(path, aside) for path in self._files(DONE + ASIDE, ending="")]

    def _files(self, part: str = "", ending: str = DONE) -> list[Path]:
        """The files with `part` in their names, in the order of these."""
        try:
            with os.scandir(self.folder) as entries:
                names = [name for entry in entries if part in (name := entry.name) and name.endswith(ending)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be read: {error.strerror or error}") from error
        return [self.folder / name for name in sorted(names) if name[0] != "."]

    def _read(self, paths: Iterable[Path], warn: bool = True) -> Iterator[Result]:
        for path in paths:
            try:
                yield self._open(path)
            except FileNotFoundError:  # never there, or a failure that was done since
                continue
            except InputError as error:
                if warn:
                    warnings.warn(str(Problem(path, str(error))), DamagedResultWarning, stacklevel=4)

    def _open(self, path: Path) -> Result:
        try:
            result = from_text(path.read_bytes())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}") from error
        if _key_in(path) != result.key[:_KEY] or path.name.endswith(FAILED) != (result.status == "failed"):
            raise InputError("holds a result that does not belong under this name; was it renamed?")
        return result

    def _is_whole(self, path: Path) -> bool:
        try:
            self._open(path)
        except (InputError, FileNotFoundError):
            return False
        return True

    def _drop_failures(self, key: str) -> None:
        for path in self._files(key[:_KEY], FAILED):
            if self._is_whole(path):  # what is damaged is for people to look at
                path.unlink(missing_ok=True)


def name_of(cell: Cell, ending: str = DONE) -> str:
    """The name of a cell's file: words to read, and the beginning of the key to tell it from all others.

    >>> name_of(Cell(study="neurons", labels={"model": "../β:VAE", "seed": 3}, inputs={}))
    'neurons-vae-3-....json'
    """
    words = [cell.study, *(str(label) for label in cell.labels.values() if label is not None)]
    plain = unicodedata.normalize("NFKD", " ".join(words)).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9.]+|(?<![0-9])\.|\.(?![0-9])", "-", plain)  # dots only within numbers
    slug = re.sub(r"-+", "-", slug)[:_SLUG].strip("-.") or "cell"
    return f"{slug}-{cell.key[:_KEY]}{ending}"


def _key_in(path: Path) -> str | None:
    found = _NAMED.fullmatch(path.name)
    return found[1] if found else None


def _best(results: Iterable[Result]) -> dict[str, Result]:
    """One result for each key: done before failed, of two that were done the first, of two failures the last."""
    best: dict[str, Result] = {}
    for result in results:
        kept = best.get(result.key)
        if kept is None or _worth(result) > _worth(kept):
            best[result.key] = result
    return best


def _worth(result: Result) -> tuple[bool, float]:
    done = result.status == "done"
    return done, result.created.timestamp() * (-1 if done else 1)


def _set_aside(path: Path) -> None:
    """Gives a damaged file a second name, under which it stays when the first one is written over."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}{ASIDE}-{number}")
        try:
            os.link(path, aside)
        except FileExistsError:
            continue
        except OSError:  # a file system without links
            if aside.exists():
                continue
            shutil.copy2(path, aside)
        return
    raise InputError(f"{path}: is damaged, and 999 damaged ones lie beside it; remove some")
