"""Named arrays from `.npz` and `.safetensors` files, checked and never unpickled."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.errors import InputError


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """The arrays of a file by name, and the SHA-256 of its bytes."""

    path: Path
    sha256: str
    arrays: dict[str, npt.NDArray[Any]]


def read_arrays(path: str | Path) -> ArrayFile:
    """All arrays of an `.npz` or `.safetensors` file.

    A file that is missing, truncated, of another kind, or that holds pickled objects is refused in one sentence.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        raise InputError(
            f"{shown(path)}: only .npz and .safetensors files can be read, not {path.suffix or 'this kind'!r}"
        )
    try:
        if not path.is_file():
            raise InputError(f"{shown(str(path))}: there is no such file")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        arrays = readers[path.suffix](path)
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be read: {error.strerror or error}") from error
    if not arrays:
        raise InputError(f"{shown(path)}: the file holds no arrays")
    return ArrayFile(path, digest, arrays)


def _read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{shown(path)}: not an .npz file, or one that was cut short")
    arrays = {}
    with _damage_named(path, "the archive"), np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            with _damage_named(path, repr(name)):
                arrays[name] = archive[name]
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{shown(path)}: {name!r} is not an array")
    return arrays


@contextmanager
def _damage_named(path: Path, part: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes one sentence: a damaged archive fails in a dozen ways."""
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        pickled = "pickle" in str(error).lower()
        fault = "holds pickled objects, which are never loaded" if pickled else f"is damaged ({type(error).__name__})"
        raise InputError(f"{shown(path)}: {part} {fault}") from error


def _read_safetensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    from safetensors import SafetensorError, safe_open  # torch comes with it

    arrays: dict[str, npt.NDArray[Any]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  (not a mapping)
                tensor = file.get_tensor(name)
                arrays[name] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
            names = (file.metadata() or {}).get("factor_names")
    except TypeError as error:
        raise InputError(f"{shown(path)}: {name!r} has a type that numpy does not know ({error})") from error
    except SafetensorError as error:
        raise InputError(f"{shown(path)}: not a .safetensors file, or one that was cut short ({error})") from error
    if names is not None:
        arrays["factor_names"] = _names(path, names)
    return arrays


def _names(path: Path, text: str) -> npt.NDArray[Any]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{shown(path)}: the metadata 'factor_names' must be a JSON list of names")
    return np.array(names, dtype=str)


def shown(path: Path | str) -> str:
    """A path's last part, or a text, on one line: characters that cannot be printed are escaped."""
    text = path.name if isinstance(path, Path) else path
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
