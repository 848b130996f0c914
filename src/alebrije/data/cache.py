"""The image cache: arrays that can be recomputed, stored in shards on disk and memory-mapped.

A cache is a folder::

    manifest.json          format, library version, settings, number of rows; once complete, the arrays and,
                           for every file, its size and SHA-256
    00000/images.npy       rows 0 .. shard - 1 of the array "images"
    00000/masks.npy        the same rows of "masks"
    00000/shard.json       this shard's part of the manifest, from which an interrupted writer continues
    00001/...

A shard is written to a temporary folder, synced and renamed, so it is complete or absent.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alebrije import __version__
from alebrije.arrays import Array
from alebrije.atomic import (
    drop_leftovers,
    explain_read_errors,
    explain_write_errors,
    is_leftover,
    new_folder,
    write_atomically,
)
from alebrije.checks import whole_number
from alebrije.data.checked_arrays import FileRecord, check_file, file_stamp, map_array, write_array
from alebrije.errors import InputError
from alebrije.files import RECORDS, read_bytes

Make = Callable[[int, int], Mapping[str, npt.ArrayLike]]
RowIndex = int | slice | npt.ArrayLike

_MANIFEST, _SHARD = "manifest.json", "shard.json"
_NAME = re.compile(r"[a-z][a-z0-9_]*")  # names become file names


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _RowType(_Record):
    """The dtype and shape of every row of an array."""

    dtype: str = Field(pattern=r"^[|<>][biuf]\d+$")
    shape: tuple[int, ...]


class _Shard(_Record):
    arrays: dict[str, _RowType]
    files: dict[str, FileRecord]  # array name -> its file in this shard


_R = TypeVar("_R", bound=_Record)


class _Manifest(_Record):
    format: Literal[1] = 1
    library: str
    settings: dict[str, Any]
    total: int = Field(ge=1)
    shard: int = Field(ge=1)
    arrays: dict[str, _RowType] | None = None  # None until the cache is complete
    files: list[dict[str, FileRecord]] | None = None  # per shard
    checksum: str | None = None  # of everything else; older caches lack it

    @property
    def expected_checksum(self) -> str:
        """The SHA-256 of everything but the checksum."""
        content = self.model_dump(mode="json", exclude={"checksum"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def shards(self) -> int:
        return -(-self.total // self.shard)

    def span(self, number: int) -> tuple[int, int]:
        """The first row of a shard and the row after its last."""
        return number * self.shard, min((number + 1) * self.shard, self.total)

    def unwritten(self, folder: Path) -> list[int]:
        return [number for number in range(self.shards) if not _shard_folder(folder, number).is_dir()]


def write_cache(
    folder: str | Path,
    *,
    settings: Mapping[str, Any],
    total: int,
    make: Make,
    shard: int = 1024,
    progress: Callable[[int, int], None] | None = None,
) -> Cache:
    """Compute the missing shards of a cache, and open it.

    `make(start, stop)` returns rows `start` to `stop` of every array, by name. It must depend only on these and on
    `settings`, which identify the cache: world, seed, image size, version of the renderer. An existing cache with
    different settings raises an InputError.

    It may be killed at any moment, and several processes may run it at once: existing shards are not computed again. A
    full disk raises an InputError and keeps finished shards. `progress(done, total)` is called after every shard.

    >>> import numpy as np, tempfile
    >>> def squares(start: int, stop: int) -> dict[str, np.ndarray]:
    ...     return {"squares": np.arange(start, stop) ** 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = write_cache(folder, settings={"power": 2}, total=10, make=squares, shard=4)
    ...     len(cache), cache["squares"][[9, 0, 3]].tolist()
    (10, [81, 0, 9])
    """
    folder = Path(folder)
    manifest = _start_or_continue(folder, _new_manifest(settings, total, shard))
    if manifest.files is None or manifest.unwritten(folder):
        done: list[_Shard] = []
        for number in range(manifest.shards):
            start, stop = manifest.span(number)
            shard_folder = _shard_folder(folder, number)
            if not shard_folder.is_dir():
                arrays = _check_arrays(make(start, stop), stop - start)
                with explain_write_errors(folder), new_folder(shard_folder) as temporary:
                    _write_shard(temporary, arrays)
            done.append(_shard_record(shard_folder, done))
            if progress is not None:
                progress(stop, manifest.total)
        complete = manifest.model_copy(update={"arrays": done[0].arrays, "files": [part.files for part in done]})
        with explain_write_errors(folder):
            _write_manifest(folder, complete, replace=True)
            drop_leftovers(folder)
    return open_cache(folder)


def open_cache(folder: str | Path, *, verify: bool = True) -> Cache:
    """Open a complete cache, memory-mapped.

    Truncated files are detected at once. With `verify` every file is read once and its SHA-256 compared, at about the
    speed of the disk; without it, each file when its rows are first read.
    """
    folder = Path(folder)
    with explain_read_errors(folder):
        if not (folder / _MANIFEST).exists():
            raise InputError(f"{folder}: there is no cache here ({_MANIFEST} is missing)")
    manifest = _read_manifest(folder)
    if manifest.arrays is None or manifest.files is None:
        with explain_read_errors(folder):
            finished = manifest.shards - len(manifest.unwritten(folder))
        raise InputError(f"{folder}: only {finished} of {manifest.shards} shards exist; write_cache computes the rest")
    names = manifest.arrays.keys()
    complete = len(manifest.files) == manifest.shards and all(files.keys() == names for files in manifest.files)
    if not complete or not names or not all(_NAME.fullmatch(name) for name in names):
        raise InputError(f"{folder / _MANIFEST}: is damaged: its parts are inconsistent")
    cache = Cache(folder, manifest)
    parts = [(number, name) for number in range(manifest.shards) for name in names]
    with ThreadPoolExecutor(4) as pool:  # hashing releases the GIL
        list(pool.map(lambda part: _check_file(cache._path(*part), cache._file(*part), verify=verify), parts))
    for part in parts:
        cache._map(*part, verify=verify)
    return cache


@dataclass(frozen=True, eq=False)
class Cache:
    """The arrays of a complete cache by name.

    It can be pickled to other processes that have the same folder: the manifest is sent, the arrays are not.
    """

    folder: Path
    manifest: _Manifest

    def __len__(self) -> int:
        return self.manifest.total

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the cache was written with."""
        return json.loads(json.dumps(self.manifest.settings))  # type: ignore[no-any-return]

    @property
    def library(self) -> str:
        """The version of alebrije that started the cache."""
        return self.manifest.library

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self._row_types())

    def __contains__(self, name: str) -> bool:
        return name in self._row_types()

    def __getitem__(self, name: str) -> CachedArray:
        if name not in self:
            raise InputError(f"{self.folder}: the cache has no {name!r}; it has {', '.join(self.arrays)}")
        return CachedArray(self, name)

    def _row_types(self) -> dict[str, _RowType]:
        return self.manifest.arrays or {}

    def _path(self, number: int, name: str) -> Path:
        return _shard_folder(self.folder, number) / f"{name}.npy"

    def _file(self, number: int, name: str) -> FileRecord:
        assert self.manifest.files is not None
        return self.manifest.files[number][name]

    def _map(self, number: int, name: str, *, verify: bool = True) -> Array:
        """One array of one shard. The size is checked each time: reading a map of a truncated file kills Python."""
        path, kind, file = self._path(number, name), self._row_types()[name], self._file(number, name)
        start, stop = self.manifest.span(number)
        _check_file(path, file, verify=False)
        return _memory_map(path, file_stamp(path), file, kind.dtype, (stop - start, *kind.shape), verify)


@dataclass(frozen=True, eq=False)
class CachedArray:
    """All rows of one array. An index gives one row; a slice or a list of indices gives rows. Rows are copied."""

    cache: Cache
    name: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        return np.dtype(self.cache._row_types()[self.name].dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, then the shape of a row."""
        return len(self.cache), *self.cache._row_types()[self.name].shape

    def __len__(self) -> int:
        return len(self.cache)

    def __getitem__(self, rows: RowIndex) -> Array:
        if isinstance(rows, slice):
            return self._gather(np.arange(len(self))[rows])
        index = np.asarray(rows)
        if isinstance(rows, int) and index.dtype == object:  # an integer of more than 64 bits
            raise IndexError(f"{self.name!r} has {len(self)} rows; {rows} is out of range")
        if index.dtype == bool and index.shape == (len(self),):
            index = index.nonzero()[0]
        if index.size == 0:
            index = index.astype(np.int64)
        if index.ndim > 1 or not np.issubdtype(index.dtype, np.integer):
            raise InputError(f"the index of {self.name!r} must be an integer, a slice or a list of integers")
        low, high = (int(index.min()), int(index.max())) if index.size else (0, 0)
        if not -len(self) <= low <= high < len(self):
            raise IndexError(f"{self.name!r} has {len(self)} rows; {low} to {high} is out of range")
        index = index.astype(np.int64)  # only after the check, because larger numbers would wrap
        gathered = self._gather(np.atleast_1d(index) % len(self))
        return gathered if index.ndim else gathered[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self[:].astype(dtype or self.dtype, copy=False)

    def _gather(self, index: npt.NDArray[np.int64]) -> Array:
        rows = np.empty((len(index), *self.shape[1:]), self.dtype)
        shard, within = np.divmod(index, self.cache.manifest.shard)
        for number in np.unique(shard):
            selected = np.flatnonzero(shard == number)
            rows[selected] = self.cache._map(int(number), self.name)[within[selected]]
        return rows


def _shard_folder(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}"


def _new_manifest(settings: Mapping[str, Any], total: int, shard: int) -> _Manifest:
    try:
        plain = json.loads(json.dumps(dict(settings), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"settings must be JSON-serialisable ({error})") from error
    total, shard = whole_number("total", total, 1), whole_number("shard", shard, 1)
    return _Manifest(library=__version__, settings=plain, total=total, shard=shard)


def _start_or_continue(folder: Path, wanted: _Manifest) -> _Manifest:
    """The manifest of the folder, written if there is none; an InputError if it belongs to another cache."""
    path = folder / _MANIFEST
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if all(is_leftover(item) for item in folder.iterdir()):
                _write_manifest(folder, wanted, replace=False)
            elif not path.exists():  # otherwise another process has just started the cache
                raise InputError(f"{folder}: is not empty; a cache needs its own folder")
    stored = _read_manifest(folder)
    check_same_settings(folder, stored.settings, wanted.settings)
    if stored.total != wanted.total:
        fault = f"{folder}: holds a cache of {stored.total:,} rows, which cannot become {wanted.total:,}"
        raise InputError(f"{fault}; choose another folder (the common rows will be the same)")
    if stored.shard != wanted.shard:
        raise InputError(f"{folder}: was written with different shard: {stored.shard} there, {wanted.shard} here")
    if stored.library != wanted.library and (stored.files is None or stored.unwritten(folder)):
        raise InputError(
            f"{folder}: was started by alebrije {stored.library}, but this is {wanted.library}; remove it to start over"
        )
    return stored


def _write_manifest(folder: Path, manifest: _Manifest, *, replace: bool) -> None:
    """Write the manifest, unless another process has completed the cache and removed this one's temporary file."""
    path = folder / _MANIFEST
    signed = manifest.model_copy(update={"checksum": manifest.expected_checksum})
    try:
        write_atomically(path, signed.model_dump_json(indent=1), replace=replace)
    except FileNotFoundError:
        if not path.is_file() or _read_manifest(folder).files is None:
            raise


def _read_manifest(folder: Path) -> _Manifest:
    manifest = _read_record(folder / _MANIFEST, _Manifest)
    if manifest.checksum not in (None, manifest.expected_checksum):
        raise InputError(f"{folder / _MANIFEST}: is damaged: its checksum differs")
    return manifest


def check_same_settings(folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise an InputError that shows the settings in which a folder differs from what is wanted."""
    if keys := [key for key in {**stored, **wanted} if stored.get(key, ...) != wanted.get(key, ...)]:
        old, new = (json.dumps({key: side[key] for key in keys if key in side}) for side in (stored, wanted))
        raise InputError(f"{folder}: was written with different settings: {old} there, {new} here")


def _check_arrays(returned: Mapping[str, npt.ArrayLike], rows: int) -> dict[str, Array]:
    if not isinstance(returned, Mapping):
        raise InputError(f"make must return a mapping of arrays, not {type(returned).__name__}")
    if not returned:
        raise InputError("make returned no arrays")
    arrays = {}
    for name, values in returned.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(f"make returned an array {name!r}; names are lower-case letters, digits and underscores")
        try:
            array = np.asarray(values)
        except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that numpy cannot convert
            reason = " ".join(str(error).split())
            raise InputError(f"make returned {name!r}, which numpy cannot convert to an array ({reason})") from error
        array = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray turns a scalar into a row
        if array.dtype.kind not in "biuf":
            raise InputError(f"make returned {name!r} with dtype {array.dtype}; a cache holds numbers")
        if array.ndim == 0 or len(array) != rows:
            raise InputError(f"make returned {name!r} with shape {list(array.shape)}, but {rows} rows were requested")
        arrays[name] = array
    return arrays


def _write_shard(folder: Path, arrays: Mapping[str, Array]) -> None:
    row_types, files = {}, {}
    for name, array in arrays.items():
        files[name] = write_array(folder / f"{name}.npy", array)
        row_types[name] = _RowType(dtype=array.dtype.str, shape=array.shape[1:])
    (folder / _SHARD).write_text(_Shard(arrays=row_types, files=files).model_dump_json(indent=1))


def _shard_record(shard_folder: Path, before: list[_Shard]) -> _Shard:
    """The record of a written shard, checked against the first."""
    shard = _read_record(shard_folder / _SHARD, _Shard)
    if before and shard.arrays != before[0].arrays:
        raise InputError(f"{shard_folder}: has different arrays than the first shard; make must always return the same")
    return shard


def _read_record(path: Path, kind: type[_R]) -> _R:
    with explain_read_errors(path):
        content = read_bytes(path, RECORDS)
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"{path}: is damaged, or not of a cache ({field}: {first['msg']})") from error


@contextmanager
def _explain_repair(path: Path) -> Iterator[None]:
    """Add to the message about a file of a shard how to have the shard computed again."""
    try:
        yield
    except InputError as error:
        again = f"remove the folder {path.parent.name}, and write_cache will compute it again"
        raise InputError(f"{error}; {again}") from error


def _check_file(path: Path, file: FileRecord, *, verify: bool) -> None:
    with _explain_repair(path):
        check_file(path, file, verify=verify)


@lru_cache(maxsize=256)  # each map holds a file descriptor; a process often has 1,024 at most
def _memory_map(
    path: Path, stamp: tuple[str, int, int, int], file: FileRecord, dtype: str, shape: tuple[int, ...], verify: bool
) -> Array:
    """A memory-mapped file whose header matches the manifest; `stamp` only distinguishes versions of the file."""
    with _explain_repair(path):
        array = map_array(path, file, verify=verify)
    if array.dtype.str != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise InputError(f"{path}: is not an array of dtype {dtype} and shape {list(shape)}, as the manifest says")
    return array
