"""Named arrays from `.npz` and `.safetensors` files, checked and never unpickled."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
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
            f"{path.name}: only .npz and .safetensors files can be read, not {path.suffix or 'this kind'!r}"
        )
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        arrays = readers[path.suffix](path)
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read: {error.strerror or error}") from error
    if not arrays:
        raise InputError(f"{path.name}: the file holds no arrays")
    return ArrayFile(path, digest, arrays)


def _read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path.name}: not an .npz file, or one that was cut short")
    arrays = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            try:
                arrays[name] = archive[name]
            except ValueError as error:
                if "pickle" in str(error).lower():
                    raise InputError(f"{path.name}: {name!r} holds pickled objects, which are never loaded") from error
                raise InputError(f"{path.name}: {name!r} is damaged: {error}") from error
            except (zipfile.BadZipFile, zlib.error, EOFError, SyntaxError) as error:
                raise InputError(f"{path.name}: {name!r} is damaged: {error}") from error
            if not isinstance(arrays[name], np.ndarray):
                raise InputError(f"{path.name}: {name!r} is not an array")
    return arrays


def _read_safetensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    from safetensors import SafetensorError, safe_open  # torch comes with it

    arrays: dict[str, npt.NDArray[Any]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  (not a mapping)
                tensor = file.get_tensor(name)
                arrays[name] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
            names = (file.metadata() or {}).get("factor_names")
    except (SafetensorError, TypeError) as error:
        raise InputError(f"{path.name}: not a .safetensors file, or one that was cut short ({error})") from error
    if names is not None:
        try:
            arrays["factor_names"] = np.array(json.loads(names), dtype=str)
        except ValueError as error:
            raise InputError(f"{path.name}: the metadata 'factor_names' must be a JSON list of names") from error
    return arrays
