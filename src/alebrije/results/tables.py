"""Tidy tables of results: one row for each value, chosen by a query, gathered over seeds, turned round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from alebrije.errors import InputError
from alebrije.results.cells import Result, Value
from alebrije.results.estimates import Estimate, mean_over_seeds
from alebrije.results.merging import merged
from alebrije.results.query import choose, parse, unmet
from alebrije.results.rendering import as_csv, as_json, as_latex, as_markdown, as_rich, as_text, flat, flat_columns

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Row = Mapping[str, Any]
Format = Literal["text", "csv", "markdown", "latex", "json"]
RENDERINGS = {"text": as_text, "csv": as_csv, "markdown": as_markdown, "latex": as_latex, "json": as_json}
SEED = "seed"


@dataclass(frozen=True)
class Table:
    """Rows and the order of their columns. A cell of a column is a label, or an `Estimate`."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self.render("text")

    def where(self, query: str) -> Table:
        """The rows for which all conditions of a query hold, such as `model=beta-vae metric=SNC alpha>=0.4`."""
        conditions = parse(query, flat_columns(self.columns, self.rows))
        kept = choose([flat(row) for row in self.rows], conditions)
        return Table(self.columns, tuple(row for row, keep in zip(self.rows, kept, strict=True) if keep))

    def unmet(self, query: str) -> list[str]:
        """What a query asks for that no row has, in sentences: a value that is misspelt, most likely."""
        return unmet([flat(row) for row in self.rows], parse(query, flat_columns(self.columns, self.rows)))

    def over_seeds(self, seed: str = SEED) -> Table:
        """One row for all seeds: n, mean, standard error and 95 % interval by Student's t.

        Rows that are alike in everything the table shows, the seed too, are refused: their inputs differ in something
        that is no label, and their mean would hide it.
        """
        columns = tuple(name for name in self.columns if name not in (seed, "value", "key"))
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(_place(row, columns), []).append(row)
        for rows in groups.values():
            seeds = [_exact(row.get(seed)) for row in rows]
            if len(set(seeds)) < len(seeds):
                raise _alike(rows[0], (*columns, seed))
        means = (
            {name: rows[0].get(name) for name in columns} | {"value": mean_over_seeds([row["value"] for row in rows])}
            for rows in groups.values()
        )
        return Table((*columns, "value"), tuple(means))

    def pivot(self, rows: str | Sequence[str], columns: str | Sequence[str]) -> Table:
        """A column for each value of `columns`, a row for each of `rows`; seeds are gathered first.

        Every other column must be the same in all rows that have it, lest a cell stand for several values.
        """
        down, across = ((names,) if isinstance(names, str) else tuple(names) for names in (rows, columns))
        gathered = self if SEED in (*down, *across) else self.over_seeds()
        for name in (*down, *across):
            parse(f"{name}=none", [each for each in gathered.columns if each not in ("value", "key")])
        for name in gathered.columns:
            others = {_exact(row.get(name)) for row in gathered.rows if row.get(name) is not None}
            if name not in (*down, *across, "value", "key") and len(others) > 1:
                raise InputError(f"{name} has {len(others)} values; put it among the rows or columns, or choose one")
        heads = {_place(row, across): " / ".join(_head(row.get(name)) for name in across) for row in gathered.rows}
        order = _in_order(gathered.rows, across)
        if len(set(heads.values())) < len(heads) or set(heads.values()) & set(down):
            heads = {place: f"{head} ({number})" for number, (place, head) in enumerate(heads.items(), 1)}
        turned: dict[tuple[Any, ...], dict[str, Any]] = {}
        for place in _in_order(gathered.rows, down):
            turned[place] = {}
        for row in gathered.rows:
            line = turned[_place(row, down)]
            line.update({name: row.get(name) for name in down})
            head = heads[_place(row, across)]
            if head in line:
                raise _alike(row, [name for name in gathered.columns if name not in ("value", "key")])
            line[head] = row["value"]
        return Table((*down, *(heads[place] for place in order)), tuple(turned.values()))

    def render(self, form: Format = "text") -> str:
        """The table as plain text, CSV, Markdown, LaTeX or JSON."""
        if form not in RENDERINGS:
            raise InputError(f"a table can be written as {', '.join(RENDERINGS)}, not as {form!r}")
        return RENDERINGS[form](self.columns, self.rows)

    def rich(self) -> RichTable:
        """The table for a terminal."""
        return as_rich(self.columns, self.rows)


def table(results: Iterable[Result], query: str | None = None) -> Table:
    """One row for each value of each result that was done: its study, its labels, the metric and the value.

    Results that differ only in which metrics were asked for are one.

    >>> from alebrije.results import Cell, Result
    >>> def found(seed: int, score: float) -> Result:
    ...     cell = Cell(study="neurons", labels={"model": "ae", "seed": seed}, inputs={"seed": seed})
    ...     return Result.done(cell, {"SNC": score}, seconds=1)
    >>> print(table([found(0, 0.5), found(1, 0.6)], "metric=snc").over_seeds())
    study    model  metric                value   95 % interval
    ...
    neurons  ae     SNC     0.550 ± 0.050 (n=2)  -0.09 to 1.19
    """
    done = merged(result for result in results if result.status == "done")
    labels = tuple(dict.fromkeys(name for result in done for name in result.cell.labels))
    rows = [
        {"study": result.cell.study}
        | {name: result.cell.labels.get(name) for name in labels}
        | {"metric": metric, "value": estimate(value), "key": result.key}
        for result in done
        for metric, value in result.values.items()
    ]
    whole = Table(("study", *labels, "metric", "value", "key"), tuple(rows))
    return whole.where(query) if query else whole


def estimate(value: Value) -> Estimate:
    """A stored value as tables have it."""
    low, high = (value.interval.low, value.interval.high) if value.interval else (None, None)
    known = value.standard_error is not None or low is not None
    return Estimate(value.score, value.standard_error, low, high, None, "cases" if known else None, 0, value.reason)


def _exact(value: Any) -> tuple[bool, Any]:
    """Equal only if Python's True and 1 are both, too."""
    return isinstance(value, bool), value


def _place(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_exact(row.get(name)) for name in columns)


def _in_order(rows: Sequence[Row], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The places of all rows, column by column: numbers by size, words as they first come."""
    places = dict.fromkeys(_place(row, columns) for row in rows)
    ranks = []
    for found in zip(*places, strict=True):
        values = list(dict.fromkeys(found))
        if all(isinstance(value, (int, float)) for _, value in values):
            values.sort(key=lambda exact: exact[1])
        ranks.append({value: rank for rank, value in enumerate(values)})
    return sorted(places, key=lambda place: [rank[value] for rank, value in zip(ranks, place, strict=True)])


def _head(value: Any) -> str:
    return "none" if value is None else str(value)


def _alike(row: Row, columns: Sequence[str]) -> InputError:
    told = " ".join(f"{name}={row[name]}" for name in columns if row.get(name) is not None)
    return InputError(
        f"two results have the same labels ({told}) but other inputs; "
        "choose one by a query, or give the cells a label in which they differ"
    )
