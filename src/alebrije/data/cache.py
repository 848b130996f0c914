"""The image cache: arrays that can be made again, kept in shards on disk and mapped into memory.

A cache is a folder::

    manifest.json          format, library version, settings, number of rows; once complete, the arrays and,
                           for every file, its size and SHA-256
    00000/images.npy       rows 0 .. shard - 1 of the array "images"
    00000/masks.npy        the same rows of "masks"
    00000/shard.json       this shard's part of the manifest, from which an interrupted writer continues
    00001/...

A shard is written under another name, synced and renamed, so it is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alebrije import __version__
from alebrije.atomic import disk_trouble_named, drop_leftovers, is_leftover, new_folder, write_atomically
from alebrije.data.checks import reading_trouble_named, whole_number
from alebrije.errors import InputError

Array = npt.NDArray[Any]
Make = Callable[[int, int], Mapping[str, npt.ArrayLike]]
Rows = int | slice | npt.ArrayLike

_MANIFEST, _SHARD = "manifest.json", "shard.json"
_NAME = re.compile(r"[a-z][a-z0-9_]*")  # names become file names
_OPEN_MAPS = 256  # a map holds a file descriptor, of which a process often has 1,024


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Kind(_Record):
    """What every row of an array is."""

    dtype: str = Field(pattern=r"^[|<>][biuf]\d+$")
    shape: tuple[int, ...]


class _File(_Record):
    """How an untouched file can be told from a changed one."""

    size: int
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _Shard(_Record):
    arrays: dict[str, _Kind]
    files: dict[str, _File]  # array name -> its file in this shard


_R = TypeVar("_R", bound=_Record)


class _Manifest(_Record):
    format: Literal[1] = 1
    library: str
    settings: dict[str, Any]
    total: int = Field(ge=1)
    shard: int = Field(ge=1)
    arrays: dict[str, _Kind] | None = None  # None until the cache is complete
    files: list[dict[str, _File]] | None = None  # per shard

    @property
    def shards(self) -> int:
        return -(-self.total // self.shard)

    def span(self, number: int) -> tuple[int, int]:
        """The rows of a shard."""
        return number * self.shard, min((number + 1) * self.shard, self.total)

    def unwritten(self, folder: Path) -> list[int]:
        return [number for number in range(self.shards) if not _place(folder, number).is_dir()]


def write_cache(
    folder: str | Path,
    *,
    settings: Mapping[str, Any],
    total: int,
    make: Make,
    shard: int = 1024,
    progress: Callable[[int, int], None] | None = None,
) -> Cache:
    """Makes what is missing of a cache and opens it.

    `make(start, stop)` gives the rows `start` to `stop` of every array, by name. It must depend on nothing but these
    and on `settings`, which is what tells this cache from another: world, seed, image size, version of the renderer.
    Settings that differ from those of an existing cache are refused.

    It may be killed at any moment, and several processes may run it at once: shards that are there are not made
    again. A full disk ends it in one sentence and leaves what was written. `progress(done, total)` is called after
    every shard.

    >>> import numpy as np, tempfile
    >>> def squares(start: int, stop: int) -> dict[str, np.ndarray]:
    ...     return {"squares": np.arange(start, stop) ** 2}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = write_cache(folder, settings={"power": 2}, total=10, make=squares, shard=4)
    ...     len(cache), cache["squares"][[9, 0, 3]].tolist()
    (10, [81, 0, 9])
    """
    folder = Path(folder)
    manifest = _begun(folder, _wanted(settings, total, shard))
    if manifest.files is None or manifest.unwritten(folder):
        done: list[_Shard] = []
        for number in range(manifest.shards):
            start, stop = manifest.span(number)
            place = _place(folder, number)
            if not place.is_dir():
                arrays = _checked(make(start, stop), stop - start)
                with disk_trouble_named(folder), new_folder(place) as temporary:
                    _write_shard(temporary, arrays)
            done.append(_finished(place, done))
            if progress is not None:
                progress(stop, manifest.total)
        complete = manifest.model_copy(update={"arrays": done[0].arrays, "files": [part.files for part in done]})
        with disk_trouble_named(folder):
            _write_manifest(folder, complete, replace=True)
            drop_leftovers(folder)
    return open_cache(folder)


def open_cache(folder: str | Path, *, verify: bool = True) -> Cache:
    """A complete cache, mapped into memory.

    A file that was truncated is always noticed, one that was changed if `verify` is true: every file is then read
    once and its SHA-256 compared, at about the speed of the disk.
    """
    folder = Path(folder)
    with reading_trouble_named(folder):
        if not (folder / _MANIFEST).is_file():
            raise InputError(f"{folder}: there is no cache here; a cache has a {_MANIFEST}")
    manifest = _read(folder / _MANIFEST, _Manifest)
    if manifest.arrays is None or manifest.files is None:
        with reading_trouble_named(folder):
            finished = manifest.shards - len(manifest.unwritten(folder))
        raise InputError(f"{folder}: only {finished} of {manifest.shards} shards are there; write_cache makes the rest")
    names = manifest.arrays.keys()
    whole = len(manifest.files) == manifest.shards and all(files.keys() == names for files in manifest.files)
    if not whole or not names or not all(_NAME.fullmatch(name) for name in names):
        raise InputError(f"{folder / _MANIFEST}: is damaged: its parts do not fit together")
    cache = Cache(folder, manifest)
    parts = [(number, name) for number in range(manifest.shards) for name in names]
    with ThreadPoolExecutor(4) as pool:  # hashing leaves the interpreter free
        list(pool.map(lambda part: _check_file(cache._path(*part), cache._file(*part), verify=verify), parts))
    for part in parts:
        cache._map(*part)
    return cache


@dataclass(frozen=True, eq=False)
class Cache:
    """The arrays of a complete cache by name.

    It can be sent to other processes that see the same folder: the manifest travels, the arrays do not.
    """

    folder: Path
    manifest: _Manifest

    def __len__(self) -> int:
        return self.manifest.total

    @property
    def settings(self) -> dict[str, Any]:
        """What the cache was made with."""
        return json.loads(json.dumps(self.manifest.settings))  # type: ignore[no-any-return]

    @property
    def library(self) -> str:
        """The version of alebrije that began the cache."""
        return self.manifest.library

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(self._kinds())

    def __contains__(self, name: str) -> bool:
        return name in self._kinds()

    def __getitem__(self, name: str) -> CachedArray:
        if name not in self:
            raise InputError(f"{self.folder}: the cache has no {name!r}; it has {', '.join(self.arrays)}")
        return CachedArray(self, name)

    def _kinds(self) -> dict[str, _Kind]:
        return self.manifest.arrays or {}

    def _path(self, number: int, name: str) -> Path:
        return _place(self.folder, number) / f"{name}.npy"

    def _file(self, number: int, name: str) -> _File:
        assert self.manifest.files is not None
        return self.manifest.files[number][name]

    def _map(self, number: int, name: str) -> Array:
        """One array of one shard. The size is looked at each time: a map of a file that shrank ends the process."""
        path, kind = self._path(number, name), self._kinds()[name]
        start, stop = self.manifest.span(number)
        state = _check_file(path, self._file(number, name), verify=False)
        return _mapped(path, state, kind.dtype, (stop - start, *kind.shape))


@dataclass(frozen=True, eq=False)
class CachedArray:
    """All rows of one array. An index gives a row, a slice or a list of indices gives rows, always copied."""

    cache: Cache
    name: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return np.dtype(self.cache._kinds()[self.name].dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, then the shape of a row."""
        return len(self.cache), *self.cache._kinds()[self.name].shape

    def __len__(self) -> int:
        return len(self.cache)

    def __getitem__(self, rows: Rows) -> Array:
        if isinstance(rows, slice):
            return self._gather(np.arange(len(self))[rows])
        index = np.asarray(rows)
        if isinstance(rows, int) and index.dtype == object:  # past what 64 bits can hold
            raise IndexError(f"{self.name!r} has {len(self)} rows; asked for {rows}")
        if index.dtype == bool and index.shape == (len(self),):
            index = index.nonzero()[0]
        if index.size == 0:
            index = index.astype(np.int64)
        if index.ndim > 1 or not np.issubdtype(index.dtype, np.integer):
            raise InputError(f"rows of {self.name!r} are asked for by an integer, a slice or a list of integers")
        if index.size and not -len(self) <= int(index.min()) <= int(index.max()) < len(self):
            raise IndexError(f"{self.name!r} has {len(self)} rows; asked for {int(index.min())} to {int(index.max())}")
        index = index.astype(np.int64)  # not before: a number past its range would become another
        found = self._gather(np.atleast_1d(index) % len(self))
        return found if index.ndim else found[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self[:].astype(dtype or self.dtype, copy=False)

    def _gather(self, index: npt.NDArray[np.int64]) -> Array:
        rows = np.empty((len(index), *self.shape[1:]), self.dtype)
        shard, within = np.divmod(index, self.cache.manifest.shard)
        for number in np.unique(shard):
            here = np.flatnonzero(shard == number)
            rows[here] = self.cache._map(int(number), self.name)[within[here]]
        return rows


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}"


def _wanted(settings: Mapping[str, Any], total: int, shard: int) -> _Manifest:
    try:
        plain = json.loads(json.dumps(dict(settings), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"settings must be something that JSON can hold ({error})") from error
    total, shard = whole_number("total", total, 1), whole_number("shard", shard, 1)
    return _Manifest(library=__version__, settings=plain, total=total, shard=shard)


def _begun(folder: Path, wanted: _Manifest) -> _Manifest:
    """The manifest of the folder, which is written if there is none and refused if it is another's."""
    path = folder / _MANIFEST
    with disk_trouble_named(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            if all(is_leftover(item) for item in folder.iterdir()):
                _write_manifest(folder, wanted, replace=False)
            elif not path.exists():  # else another process has begun the cache in between
                raise InputError(f"{folder}: holds other things; a cache needs a folder of its own")
    found = _read(path, _Manifest)
    differing = [name for name in ("settings", "total", "shard") if getattr(found, name) != getattr(wanted, name)]
    if differing:
        name = differing[0]
        if name == "total":
            there = f"{folder}: holds a cache of {found.total:,} rows, which cannot become one of {wanted.total:,}"
            raise InputError(f"{there}; choose another folder, where the rows in common will be the same")
        were, are = _difference(getattr(found, name), getattr(wanted, name))
        raise InputError(f"{folder}: was written with other {name}: {were} there, {are} here")
    if found.library != wanted.library and (found.files is None or found.unwritten(folder)):
        raise InputError(
            f"{folder}: was begun by alebrije {found.library} and this is {wanted.library}; remove it to start again"
        )
    return found


def _write_manifest(folder: Path, manifest: _Manifest, *, replace: bool) -> None:
    """Writes the manifest, unless another process has finished the cache and cleared away what this one wrote."""
    path = folder / _MANIFEST
    try:
        write_atomically(path, manifest.model_dump_json(indent=1), replace=replace)
    except FileNotFoundError:
        if not path.is_file() or _read(path, _Manifest).files is None:
            raise


def _difference(found: Any, wanted: Any) -> tuple[str, str]:
    """Both in JSON, without what they have in common."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in {**found, **wanted} if found.get(key, ...) != wanted.get(key, ...)]
        found, wanted = ({key: side[key] for key in keys if key in side} for side in (found, wanted))
    return json.dumps(found), json.dumps(wanted)


def _checked(made: Mapping[str, npt.ArrayLike], rows: int) -> dict[str, Array]:
    if not isinstance(made, Mapping):
        raise InputError(f"make must give arrays by name, not {type(made).__name__}")
    if not made:
        raise InputError("make gave no arrays")
    arrays = {}
    for name, values in made.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(f"make gave an array named {name!r}; names are lower-case letters, digits and underscores")
        try:
            array = np.asarray(values)
        except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors that numpy cannot hold
            reason = " ".join(str(error).split())
            raise InputError(f"make gave {name!r} of which numpy cannot make an array ({reason})") from error
        array = np.ascontiguousarray(array).reshape(array.shape)  # the former makes a row of a number
        if array.dtype.kind not in "biuf":
            raise InputError(f"make gave {name!r} of the type {array.dtype}; a cache holds numbers")
        if array.ndim == 0 or len(array) != rows:
            raise InputError(f"make gave {name!r} of the shape {list(array.shape)} where {rows} rows were asked for")
        arrays[name] = array
    return arrays


class _Hashing:
    """A file that keeps the SHA-256 and the number of the bytes that went through it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.sha, self.size = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.sha.update(data)
        self.size += len(data)
        return self.file.write(data)


def _write_shard(folder: Path, arrays: Mapping[str, Array]) -> None:
    kinds, files = {}, {}
    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            hashing = _Hashing(file)
            np.lib.format.write_array(hashing, array, allow_pickle=False)
        kinds[name] = _Kind(dtype=array.dtype.str, shape=array.shape[1:])
        files[name] = _File(size=hashing.size, sha256=hashing.sha.hexdigest())
    (folder / _SHARD).write_text(_Shard(arrays=kinds, files=files).model_dump_json(indent=1))


def _finished(place: Path, before: list[_Shard]) -> _Shard:
    """What a shard says of itself, if it fits the first."""
    shard = _read(place / _SHARD, _Shard)
    if before and shard.arrays != before[0].arrays:
        raise InputError(f"{place}: has other arrays than the first shard; make must always give the same")
    return shard


def _read(path: Path, kind: type[_R]) -> _R:
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"{path}: is damaged, or not of a cache ({place}: {first['msg']})") from error


def _check_file(path: Path, file: _File, *, verify: bool) -> tuple[int, int]:
    """Refuses a file that is not as it was written; gives what tells it from a later one of the same name."""
    again = f"remove the folder {path.parent.name} and write_cache makes it again"
    try:
        state = path.stat()
        if state.st_size != file.size:
            raise InputError(f"{path}: has {state.st_size} bytes where {file.size} were written; {again}")
        if verify:
            with path.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            if digest != file.sha256:
                raise InputError(f"{path}: was changed since it was written, its SHA-256 differs; {again}")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; {again}") from error
    return state.st_ino, state.st_mtime_ns


@lru_cache(maxsize=_OPEN_MAPS)
def _mapped(path: Path, state: tuple[int, int], dtype: str, shape: tuple[int, ...]) -> Array:
    """A file mapped into memory, if its header says what the manifest says; `state` only tells files apart."""
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except Exception as error:
        raise InputError(f"{path}: is not an array file ({type(error).__name__})") from error
    fits = isinstance(array, np.memmap) and array.dtype.str == dtype and array.shape == shape
    if not fits or not array.flags.c_contiguous:
        raise InputError(f"{path}: is not the array of {dtype} and shape {list(shape)} that the manifest tells of")
    return array  # type: ignore[no-any-return]
