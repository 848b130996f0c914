"""A folder of results: one complete file per cell, or none."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from alebrije.atomic import explain_write_errors, write_atomically
from alebrije.errors import InputError
from alebrije.files import RECORDS, read_bytes
from alebrije.results.cells import Cell, Result
from alebrije.results.result_file import dump_result, load_result

DONE, FAILED, SET_ASIDE = ".json", ".failed.json", ".damaged"
_SLUG, _KEY = 80, 16  # characters of the readable part of a file name, and of the key in it
_FILE_NAME = re.compile(rf"(?:.*-)?([0-9a-f]{{{_KEY}}})(?:\.failed)?\.json")


class DamagedResultWarning(UserWarning):
    """A file in the folder is not a valid result; the message names the file and the reason."""


@dataclass(frozen=True)
class Problem:
    """A file in the folder that is not a valid result."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class Store:
    """The results in a folder. Several processes can read and write it at once, and each can be killed at any moment.

    A computed result has its own file name, which is written once and differs from that of the cell's failures: a
    failure cannot replace it, and no lock is needed. A file that is truncated, edited, renamed or something else is
    never read as a result and never removed: a `DamagedResultWarning` names it, `problems` lists it, and its cell
    counts as missing.

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
            raise InputError(f"{self.folder}: is a file, not a folder of results")

    def get(self, cell: Cell) -> Result | None:
        """The stored result of a cell, done or else failed; None if there is none."""
        return self._get(cell)

    def _get(self, cell: Cell, *, warn: bool = True) -> Result | None:
        key = cell.key
        expected = self.folder / file_name(cell)
        result = _best(self._read([expected], warn)).get(key)
        if result is None:  # failed, or stored under other labels
            result = _best(self._read((path for path in self._files(key[:_KEY]) if path != expected), warn)).get(key)
        return result

    def has_file(self, cell: Cell) -> bool:
        """Whether a cell has a file; `get` may still find it damaged."""
        return any((self.folder / file_name(cell, ending)).exists() for ending in (DONE, FAILED))

    def put(self, result: Result) -> Result:
        """Store a result, and return the result that is now stored for its cell.

        The first computed result wins; a later result replaces a failure. A damaged file under the same name is set
        aside without a warning, because reading it has already caused one.
        """
        cell, text = result.cell, dump_result(result)
        with explain_write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            kept = self._get(cell, warn=False)
            if kept is not None and kept.status == "done":
                return kept
            if result.status == "failed":
                path = self.folder / file_name(cell, FAILED)
                if os.path.lexists(path) and not self._is_valid(path):
                    _set_aside(path)
                write_atomically(path, text)
                return self._get(cell, warn=False) or result
            path = self.folder / file_name(cell)
            if os.path.lexists(path) and not path.is_file():  # a pipe, a folder, a link to a device
                _set_aside(path)
            write_atomically(path, text, replace=False)
            if self._is_valid(path):  # ours, or from another process that was first
                stored = self._open(path)
            else:
                _set_aside(path)
                write_atomically(path, text)
                stored = result
            if kept is not None:
                self._drop_failures(cell.key)
        return stored

    def all(self) -> list[Result]:
        """All results, one per cell, sorted by file name."""
        return list(_best(self._read(self._files())).values())

    def failed(self) -> list[Result]:
        """The results of cells that failed and have not been computed since."""
        return [result for result in self.all() if result.status == "failed"]

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells without a computed result (new, killed, damaged or failed), in their order, each key once."""
        done = {result.key for result in self.all() if result.status == "done"}
        by_key: dict[str, Cell] = {}
        for cell in cells:
            by_key.setdefault(cell.key, cell)
        return [cell for key, cell in by_key.items() if key not in done]

    def problems(self) -> list[Problem]:
        """Files that are not valid results, and damaged files that were set aside."""
        problems = []
        for path in self._files():
            try:
                self._open(path)
            except FileNotFoundError:
                continue
            except InputError as error:
                problems.append(Problem(path, str(error)))
        aside = "is a damaged file, set aside when its cell was computed again; you can remove it"
        return problems + [Problem(path, aside) for path in self._files(DONE + SET_ASIDE, ending="")]

    def _files(self, part: str = "", ending: str = DONE) -> list[Path]:
        """The files with `part` in their names, sorted by name."""
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
            except FileNotFoundError:  # never written, or a failure that has been computed since
                continue
            except InputError as error:
                if warn:
                    warnings.warn(str(Problem(path, str(error))), DamagedResultWarning, stacklevel=4)

    def _open(self, path: Path) -> Result:
        try:
            result = load_result(read_bytes(path, RECORDS))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}") from error
        except InputError as error:
            raise InputError(str(error).removeprefix(f"{path}: ")) from error
        if _key_in(path) != result.key[:_KEY] or path.name.endswith(FAILED) != (result.status == "failed"):
            raise InputError("contains a result that does not match the file name; was it renamed?")
        return result

    def _is_valid(self, path: Path) -> bool:
        try:
            self._open(path)
        except (InputError, FileNotFoundError):
            return False
        return True

    def _drop_failures(self, key: str) -> None:
        for path in self._files(key[:_KEY], FAILED):
            if self._is_valid(path):  # damaged files are left for people to inspect
                path.unlink(missing_ok=True)


def file_name(cell: Cell, ending: str = DONE) -> str:
    """The file name of a cell: readable words, then the start of the key, which makes it unique.

    >>> file_name(Cell(study="neurons", labels={"model": "../β:VAE", "seed": 3}, inputs={}))
    'neurons-vae-3-....json'
    """
    words = [cell.study, *(str(label) for label in cell.labels.values() if label is not None)]
    ascii_words = unicodedata.normalize("NFKD", " ".join(words)).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9.]+|(?<![0-9])\.|\.(?![0-9])", "-", ascii_words)  # dots only within numbers
    slug = re.sub(r"-+", "-", slug)[:_SLUG].strip("-.") or "cell"
    return f"{slug}-{cell.key[:_KEY]}{ending}"


def _key_in(path: Path) -> str | None:
    match = _FILE_NAME.fullmatch(path.name)
    return match[1] if match else None


def _best(results: Iterable[Result]) -> dict[str, Result]:
    """One result per key: done before failed, the first of those done, the last of those failed."""
    best: dict[str, Result] = {}
    for result in results:
        kept = best.get(result.key)
        if kept is None or _rank(result) > _rank(kept):
            best[result.key] = result
    return best


def _rank(result: Result) -> tuple[bool, float]:
    done = result.status == "done"
    return done, result.created.timestamp() * (-1 if done else 1)


def _set_aside(path: Path) -> None:
    """Give a damaged file a second name, so that it stays when the first is overwritten; rename anything else."""
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}{SET_ASIDE}-{number}")
        if not path.is_file():
            if not os.path.lexists(aside):
                os.rename(path, aside)
                return
            continue
        try:
            os.link(path, aside)
        except FileExistsError:
            continue
        except OSError:  # a file system without links
            if aside.exists():
                continue
            shutil.copy2(path, aside)
        return
    raise InputError(f"{path}: is damaged, and 999 damaged versions are set aside; remove some")
