"""Attributes of a user's images: columns of a table as factors with a few values each."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alebrije.arrays import Floats, Integers
from alebrije.atomic import explain_read_errors
from alebrije.errors import InputError
from alebrije.files import RECORDS, open_regular, read_bytes

MISSING = -1  # in place of the index of a value
_MISSING_WORDS = ("", "na", "n/a", "nan", "null")
_BINS = 10  # of a continuous attribute
_MOST_FRACTIONS, _MOST_WHOLE = (
    20,
    100,
)  # distinct numbers; with more, a column of fractions or of integers is continuous
_MOST_COLUMNS = 256


@dataclass(frozen=True, eq=False)
class Attributes:
    """The index of each row's value of each attribute [N, F], `MISSING` where there is none."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]  # of each attribute, in words
    indices: Integers
    notes: tuple[str, ...] = ()  # what was left out or divided into bins, in sentences

    @property
    def complete(self) -> Integers:
        """The rows that have a value of every attribute."""
        return np.flatnonzero((self.indices != MISSING).all(1))


def encode_attributes(columns: Mapping[str, Sequence[Any]]) -> Attributes:
    """The columns of a table as factors.

    Words and numbers are values alike. A column of numbers with very many distinct values is continuous and is divided
    into ten bins of about equal counts. A column of words that differ in most rows, such as an id, and a column that
    is empty in most rows are left out. A column with a single value raises an InputError: nothing can be learned from
    it.

    >>> found = encode_attributes({"hair": ["red", "black", "", "red"], "age": [31, 7, 7, 64]})
    >>> found.values, found.indices.tolist()
    ((('black', 'red'), ('7', '31', '64')), [[1, 1], [0, 0], [-1, 0], [1, 2]])
    """
    if len(columns) > _MOST_COLUMNS:
        raise InputError(f"there are {len(columns):,} attributes, more than the {_MOST_COLUMNS} that can be examined")
    names, values, indices, notes = [], [], [], []
    for name, column in columns.items():
        cells = [_cell(cell) for cell in column]
        known = [cell for cell in cells if cell is not None]
        if 2 * len(known) < len(cells) or not known:
            notes.append(f"{name} is left out: {len(cells) - len(known):,} of {len(cells):,} rows have no value of it")
            continue
        numbers = _numbers(known)
        distinct = len(set(known) if numbers is None else set(numbers.tolist()))
        if distinct == 1:
            raise InputError(f"the attribute {name!r} is {known[0]} in every row; remove the column")
        if numbers is None and distinct > max(len(known) / 2, 1) and distinct > 2:
            notes.append(f"{name} is left out: {distinct:,} of its {len(known):,} values differ, as in a column of ids")
            continue
        if numbers is not None and _is_continuous(numbers, distinct):
            words, which = _binned(numbers)
            notes.append(f"{name} is continuous and was divided into {len(words)} bins of about equal counts")
        else:
            words, which = _classes(known, numbers)
        index = np.full(len(cells), MISSING, dtype=np.int64)
        index[[row for row, cell in enumerate(cells) if cell is not None]] = which
        names.append(str(name))
        values.append(words)
        indices.append(index)
    if not names:
        raise InputError(f"no attribute can be used; {'; '.join(notes)}" if notes else "there are no attributes")
    stacked = np.stack(indices, 1)
    lacking = len(stacked) - int((stacked != MISSING).all(1).sum())
    if lacking:
        notes.append(f"{lacking:,} of {len(stacked):,} rows lack a value and are left out")
    return Attributes(tuple(names), tuple(values), stacked, tuple(notes))


def read_table(path: Path) -> dict[str, list[Any]]:
    """The columns of a CSV, TSV or Parquet file by name. Parquet needs pyarrow."""
    with explain_read_errors(path):
        return _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)


def _read_csv(path: Path) -> dict[str, list[Any]]:
    try:
        text = read_bytes(path, RECORDS).decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ","))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not a table in UTF-8 ({error})") from None
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise InputError(f"{path}: needs a line of column names and a line for each image")
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names) or "" in names:
        raise InputError(f"{path}: every column needs a name of its own in the first line")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise InputError(f"{path}: line {number} has {len(row)} cells, and the first has {len(names)}")
    return dict(zip(names, map(list, zip(*rows[1:], strict=True)), strict=True))


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    try:
        from pyarrow import parquet  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InputError(f"{path}: Parquet needs pyarrow; install it with: pip install pyarrow, or use CSV") from None
    try:
        with open_regular(path, RECORDS) as file:
            columns: dict[str, list[Any]] = parquet.read_table(file).to_pydict()
    except (OSError, InputError):
        raise
    except Exception as error:  # pyarrow's errors are its own
        raise InputError(f"{path}: is not a Parquet file ({type(error).__name__})") from None
    return columns


def _cell(cell: Any) -> Any:
    """A cell as text or as a number, None if it is missing."""
    if hasattr(cell, "item"):  # a number of numpy or torch
        cell = cell.item()
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, (bool, int, float)):
        return cell
    text = str(cell).strip()
    return None if text.lower() in _MISSING_WORDS else text


def _numbers(cells: Sequence[Any]) -> Floats | None:
    """The cells as numbers; None if one of them is not a finite number."""
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _is_continuous(numbers: Floats, distinct: int) -> bool:
    whole = bool((numbers == np.round(numbers)).all())
    return distinct > (_MOST_WHOLE if whole else _MOST_FRACTIONS)


def _classes(cells: Sequence[Any], numbers: Floats | None) -> tuple[tuple[str, ...], Integers]:
    found, which = np.unique(np.array(list(map(str, cells))) if numbers is None else numbers, return_inverse=True)
    words = found.tolist() if numbers is None else [f"{number:.15g}" for number in found]
    return tuple(words), which.astype(np.int64)


def _binned(numbers: Floats) -> tuple[tuple[str, ...], Integers]:
    """Bins of about equal counts; equal numbers share a bin."""
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, _BINS + 1)[1:-1]))
    which = np.searchsorted(edges, numbers, side="left")
    found, which = np.unique(which, return_inverse=True)
    words = [
        f"{numbers[which == index].min():.4g} to {numbers[which == index].max():.4g}" for index in range(len(found))
    ]
    return tuple(words), which.astype(np.int64)
