"""dSprites, 3D Shapes and MPI3D: images of every combination of some factors, read from their released files.

In all three the rows run through the combinations with the last factor fastest, so that row and factors tell each
other: `numpy.ravel_multi_index(factors, counts)` is the row.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije.data.checks import reading_trouble_named
from alebrije.errors import InputError
from alebrije.worlds.vocabularies import DSPRITES, ROOMS

Rows = Sequence[int] | npt.NDArray[np.integer[Any]] | Tensor | range
Index = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

_BLOCK = 1 << 24  # bytes read at a time
_MPI3D_NAMES = ("color", "shape", "size", "camera height", "background", "horizontal", "vertical")
# the released files do not say their factors: toy, realistic and real have 6 colours and 6 shapes, complex has 4 and 4
_MPI3D_COUNTS = ((6, 6, 2, 3, 3, 40, 40), (4, 4, 2, 3, 3, 40, 40))


@dataclass(frozen=True, eq=False)
class Grid:
    """Images of combinations of factors. `counts` tells how many values each factor has in the whole file."""

    images: Tensor  # [B, 3, 64, 64] uint8
    factors: Tensor  # [B, F] int64
    names: tuple[str, ...]
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.images)


def read_dsprites(path: str | Path, indices: Rows | None = None, *, check: bool = True) -> Grid:
    """dSprites, from its `.npz`: 737,280 white shapes on black (1, 3, 6, 40, 32, 32).

    Only the asked rows are kept, in the order of `indices`; all images take 3 GB, their three channels being one and
    the same memory. The pickled `metadata` of the file is never opened. Orientations 0 and 39 show the same image.

    The images have one checksum, at their end: whichever rows are asked for, all are read past to compare it. With
    `check` off reading stops behind the last row asked for, and a changed image may go unnoticed.
    """
    path, side = Path(path), (64, 64)
    with _opened(path) as archive:
        latents = _member(archive, path, "latents_classes", (len(DSPRITES.factors),), np.int64)
        classes = _gathered(latents.blocks(latents.rows), np.arange(latents.rows), latents.empty())
        latents.check()
        counts = _counts(path, classes)
        wanted = _rows(indices, len(classes))
        stored = _member(archive, path, "imgs", side, np.uint8, rows=len(classes))
        images = _gathered(stored.blocks(_end(wanted)), wanted, np.empty((len(wanted), *side), np.uint8))
        if check:
            stored.check()
    if images.size and images.max() > 1:
        raise InputError(f"{path}: 'imgs' must hold zeros and ones, not {int(images.max())}")
    images *= 255
    channels = torch.from_numpy(images)[:, None].expand(-1, 3, -1, -1)
    return Grid(channels, torch.from_numpy(classes[wanted]), DSPRITES.names, counts)


def read_shapes3d(path: str | Path, indices: Rows | None = None) -> Grid:
    """3D Shapes, from its `.h5`: 480,000 images (10, 10, 10, 8, 4, 15). Needs h5py, an extra of alebrije.

    Only the asked rows are read, and given in the order of `indices`; all images take 6 GB.
    """
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            "3D Shapes is an HDF5 file; reading it needs h5py: pip install 'alebrije[shapes3d]'"
        ) from error
    path = Path(path)
    with _damage_named(path), h5py.File(path, "r") as file:
        for name, shape in (("images", (64, 64, 3)), ("labels", (len(ROOMS.factors),))):
            if not isinstance(file.get(name), h5py.Dataset) or file[name].shape[1:] != shape:
                raise InputError(f"{path}: must hold {name!r} of the shape [rows, {str(list(shape))[1:]}")
        stored, labels = file["images"], file["labels"][...].astype(np.float64)
        if stored.dtype != np.uint8 or len(stored) != len(labels):
            raise InputError(f"{path}: 'images' must be {len(labels):,} images of uint8, as there are labels")
        classes = np.stack([np.unique(column, return_inverse=True)[1] for column in labels.T], axis=1)
        counts = _counts(path, classes)
        wanted = _rows(indices, len(classes))
        images = _gathered(_runs(stored, wanted), wanted, np.empty((len(wanted), 3, 64, 64), np.uint8))
    return Grid(torch.from_numpy(images), torch.from_numpy(classes[wanted]), ROOMS.names, counts)


def read_mpi3d(path: str | Path, indices: Rows | None = None, *, check: bool = True) -> Grid:
    """MPI3D, from the `.npz` of any variant: 1,036,800 images (6, 6, 2, 3, 3, 40, 40), or 460,800 with 4 and 4.

    The file holds images only; which variant it is shows in their number. Only the asked rows are kept, in the order
    of `indices`; all images take 13 GB. `check` is as in `read_dsprites`: without it, the first rows are read at once.
    """
    path = Path(path)
    possible = {math.prod(counts): counts for counts in _MPI3D_COUNTS}
    with _opened(path) as archive:
        stored = _member(archive, path, "images", (64, 64, 3), np.uint8)
        if stored.rows not in possible:
            numbers = " or ".join(f"{number:,}" for number in possible)
            raise InputError(f"{path}: MPI3D has {numbers} images, not {stored.rows:,}")
        wanted = _rows(indices, stored.rows)
        images = _gathered(stored.blocks(_end(wanted)), wanted, np.empty((len(wanted), 3, 64, 64), np.uint8))
        if check:
            stored.check()
    counts = possible[stored.rows]
    factors = np.stack(np.unravel_index(wanted, counts), axis=1).astype(np.int64)
    return Grid(torch.from_numpy(images), torch.from_numpy(factors), _MPI3D_NAMES, counts)


def _rows(indices: Rows | None, total: int) -> Index:
    if indices is None:
        return np.arange(total)
    rows = np.asarray(indices)
    if rows.size == 0:
        raise InputError("indices must name at least one row")
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise InputError(f"indices must be a list of integers, not {rows.dtype} of the shape {list(rows.shape)}")
    if not 0 <= int(rows.min()) <= int(rows.max()) < total:
        raise InputError(f"indices must lie in 0..{total - 1}, not {int(rows.min())}..{int(rows.max())}")
    return rows.astype(np.int64)


def _end(wanted: Index) -> int:
    return int(wanted.max()) + 1


def _counts(path: Path, classes: Index) -> tuple[int, ...]:
    """How many values each factor has, if the rows run through all combinations in their order."""
    counts = tuple(int(column.max()) + 1 for column in classes.T) if len(classes) else (0,)
    whole = math.prod(counts) == len(classes) > 0 and int(classes.min()) >= 0
    if not whole or not np.array_equal(np.stack(np.unravel_index(np.arange(len(classes)), counts), 1), classes):
        raise InputError(f"{path}: the labels of {len(classes):,} rows are not every combination once, in order")
    return counts


def _gathered(blocks: Iterator[tuple[int, Array]], wanted: Index, into: Array) -> Array:
    """The wanted rows out of blocks of rows that come with their first row's number, channels put first."""
    order = np.argsort(wanted, kind="stable")
    ordered = wanted[order]
    for start, block in blocks:
        low, high = np.searchsorted(ordered, [start, start + len(block)])
        picked = block[ordered[low:high] - start]
        into[order[low:high]] = picked.transpose(0, 3, 1, 2) if block.ndim == 4 else picked
    return into


def _runs(stored: Any, wanted: Index) -> Iterator[tuple[int, Array]]:
    """The wanted rows of an HDF5 dataset, neighbours together: one by one, HDF5 takes far longer."""
    rows = np.unique(wanted)
    most = _BLOCK // stored[:1].nbytes
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
        for first in range(0, len(run), most):
            part = run[first : first + most]
            yield int(part[0]), stored[int(part[0]) : int(part[-1]) + 1]


@dataclass(frozen=True)
class _Member:
    """An array of an `.npz` file, open behind its header."""

    stream: IO[bytes]
    rows: int
    shape: tuple[int, ...]  # of a row
    dtype: np.dtype[Any]

    def empty(self) -> Array:
        return np.empty((self.rows, *self.shape), self.dtype)

    def blocks(self, end: int) -> Iterator[tuple[int, Array]]:
        """Blocks of the rows before `end`, in order: the stream is compressed and knows no other."""
        size = math.prod(self.shape) * self.dtype.itemsize
        most = max(1, _BLOCK // size)
        for start in range(0, end, most):
            count = min(most, end - start)
            data = self.stream.read(count * size)
            if len(data) < count * size:
                raise EOFError
            yield start, np.frombuffer(data, self.dtype).reshape(count, *self.shape)

    def check(self) -> None:
        """Reads what is left: reaching the end is what makes zipfile compare the checksum."""
        while self.stream.read(_BLOCK):
            pass


def _member(
    archive: zipfile.ZipFile,
    path: Path,
    name: str,
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    rows: int | None = None,
) -> _Member:
    """An array of the archive, refused if it is not of rows of this shape and type."""
    if f"{name}.npy" not in archive.namelist():
        raise InputError(f"{path}: has no array {name!r}")
    stream = archive.open(f"{name}.npy")
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    found, fortran, stored = read(stream)
    expected = rows if rows is not None else found[0] if found else 0
    if found != (expected, *shape) or stored != np.dtype(dtype) or fortran:
        wanted = f"[{'rows' if rows is None else rows}, {str(list(shape))[1:]}"
        raise InputError(
            f"{path}: {name!r} must be {np.dtype(dtype)} of the shape {wanted}, not {stored} {list(found)}"
        )
    if archive.getinfo(f"{name}.npy").file_size != stream.tell() + math.prod(found) * stored.itemsize:
        raise InputError(f"{path}: {name!r} has not as many bytes as its header says")
    return _Member(stream, expected, shape, stored)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with _damage_named(path), zipfile.ZipFile(path) as archive:
        yield archive


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside becomes one sentence: a damaged file fails in a dozen ways."""
    with reading_trouble_named(path):
        if not path.is_file():
            raise InputError(f"{path}: there is no such file")
    try:
        yield
    except (InputError, MemoryError):
        raise
    except PermissionError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:
        raise InputError(f"{path}: is damaged, or not the released file ({type(error).__name__})") from error
