"""World images, kept once per machine: they depend only on seeds, so no result folder needs to render them again.

The same holds for the readers of factors, which learn from such images alone, and for the values of the reference
`pixels`. The name of an entry is a digest of
everything that decides its content: its settings, the code that samples, renders and trains, the versions of NumPy and
torch, and the kind of device. Entries are compared with their checksums before use, and the least recently used ones
are removed when the cache grows beyond its limit.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.atomic import check_writable, drop_leftovers, explain_write_errors, named_lock, remove_path
from alebrije.data.array_store import CHECKSUMS, SETTINGS, ArrayStore, Compute, open_arrays
from alebrije.errors import InputError
from alebrije.files import GIB, read_bytes, read_json

FOLDER, LIMIT = "ALEBRIJE_CACHE", "ALEBRIJE_CACHE_LIMIT"  # environment variables: a path or "off"; gigabytes
_WARNED = "ALEBRIJE_CACHE_WARNED"  # set for the processes that this one starts, so that one warning is enough
_OFF = ("off", "none", "0", "")
_DEFAULT_LIMIT = 10.0
_GIGABYTE = 10**9
_KEY = 24  # characters of a digest in a name
_STALE = 3600.0  # seconds after which an unfinished entry was left by a killed process
# the code that decides what is in an entry
_CODE = (
    "scenes/**/*",
    "render/**/*",
    "worlds/**/*",
    "instruments/*/images.py",
    "instruments/*/reader.py",
    "instruments/*/scene_reader.py",
    "instruments/*/one_cycle.py",
    "graphs.py",
    "seeding.py",
)
_ENTRY = re.compile(r"[\w.-]+-[0-9a-f]{24}")
_LOG = logging.getLogger("alebrije")


class CacheUnusableError(InputError):
    """The cache cannot keep these images. `arrays` are the images, if they have been rendered."""

    def __init__(self, message: str, arrays: Mapping[str, Array] | None = None) -> None:
        super().__init__(message)
        self.arrays = arrays


@dataclass(frozen=True)
class Entry:
    """What `alebrije cache` shows of an entry."""

    name: str
    settings: Mapping[str, Any]
    bytes: int
    used: float  # seconds since 1970


class MachineCache:
    """The images of worlds that processes and result folders of one machine share.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as path:
    ...     images = MachineCache(Path(path))
    ...     zeros = images.get({"name": "grouping-sprites", "seed": 0}, lambda: {"images": np.zeros((2, 3))})
    ...     zeros["images"].shape, len(images.entries())
    ((2, 3), 1)
    """

    def __init__(self, path: Path, limit: int = int(_DEFAULT_LIMIT * _GIGABYTE)) -> None:
        self.path, self.limit = path, limit
        self._images, self._locks = path / "world-images", path / "world-images" / ".locks"

    def get(self, settings: Mapping[str, Any], render: Compute, device: str = "cpu") -> dict[str, Array]:
        """The images with these settings, rendered if they are not there; a CacheUnusableError if they cannot be kept.

        An exception of `render` is raised as it is.
        """
        name, about = _address(settings, device)
        attempt = _Attempt(render, self.limit)
        try:
            # not synced: after a power cut the checksums tell what is incomplete
            arrays = ArrayStore(self._images, self._locks, sync=False).get(name, about, attempt)
        except CacheUnusableError:
            raise
        except (InputError, OSError) as error:
            if attempt.failed:
                raise
            self._warn(error)
            raise CacheUnusableError(str(error), attempt.arrays) from error
        self._used(self._images / name)
        if attempt.arrays is not None:
            self._shrink(keep=name)
        return arrays

    def has(self, settings: Mapping[str, Any], device: str = "cpu") -> bool:
        """Whether there is an entry with these settings, intact or not."""
        return (self._images / _address(settings, device)[0]).is_dir()

    def entries(self) -> list[Entry]:
        """All entries, the last used first."""
        found = []
        for path in self._folders():
            try:
                settings = read_json(path / SETTINGS)
            except (OSError, ValueError, InputError):
                settings = {}
            size, used = _size_and_time(path)
            found.append(Entry(path.name, settings if isinstance(settings, dict) else {}, size, used))
        return sorted(found, key=lambda entry: -entry.used)

    def damaged(self) -> list[str]:
        """The names of entries that differ from their checksums."""
        names = []
        for path in self._folders():
            try:
                open_arrays(path)
            except FileNotFoundError:
                pass  # another process has just removed it
            except InputError:
                names.append(path.name)
        return names

    def remove(self, names: list[str]) -> None:
        """Remove some entries."""
        with explain_write_errors(self._images):
            for name in names:
                if os.path.lexists(self._images / name):
                    remove_path(self._images / name)

    def clear(self) -> None:
        """Remove all entries, and what killed processes left."""
        self.remove([path.name for path in self._folders()])
        if self._images.is_dir():
            with explain_write_errors(self._images):
                drop_leftovers(self._images)

    def check_usable(self) -> None:
        """Warn if nothing can be written to the cache, once for this process and those that it starts."""
        try:
            with explain_write_errors(self._images):
                self._images.mkdir(parents=True, exist_ok=True)
            check_writable(self._images)
        except InputError as error:
            self._warn(error)

    def _folders(self) -> list[Path]:
        """All entries; other files that someone put there are left alone."""
        try:
            return sorted(path for path in self._images.iterdir() if _ENTRY.fullmatch(path.name))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _used(self, path: Path) -> None:
        with suppress(OSError):  # a cache that others share for reading, or an entry that was just removed
            os.utime(path / CHECKSUMS)

    def _shrink(self, keep: str) -> None:
        """Remove the least recently used entries until the cache is within its limit."""
        with named_lock(self._locks, "removal"), explain_write_errors(self._images):
            drop_leftovers(self._images, age=_STALE)
            sizes = {path: _size_and_time(path) for path in self._folders()}
            total = sum(size for size, _ in sizes.values())
            for path in sorted(sizes, key=lambda path: sizes[path][1]):
                if total <= self.limit:
                    return
                if path.name != keep:
                    remove_path(path)
                    total -= sizes[path][0]

    def _warn(self, error: Exception) -> None:
        if _WARNED not in os.environ:
            os.environ[_WARNED] = "1"
            _LOG.warning(
                "%s; images are kept in the result folder instead (%s=DIR chooses another cache)", error, FOLDER
            )


class _Attempt:
    """Renders images, and remembers them or that it failed."""

    def __init__(self, render: Compute, limit: int) -> None:
        self.render, self.limit = render, limit
        self.arrays: dict[str, Array] | None = None
        self.failed = False

    def __call__(self) -> dict[str, Array]:
        try:
            self.arrays = {name: np.asarray(values) for name, values in self.render().items()}
        except BaseException:
            self.failed = True
            raise
        if sum(array.nbytes for array in self.arrays.values()) > self.limit:
            raise CacheUnusableError("these images are larger than the cache may be", self.arrays)
        return self.arrays


def machine_cache() -> MachineCache | None:
    """The cache of this machine: `ALEBRIJE_CACHE`, or a folder of the user; None if it is switched off."""
    chosen = os.environ.get(FOLDER)
    if chosen is not None and chosen.strip().lower() in _OFF:
        return None
    limit = os.environ.get(LIMIT, str(_DEFAULT_LIMIT))
    try:
        gigabytes = float(limit)
    except ValueError:
        gigabytes = math.nan
    if not 0 <= gigabytes < math.inf:
        raise InputError(f"{LIMIT} must be a number of gigabytes, not {limit!r}")
    return MachineCache(
        _user_folder() if chosen is None else Path(chosen).expanduser().absolute(), int(gigabytes * _GIGABYTE)
    )


def _user_folder() -> Path:
    """Where programs of this user keep what can be computed again."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "alebrije" / "cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "alebrije"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "alebrije"


def _address(settings: Mapping[str, Any], device: str) -> tuple[str, dict[str, Any]]:
    """The name of an entry, and everything that decides its content."""
    packages = {name: version(name) for name in ("numpy", "torch")}
    about = {**settings, "code": _code(), **packages, "device": device.partition(":")[0]}
    text = json.dumps(about, sort_keys=True, default=str)
    kind = re.sub(r"[^\w.-]", "_", str(settings.get("name", "images")))
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:_KEY]}", about


@cache
def package_digest() -> str:
    """A digest of all code of this package, for what more than the images depends on."""
    return _digest(("**/*.py",))


@cache
def _code() -> str:
    """A digest of the code and the assets that decide the images of worlds."""
    return _digest(_CODE)


def _digest(patterns: Sequence[str]) -> str:
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in _code_files(package, patterns):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + read_bytes(path, GIB))
    return digest.hexdigest()[:_KEY]


def _code_files(package: Path, patterns: Sequence[str] = _CODE) -> list[Path]:
    """The files of some patterns, without what Python and numba compile from them."""
    found = {path for pattern in patterns for path in package.glob(pattern)}
    return sorted(path for path in found if path.is_file() and path.parent.name != "__pycache__")


def _size_and_time(path: Path) -> tuple[int, float]:
    """The bytes in an entry, and when it was last used; the distant past if it is damaged or was just removed."""
    try:
        size = sum(file.stat().st_size for file in path.iterdir())
        return size, (path / CHECKSUMS).stat().st_mtime
    except OSError:
        return 0, 0.0
