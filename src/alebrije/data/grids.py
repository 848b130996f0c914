"""dSprites, 3D Shapes and MPI3D: images of every combination of some factors, read from their released files.

In all three, rows list the combinations with the last factor fastest: row = `numpy.ravel_multi_index(factors, counts)`.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije.arrays import Array, Integers
from alebrije.atomic import explain_read_errors
from alebrije.errors import InputError
from alebrije.files import check_regular, open_regular
from alebrije.worlds.vocabularies import DSPRITES, ROOMS

Indices = Sequence[int] | npt.NDArray[np.integer[Any]] | Tensor | range

_LONGEST_HEADER = 2**16  # bytes of the header of an array
_BLOCK = 1 << 24  # bytes per read
_LARGEST_CHUNK = 1 << 30  # bytes of an HDF5 chunk, which is unpacked at once
_MPI3D_NAMES = ("color", "shape", "size", "camera height", "background", "horizontal", "vertical")
# not in the released files: toy, realistic and real have 6 colours and 6 shapes, complex has 4 and 4
_MPI3D_COUNTS = ((6, 6, 2, 3, 3, 40, 40), (4, 4, 2, 3, 3, 40, 40))


@dataclass(frozen=True, eq=False)
class FactorImages:
    """Images of combinations of factors. `counts` is the number of values of each factor in the whole file."""

    images: Tensor  # [B, 3, 64, 64] uint8
    factors: Tensor  # [B, F] int64
    names: tuple[str, ...]
    counts: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.images)


def read_dsprites(path: str | Path, indices: Indices | None = None, *, check: bool = True) -> FactorImages:
    """dSprites, from its `.npz`: 737,280 white shapes on black (1, 3, 6, 40, 32, 32).

    Only the requested rows are kept, in the order of `indices`. All images take 3 GB; their three channels share
    memory. The pickled `metadata` of the file is never read. Orientations 0 and 39 show the same image.

    The images have a single checksum at their end, so all are read to compare it, whichever rows are requested. Without
    `check` reading stops after the last requested row, and a changed image may go unnoticed.
    """
    path = Path(path)
    with _explain_damage(path), open_regular(path) as file, zipfile.ZipFile(file) as archive:
        latents = _member(archive, path, "latents_classes", (len(DSPRITES.factors),), np.int64)
        _check_rows(path, latents.rows, DSPRITES.counts)
        classes = latents.read(np.arange(latents.rows))
        counts = _check_counts(path, classes)
        selected = _check_indices(indices, len(classes))
        images = _member(archive, path, "imgs", (64, 64), np.uint8, rows=len(classes)).read(selected, check)
    if images.size and images.max() > 1:
        raise InputError(f"{path}: 'imgs' must contain only 0 and 1, not {int(images.max())}")
    images *= 255
    channels = torch.from_numpy(images)[:, None].expand(-1, 3, -1, -1)
    return FactorImages(channels, torch.from_numpy(classes[selected]), DSPRITES.names, counts)


def read_shapes3d(path: str | Path, indices: Indices | None = None) -> FactorImages:
    """3D Shapes, from its `.h5`: 480,000 images (10, 10, 10, 8, 4, 15). Needs h5py, an extra of alebrije.

    Only the requested rows are read, and returned in the order of `indices`; all images take 6 GB.
    """
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            "3D Shapes is an HDF5 file; reading it needs h5py: pip install 'alebrije[shapes3d]'"
        ) from error
    path = Path(path)
    with _explain_damage(path), h5py.File(path, "r") as file:
        for name, shape in (("images", (64, 64, 3)), ("labels", (len(ROOMS.factors),))):
            # a link or a dataset kept outside could lead to another file, such as a pipe
            if not isinstance(file.get(name, getlink=True), h5py.HardLink) or not _holds_its_data(file[name], shape):
                raise InputError(f"{path}: must contain {name!r} of the shape [rows, {str(list(shape))[1:]}")
            _check_rows(path, len(file[name]), ROOMS.counts)
            if file[name].chunks and math.prod(file[name].chunks) * file[name].dtype.itemsize > _LARGEST_CHUNK:
                raise InputError(f"{path}: {name!r} has chunks of more than {_LARGEST_CHUNK >> 20} MB")
        if file["labels"].dtype.kind != "f":
            raise InputError(f"{path}: 'labels' must be floats, not {file['labels'].dtype}")
        stored, labels = file["images"], file["labels"][...].astype(np.float64)
        if stored.dtype != np.uint8 or len(stored) != len(labels):
            raise InputError(f"{path}: 'images' must be {len(labels):,} uint8 images, one for each label")
        classes = np.stack([np.unique(column, return_inverse=True)[1] for column in labels.T], axis=1)
        counts = _check_counts(path, classes)
        selected = _check_indices(indices, len(classes))
        images = _gather(_blocks_around(stored, selected), selected, (64, 64, 3), stored.dtype)
    return FactorImages(torch.from_numpy(images), torch.from_numpy(classes[selected]), ROOMS.names, counts)


def read_mpi3d(path: str | Path, indices: Indices | None = None, *, check: bool = True) -> FactorImages:
    """MPI3D, from the `.npz` of any variant: 1,036,800 images (6, 6, 2, 3, 3, 40, 40), or 460,800 with 4 and 4.

    The file holds only images; the variant is recognised from their number. Only the requested rows are kept, in the
    order of `indices`; all images take 13 GB. `check` is as in `read_dsprites`: without it, the first rows are read at
    once.
    """
    path = Path(path)
    possible = {math.prod(counts): counts for counts in _MPI3D_COUNTS}
    with _explain_damage(path), open_regular(path) as file, zipfile.ZipFile(file) as archive:
        stored = _member(archive, path, "images", (64, 64, 3), np.uint8)
        if stored.rows not in possible:
            numbers = " or ".join(f"{number:,}" for number in possible)
            raise InputError(f"{path}: MPI3D has {numbers} images, not {stored.rows:,}")
        selected = _check_indices(indices, stored.rows)
        images = stored.read(selected, check)
    counts = possible[stored.rows]
    factors = np.stack(np.unravel_index(selected, counts), axis=1).astype(np.int64)
    return FactorImages(torch.from_numpy(images), torch.from_numpy(factors), _MPI3D_NAMES, counts)


def _check_indices(indices: Indices | None, total: int) -> Integers:
    if indices is None:
        return np.arange(total)
    rows = np.asarray(indices)
    if rows.size == 0:
        raise InputError("indices must contain at least one row")
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise InputError(f"indices must be a list of integers, not {rows.dtype} of the shape {list(rows.shape)}")
    if not 0 <= int(rows.min()) <= int(rows.max()) < total:
        raise InputError(f"indices must lie in 0..{total - 1}, not {int(rows.min())}..{int(rows.max())}")
    return rows.astype(np.int64)


def _check_rows(path: Path, rows: int, counts: Sequence[int]) -> None:
    """Raise an InputError if a file claims more rows than the format has, before any memory is taken."""
    if rows > math.prod(counts):
        raise InputError(f"{path}: claims {rows:,} rows, more than the {math.prod(counts):,} of the format")


def _holds_its_data(found: Any, shape: tuple[int, ...]) -> bool:
    """Whether an HDF5 object is an array with these rows, stored in the file itself."""
    right = hasattr(found, "chunks") and found.shape is not None and found.shape[1:] == shape
    return right and len(found.shape) > 0 and not found.is_virtual and not found.external


def _check_counts(path: Path, classes: Integers) -> tuple[int, ...]:
    """The number of values of each factor; an InputError unless the rows list all combinations in order."""
    counts = tuple(int(column.max()) + 1 for column in classes.T) if len(classes) else (0,)
    complete = math.prod(counts) == len(classes) > 0 and int(classes.min()) >= 0
    if not complete or not np.array_equal(np.stack(np.unravel_index(np.arange(len(classes)), counts), 1), classes):
        raise InputError(f"{path}: the labels of {len(classes):,} rows are not all combinations once, in order")
    return counts


def _gather(
    blocks: Iterator[tuple[int, Array]], selected: Integers, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    """The selected rows from blocks of (first row, rows), channels first."""
    into = np.empty((len(selected), *shape[2:], *shape[:2]), dtype)
    order = np.argsort(selected, kind="stable")
    ordered = selected[order]
    for start, block in blocks:
        low, high = np.searchsorted(ordered, [start, start + len(block)])
        picked = block[ordered[low:high] - start]
        into[order[low:high]] = picked.transpose(0, 3, 1, 2) if block.ndim == 4 else picked
    return into


def _blocks_around(stored: Any, selected: Integers) -> Iterator[tuple[int, Array]]:
    """The selected rows of an HDF5 dataset in runs of adjacent rows; one by one, HDF5 is far slower."""
    rows = np.unique(selected)
    most = _BLOCK // stored[:1].nbytes
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
        for first in range(0, len(run), most):
            part = run[first : first + most]
            yield int(part[0]), stored[int(part[0]) : int(part[-1]) + 1]


@dataclass(frozen=True)
class _Member:
    """An array of an `.npz` file, open after its header."""

    stream: IO[bytes]
    rows: int
    shape: tuple[int, ...]  # of a row
    dtype: np.dtype[Any]

    def read(self, selected: Integers, check: bool = True) -> Array:
        """The selected rows; `check` reads the rest of the stream, because zipfile compares the checksum at its end."""
        end = int(selected.max(initial=-1)) + 1
        rows = _gather(self._blocks(end), selected, self.shape, self.dtype)
        while check and self.stream.read(_BLOCK):
            pass
        return rows

    def _blocks(self, end: int) -> Iterator[tuple[int, Array]]:
        """Blocks of the rows before `end`, in order, because the stream is compressed."""
        size = math.prod(self.shape) * self.dtype.itemsize
        most = max(1, _BLOCK // size)
        for start in range(0, end, most):
            count = min(most, end - start)
            data = self.stream.read(count * size)
            if len(data) < count * size:
                raise EOFError
            yield start, np.frombuffer(data, self.dtype).reshape(count, *self.shape)


def _member(
    archive: zipfile.ZipFile,
    path: Path,
    name: str,
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    rows: int | None = None,
) -> _Member:
    """Open an array of the archive; an InputError if it has another row shape or dtype."""
    if f"{name}.npy" not in archive.namelist():
        raise InputError(f"{path}: has no array {name!r}")
    stream = archive.open(f"{name}.npy")
    version = np.lib.format.read_magic(stream)
    if version > (2, 0):
        raise InputError(f"{path}: {name!r} has an unknown version of NumPy's format")
    if version == (2, 0) and int.from_bytes(cast(zipfile.ZipExtFile, stream).peek(4)[:4], "little") > _LONGEST_HEADER:
        raise InputError(f"{path}: {name!r} has a header that is far too long")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    actual, fortran, stored = read(stream)
    expected = rows if rows is not None else actual[0] if actual else 0
    if actual != (expected, *shape) or stored != np.dtype(dtype) or fortran:
        wanted = f"[{'rows' if rows is None else rows}, {str(list(shape))[1:]}"
        raise InputError(
            f"{path}: {name!r} must be {np.dtype(dtype)} of the shape {wanted}, not {stored} {list(actual)}"
        )
    if archive.getinfo(f"{name}.npy").file_size != stream.tell() + math.prod(actual) * stored.itemsize:
        raise InputError(f"{path}: {name!r} has a different size than its header says")
    return _Member(stream, expected, shape, stored)


@contextmanager
def _explain_damage(path: Path) -> Iterator[None]:
    """Turn any error of a damaged file into an InputError; such files fail in many ways."""
    try:
        with explain_read_errors(path):
            check_regular(path)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise InputError(f"{path}: there is no such file") from None
        raise
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{path}: the requested rows do not fit into memory; request fewer with indices") from error
    except PermissionError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:
        raise InputError(f"{path}: is damaged, or not the released file ({type(error).__name__})") from error
