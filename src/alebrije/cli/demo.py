"""Demonstrations, and the version."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from alebrije import __version__
from alebrije.cli.places import Place
from alebrije.cli.printing import conclude
from alebrije.errors import InputError


@dataclass(frozen=True)
class Demo:
    """Train a tiny VAE and a tiny Slot Attention, examine them beside references, write the report: three minutes."""

    out: Place = Path("out/demo")
    """The folder to write to; the same command continues what was stopped."""
    jobs: int = 2
    """Processes that share the work."""

    def run(self) -> None:
        """Trains, examines, writes the page and says where it is."""
        if self.jobs < 1:
            raise InputError(f"--jobs must be at least 1, got {self.jobs}")
        from alebrije.report.bars import cells_counted
        from alebrije.report.demo import run_demo

        begun = time.perf_counter()
        with cells_counted() as progress:
            shown = run_demo(self.out, workers=self.jobs, progress=progress)
        print(f"\n{shown.words}\n")
        conclude(shown.tally, f"{time.perf_counter() - begun:.0f} seconds; open {shown.page} in a browser")


@dataclass(frozen=True)
class Toys:
    """Score made-up representations and segmentations with every metric: one page that shows which notices what."""

    out: Place = Path("out/toys")
    """The folder to write to."""
    rows: int = 3000
    """How many scenes to draw."""

    def run(self) -> None:
        """Draws, scores, writes the page and says where it is."""
        if self.rows < 1:
            raise InputError(f"--rows must be at least 1, got {self.rows}")
        from alebrije.report.bars import watched
        from alebrije.report.toys_page import write_toys_page

        page = write_toys_page(self.out, self.rows, watched)
        print(f"\nOpen {page} in a browser; the numbers are in {page.parent / 'scores.json'}.")


@dataclass(frozen=True)
class Version:
    """Print the version."""

    def run(self) -> None:
        """Prints it."""
        print(f"alebrije {__version__}")
