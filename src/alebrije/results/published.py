"""The papers' tables, and which published number matches one of our values."""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from alebrije.errors import InputError
from alebrije.results.estimates import Estimate, t_quantile
from alebrije.results.published_notes import NOTES, STAND_INS
from alebrije.results.published_tables import LINKS, PAPERS, TABLES, Column, Link
from alebrije.suggest import did_you_mean

PublishedCell = str | float | None
PublishedRow = Mapping[str, PublishedCell]
_ABOUT_MODELS = {"model", "variant", "train_set", "trained_on"}  # labels that tell models apart, not settings


@dataclass(frozen=True)
class Published:
    """A published number in our unit, and its source."""

    value: float
    standard_error: float | None
    n: int | None  # runs, if the paper says how many
    paper: str
    source: str
    unit: str  # how the paper's unit was converted to ours
    row: PublishedRow
    notes: tuple[str, ...] = ()

    @property
    def estimate(self) -> Estimate:
        """The number as an `Estimate`, with an interval by Student's t if the paper gives a spread."""
        if self.standard_error is None:
            return Estimate(self.value, n=self.n)
        margin = self.standard_error * t_quantile(self.n - 1 if self.n else math.inf)
        low, high = self.value - margin, self.value + margin
        return Estimate(self.value, self.standard_error, low, high, self.n, "seeds" if self.n else "cases")


@cache
def published(name: str) -> tuple[PublishedRow, ...]:
    """A published table as printed, in the paper's own units; every row names its table in `source`.

    >>> dict(published("svib")[0])
    {'environment': 'dsprites', 'task': 'S-A', 'alpha': 0.6, 'model': 'I2I-CNN', 'metric': 'lpips', 'value': 0.0304,
     'source': 'Table 8'}
    """
    if name not in TABLES:
        raise InputError(f"there is no published table {name!r}{did_you_mean(name, TABLES)}")
    text = files("alebrije.results").joinpath("published", f"{name}.csv").read_text("utf-8")
    return parse_table(name, text)


def parse_table(name: str, text: str) -> tuple[PublishedRow, ...]:
    """The rows of a table's CSV; an InputError for a wrong column, type or range."""
    kinds = TABLES[name]
    lines = csv.DictReader(text.splitlines(), strict=True)
    if lines.fieldnames != list(kinds):
        raise InputError(f"{name}.csv: has the columns {lines.fieldnames}, not {list(kinds)}")
    rows = []
    for number, line in enumerate(lines, 2):
        if None in line or None in line.values():
            raise InputError(f"{name}.csv: line {number} has too many or too few cells")
        where = f"{name}.csv: line {number}"
        rows.append(MappingProxyType({key: _cell(line[key], kind, f"{where}, {key}") for key, kind in kinds.items()}))
    return tuple(rows)


def published_for(labels: Mapping[str, Any], metric: str) -> list[Published]:
    """The published numbers, in our unit, that match a value of ours with these labels.

    A missing label matches everything, so there can be several numbers; labels that a table needs (see
    `published_tables.py`) must be given. The list is empty if the paper has no such row or no number in it.

    >>> labels = {"model": "i2i-vit", "world": "sprites", "rule": "S-A", "alpha": 0.6}
    >>> [(number.value, number.source) for number in published_for(labels, "out-of-distribution error")]
    [(24.72, 'Table 11')]
    >>> snc = published_for({"model": "beta-vae", "world": "dsprites"}, "SNC")
    >>> [(str(number.estimate), number.source) for number in snc]
    [('0.248 ± 0.014 (n=5)', 'Table 2')]
    """
    labels = {**labels, "metric": metric}
    matches = []
    for link in LINKS:
        if _normalise(metric) in map(_normalise, link.metrics):
            ours = {column: _our_label(link, column, labels) for column in link.columns}
            if _labels_suffice(link, ours, labels):
                notes = [text for world, text in STAND_INS.items() if world in _datasets(link, labels).values()]
                numbers = _convert_all(link, (row for row in _rows_of(link) if _row_matches(row, ours)))
                matches += [replace(number, notes=(*number.notes, *notes)) for number in numbers]
    return matches


def published_words(labels: Mapping[str, Any], metric: str, column: str) -> tuple[str, ...]:
    """The words in another column of the rows that match a value of ours, also where the paper prints no number.

    >>> published_words({"model": "beta-tcvae", "corpus": "occluded", "train_set": "iid"}, "coat", "hn_l2")
    ('fail',)
    """
    labels = {**labels, "metric": metric}
    found: dict[str, None] = {}
    for link in LINKS:
        ours = {name: _our_label(link, name, labels) for name in link.columns}
        if _normalise(metric) in map(_normalise, link.metrics) and _labels_suffice(link, ours, labels):
            matching = (row for row in _rows_of(link) if _row_matches(row, ours))
            found |= {str(row[column]): None for row in matching if row.get(column) is not None}
    return tuple(found)


def published_models(labels: Mapping[str, Any], metric: str) -> list[Published]:
    """The papers' numbers for all their models in the setting of these labels, in our unit.

    The notes say where the setting of these labels differs from the paper's.

    >>> snc = published_models({"model": "mine", "world": "dsprites", "size": "small"}, "SNC")
    >>> sorted((number.value, number.row["model"]) for number in snc)[-1]
    (0.413, 'beta-TCVAE')
    >>> snc[0].notes
    ("our size is 'small', not the paper's",)
    """
    setting = {name: value for name, value in labels.items() if name not in _ABOUT_MODELS} | {"metric": metric}
    found = []
    for link in LINKS:
        columns = {column: names for column, names in link.columns.items() if not _ABOUT_MODELS & set(names)}
        ours = {column: _our_label(link, column, setting) for column in columns}
        needed = (ours[column] is not None for column in link.needs if column in columns)
        known_metric = _normalise(metric) in map(_normalise, link.metrics)
        if known_metric and "model" in link.columns and all(needed):
            notes = _protocol_differences(link, labels, ours)
            numbers = _convert_all(link, (row for row in _rows_of(link) if _row_matches(row, ours)))
            found += [replace(number, notes=(*number.notes, *notes)) for number in numbers]
    return found


def _protocol_differences(link: Link, labels: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """How the setting of our labels differs from that of a published table, in words."""
    notes = []
    if labels.get("size") not in (None, "paper"):
        notes.append(f"our size is {labels['size']!r}, not the paper's")
    for name, theirs in link.assumes.items():
        if labels.get(name) not in (None, theirs):
            notes.append(f"our {name.replace('_', ' ')}: {labels[name]}, the paper's: {theirs}")
    if labels.get("drawn_by") == "head":
        notes.append("a head draws our images from frozen codes; the paper's models predict by themselves")
    for column, own in _datasets(link, labels).items():
        if _normalise(own) != _normalise(ours.get(column)):
            notes.append(STAND_INS.get(str(own), f"our {own} is a rendering of {ours[column]}"))
    return notes


def _datasets(link: Link, labels: Mapping[str, Any]) -> dict[str, Any]:
    """Our label for each column that names a dataset."""
    found = {
        column: next((labels[name] for name in names if labels.get(name) is not None), None)
        for column, names in link.columns.items()
        if column in ("dataset", "environment", "scope")
    }
    return {column: own for column, own in found.items() if own is not None}


def _labels_suffice(link: Link, ours: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether our labels include all that the table needs, and contradict nothing that it assumes."""
    return (
        all(ours[column] is not None for column in link.needs)
        and all(_normalise(labels.get(name)) == _normalise(wanted) for name, wanted in link.ours.items())
        and all(labels.get(name) in (None, wanted) for name, wanted in link.assumes.items())
    )


def _rows_of(link: Link) -> tuple[PublishedRow, ...]:
    """The rows that a link is about."""
    return _rows_with(link.table, tuple(link.only.items()))


@cache
def _rows_with(table: str, cells: tuple[tuple[str, str], ...]) -> tuple[PublishedRow, ...]:
    return tuple(row for row in published(table) if dict(cells).items() <= row.items())


def _row_matches(row: PublishedRow, ours: Mapping[str, Any]) -> bool:
    """Whether a row matches our labels; a missing label and an empty cell match everything."""
    return all(label is None or row[column] is None or _same(label, row[column]) for column, label in ours.items())


def _our_label(link: Link, column: str, labels: Mapping[str, Any]) -> Any:
    """Our label for a column of the paper, in the paper's word."""
    label = next((labels[name] for name in link.columns[column] if labels.get(name) is not None), None)
    words = {_normalise(ours): theirs for ours, theirs in link.words.get(column, {}).items()}
    return words.get(_normalise(label), label)


def _same(ours: Any, theirs: PublishedCell) -> bool:
    if isinstance(theirs, float):
        try:
            return math.isclose(float(ours), theirs, abs_tol=1e-9)
        except (TypeError, ValueError):
            return False
    return _normalise(ours) == _normalise(theirs)


def _normalise(name: Any) -> str:
    """A name without case and punctuation: `beta-VAE`, `beta_vae` and `BetaVAE` become equal."""
    return _normalise_text(str(name))


@lru_cache(maxsize=4096)
def _normalise_text(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _convert_all(link: Link, rows: Iterable[PublishedRow]) -> list[Published]:
    """The numbers of these rows; one for all runs of the same thing."""
    known = [row for row in rows if row[link.value] is not None]
    if link.run is None:
        return [_convert(link, row) for row in known]
    alike: dict[tuple[PublishedCell, ...], list[PublishedRow]] = {}
    for row in known:
        alike.setdefault(tuple(row[name] for name in row if name not in (link.run, link.value)), []).append(row)
    return [_mean_of_runs(link, runs) for runs in alike.values()]


def _mean_of_runs(link: Link, rows: Sequence[PublishedRow]) -> Published:
    """The mean over the runs of a table, with the standard error that their spread gives."""
    each = [_convert(link, row) for row in rows]
    if len(each) == 1:
        return each[0]
    values = [one.value for one in each]
    return replace(
        each[0],
        value=round(statistics.fmean(values), 12),
        standard_error=statistics.stdev(values) / math.sqrt(len(values)),
        n=len(values),
        source=f"{each[0].source}, mean of {len(values)} runs",
        notes=tuple(dict.fromkeys(note for one in each for note in one.notes)),
    )


def _convert(link: Link, row: PublishedRow) -> Published:
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


def _cell(text: str, kind: Column, where: str) -> PublishedCell:
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
        raise InputError(f"{where}: must be in {kind.low:g} to {kind.high:g}, not {text}")
    return number
