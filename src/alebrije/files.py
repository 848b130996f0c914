"""Opening files: only regular files of a plausible size.

A pipe would block forever, and a link to an endless device would fill memory. So no other module opens a file for
reading itself (`tests/test_files.py`). Missing files and failing disks stay an OSError, which callers explain.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from alebrije.errors import InputError

KIB, MIB, GIB = 2**10, 2**20, 2**30
SETTINGS = 16 * MIB  # the most that a file of settings, a plan or a list of commands has
RECORDS = 256 * MIB  # the most that a file with many records or an image has
WEIGHTS = 8 * GIB  # the most that a file of weights has

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str | Path, most: int | None = None) -> BufferedReader:
    """Open a file for reading; an InputError if it is not a regular file or has more than `most` bytes.

    >>> open_regular("/dev/null")
    Traceback (most recent call last):
        ...
    alebrije.errors.InputError: /dev/null: is not a regular file
    """
    _check(path, os.stat(path), most)  # before opening, which may have effects on a device
    handle = os.open(path, _FLAGS)
    try:
        _check(path, os.fstat(handle), most)  # the file that was opened, whatever the path is now
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def check_regular(path: str | Path, most: int | None = None) -> None:
    """Raise an InputError unless the path is a regular file of at most `most` bytes, before a library opens it."""
    open_regular(path, most).close()


def read_bytes(path: str | Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    with open_regular(path, most) as file:
        content = file.read(most + 1)
    if len(content) > most:  # it has grown, or the file system does not know its size
        raise InputError(f"{path}: has more than {most:,} bytes, which is not plausible")
    return content


def read_text(path: str | Path, most: int) -> str:
    """The UTF-8 text of a regular file; a ValueError if it is not text."""
    return read_bytes(path, most).decode("utf-8")


def read_json(path: str | Path, most: int = SETTINGS) -> Any:
    """The JSON value in a regular file; a ValueError if it is not JSON, an InputError if it is nested too deeply."""
    return parse_json(read_bytes(path, most), path)


def parse_json(text: str | bytes, path: str | Path) -> Any:
    """The JSON value in a text; the path is for the message."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply") from None


def sha256_of(file: BufferedReader) -> str:
    """The SHA-256 of an open file, from its beginning; about 1.5 GB/s. The position is then its beginning again."""
    file.seek(0)
    found = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return found


def check_unpacked_size(archive: zipfile.ZipFile, path: str | Path, most: int | None = None) -> None:
    """Raise an InputError if a zip archive unpacks to more than `most` bytes, or than this machine's memory."""
    total, limit = sum(member.file_size for member in archive.infolist()), most or memory()
    if total > limit:
        reason = "is plausible" if most else "the memory of this machine"
        raise InputError(f"{path}: unpacks to {total / GIB:,.1f} GB, more than {reason}")


def memory() -> int:
    """The bytes of memory of this machine; 16 GB if that is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 16 * GIB


def is_zip(file: IO[bytes]) -> bool:
    """Whether an open file is a zip archive. The position is then its beginning."""
    found = zipfile.is_zipfile(file)
    file.seek(0)
    return found


def _check(path: str | Path, state: os.stat_result, most: int | None) -> None:
    if stat.S_ISDIR(state.st_mode):
        raise InputError(f"{path}: is a folder, not a file")
    if not stat.S_ISREG(state.st_mode):
        raise InputError(f"{path}: is not a regular file")
    if most is not None and state.st_size > most:
        raise InputError(f"{path}: has {state.st_size:,} bytes, more than the {most:,} that are plausible")
