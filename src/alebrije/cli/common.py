"""What several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from alebrije.errors import InputError

if TYPE_CHECKING:
    from alebrije.studies.cells import Tally

Device = Literal["auto", "cpu", "cuda", "mps"]


def device_of(name: str) -> str:
    """The device that is meant, if it can be used here."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if there[device])
    if not there[name]:
        raise InputError(f"--device {name}: torch finds none here")
    return name


def show(table: object) -> None:
    """Prints a table of rich, as wide as the terminal, or wide enough for a file."""
    from rich.console import Console

    console = Console()
    Console(width=None if console.is_terminal else 160).print(table)


def conclude(tally: Tally, last: str) -> None:
    """Says what became of the cells, and ends with 1 if some failed."""
    print(f"{tally}; {last}")
    for result in tally.failed:
        print(f"failed: {result.cell}: {(result.traceback or '').strip().rpartition(chr(10))[2]}", file=sys.stderr)
    if tally.failed:
        print("The tracebacks are in the results; the same command tries again.", file=sys.stderr)
        sys.exit(1)
