"""Tables as text, CSV, Markdown, LaTeX, HTML and JSON. Names come from users, so every format escapes them."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from alebrije.results.estimates import Estimate

Row = Mapping[str, Any]
Lines = Sequence[str]
INTERVAL = "95 % interval"
CHANCE = "may be chance"
WITHIN = " within"  # suffix of a column that says whether the 95 % interval of a difference includes zero
_PARTS = ("standard_error", "low", "high", "n")
_MORE_PARTS = ("spread", "left_out", "reason")  # only for the column "value"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # text that starts like this is a formula to a spreadsheet
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$#])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "[": "{[}",  # brackets and the star would be read as arguments of the preceding line break
    "]": "{]}",
    "*": "{*}",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def flatten(row: Row) -> dict[str, Any]:
    """A row of plain values: each part of an estimate becomes a column."""
    cells: dict[str, Any] = {}
    for name, cell in row.items():
        if not isinstance(cell, Estimate):
            cells[name] = cell
            continue
        prefix = "" if name == "value" else f"{name} "
        cells[name] = cell.value
        cells |= {f"{prefix}{part}": getattr(cell, part) for part in _PARTS}
        if name == "value":
            cells |= {part: getattr(cell, part) for part in _MORE_PARTS}
    return cells


def flattened_columns(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The columns of flattened rows."""
    sample = {name: next((row[name] for row in rows if isinstance(row.get(name), Estimate)), None) for name in columns}
    return list(flatten(sample))


def as_csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """CSV with every digit. Text that a spreadsheet would run as a formula gets a leading apostrophe.

    >>> print(as_csv(["model", "value"], [{"model": "=cmd()", "value": -0.5}]), end="")
    model,value
    '=cmd(),-0.5
    """
    names, out = flattened_columns(columns, rows), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_csv_cell(name) for name in names])
    for row in rows:
        cells = flatten(row)
        writer.writerow([_csv_cell(cells.get(name)) for name in names])
    return out.getvalue()


def as_json(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """JSON with a list of rows, where an estimate is an object."""
    plain = [
        {name: asdict(cell) if isinstance(cell := row.get(name), Estimate) else cell for name in columns}
        for row in rows
    ]
    return json.dumps({"columns": list(columns), "rows": plain}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A table in GitHub's Markdown."""
    names, cells = _escaped_cells(columns, rows, _in_markdown)
    lines = [names, ["---:" if right else "---" for right in _right_aligned(columns, rows)], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def as_latex(columns: Sequence[str], rows: Sequence[Row]) -> str:
    r"""A LaTeX `tabular` with booktabs rules."""
    names, cells = _escaped_cells(columns, rows, _in_latex)
    kinds = "".join("r" if right else "l" for right in _right_aligned(columns, rows))
    body = [" & ".join(line) + r" \\" for line in cells]
    head = ["% \\usepackage{booktabs}", f"\\begin{{tabular}}{{{kinds}}}", r"\toprule"]
    lines = [*head, " & ".join(names) + r" \\", r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def as_html(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """An HTML table for notebooks, without styles of its own.

    >>> as_html(["model"], [{"model": "<b>"}])
    '<table><thead><tr><th style="text-align: left">model</th></tr></thead><tbody><tr><td ...>&lt;b&gt;</td></tr>...'
    """
    names, cells = _escaped_cells(columns, rows, _in_html)
    sides = [f'style="text-align: {"right" if right else "left"}"' for right in _right_aligned(columns, rows)]
    head = "".join(f"<th {side}>{name}</th>" for name, side in zip(names, sides, strict=True))
    body = ("".join(f"<td {side}>{cell}</td>" for cell, side in zip(line, sides, strict=True)) for line in cells)
    lines = "".join(f"<tr>{line}</tr>" for line in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def as_text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Aligned columns of plain text."""
    names, cells, right = text_cells(columns, rows)
    return align_cells([[name] for name in names], [[[cell] for cell in line] for line in cells], right)


def text_cells(columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[list[str]], list[bool]]:
    """The headings and cells of a table as plain text, and which columns are right-aligned."""
    return *_escaped_cells(columns, rows, visible), _right_aligned(columns, rows)


def align_cells(
    names: Sequence[Lines], cells: Sequence[Sequence[Lines]], right: Sequence[bool], above: Sequence[Lines] = ()
) -> str:
    """Aligned columns of plain text; a heading or cell can have several lines.

    `above` holds the lines to print above each row; the rows are then indented.
    """
    from rich.cells import cell_len

    widths = [max(cell_len(line) for lines in column for line in lines) for column in zip(names, *cells, strict=True)]
    indent, text = "  " if above else "", list[str]()
    for row, title in zip_longest((names, [["─" * width] for width in widths], *cells), ((), (), *above), fillvalue=()):
        text += title
        for line in zip_longest(*row, fillvalue=""):
            gaps = [" " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)]
            padded = (g + c if r else c + g for c, g, r in zip(line, gaps, right, strict=True))
            text.append(f"{indent}{'  '.join(padded)}".rstrip())
    return "\n".join(text) + "\n"


def heading(name: str, columns: Collection[str]) -> str:
    """The heading of a column; a column that says whether a difference includes zero becomes "may be chance".

    >>> heading("b - a within", ["a", "b", "b - a", "b - a within"])
    'may be chance'
    """
    return CHANCE if name.endswith(WITHIN) and name.removesuffix(WITHIN) in columns else name


def _used(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The columns with any content, without the key, which is for programs."""
    return [name for name in columns if name != "key" and any(row.get(name) is not None for row in rows)]


def _escaped_cells(
    columns: Sequence[str], rows: Sequence[Row], escape: Callable[[str], str]
) -> tuple[list[str], list[list[str]]]:
    """The escaped headings and cells; the interval of a value gets its own column."""
    names = _used(columns, rows)
    table = [[cell_text(row.get(name)) for name in names] for row in rows]
    if "value" in names and any(_interval(row) for row in rows):
        at = names.index("value") + 1
        names = [*names[:at], INTERVAL, *names[at:]]
        table = [[*line[:at], _interval(row) or "", *line[at:]] for row, line in zip(rows, table, strict=True)]
    return [escape(heading(name, columns)) for name in names], [[escape(cell) for cell in line] for line in table]


def _right_aligned(columns: Sequence[str], rows: Sequence[Row]) -> list[bool]:
    """Whether each shown column is right-aligned, as numbers are."""
    right = []
    for name in _used(columns, rows):
        cells = [row[name] for row in rows if row.get(name) is not None]
        right.append(all(isinstance(cell, (int, float, Estimate)) and not isinstance(cell, bool) for cell in cells))
        if name == "value" and any(_interval(row) for row in rows):
            right.append(True)
    return right


def _interval(row: Row) -> str | None:
    value = row.get("value")
    return value.interval if isinstance(value, Estimate) else None


def cell_text(cell: Any) -> str:
    """A cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def visible(text: str) -> str:
    """Text on one line, with control and direction characters escaped."""
    text = re.sub(r"\s+", " ", text)
    hidden = (char for char in set(text) if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn"))
    for char in hidden:
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _in_markdown(text: str) -> str:
    text = _MARKDOWN.sub(r"\\\1", visible(text))
    return "".join(_HTML.get(char, char) for char in text)


def _in_html(text: str) -> str:
    return html.escape(visible(text))


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in visible(text))


def _csv_cell(cell: Any) -> Any:
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" \n").startswith(_FORMULA) else cell


FORMATS = {"text": as_text, "csv": as_csv, "markdown": as_markdown, "latex": as_latex, "json": as_json}
