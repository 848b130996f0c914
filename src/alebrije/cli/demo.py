"""`alebrije demo`, `alebrije toys` and `alebrije version`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from alebrije import __version__
from alebrije.cli.options import at_least_one
from alebrije.cli.paths import OutPath
from alebrije.cli.printing import print_outcome


@dataclass(frozen=True)
class Demo:
    """Examine models of the zoo beside references and write the report, without training."""

    out: OutPath = Path("out/demo")
    """The folder to write to. The same command continues an interrupted one."""
    train: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Instead, train a tiny VAE and a tiny Slot Attention for some seconds and examine them with all instruments."""
    jobs: int = 2
    """Processes that share the work."""

    def run(self) -> None:
        """Examine, write the report and print the verdicts."""
        at_least_one(jobs=self.jobs)
        from alebrije import zoo
        from alebrije.cli.progress import cell_progress
        from alebrije.demo.run import run_demo, run_trained_demo
        from alebrije.report.page import in_words

        started = time.perf_counter()
        run = run_trained_demo if self.train or not zoo.names() else run_demo
        with cell_progress() as progress:
            report = run(self.out, workers=self.jobs, progress=progress.cells, activity=progress.activity)
        page = report.save(self.out / "report.html")
        print(f"\n{in_words(report.requested, report.verdicts)}\n")
        print_outcome(report.summary, f"{time.perf_counter() - started:.0f} seconds; open {page} in a browser")


@dataclass(frozen=True)
class Toys:
    """Score synthetic representations and segmentations with every metric: one page shows which metric notices what."""

    out: OutPath = Path("out/toys")
    """The folder to write to."""
    rows: int = 3000
    """Number of scenes."""

    def run(self) -> None:
        """Score, write the page and print its path."""
        at_least_one(rows=self.rows)
        from alebrije.cli.progress import track
        from alebrije.demo.toys_page import write_toys_page

        page = write_toys_page(self.out, self.rows, track)
        print(f"\nOpen {page} in a browser; the numbers are in {page.parent / 'scores.json'}.")


@dataclass(frozen=True)
class Version:
    """Print the version."""

    def run(self) -> None:
        """Print it."""
        print(f"alebrije {__version__}")
