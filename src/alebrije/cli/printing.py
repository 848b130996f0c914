"""Output of commands: tables, and the outcome of the cells of a study."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from alebrije.studies.jobs import RunSummary


def print_table(table: Table) -> None:
    """Print a rich table as plain text, as wide as the terminal or 160 characters; words are never broken."""
    from rich.console import Console

    from alebrije.results.formats import visible
    from alebrije.results.text_table import wrap_cells

    console = Console()
    names = [visible(str(column.header)) for column in table.columns]
    cells = zip(*([visible(str(cell)) for cell in column.cells] for column in table.columns), strict=True)
    text = wrap_cells(names, list(cells), [False] * len(names), console.width if console.is_terminal else 160)
    print(*[visible(str(table.title))] * bool(table.title), text, sep="\n", end="")


def print_times(
    summary: RunSummary, *, processes: int = 1, report: float | None = None, total: float | None = None
) -> None:
    """Print how long each part took, if something was computed; seconds of several processes are added up."""
    if not summary.stages:
        return
    parts = sorted(summary.stages.items(), key=lambda part: -part[1])
    cells = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts if seconds >= 0.05)
    several = f" (sums over {processes} processes)" if processes > 1 else ""
    ends = [f"report {report:.1f} s"] if report is not None else []
    ends += [f"{total:.1f} s in all"] if total is not None else []
    print("; ".join([f"Time: {cells or 'less than 0.1 s'}{several}", *ends]))


def print_outcome(summary: RunSummary, last: str, failures_printed: bool = False) -> None:
    """Print the outcome of the cells, and exit with 1 if some failed; `failures_printed` skips their list."""
    print(f"{summary}; {last}")
    for result in () if failures_printed else summary.failed:
        print(f"failed: {result.cell}: {result.fault}", file=sys.stderr)
    if summary.failed:
        print("The report has the tracebacks; run the same command to try again.", file=sys.stderr)
        sys.exit(1)
