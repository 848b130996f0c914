"""Codes too long to be held for all images of a corpus: they wait in a file, and some rows are read at a time."""

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

from alebrije.atomic import disk_trouble_named
from alebrije.studies.views import joined

LONG = 1 << 24  # numbers of one role that are held in memory: 64 MB


class CodesInFile:
    """Float32 codes [T, D] or [T, K, D] in a file without a name, which is gone when nobody holds them any more.

    >>> codes = CodesInFile([torch.zeros(2, 3), torch.ones(1, 3)], Path(tempfile.gettempdir()))
    >>> codes.shape, codes[1:].tolist()
    ((3, 3), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    """

    def __init__(self, parts: Iterable[Tensor], place: Path) -> None:
        rows, first = 0, torch.empty(0)
        with disk_trouble_named(place):
            self._file = tempfile.TemporaryFile(dir=place)  # noqa: SIM115  (it lives as long as the codes)
        weakref.finalize(self, self._file.close)
        for part in parts:
            first = first if rows else part[:1].clone()
            joined([first, part[:1]])  # all of one shape
            rows += len(part)
            with disk_trouble_named(place):
                self._file.write(part.float().contiguous().numpy().data)
        with disk_trouble_named(place):
            self._file.flush()
        self.shape: tuple[int, ...] = (rows, *first.shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Tensor:
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("rows are read one after another")
        found = np.empty((max(last - first, 0), *self.shape[1:]), np.float32)
        self._file.seek(first * found.itemsize * math.prod(self.shape[1:]))
        if found.size:
            self._file.readinto(found.data.cast("B"))
        return torch.from_numpy(found)


Rows = Tensor | CodesInFile


def gathered(parts: Iterator[Tensor], count: int, place: Path | None) -> Rows:
    """The codes of `count` images, in a file in `place` if they are long."""
    first = next(parts)
    if place is None or first[0].numel() * count <= LONG:
        return joined([first, *parts])
    return CodesInFile(chain([first], parts), place)
