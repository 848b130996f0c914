"""What commands print: tables, and how the cells of a study ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from alebrije.studies.cells import Tally


def show(table: Table) -> None:
    """Prints a table of rich as plain text, as wide as the terminal, or wide enough for a file; words stay whole."""
    from rich.console import Console

    from alebrije.results.folding import broken
    from alebrije.results.rendering import visible

    console = Console()
    names = [visible(str(column.header)) for column in table.columns]
    cells = zip(*([visible(str(cell)) for cell in column.cells] for column in table.columns), strict=True)
    text = broken(names, list(cells), [False] * len(names), console.width if console.is_terminal else 160)
    print(*[visible(str(table.title))] * bool(table.title), text, sep="\n", end="")


def conclude(tally: Tally, last: str, told: bool = False) -> None:
    """Says what became of the cells, and ends with 1 if some failed; `told` if it was said already which."""
    print(f"{tally}; {last}")
    for result in () if told else tally.failed:
        print(f"failed: {result.cell}: {result.fault}", file=sys.stderr)
    if tally.failed:
        print("The page has the tracebacks; the same command tries again.", file=sys.stderr)
        sys.exit(1)
