"""Tables for people: what all rows share is said once above them, so that the rest fits a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from alebrije.results.compare import PUBLISHED
from alebrije.results.estimates import Estimate
from alebrije.results.rendering import CHANCE, WITHIN, Lines, Row, aligned, as_text, heading, shown, visible, words
from alebrije.results.tables import Table

WIDTH = 100
WHERE = "where"  # the column of labels that were put together
REMARK = "remark"  # the column of numbers for texts that stand below
_WORD = re.compile(r"""[^\s=]+=(?:'[^']*'|"[^"]*")\S*|\S+(?: (?:±|\.\.) \S+)?(?: \(n=\d+\))?(?: %)?""")
_BREAK = re.compile(r"""(?<=[^±.] )(?!±|%|\.\.|\(n=)|(?<=[\w)\]'"][;,/+:-])(?=[^\W\d]|['"(\[])""")
_MOST_REASONS, _MOST_PLACES = 5, 3
_CHANCE = f"{CHANCE}: yes where zero lies in the 95 % interval of the difference to its left"
_APART = ("study", "model", "metric")  # labels that are never put together


def folded(table: Table, width: int = WIDTH) -> str:
    """The table as text of at most so many columns where that can be, a part for each study.

    What is the same in all rows stands above them, and so does that there is one seed only. A part that is still too
    wide has several labels in one column and lines that break, or its labels on lines above its values, or is a stack
    of small tables, one for each run that is compared. No line breaks within a word or a number: where nothing else
    helps, the text is wider. Below stand the meaning of a verdict and the reasons of missing values.

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
    told = "".join(_paragraph(line, width, "  ") for line in _footnotes(table))
    return "\n".join([_paragraph(caption, width)] * bool(caption) + parts + [told] * bool(told))


def _part(study: str, columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """The rows of one study, under its name; no name where there are no others."""
    shared = {} if not study else {"study": study} | _shared(columns, rows)
    told = _pairs({name: value for name, value in shared.items() if name != "study"})
    head = _paragraph(f"{study}{': ' if told else ''}{told}", width) if study else ""
    return head + _fitted([name for name in columns if name not in shared], rows, width)


def _fitted(columns: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """One table where it fits without breaks in words, else small tables below each other; remarks stand below."""
    text = as_text(columns, rows)
    if _width(text) <= width:
        return text
    columns, rows, remarks = _remarked(columns, rows)
    text = _alone(columns, rows, width, whole_words=True)
    if _width(text) > width:
        stack = _stack(columns, rows, width)
        parts = ([row for row in rows if len(stack) == 1 or _has_values(some, row)] for some in stack)
        text = "\n".join(_alone(some, part, width) for some, part in zip(stack, parts, strict=True))
    return text + "".join(["\n"] * bool(remarks) + [_paragraph(remark, width, "  ") for remark in remarks])


def _remarked(columns: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row], list[str]]:
    """Texts that stand after the values, such as sources, as numbers; and what each number stands for."""
    values = [name for name in columns if any(isinstance(row.get(name), Estimate) for row in rows)]
    after = columns[columns.index(values[0]) :] if values else ()
    texts = [name for name in after if name not in values and heading(name, columns) != CHANCE]
    if not texts:
        return list(columns), list(rows), []
    numbers: dict[str, str] = {}
    told = ["; ".join(visible(words(row[name])) for name in texts if row.get(name)) for row in rows]
    for one in filter(None, told):
        numbers.setdefault(one, f"[{len(numbers) + 1}]")
    left = [*(name for name in columns if name not in texts), REMARK]
    noted: list[Row] = [{**row, REMARK: numbers.get(one)} for row, one in zip(rows, told, strict=True)]
    return left, noted, [f"{number} {one}" for one, number in numbers.items()]


def _alone(columns: Sequence[str], rows: Sequence[Row], width: int, whole_words: bool = False) -> str:
    """One table: as it is, else the shorter of one whose lines break and one whose labels stand above the values."""
    text = as_text(columns, rows)
    if _width(text) <= width:
        return text
    together = _put_together(columns, rows)
    texts = [_broken(*together, width, whole_words=True), _under_labels(columns, rows, width, whole_words)]
    if not whole_words:
        texts.append(_broken(*together, width))
    fitting = [text for text in texts if _width(text) <= width]
    return min(fitting, key=lambda text: text.count("\n")) if fitting else min(texts, key=_width)


def _by_study(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each study; all together where there is but one."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(str(row.get("study")), []).append(row)
    return parts if "study" in columns and len(parts) > 1 else {"": list(rows)}


def _shared(columns: Sequence[str], rows: Sequence[Row]) -> dict[str, Any]:
    """The labels that all rows have in common; of a single row none, and never the metric or a verdict."""
    found: dict[str, Any] = {}
    for name in columns if len(rows) > 1 else ():
        cells = [row.get(name) for row in rows]
        alike = all(type(cell) is type(cells[0]) and cell == cells[0] for cell in cells)
        stays = isinstance(cells[0], Estimate) or name == "metric" or heading(name, columns) == CHANCE
        if alike and cells[0] is not None and not stays:
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
    several = [name for name in labels if name not in _APART and any(row.get(name) is not None for row in rows)]
    if len(several) < 2:
        return list(columns), list(rows)
    place = columns.index(several[0])
    left = [name for name in columns if name not in several]
    left.insert(min(place, len(left)), WHERE)
    return left, [{**row, WHERE: _pairs({name: row.get(name) for name in several})} for row in rows]


def _stack(columns: Sequence[str], rows: Sequence[Row], width: int) -> list[list[str]]:
    """The columns of the small tables that stand below each other: one for each difference, else as many as fit."""
    values = [name for name in columns if any(isinstance(row.get(name), Estimate) for row in rows)]
    if len(values) < 2:
        return [list(columns)]
    labels = list(columns[: columns.index(values[0])])
    pairs = [(name, pair) for name in values if (pair := _compared(name, columns))]
    verdicts = [name for name in columns if heading(name, columns) == CHANCE]
    also = [name for name in columns if name not in (*labels, *values, *verdicts)]
    if not pairs:
        return _packed([*labels, *also], values, rows, width)
    told = [pair for _, pair in pairs if pair[1] == PUBLISHED] or [pair for _, pair in pairs]
    stack = [
        [*labels, theirs, ours, name]
        + [verdict for verdict in verdicts if verdict == f"{name}{WITHIN}"]
        + (also if (ours, theirs) in told else [])
        for name, (ours, theirs) in pairs
    ]
    alone = [name for name in values if not any(name in some for some in stack)]
    return stack + [[*labels, name] for name in alone]


def _compared(name: str, columns: Sequence[str]) -> tuple[str, str] | None:
    """The two columns whose difference a column is."""
    parts = name.split(" - ")
    pairs = ((" - ".join(parts[:place]), " - ".join(parts[place:])) for place in range(1, len(parts)))
    return next(((ours, theirs) for ours, theirs in pairs if ours in columns and theirs in columns), None)


def _packed(labels: list[str], values: Sequence[str], rows: Sequence[Row], width: int) -> list[list[str]]:
    """As many columns of values in each table as fit beside the labels."""
    stack = [[*labels, values[0]]]
    for name in values[1:]:
        if _width(_alone([*stack[-1], name], rows, width, whole_words=True)) <= width:
            stack[-1].append(name)
        else:
            stack.append([*labels, name])
    return stack


def _has_values(columns: Sequence[str], row: Row) -> bool:
    return any(isinstance(row.get(name), Estimate) for name in columns)


def _under_labels(columns: Sequence[str], rows: Sequence[Row], width: int, whole_words: bool) -> str:
    """Text in which all labels but the metric stand on lines of their own, above the values that they belong to."""
    values = [name for name in columns if any(isinstance(row.get(name), Estimate) for row in rows)]
    labels = [name for name in (columns[: columns.index(values[0])] if values else ()) if name != "metric"]
    if not labels or "metric" not in columns:
        return _broken(columns, rows, width, whole_words)
    told = [_pairs({name: row.get(name) for name in labels}) for row in rows]
    titles = [_lines(one, width) if one != before else [] for one, before in zip(told, ["", *told], strict=False)]
    return _broken([name for name in columns if name not in labels], rows, width - 2, whole_words, titles)


def _broken(
    columns: Sequence[str], rows: Sequence[Row], width: int, whole_words: bool = False, above: Sequence[Lines] = ()
) -> str:
    return broken(*shown(columns, rows), width, whole_words, above)


def broken(
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    right: Sequence[bool],
    width: int,
    whole_words: bool = False,
    above: Sequence[Lines] = (),
) -> str:
    """Text whose lines break within the cells, but never within a number or a piece of a name.

    It is wider than it should be where the pieces are. Columns that are set to the right are numbers and never break.
    """
    heads, bodies, tight = [], [], []
    for name, number, *column in zip(names, right, *cells, strict=True):
        whole = [each for cell in column for each in ([cell] if number else _words(cell))]
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
    return aligned([_lines(name, room) for name, room in zip(names, tight, strict=True)], body, right, above)


def _widened(widths: Sequence[int], wanted: Sequence[int], spare: int) -> tuple[list[int], int]:
    """Widths nearer to those wanted; what there is to spare goes to the narrowest of the columns that want more."""
    widened = list(widths)
    while spare > 0 and (lacking := [place for place, has in enumerate(widened) if has < wanted[place]]):
        widened[min(lacking, key=widened.__getitem__)] += 1
        spare -= 1
    return widened, spare


def _words(text: str) -> list[str]:
    """What a line should not break within: words, labels with their values, and numbers with their errors."""
    return _WORD.findall(text) or [""]


def _pieces(word: str) -> list[str]:
    """What a line must not break within.

    >>> _pieces("my_models:Beta-VAE+x=1e-07")
    ['my_models:', 'Beta-', 'VAE+', 'x=1e-07']
    """
    return _BREAK.split(word)


def _lines(text: str, width: int) -> list[str]:
    """Text in lines that are no wider, save where a piece is."""
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
    """Text in lines, of which all but the first may be indented."""
    first, *others = _lines(text, width - len(indent))
    return "\n".join([first, *(indent + line for line in others)]) + "\n"


def _footnotes(table: Table) -> list[str]:
    """What stands below a table: what a verdict on a difference means, and why values are missing."""
    verdicts = (name for name in table.columns if heading(name, table.columns) == CHANCE)
    notes = [_CHANCE] * any(row.get(name) is not None for name in verdicts for row in table.rows)
    runs = any(_compared(name, table.columns) for name in table.columns)
    names = ["model"] * (len({row.get("model") for row in table.rows}) > 1) + ["metric"]
    reasons: dict[str, dict[str, None]] = {}
    for row in table.rows:
        for name, cell in row.items():
            if isinstance(cell, Estimate) and cell.value is None and cell.reason and not _compared(name, table.columns):
                place = _named(row, names) + [name] * (name != "value" and not runs)
                reasons.setdefault(visible(cell.reason), {})[visible(" ".join(place))] = None
    for reason, places in list(reasons.items())[:_MOST_REASONS]:
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        notes.append(f"n/a: {', '.join(list(places)[:_MOST_PLACES])}{more}: {reason}")
    if len(reasons) > _MOST_REASONS:
        form = "csv" if "value" in table.columns else "json"  # only there are reasons of other columns written out
        notes.append(f"and {len(reasons) - _MOST_REASONS} more: --format {form}")
    return notes


def _named(row: Row, names: Sequence[str]) -> list[str]:
    """A row in words: the labels that name it; all that it has where it has no metric."""
    labels = [name for name, cell in row.items() if cell is not None and not isinstance(cell, Estimate)]
    return [words(row[name]) for name in labels if "metric" not in labels or name in names]


def _pairs(labels: dict[str, Any]) -> str:
    told = {name: visible(words(value)) for name, value in labels.items() if value is not None}
    return " ".join(f"{name}={value!r}" if " " in value else f"{name}={value}" for name, value in told.items())


def _width(text: str) -> int:
    return max(map(_length, text.split("\n")))


def _length(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text.rstrip())
