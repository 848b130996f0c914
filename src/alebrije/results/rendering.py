"""Tables as text, CSV, Markdown, LaTeX and JSON. Names come from users, so every rendering escapes them."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from alebrije.results.estimates import Estimate

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Row = Mapping[str, Any]
Lines = Sequence[str]
INTERVAL = "95 % interval"
CHANCE = "may be chance"
WITHIN = " within"  # after the name of a difference: whether zero lies in its 95 % interval
_PARTS = ("standard_error", "low", "high", "n")
_ALSO = ("spread", "left_out", "reason")  # only of the column "value"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes text for a formula that begins like this
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
    "[": "{[}",  # these and the star would be read as arguments of the line break before them
    "]": "{]}",
    "*": "{*}",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def flat(row: Row) -> dict[str, Any]:
    """A row of plain values: an estimate becomes a column for each of its parts."""
    cells: dict[str, Any] = {}
    for name, cell in row.items():
        if not isinstance(cell, Estimate):
            cells[name] = cell
            continue
        before = "" if name == "value" else f"{name} "
        cells[name] = cell.value
        cells |= {f"{before}{part}": getattr(cell, part) for part in _PARTS}
        if name == "value":
            cells |= {part: getattr(cell, part) for part in _ALSO}
    return cells


def flat_columns(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The columns of flat rows."""
    sample = {name: next((row[name] for row in rows if isinstance(row.get(name), Estimate)), None) for name in columns}
    return list(flat(sample))


def as_csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Every digit of every value. Text that a spreadsheet would run as a formula has an apostrophe before it.

    >>> print(as_csv(["model", "value"], [{"model": "=cmd()", "value": -0.5}]), end="")
    model,value
    '=cmd(),-0.5
    """
    names, out = flat_columns(columns, rows), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_no_formula(name) for name in names])
    for row in rows:
        cells = flat(row)
        writer.writerow([_no_formula(cells.get(name)) for name in names])
    return out.getvalue()


def as_json(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A list of rows, in which an estimate is an object."""
    plain = [
        {name: asdict(cell) if isinstance(cell := row.get(name), Estimate) else cell for name in columns}
        for row in rows
    ]
    return json.dumps({"columns": list(columns), "rows": plain}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A table of GitHub's Markdown."""
    names, cells = _shown(columns, rows, _in_markdown)
    lines = [names, ["---:" if right else "---" for right in _right(columns, rows)], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def as_latex(columns: Sequence[str], rows: Sequence[Row]) -> str:
    r"""A `tabular` for LaTeX with the rules of booktabs."""
    names, cells = _shown(columns, rows, _in_latex)
    kinds = "".join("r" if right else "l" for right in _right(columns, rows))
    body = [" & ".join(line) + r" \\" for line in cells]
    head = ["% \\usepackage{booktabs}", f"\\begin{{tabular}}{{{kinds}}}", r"\toprule"]
    lines = [*head, " & ".join(names) + r" \\", r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def as_text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Columns of plain text."""
    names, cells, right = shown(columns, rows)
    return aligned([[name] for name in names], [[[cell] for cell in line] for line in cells], right)


def shown(columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[list[str]], list[bool]]:
    """The names and cells of a table as plain text, and which columns are numbers, which are set to the right."""
    return *_shown(columns, rows, visible), _right(columns, rows)


def aligned(
    names: Sequence[Lines], cells: Sequence[Sequence[Lines]], right: Sequence[bool], above: Sequence[Lines] = ()
) -> str:
    """Columns of plain text; every name and every cell may have several lines.

    `above` has lines for each row that stand above it; the rows are then indented.
    """
    from rich.cells import cell_len

    widths = [max(cell_len(line) for lines in column for line in lines) for column in zip(names, *cells, strict=True)]
    indent, text = "  " if above else "", list[str]()
    for row, title in zip_longest((names, [["─" * width] for width in widths], *cells), ((), (), *above), fillvalue=()):
        text += title
        for line in zip_longest(*row, fillvalue=""):
            gaps = [" " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)]
            set_out = (g + c if r else c + g for c, g, r in zip(line, gaps, right, strict=True))
            text.append(f"{indent}{'  '.join(set_out)}".rstrip())
    return "\n".join(text) + "\n"


def heading(name: str, columns: Collection[str]) -> str:
    """The name of a column as people read it: the verdict on a difference stands beside it, and says what it is.

    >>> heading("b - a within", ["a", "b", "b - a", "b - a within"])
    'may be chance'
    """
    return CHANCE if name.endswith(WITHIN) and name.removesuffix(WITHIN) in columns else name


def as_rich(columns: Sequence[str], rows: Sequence[Row]) -> RichTable:
    """A table for a terminal. Cells are text, never rich's markup."""
    from rich.table import Table
    from rich.text import Text

    names, cells = _shown(columns, rows, visible)
    table = Table()
    for name, right in zip(names, _right(columns, rows), strict=True):
        table.add_column(Text(name), justify="right" if right else "left")
    for line in cells:
        table.add_row(*map(Text, line))
    return table


def _used(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The columns that tell something; the key is for machines."""
    return [name for name in columns if name != "key" and any(row.get(name) is not None for row in rows)]


def _shown(
    columns: Sequence[str], rows: Sequence[Row], escape: Callable[[str], str]
) -> tuple[list[str], list[list[str]]]:
    """The names and the cells as people read them; the interval of a value stands in a column of its own."""
    names = _used(columns, rows)
    table = [[words(row.get(name)) for name in names] for row in rows]
    if "value" in names and any(_interval(row) for row in rows):
        place = names.index("value") + 1
        names = [*names[:place], INTERVAL, *names[place:]]
        table = [[*line[:place], _interval(row) or "", *line[place:]] for row, line in zip(rows, table, strict=True)]
    return [escape(heading(name, columns)) for name in names], [[escape(cell) for cell in line] for line in table]


def _right(columns: Sequence[str], rows: Sequence[Row]) -> list[bool]:
    """Whether a shown column is set to the right, as numbers are."""
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


def words(cell: Any) -> str:
    """A cell as people read it."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def visible(text: str) -> str:
    """Text on one line, in which what steers a terminal or turns writing round is spelled out."""
    text = re.sub(r"\s+", " ", text)
    hidden = (char for char in set(text) if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn"))
    for char in hidden:
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _in_markdown(text: str) -> str:
    text = _MARKDOWN.sub(r"\\\1", visible(text))
    return "".join(_HTML.get(char, char) for char in text)


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in visible(text))


def _no_formula(cell: Any) -> Any:
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" \n").startswith(_FORMULA) else cell
