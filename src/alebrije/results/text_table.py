"""Text tables that fit a width: labels that all rows share are printed once, above the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alebrije.results.compare import PUBLISHED
from alebrije.results.estimates import Estimate
from alebrije.results.formats import (
    CHANCE,
    WITHIN,
    Lines,
    Row,
    align_cells,
    as_text,
    cell_text,
    heading,
    text_cells,
    visible,
)
from alebrije.results.tables import ResultTable

WIDTH = 100
WHERE = "where"  # the column of joined labels
REMARK = "remark"  # the column of footnote numbers
_WORD = re.compile(r"""[^\s=]+=(?:'[^']*'|"[^"]*")\S*|\S+(?: (?:±|\.\.) \S+)?(?: \(n=\d+\))?(?: %)?""")
_BREAK = re.compile(r"""(?<=[^±.] )(?!±|%|\.\.|\(n=)|(?<=[\w)\]'"][;,/+:-])(?=[^\W\d]|['"(\[])""")
_MOST_REASONS, _MOST_ROWS = 5, 3
_CHANCE = f"{CHANCE}: yes if the 95 % interval of the difference to its left includes zero"
_NEVER_JOINED = ("study", "model", "metric")


def fit_to_width(table: ResultTable, width: int = WIDTH) -> str:
    """The table as text of at most `width` characters if possible, with one part per study.

    Shared labels, and a note if every value has one seed, are printed above the rows. A part that is still too wide
    joins labels in one column and wraps cells, or prints labels on lines above the values, or becomes a stack of small
    tables, one per compared run. Lines never break within a word or a number; if nothing helps, the text is wider.
    Footnotes explain verdicts and missing values.

    >>> rows = [{"size": "tiny", "model": name, "value": Estimate(0.5, n=1)} for name in ("ae", "beta-vae")]
    >>> print(fit_to_width(ResultTable(("size", "model", "value"), tuple(rows))))
    size=tiny; one seed each
    <BLANKLINE>
    model     value
    ────────  ─────
    ae        0.500
    beta-vae  0.500
    <BLANKLINE>
    """
    columns = [name for name in table.columns if name != "key"]
    rows = hide_single_seeds(table).rows
    shared = _shared(columns, rows)
    caption = "; ".join(filter(None, (_pairs(shared), "one seed each" if rows != table.rows else "")))
    others = [name for name in columns if name not in shared]
    parts = [_part(study, others, part, width) for study, part in _by_study(others, rows).items()]
    notes = "".join(_paragraph(line, width, "  ") for line in _footnotes(table))
    return "\n".join([_paragraph(caption, width)] * bool(caption) + parts + [notes] * bool(notes))


def _part(study: str, columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """The rows of one study under its name; without a name if it is the only study."""
    shared = {} if not study else {"study": study} | _shared(columns, rows)
    labels = _pairs({name: value for name, value in shared.items() if name != "study"})
    head = _paragraph(f"{study}{': ' if labels else ''}{labels}", width) if study else ""
    return head + _fitted([name for name in columns if name not in shared], rows, width)


def _fitted(columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """One table if it fits without breaking words, otherwise a stack of small tables; remarks come below."""
    text = as_text(columns, rows)
    if _width(text) <= width:
        return text
    columns, rows, remarks = _with_remarks(columns, rows)
    text = _one_table(columns, rows, width, whole_words=True)
    if _width(text) > width:
        stack = _stack(columns, rows, width)
        parts = ([row for row in rows if len(stack) == 1 or _has_values(names, row)] for names in stack)
        text = "\n".join(_one_table(names, part, width) for names, part in zip(stack, parts, strict=True))
    return text + "".join(["\n"] * bool(remarks) + [_paragraph(remark, width, "  ") for remark in remarks])


def _with_remarks(columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row], list[str]]:
    """Replace texts after the values, such as sources, by footnote numbers; return the footnotes too."""
    values = _value_columns(columns, rows)
    after = columns[columns.index(values[0]) :] if values else ()
    texts = [name for name in after if name not in values and heading(name, columns) != CHANCE]
    if not texts:
        return list(columns), list(rows), []
    numbers: dict[str, str] = {}
    remarks = ["; ".join(visible(cell_text(row[name])) for name in texts if row.get(name)) for row in rows]
    for remark in filter(None, remarks):
        numbers.setdefault(remark, f"[{len(numbers) + 1}]")
    others = [*(name for name in columns if name not in texts), REMARK]
    numbered: list[Row] = [{**row, REMARK: numbers.get(remark)} for row, remark in zip(rows, remarks, strict=True)]
    return others, numbered, [f"{number} {remark}" for remark, number in numbers.items()]


def _one_table(columns: Sequence[str], rows: Sequence[Row], width: int, whole_words: bool = False) -> str:
    """One table: unchanged if it fits, otherwise the shorter of one with wrapped cells and one with labels above."""
    text = as_text(columns, rows)
    if _width(text) <= width:
        return text
    joined = _join_labels(columns, rows)
    texts = [_wrapped(*joined, width, whole_words=True), _under_labels(columns, rows, width, whole_words)]
    if not whole_words:
        texts.append(_wrapped(*joined, width))
    fitting = [text for text in texts if _width(text) <= width]
    return min(fitting, key=lambda text: text.count("\n")) if fitting else min(texts, key=_width)


def _by_study(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each study; all rows under an empty name if there is only one."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(str(row.get("study")), []).append(row)
    return parts if "study" in columns and len(parts) > 1 else {"": list(rows)}


def _shared(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, Any]:
    """The labels that all rows share; none for a single row, and never the metric or a verdict."""
    shared: dict[str, Any] = {}
    for name in columns if len(rows) > 1 else ():
        cells = [row.get(name) for row in rows]
        same = all(type(cell) is type(cells[0]) and cell == cells[0] for cell in cells)
        stays = isinstance(cells[0], Estimate) or name == "metric" or heading(name, columns) == CHANCE
        if same and cells[0] is not None and not stays:
            shared[name] = cells[0]
    values = _value_columns(columns, rows)
    return {} if len(shared) + len(values) == len(columns) else shared  # a row needs a name


def hide_single_seeds(table: ResultTable) -> ResultTable:
    """The same table without "(n=1)" after each value, if no value has more seeds."""
    cells = [cell for row in table.rows for cell in row.values() if isinstance(cell, Estimate)]
    if {cell.n for cell in cells if cell.value is not None} - {None} != {1}:
        return table
    bare = (
        {name: replace(cell, n=None) if isinstance(cell, Estimate) else cell for name, cell in row.items()}
        for row in table.rows
    )
    return ResultTable(table.columns, tuple(bare))


def _join_labels(columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Join the labels other than study, model and metric in one column."""
    values = _value_columns(columns, rows)
    labels = columns[: columns.index(values[0])] if values else columns
    joined = [name for name in labels if name not in _NEVER_JOINED and any(row.get(name) is not None for row in rows)]
    if len(joined) < 2:
        return list(columns), list(rows)
    others = [name for name in columns if name not in joined]
    others.insert(min(columns.index(joined[0]), len(others)), WHERE)
    return others, [{**row, WHERE: _pairs({name: row.get(name) for name in joined})} for row in rows]


def _stack(columns: Sequence[str], rows: Sequence[Row], width: int) -> list[list[str]]:
    """The columns of each small table in a stack: one table per difference, otherwise as many columns as fit."""
    values = _value_columns(columns, rows)
    if len(values) < 2:
        return [list(columns)]
    labels = list(columns[: columns.index(values[0])])
    pairs = [(name, pair) for name in values if (pair := _compared(name, columns))]
    verdicts = [name for name in columns if heading(name, columns) == CHANCE]
    others = [name for name in columns if name not in (*labels, *values, *verdicts)]
    if not pairs:
        return _packed([*labels, *others], values, rows, width)
    with_others = [pair for _, pair in pairs if pair[1] == PUBLISHED] or [pair for _, pair in pairs]
    stack = [
        [*labels, theirs, ours, name]
        + [verdict for verdict in verdicts if verdict == f"{name}{WITHIN}"]
        + (others if (ours, theirs) in with_others else [])
        for name, (ours, theirs) in pairs
    ]
    remaining = [name for name in values if not any(name in names for names in stack)]
    return stack + [[*labels, name] for name in remaining]


def _compared(name: str, columns: Sequence[str]) -> tuple[str, str] | None:
    """The two columns that a difference column compares; None for other columns."""
    parts = name.split(" - ")
    pairs = ((" - ".join(parts[:cut]), " - ".join(parts[cut:])) for cut in range(1, len(parts)))
    return next(((ours, theirs) for ours, theirs in pairs if ours in columns and theirs in columns), None)


def _packed(labels: list[str], values: Sequence[str], rows: Sequence[Row], width: int) -> list[list[str]]:
    """As many columns of values in each table as fit beside the labels."""
    stack = [[*labels, values[0]]]
    for name in values[1:]:
        if _width(_one_table([*stack[-1], name], rows, width, whole_words=True)) <= width:
            stack[-1].append(name)
        else:
            stack.append([*labels, name])
    return stack


def _value_columns(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    return [name for name in columns if any(isinstance(row.get(name), Estimate) for row in rows)]


def _has_values(columns: Sequence[str], row: Row) -> bool:
    return any(isinstance(row.get(name), Estimate) for name in columns)


def _under_labels(columns: Sequence[str], rows: Sequence[Row], width: int, whole_words: bool) -> str:
    """Text with all labels except the metric on separate lines above their values."""
    values = _value_columns(columns, rows)
    labels = [name for name in (columns[: columns.index(values[0])] if values else ()) if name != "metric"]
    if not labels or "metric" not in columns:
        return _wrapped(columns, rows, width, whole_words)
    pairs = [_pairs({name: row.get(name) for name in labels}) for row in rows]
    titles = [_lines(this, width) if this != last else [] for this, last in zip(pairs, ["", *pairs], strict=False)]
    return _wrapped([name for name in columns if name not in labels], rows, width - 2, whole_words, titles)


def _wrapped(
    columns: Sequence[str], rows: Sequence[Row], width: int, whole_words: bool = False, above: Sequence[Lines] = ()
) -> str:
    return wrap_cells(*text_cells(columns, rows), width, whole_words, above)


def wrap_cells(
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    width: int,
    whole_words: bool = False,
    above: Sequence[Lines] = (),
) -> str:
    """Text with wrapped cells. Lines never break within a number or a piece of a name.

    The text is wider than `width` if a piece is too long. Right-aligned columns are numbers and never wrap.
    """
    heads, bodies, tight = [], [], []
    for name, number, *column in zip(names, right, *cells, strict=True):
        whole = [word for cell in column for word in ([cell] if number else _words(cell))]
        pieces = whole if number or whole_words else [piece for word in whole for piece in _pieces(word)]
        head = max(_length(piece) for word in _words(name) for piece in _pieces(word))
        tight.append(max([head, *map(_length, pieces)]))
        bodies.append([max([head, *map(_length, whole)]), max([head, *map(_length, column)])])
        heads.append(_length(name))
    spare = width - 2 * (len(names) - 1) - sum(tight)
    for wanted in (*zip(*bodies, strict=True), heads):
        tight, spare = _widened(tight, wanted, spare)
    body = [
        [[cell] if number else _lines(cell, room) for cell, number, room in zip(line, right, tight, strict=True)]
        for line in cells
    ]
    return align_cells([_lines(name, room) for name, room in zip(names, tight, strict=True)], body, right, above)


def _widened(widths: Sequence[int], wanted: Sequence[int], spare: int) -> tuple[list[int], int]:
    """Widths closer to those wanted: spare characters go to the narrowest column that lacks some."""
    widened = list(widths)
    while spare > 0 and (lacking := [column for column, has in enumerate(widened) if has < wanted[column]]):
        widened[min(lacking, key=widened.__getitem__)] += 1
        spare -= 1
    return widened, spare


def _words(text: str) -> list[str]:
    """Units that a line should not break: words, labels with their values, numbers with their errors."""
    return _WORD.findall(text) or [""]


def _pieces(word: str) -> list[str]:
    """Pieces that a line must not break.

    >>> _pieces("my_models:Beta-VAE+x=1e-07")
    ['my_models:', 'Beta-', 'VAE+', 'x=1e-07']
    """
    return _BREAK.split(word)


def _lines(text: str, width: int) -> list[str]:
    """Text in lines of at most `width` characters, unless a single piece is longer."""
    lines = [""]
    for word in _words(text):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if _length(longer) <= width:
            lines[-1] = longer
            continue
        lines += [""] * bool(lines[-1])
        for piece in [word] if _length(word) <= width else _pieces(word):
            if lines[-1] and _length(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return [line.rstrip() for line in lines]


def _paragraph(text: str, width: int, indent: str = "") -> str:
    """Text in lines, with all but the first indented."""
    first, *others = _lines(text, width - len(indent))
    return "\n".join([first, *(indent + line for line in others)]) + "\n"


def _footnotes(table: ResultTable) -> list[str]:
    """The notes below a table: what a verdict means, and why values are missing."""
    verdicts = (name for name in table.columns if heading(name, table.columns) == CHANCE)
    notes = [_CHANCE] * any(row.get(name) is not None for name in verdicts for row in table.rows)
    runs = any(_compared(name, table.columns) for name in table.columns)
    names = ["model"] * (len({row.get("model") for row in table.rows}) > 1) + ["metric"]
    reasons: dict[str, dict[str, None]] = {}
    for row in table.rows:
        for name, cell in row.items():
            if isinstance(cell, Estimate) and cell.value is None and cell.reason and not _compared(name, table.columns):
                labels = _row_labels(row, names) + [name] * (name != "value" and not runs)
                reasons.setdefault(visible(cell.reason), {})[visible(" ".join(labels))] = None
    for reason, rows in list(reasons.items())[:_MOST_REASONS]:
        more = f" and {len(rows) - _MOST_ROWS} more" if len(rows) > _MOST_ROWS else ""
        notes.append(f"n/a: {', '.join(list(rows)[:_MOST_ROWS])}{more}: {reason}")
    if len(reasons) > _MOST_REASONS:
        form = "csv" if "value" in table.columns else "json"  # CSV has reasons only for the column "value"
        notes.append(f"and {len(reasons) - _MOST_REASONS} more: --format {form}")
    return notes


def _row_labels(row: Row, names: Sequence[str]) -> list[str]:
    """The labels `names` of a row as text; all its labels if it has no metric."""
    labels = [name for name, cell in row.items() if cell is not None and not isinstance(cell, Estimate)]
    return [cell_text(row[name]) for name in labels if "metric" not in labels or name in names]


def _pairs(labels: dict[str, Any]) -> str:
    texts = {name: visible(cell_text(value)) for name, value in labels.items() if value is not None}
    return " ".join(f"{name}={text!r}" if " " in text else f"{name}={text}" for name, text in texts.items())


def _width(text: str) -> int:
    return max(map(_length, text.split("\n")))


def _length(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text.rstrip())
