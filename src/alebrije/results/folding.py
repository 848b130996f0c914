"""Tables for people: what all rows share is said once above them, so that the rest fits a page."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alebrije.results.estimates import Estimate
from alebrije.results.rendering import Row, as_rich, as_text, visible, words
from alebrije.results.tables import Table

WIDTH = 100
WHERE = "where"  # the column of labels that were put together
_APART = ("study", "model", "metric")  # labels that are never put together


def folded(table: Table, width: int = WIDTH) -> str:
    """The table as text of at most so many columns where that can be, a part for each study.

    What is the same in all rows stands above them, and so does that there is one seed only. A part that is still too
    wide has several labels in one column, and lines that break.

    >>> rows = [{"size": "tiny", "model": name, "value": Estimate(0.5, n=1)} for name in ("ae", "beta-vae")]
    >>> print(folded(Table(("size", "model", "value"), tuple(rows))))
    size=tiny; one seed each
    <BLANKLINE>
    model     value
    ────────  ─────
    ae        0.500
    beta-vae  0.500
    <BLANKLINE>
    """
    columns = [name for name in table.columns if name != "key"]
    rows = without_lone_seeds(table).rows
    shared = _shared(columns, rows)
    caption = "; ".join(filter(None, (_pairs(shared), "one seed each" if rows != table.rows else "")))
    left = [name for name in columns if name not in shared]
    parts = [_part(name, left, some, width) for name, some in _by_study(left, rows).items()]
    return "\n".join([f"{textwrap.fill(caption, width)}\n"] * bool(caption) + parts)


def _part(study: str, columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """The rows of one study, under its name; no name where there are no others."""
    shared = {} if not study else {"study": study} | _shared(columns, rows)
    told = _pairs({name: value for name, value in shared.items() if name != "study"})
    head = f"{study}{': ' if told else ''}{told}\n" if study else ""
    left = [name for name in columns if name not in shared]
    text = as_text(left, rows)
    if _width(text) > width:
        left, rows = _put_together(left, rows)
        text = as_text(left, rows)
    return head + (text if _width(text) <= width else _wrapped(left, rows, width))


def _by_study(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each study; all together where there is but one."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(str(row.get("study")), []).append(row)
    return parts if "study" in columns and len(parts) > 1 else {"": list(rows)}


def _shared(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, Any]:
    """The labels that all rows have in common; of a single row none, and never the metric."""
    found: dict[str, Any] = {}
    for name in columns if len(rows) > 1 else ():
        cells = [row.get(name) for row in rows]
        alike = all(type(cell) is type(cells[0]) and cell == cells[0] for cell in cells)
        if alike and not isinstance(cells[0], Estimate) and cells[0] is not None and name != "metric":
            found[name] = cells[0]
    values = [name for name in columns if any(isinstance(row.get(name), Estimate) for row in rows)]
    return {} if len(found) + len(values) == len(columns) else found  # a row needs a name


def without_lone_seeds(table: Table) -> Table:
    """The same table, without "(n=1)" behind each value where no value has more seeds."""
    cells = [cell for row in table.rows for cell in row.values() if isinstance(cell, Estimate)]
    if {cell.n for cell in cells if cell.value is not None} - {None} != {1}:
        return table
    bare = (
        {name: replace(cell, n=None) if isinstance(cell, Estimate) else cell for name, cell in row.items()}
        for row in table.rows
    )
    return Table(table.columns, tuple(bare))


def _put_together(columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Labels that only tell where a value was found, in one column."""
    values = [name for name in columns if any(isinstance(row.get(name), Estimate) for row in rows)]
    labels = columns[: columns.index(values[0])] if values else columns
    several = [name for name in labels if name not in _APART]
    if len(several) < 2:
        return list(columns), list(rows)
    place = columns.index(several[0])
    left = [name for name in columns if name not in several]
    left.insert(min(place, len(left)), WHERE)
    return left, [{**row, WHERE: _pairs({name: row.get(name) for name in several})} for row in rows]


def _wrapped(columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """Text whose lines break within the cells."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console

    table = as_rich(columns, rows)
    table.box, table.pad_edge = SIMPLE_HEAD, False
    for column in table.columns:
        column.overflow = "fold"
    console = Console(width=width, file=io.StringIO(), color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as caught:
        console.print(table)
    return "\n".join(line.rstrip() for line in caught.get().split("\n")).strip("\n") + "\n"


def _pairs(labels: dict[str, Any]) -> str:
    told = {name: visible(words(value)) for name, value in labels.items() if value is not None}
    return " ".join(f"{name}={value!r}" if " " in value else f"{name}={value}" for name, value in told.items())


def _width(text: str) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))
