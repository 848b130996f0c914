"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alebrije.errors import InputError

PART = ".part"  # how the name of what is not yet whole ends; it begins with a dot


def write_atomically(path: str | Path, text: str | bytes, *, replace: bool = True) -> None:
    """Writes `text` beside `path`, syncs it and renames it: a killed process or a full disk leaves the old file.

    Without `replace` a file that is there stays, also if another process wrote it a moment ago.
    """
    path = Path(path).resolve()  # what a link points to is replaced, not the link
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: is not a regular file")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise InputError(f"{path}: is a folder")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        if replace:
            os.replace(temporary, path)
        else:
            _rename_if_new(Path(temporary), path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def new_folder(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A temporary folder beside `path` to write into, which becomes `path` at the end of the block.

    Whoever comes first wins: if `path` is there by then, what was written here is dropped without a word, because
    several processes may fill one place with the same things. With `sync` all files are on the disk before the
    folder has its name; without, a killed process still leaves nothing half-written, but a power cut may.
    """
    temporary = _beside(path)
    temporary.mkdir()  # not mkdtemp, whose folders only their owner can read
    try:
        yield temporary
        if sync:
            for file in temporary.iterdir():
                _sync_file(file)
            _sync_folder(temporary)
        os.rename(temporary, path)
        if sync:
            _sync_folder(path.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        overtaken = error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT) and path.is_dir()
        if not overtaken:
            raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_folder(path: Path) -> None:
    """Removes a folder that is whole until it is gone: a killed process leaves nothing that looks like it."""
    leftover = _beside(path)
    os.rename(path, leftover)
    shutil.rmtree(leftover, ignore_errors=True)  # what another process still reads may stay for a while


def is_leftover(path: Path) -> bool:
    """Whether this is what a killed writer left behind, or what another one is still writing."""
    return path.name.startswith(".") and path.name.endswith(PART)


def drop_leftovers(folder: Path) -> None:
    """Removes what killed writers left in a folder; to be called when nothing remains to be written there."""
    for path in folder.iterdir():
        if is_leftover(path):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@contextmanager
def disk_trouble_named(folder: Path) -> Iterator[None]:
    """A full disk, a missing right or a failing device becomes one sentence; what is whole already stays."""
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else _number_in(str(error))
        if number is None and not isinstance(error, OSError):
            raise  # it has nothing to do with the disk
        if number in (errno.ENOSPC, errno.EDQUOT):
            fault = "the disk is full; what was written stays, and the same call continues once there is room"
        else:
            fault = f"cannot be written: {os.strerror(number) if number else error}"
        raise InputError(f"{folder}: {fault}") from error


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """An InputError if another process is in such a block for the same folder; a killed one lets the next in."""
    with disk_trouble_named(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another process is at work there; wait for it, or choose another") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


def _beside(path: Path) -> Path:
    """A new name beside a path, by which `is_leftover` knows it."""
    return path.parent / f".{path.name}.{os.urandom(6).hex()}{PART}"


def _number_in(words: str) -> int | None:
    """The number of the system's error, where a library tells it in words, as safetensors does."""
    found = re.search(r"os error (\d+)", words)
    return int(found[1]) if found else None


def _rename_if_new(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename it never replaces
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        if not path.exists():  # a file system without links: nearly as good
            os.replace(temporary, path)
    temporary.unlink(missing_ok=True)


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
