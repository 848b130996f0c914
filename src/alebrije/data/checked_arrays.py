"""Array files with a size and a checksum, compared before their content is used."""

from __future__ import annotations

import hashlib
import os
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from alebrije.arrays import Array
from alebrije.errors import InputError
from alebrije.files import open_regular, sha256_of

_VERIFIED: set[tuple[str, int, int, int, str]] = set()  # files whose checksum this process has compared


class FileRecord(BaseModel):
    """Size and checksum of a file, to detect changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _HashingFile:
    """A file that counts and hashes (SHA-256) the bytes written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.sha, self.size = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.sha.update(data)
        self.size += len(data)
        return self.file.write(data)


def write_array(path: Path, array: Array) -> FileRecord:
    """Write a `.npy` file, and return its size and checksum."""
    with path.open("wb") as file:
        hashing = _HashingFile(file)
        np.lib.format.write_array(hashing, array, allow_pickle=False)
    return FileRecord(size=hashing.size, sha256=hashing.sha.hexdigest())


def file_record(path: Path) -> FileRecord:
    """Size and checksum of a file as it is now."""
    with open_regular(path) as file:
        return FileRecord(size=os.fstat(file.fileno()).st_size, sha256=sha256_of(file))


def check_file(path: Path, record: FileRecord, *, verify: bool = True) -> None:
    """Raise an InputError if a file is missing, is no regular file, or has changed.

    The size is always compared, the checksum only with `verify`, and once per process while the file stays the same.
    """
    try:
        with open_regular(path) as file:
            _check(path, file, record, verify=verify)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def map_array(path: Path, record: FileRecord, mode: Literal["r", "c"] = "r", *, verify: bool = True) -> Array:
    """The array of a `.npy` file, memory-mapped after `check_file` of the same open file.

    With the mode "c" the array can be changed, but the file cannot.
    """
    try:
        with open_regular(path) as file:
            _check(path, file, record, verify=verify)
            return _map(path, file, mode)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _check(path: Path, file: BufferedReader, record: FileRecord, *, verify: bool) -> None:
    size = file.seek(0, 2)
    file.seek(0)
    if size != record.size:
        raise InputError(f"{path}: has {size} bytes, but {record.size} were written")
    if not verify:
        return
    stamp = *file_stamp(path, file), record.sha256
    if stamp not in _VERIFIED:
        if sha256_of(file) != record.sha256:
            raise InputError(f"{path}: has changed since it was written (its SHA-256 differs)")
        _VERIFIED.add(stamp)


def file_stamp(path: Path, file: BufferedReader | None = None) -> tuple[str, int, int, int]:
    """Path, inode, time and size of a file, which differ if it was written again."""
    state = path.stat() if file is None else os.fstat(file.fileno())
    return str(path), state.st_ino, state.st_mtime_ns, state.st_size


def _map(path: Path, file: BufferedReader, mode: Literal["r", "c"]) -> Array:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise ValueError("objects")
        if not all(shape):  # nothing to map
            return np.empty(shape, dtype)
        order: Any = "F" if fortran else "C"
        return np.memmap(file, dtype, mode, file.tell(), shape, order)
    except Exception as error:  # a damaged header fails in many ways
        raise InputError(f"{path}: is not an array file ({type(error).__name__})") from error
