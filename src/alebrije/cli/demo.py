"""The demonstration, and the version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alebrije import __version__
from alebrije.errors import InputError


@dataclass(frozen=True)
class Demo:
    """Score made-up representations and segmentations with everything and draw every world, on one web page."""

    out: Path = Path("out/demo")
    """The folder to write to."""
    rows: int = 3000
    """How many scenes to draw."""

    def run(self) -> None:
        """Draws, scores, writes the page and says where it is."""
        if self.rows < 1:
            raise InputError(f"--rows must be at least 1, got {self.rows}")
        from alebrije.report.bars import watched
        from alebrije.report.demo import run_demo

        page = run_demo(self.out, self.rows, watched)
        print(f"\nOpen {page} in a browser; the numbers are in {page.parent / 'scores.json'}.")


@dataclass(frozen=True)
class Version:
    """Print the version."""

    def run(self) -> None:
        """Prints it."""
        print(f"alebrije {__version__}")
