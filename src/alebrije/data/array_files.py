"""Named arrays from `.npz` and `.safetensors` files, checked and never unpickled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import numpy as np

from alebrije.arrays import Array
from alebrije.errors import InputError
from alebrije.files import check_unpacked_size, is_zip, memory, open_regular, parse_json, sha256_of


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """The arrays of a file by name, and the SHA-256 of its bytes."""

    path: Path
    sha256: str
    arrays: dict[str, Array]


def read_arrays(path: str | Path) -> ArrayFile:
    """All arrays of an `.npz` or `.safetensors` file.

    Raise an InputError for a file that is missing, truncated, of another kind, or that holds pickled objects.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".safetensors": _read_safetensors}
    if path.suffix not in readers:
        raise InputError(
            f"{printable(path)}: only .npz and .safetensors files can be read, not {path.suffix or 'this kind'!r}"
        )
    try:
        with _open(path) as file:
            digest = sha256_of(file)
            arrays = readers[path.suffix](path, file)
    except FileNotFoundError:
        raise InputError(f"{printable(str(path))}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{printable(path)}: cannot be read: {error.strerror or error}") from error
    if not arrays:
        raise InputError(f"{printable(path)}: the file holds no arrays")
    return ArrayFile(path, digest, arrays)


def _open(path: Path) -> BufferedReader:
    """Open a file of arrays that fit into memory."""
    try:
        return open_regular(path, memory())
    except InputError as error:
        raise InputError(f"{printable(path)}: {str(error).rpartition(': ')[2]}") from error


def _read_npz(path: Path, file: BufferedReader) -> dict[str, Array]:
    if not is_zip(file):
        raise InputError(f"{printable(path)}: not an .npz file, or a truncated one")
    arrays = {}
    with _explain_damage(path, "the archive"), np.load(file, allow_pickle=False) as archive:
        check_unpacked_size(archive.zip, printable(path))
        for name in archive.files:
            with _explain_damage(path, repr(name)):
                arrays[name] = archive[name]
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{printable(path)}: {name!r} is not an array")
    return arrays


@contextmanager
def _explain_damage(path: Path, part: str) -> Iterator[None]:
    """Turn any error of a damaged archive into an InputError; such files fail in many ways."""
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        pickled = "pickle" in str(error).lower()
        fault = "holds pickled objects, which are never loaded" if pickled else f"is damaged ({type(error).__name__})"
        raise InputError(f"{printable(path)}: {part} {fault}") from error


def _read_safetensors(path: Path, file: BufferedReader) -> dict[str, Array]:
    """All tensors of a file, by path because the library maps it; that the file is regular is known by now."""
    from safetensors import SafetensorError, safe_open  # imports torch

    arrays: dict[str, Array] = {}
    try:
        with safe_open(path, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  (not a mapping)
                tensor = opened.get_tensor(name)
                arrays[name] = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
            names = (opened.metadata() or {}).get("factor_names")
    except TypeError as error:
        raise InputError(f"{printable(path)}: {name!r} has a dtype that numpy does not support ({error})") from error
    except SafetensorError as error:
        raise InputError(f"{printable(path)}: not a .safetensors file, or a truncated one ({error})") from error
    if names is not None:
        arrays["factor_names"] = _factor_names(path, names)
    return arrays


def _factor_names(path: Path, text: str) -> Array:
    try:
        names = parse_json(text, printable(path))
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{printable(path)}: the metadata 'factor_names' must be a JSON list of names")
    return np.array(names, dtype=str)


def printable(path: Path | str) -> str:
    """A path's last part, or a text, with unprintable characters escaped."""
    text = path.name if isinstance(path, Path) else path
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
