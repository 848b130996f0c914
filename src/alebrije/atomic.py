"""Atomic writes of files and folders: complete or absent, never half-written."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alebrije.errors import InputError

PART = ".part"  # suffix of unfinished files and folders; their names begin with a dot


def write_atomically(path: str | Path, text: str | bytes, *, replace: bool = True) -> None:
    """Write `text` to a temporary file, sync it and rename it to `path`.

    A killed process or a full disk leaves the old file intact. Without `replace` an existing file is kept, even if
    another process has just written it.
    """
    path = Path(path).resolve()  # replace the target of a link, not the link
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
    _sync(path.parent)


@contextmanager
def new_folder(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `path` at the end of the block.

    If `path` exists by then, the temporary folder is discarded silently, because several processes may write the same
    content. With `sync` all files are on disk before the rename. Without it a killed process still leaves nothing
    half-written, but a power cut may.
    """
    temporary = _temporary_path(path)
    temporary.mkdir()  # mkdtemp would create a folder that only its owner can read
    try:
        yield temporary
        if sync:
            for file in temporary.iterdir():
                _sync(file)
            _sync(temporary)
        os.rename(temporary, path)
        if sync:
            _sync(path.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        overtaken = isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)
        if not (overtaken and path.is_dir()):
            raise


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a file, which is synced and renamed to `path` at the end of the block."""
    temporary = _temporary_path(path)
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: rename it first, so that a killed process leaves no partial folder."""
    leftover = _temporary_path(path)
    os.rename(path, leftover)
    shutil.rmtree(leftover, ignore_errors=True)  # files that another process has open may remain


def remove_path(path: Path) -> None:
    """Remove a folder atomically, or a file, a link or anything else."""
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    else:
        path.unlink()


def is_leftover(path: Path) -> bool:
    """Whether a path is unfinished: left by a killed process or still being written."""
    return path.name.startswith(".") and path.name.endswith(PART)


def drop_leftovers(folder: Path, age: float | None = None) -> None:
    """Remove what killed processes left in a folder.

    Call it only when all writing there is done, or with an `age` in seconds after which nobody writes any more.
    """
    for path in folder.iterdir():
        if is_leftover(path) and (age is None or _age(path) > age):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def drop_leftovers_of(path: Path) -> None:
    """Remove what killed processes left of one file or folder. Call it only when no other process writes it."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*{PART}"):
        shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink(missing_ok=True)


@contextmanager
def explain_write_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk, missing permissions or a failing disk into an InputError that names the folder."""
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else _errno_in(str(error))
        if number is None and not isinstance(error, OSError):
            raise  # not a disk error
        if number in (errno.ENOSPC, errno.EDQUOT):
            fault = "the disk is full; finished files are kept, so free some space and repeat the call to continue"
        else:
            fault = f"cannot be written: {os.strerror(number) if number else error}"
        raise InputError(f"{folder}: {fault}") from error


def check_writable(folder: Path) -> None:
    """Raise an InputError if no file can be written to a folder: no permission, a read-only or a full disk."""
    with explain_write_errors(folder):
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".writable.", suffix=PART)
        os.close(handle)
        os.unlink(temporary)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder; raise an InputError if another process holds the lock. A killed process releases it."""
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another process is using it; wait for it or choose another folder") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


@contextmanager
def named_lock(folder: Path, name: str) -> Iterator[None]:
    """A lock: one process at a time runs this block for a folder and a name. A killed process releases it."""
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = _open_lock(folder / f"{name}.lock")
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


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Turn missing permissions or a failing disk into an InputError that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename or path}: cannot be read: {error.strerror or error}") from error


def _open_lock(path: Path) -> int:
    """Open a lock file, created if needed."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, not a lock file; remove it")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path}: is not a regular file; remove it")
    return handle


def _temporary_path(path: Path) -> Path:
    """A new path next to `path` that `is_leftover` recognises."""
    return path.parent / f".{path.name}.{os.urandom(6).hex()}{PART}"


def _errno_in(message: str) -> int | None:
    """The errno in an error message, for libraries such as safetensors that only report it as text."""
    match = re.search(r"os error (\d+)", message)
    return int(match[1]) if match else None


def _rename_if_new(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike a rename, a link never replaces
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        if not path.exists():  # file systems without links: a race is possible but unlikely
            os.replace(temporary, path)
    temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _age(path: Path) -> float:
    """Seconds since a path was changed; 0 if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
