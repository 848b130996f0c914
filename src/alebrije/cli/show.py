"""The command `show`: make a contact sheet of a world, a task, analogies or a folder, or the page of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from alebrije.cli.make import Split
from alebrije.cli.paths import OutPath
from alebrije.errors import InputError

_MOST_SHOWN = 200  # rows that people can still look through on one sheet


@dataclass(frozen=True)
class Show:
    """Make a contact sheet, as a PNG and a web page, with images, masks and factors in words; videos play there. Of a
    run of `train`, write its curves and samples to one page."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|WORLD/RULE|analogies|DIR")]
    """A world, a task such as clevr/M-NA, `analogies`, or a folder with an image cache, SVIB episodes or a run, also
    during its training. Write ./name or name/ for a folder with the name of a world."""
    n: int = 8
    """Number of scenes, episodes or analogies; at most 200."""
    seed: int | None = None
    """Seed of the scenes; default 0. Not for folders."""
    out: OutPath = Path("sheet")
    """Name of the files to write, OUT.png and OUT.html; of a run, OUT.html."""
    size: int | None = None
    """Image height and width in pixels; default 128. Not for folders."""
    rule: str | None = None
    """Turns a world into a task, as in `make`."""
    alpha: float | None = None
    """For tasks, as in `make`."""
    split: Split | None = None
    """For tasks, as in `make`."""

    def run(self) -> None:
        """Make the sheet, write both files and print their paths."""
        if self.n < 1:
            raise InputError(f"--n must be at least 1, not {self.n}")
        if self.n > _MOST_SHOWN:
            raise InputError(f"--n must be at most {_MOST_SHOWN}, not {self.n}")
        from alebrije import worlds
        from alebrije.report.run_page import is_run, write_run_page

        if self.what not in ("analogies", *worlds.names()) and is_run(self.what):
            self._refuse_options()
            print(f"written to {write_run_page(self.what, self.out, self.n)}")
            return
        from alebrije.sheets.contact_sheet import contact_sheet
        from alebrije.sheets.sheet import sheet_paths, write_sheet

        sheet_paths(self.out)  # fail before the work
        sheet = contact_sheet(
            self.what, self.n, rule=self.rule, alpha=self.alpha, split=self.split, size=self.size, seed=self.seed
        )
        png, page = write_sheet(sheet, self.out)
        print(f"written to {png} and {page}")

    def _refuse_options(self) -> None:
        """Raise an InputError for an option that a run ignores."""
        for name in ("seed", "size", "rule", "alpha", "split"):
            if getattr(self, name) is not None:
                raise InputError(f"--{name} is not for runs, which know what they were trained on")
