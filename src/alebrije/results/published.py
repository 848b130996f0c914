"""The papers' tables, and which of their numbers belongs beside one of ours."""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from alebrije.errors import InputError
from alebrije.results.estimates import Estimate, student
from alebrije.results.links import LINKS, NOTES, PAPERS, TABLES, Column, Link

Printed = str | float | None
PublishedRow = Mapping[str, Printed]


@dataclass(frozen=True)
class Published:
    """A published number in our unit, and where it stands."""

    value: float
    standard_error: float | None
    n: int | None  # runs, where the paper says how many
    paper: str
    source: str
    unit: str  # how the paper's number became ours
    row: PublishedRow
    notes: tuple[str, ...] = ()

    @property
    def estimate(self) -> Estimate:
        """The number as our tables have them; its interval is by Student's t where the paper gives a spread."""
        if self.standard_error is None:
            return Estimate(self.value, n=self.n)
        reach = self.standard_error * student(self.n - 1 if self.n else math.inf)
        low, high = self.value - reach, self.value + reach
        return Estimate(self.value, self.standard_error, low, high, self.n, "seeds" if self.n else "cases")


@cache
def published(name: str) -> tuple[PublishedRow, ...]:
    """A published table as it was printed, in the papers' own units; every row says from which table it is.

    >>> dict(published("svib")[0])
    {'environment': 'dsprites', 'task': 'S-A', 'alpha': 0.6, 'model': 'I2I-CNN', 'metric': 'lpips', 'value': 0.0304,
     'source': 'Table 8'}
    """
    if name not in TABLES:
        near = difflib.get_close_matches(str(name), TABLES, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(TABLES)}"
        raise InputError(f"there is no published table {name!r}{hint}")
    text = files("alebrije.results").joinpath("published", f"{name}.csv").read_text("utf-8")
    return validated(name, text)


def validated(name: str, text: str) -> tuple[PublishedRow, ...]:
    """The rows of a table's CSV; a column, a type or a range that is not the table's is refused."""
    kinds = TABLES[name]
    lines = csv.DictReader(text.splitlines(), strict=True)
    if lines.fieldnames != list(kinds):
        raise InputError(f"{name}.csv: has the columns {lines.fieldnames}, not {list(kinds)}")
    rows = []
    for number, line in enumerate(lines, 2):
        if None in line or None in line.values():
            raise InputError(f"{name}.csv: line {number} has too many or too few cells")
        where = f"{name}.csv: line {number}"
        rows.append(MappingProxyType({at: _cell(line[at], kind, f"{where}, {at}") for at, kind in kinds.items()}))
    return tuple(rows)


def published_for(labels: Mapping[str, Any], metric: str) -> list[Published]:
    """The published numbers that belong beside a value of ours with these labels, in our unit.

    A label that we do not give leaves the choice open, so there may be several; those that a table cannot do without
    (see `links.py`) must be given. There is none where the paper has no such row, or printed no number in it.

    >>> labels = {"model": "i2i-vit", "world": "sprites", "rule": "S-A", "alpha": 0.6}
    >>> [(one.value, one.source) for one in published_for(labels, "out-of-distribution error")]
    [(24.72, 'Table 11')]
    >>> snc = published_for({"model": "beta-vae", "world": "dsprites"}, "SNC")
    >>> [(str(one.estimate), one.source) for one in snc]
    [('0.248 ± 0.014 (n=5)', 'Table 2')]
    """
    labels = {**labels, "metric": metric}
    found = []
    for link in LINKS:
        if _fold(metric) in map(_fold, link.metrics):
            ours = {column: _ours(link, column, labels) for column in link.columns}
            if _given(link, ours, labels):
                rows = (row for row in published(link.table) if _belongs(link, row, ours))
                found += [_converted(link, row) for row in rows if row[link.value] is not None]
    return found


def _given(link: Link, ours: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether our labels have what the table cannot do without, and nothing that it assumes otherwise."""
    return (
        all(ours[column] is not None for column in link.needs)
        and all(_fold(labels.get(name)) == _fold(wanted) for name, wanted in link.ours.items())
        and all(labels.get(name) in (None, wanted) for name, wanted in link.assumes.items())
    )


def _belongs(link: Link, row: PublishedRow, ours: Mapping[str, Any]) -> bool:
    """Whether a row is of what our labels say; one that we lack, and an empty cell, are open to all."""
    return link.only.items() <= row.items() and all(
        label is None or row[column] is None or _same(label, row[column]) for column, label in ours.items()
    )


def _ours(link: Link, column: str, labels: Mapping[str, Any]) -> Any:
    """Our label for a column of theirs, in their word."""
    label = next((labels[name] for name in link.columns[column] if labels.get(name) is not None), None)
    words = {_fold(ours): theirs for ours, theirs in link.words.get(column, {}).items()}
    return words.get(_fold(label), label)


def _same(ours: Any, theirs: Printed) -> bool:
    if isinstance(theirs, float):
        try:
            return math.isclose(float(ours), theirs, abs_tol=1e-9)
        except (TypeError, ValueError):
            return False
    return _fold(ours) == _fold(theirs)


def _fold(name: Any) -> str:
    """A name without what spellings differ in: `beta-VAE`, `beta_vae` and `BetaVAE` are one."""
    return _folded(str(name))


@lru_cache(maxsize=4096)
def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _converted(link: Link, row: PublishedRow) -> Published:
    value = row[link.value]
    spread = row[link.spread] if link.spread else None
    assert isinstance(value, float)
    runs = link.runs if spread is not None else None  # pixels have no seeds
    error = spread * link.scale if isinstance(spread, float) else None
    if error is not None and link.spread_is == "standard deviation":
        error = error / math.sqrt(runs) if runs else None
    elif link.spread_is != "standard error":
        error = None  # the paper does not say what its spread is
    notes = (text for table, rows, text in NOTES if table == link.table and rows.items() <= row.items())
    return Published(
        value=round(value * link.scale, 12),  # 24.8 % is 0.248, not 0.24800000000000003
        standard_error=error,
        n=runs,
        paper=PAPERS[link.table],
        source=str(row["source"]),
        unit=link.unit,
        row=row,
        notes=(*link.notes, *notes),
    )


def _cell(text: str, kind: Column, where: str) -> Printed:
    if text == "":
        if kind.optional:
            return None
        raise InputError(f"{where}: is empty")
    if kind.words is not None:
        if kind.words and text not in kind.words:
            raise InputError(f"{where}: must be one of {', '.join(kind.words)}, not {text!r}")
        return text
    try:
        number = float(text)
    except ValueError:
        raise InputError(f"{where}: must be a number, not {text!r}") from None
    if not (math.isfinite(number) and kind.low <= number <= kind.high):
        raise InputError(f"{where}: must lie in {kind.low:g} to {kind.high:g}, not be {text}")
    return number
