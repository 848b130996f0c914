"""Codes that are too long to keep in memory for all images of a corpus: they are kept in a file and read in parts."""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from alebrije.atomic import explain_write_errors
from alebrije.studies.encode import join_codes

LONG = 1 << 24  # most numbers of one role that are kept in memory: 64 MB


class CodesInFile:
    """Float32 codes [T, D] or [T, K, D] in an unnamed file, which is deleted with this object.

    >>> codes = CodesInFile([torch.zeros(2, 3), torch.ones(1, 3)], Path(tempfile.gettempdir()))
    >>> codes.shape, codes[1:].tolist()
    ((3, 3), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    """

    def __init__(self, batches: Iterable[Tensor], folder: Path) -> None:
        rows, first = 0, torch.empty(0)
        with explain_write_errors(folder):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (it lives as long as the codes)
        weakref.finalize(self, self._file.close)
        for batch in batches:
            first = first if rows else batch[:1].clone()
            join_codes([first, batch[:1]])  # raises if the shapes differ
            rows += len(batch)
            with explain_write_errors(folder):
                self._file.write(batch.float().contiguous().numpy().data)
        with explain_write_errors(folder):
            self._file.flush()
        self.shape: tuple[int, ...] = (rows, *first.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise IndexError(f"the step of a slice of codes in a file must be 1, not {step}")
        codes = np.empty((max(last - first, 0), *self.shape[1:]), np.float32)
        self._file.seek(first * codes.itemsize * math.prod(self.shape[1:]))
        if codes.size:
            self._file.readinto(codes.data.cast("B"))
        return torch.from_numpy(codes)


Codes = Tensor | CodesInFile


def collect_codes(batches: Iterator[Tensor], count: int, folder: Path | None) -> Codes:
    """The codes of `count` images; in a file in the folder if there is one and the codes are long."""
    first = next(batches)
    if folder is None or first[0].numel() * count <= LONG:
        return join_codes([first, *batches])
    return CodesInFile(chain([first], batches), folder)
