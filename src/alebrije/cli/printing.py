"""What commands print: tables, and how the cells of a study ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alebrije.studies.cells import Tally


def show(table: object) -> None:
    """Prints a table of rich, as wide as the terminal, or wide enough for a file."""
    from rich.console import Console

    console = Console()
    Console(width=None if console.is_terminal else 160).print(table)


def conclude(tally: Tally, last: str, told: bool = False) -> None:
    """Says what became of the cells, and ends with 1 if some failed; `told` if it was said already which."""
    print(f"{tally}; {last}")
    for result in () if told else tally.failed:
        print(f"failed: {result.cell}: {result.fault}", file=sys.stderr)
    if tally.failed:
        print("The page has the tracebacks; the same command tries again.", file=sys.stderr)
        sys.exit(1)
