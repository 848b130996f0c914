"""Tidy tables of results: one row per value, filtered by a query, averaged over seeds, or pivoted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from alebrije.errors import InputError
from alebrije.results.cells import Result
from alebrije.results.estimates import Estimate, mean_over_seeds
from alebrije.results.formats import FORMATS, Row, as_html, flatten, flattened_columns
from alebrije.results.merge import merge_results
from alebrije.results.query import all_hold, parse_query, unmatched_values

Format = Literal["text", "csv", "markdown", "latex", "json"]
SEED = "seed"


@dataclass(frozen=True)
class ResultTable:
    """Rows and the order of their columns. A cell is a label or an `Estimate`."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self.render("text")

    def where(self, query: str) -> ResultTable:
        """The rows that meet all conditions of a query, such as `model=beta-vae metric=SNC alpha>=0.4`."""
        conditions = parse_query(query, flattened_columns(self.columns, self.rows))
        return ResultTable(self.columns, tuple(row for row in self.rows if all_hold(flatten(row), conditions)))

    def unmet(self, query: str) -> list[str]:
        """A sentence for each value in a query that no row has, which is probably misspelt."""
        conditions = parse_query(query, flattened_columns(self.columns, self.rows))
        return unmatched_values([flatten(row) for row in self.rows], conditions)

    def over_seeds(self, seed: str = SEED) -> ResultTable:
        """One row for all seeds: n, mean, standard error and 95 % interval by Student's t.

        Raise an InputError if two rows have the same labels and seed: their inputs differ in something that is not a
        label, and a mean would hide it.
        """
        columns = tuple(name for name in self.columns if name not in (seed, "value", "key"))
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(_row_key(row, columns), []).append(row)
        for rows in groups.values():
            seeds = [_exact(row.get(seed)) for row in rows]
            if len(set(seeds)) < len(seeds):
                raise _same_labels(rows[0], (*columns, seed))
        means = (
            {name: rows[0].get(name) for name in columns} | {"value": mean_over_seeds([row["value"] for row in rows])}
            for rows in groups.values()
        )
        return ResultTable((*columns, "value"), tuple(means))

    def pivot(self, rows: str | Sequence[str], columns: str | Sequence[str]) -> ResultTable:
        """One column for each value of `columns`, one row for each value of `rows`, averaged over seeds first.

        Raise an InputError if any other label has several values: a cell would then stand for several values.
        """
        down, across = ((names,) if isinstance(names, str) else tuple(names) for names in (rows, columns))
        averaged = self if SEED in (*down, *across) else self.over_seeds()
        labels = [name for name in averaged.columns if name not in ("value", "key")]
        for name in (*down, *across):
            parse_query(f"{name}=none", labels)
        for name in labels:
            others = {_exact(row.get(name)) for row in averaged.rows if row.get(name) is not None}
            if name not in (*down, *across) and len(others) > 1:
                raise InputError(f"{name} has {len(others)} values; add it to the rows or columns, or choose one value")
        heads = {_row_key(row, across): " / ".join(_head(row.get(name)) for name in across) for row in averaged.rows}
        if len(set(heads.values())) < len(heads) or set(heads.values()) & set(down):
            heads = {key: f"{head} ({number})" for number, (key, head) in enumerate(heads.items(), 1)}
        pivoted: dict[tuple[Any, ...], dict[str, Any]] = {key: {} for key in _sorted_keys(averaged.rows, down)}
        for row in averaged.rows:
            line = pivoted[_row_key(row, down)]
            line.update({name: row.get(name) for name in down})
            head = heads[_row_key(row, across)]
            if head in line:
                raise _same_labels(row, labels)
            line[head] = row["value"]
        order = _sorted_keys(averaged.rows, across)
        return ResultTable((*down, *(heads[key] for key in order)), tuple(pivoted.values()))

    def render(self, form: Format = "text") -> str:
        """The table as plain text, CSV, Markdown, LaTeX or JSON."""
        if form not in FORMATS:
            raise InputError(f"there is no table format {form!r}; choose from {', '.join(FORMATS)}")
        return FORMATS[form](self.columns, self.rows)

    def to_latex(self) -> str:
        r"""A LaTeX `tabular` with booktabs rules."""
        return self.render("latex")

    def to_pandas(self) -> Any:
        """A pandas DataFrame with every digit: the parts of an estimate are columns of their own. Needs pandas."""
        try:
            import pandas  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise InputError("to_pandas needs pandas; install it with: pip install pandas") from None
        columns = flattened_columns(self.columns, self.rows)
        return pandas.DataFrame([flatten(row) for row in self.rows], columns=columns)

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        columns = [name for name in self.columns if name != "key"]
        return as_html([name for name in columns if any(row.get(name) is not None for row in self.rows)], self.rows)


def result_table(results: Iterable[Result], query: str | None = None) -> ResultTable:
    """One row for each value of each computed result: its study, labels, metric and value.

    Results that differ only in the requested metrics are merged.

    >>> from alebrije.results import Cell, Result
    >>> def result(seed: int, score: float) -> Result:
    ...     cell = Cell(study="neurons", labels={"model": "ae", "seed": seed}, inputs={"seed": seed})
    ...     return Result.done(cell, {"SNC": score}, seconds=1)
    >>> print(result_table([result(0, 0.5), result(1, 0.6)], "metric=snc").over_seeds())
    study    model  metric                value   95 % interval
    ...
    neurons  ae     SNC     0.550 ± 0.050 (n=2)  -0.09 to 1.19
    """
    done = merge_results(result for result in results if result.status == "done")
    labels = tuple(dict.fromkeys(name for result in done for name in result.cell.labels))
    rows = [
        {"study": result.cell.study}
        | {name: result.cell.labels.get(name) for name in labels}
        | {"metric": metric, "value": Estimate.from_value(value), "key": result.key}
        for result in done
        for metric, value in result.values.items()
    ]
    table = ResultTable(("study", *labels, "metric", "value", "key"), tuple(rows))
    return table.where(query) if query else table


def _exact(value: Any) -> tuple[bool, Any]:
    """A key that distinguishes True from 1, which are equal in Python."""
    return isinstance(value, bool), value


def _row_key(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_exact(row.get(name)) for name in columns)


def _sorted_keys(rows: Sequence[Row], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The keys of all rows, sorted column by column: numbers by size, words by first appearance."""
    keys = dict.fromkeys(_row_key(row, columns) for row in rows)
    ranks = []
    for column in zip(*keys, strict=True):
        values = list(dict.fromkeys(column))
        if all(isinstance(value, (int, float)) for _, value in values):
            values.sort(key=lambda exact: exact[1])
        ranks.append({value: rank for rank, value in enumerate(values)})
    return sorted(keys, key=lambda key: [rank[value] for rank, value in zip(ranks, key, strict=True)])


def _head(value: Any) -> str:
    return "none" if value is None else str(value)


def _same_labels(row: Row, columns: Sequence[str]) -> InputError:
    labels = " ".join(f"{name}={row[name]}" for name in columns if row.get(name) is not None)
    return InputError(
        f"two results have the same labels ({labels}) but different inputs; "
        "choose one with a query, or give the cells a label that differs"
    )
