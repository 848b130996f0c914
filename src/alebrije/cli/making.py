"""Commands about worlds: make images, show them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from alebrije.cli.places import Place
from alebrije.errors import InputError

_MOST_SHOWN = 200  # rows of a contact sheet, which is to be looked at

Split = Literal["train", "test", "omni", "all"]


@dataclass(frozen=True)
class Make:
    """Make the images of a world, or the episodes of a task, into a folder; the same command continues."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|WORLD/RULE")]
    """A world: sprites, clevr, clevrtex, dsprites, rooms, clevr6, clevr10, coat, coat-correlated. Or a task, such as
    clevr/M-NA: one of the first three and S-A, S-NA, M-A, M-NA or one of the sixteen rules of SVIB's analysis."""
    n: int
    """How many scenes or episodes; those of a smaller number are the first of a larger one. A folder keeps its
    number."""
    out: Place
    """The folder to write to. One that holds anything else is refused."""
    seed: int = 0
    """What the scenes depend on, besides their number."""
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    """Where pictures are drawn."""
    format: Literal["cache", "svib"] = "cache"
    """An image cache (data.open_cache), or PNG and JSON files as SVIB released them (data.read_svib)."""
    workers: int = 1
    """Processes that share the work on the CPU; the files are the same for any number."""
    size: int = 128
    """Pixels a side."""
    alpha: float | None = None
    """For tasks: the part of the non-core combinations that training shows, 0 to 1; 0.6 unless given. Those of the test
    are always left out, so from 0.8 on training shows all the others."""
    rule: str | None = None
    """Makes a task of a world: `clevr --rule M-NA` is clevr/M-NA."""
    split: Split | None = None
    """For tasks: the combinations of training (the default), of the test, all of them (omni), or each of these in a
    folder of its name."""
    compile: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Draw the solid worlds with compiled kernels: minutes to begin, then faster, above all on a GPU."""

    def run(self) -> None:
        """Makes what is missing and says how fast."""
        for name, value, least in (("n", self.n, 1), ("workers", self.workers, 1), ("size", self.size, 8)):
            if value < least:
                raise InputError(f"--{name} must be at least {least}, got {value}")
        from alebrije.report.bars import counted
        from alebrije.studies.datasets import datasets, refuse_parts_in_a_cache, write_dataset

        sets = datasets(self.what, rule=self.rule, alpha=self.alpha, split=self.split, size=self.size, seed=self.seed)
        refuse_parts_in_a_cache(self.out, sets)
        if self.device != "cpu" and self.workers > 1:
            print(f"alebrije: {self.device} draws by itself, so --workers is left aside", file=sys.stderr)
        begun, made, images = time.perf_counter(), 0, 0
        for part, dataset in sets.items():
            with counted(part or self.what) as progress:
                made += write_dataset(
                    dataset,
                    self.n,
                    self.out / part,
                    format=self.format,
                    device=self.device,
                    workers=self.workers,
                    compiled=self.compile,
                    progress=progress,
                )
            images += self.n * len(dataset.sides)
        seconds = time.perf_counter() - begun
        speed = f"{made:,} made now, {made / seconds:,.1f} images/s" if made else "all were there already"
        print(f"{images:,} image{'s' if images > 1 else ''} in {self.out} ({speed})")


@dataclass(frozen=True)
class Show:
    """Draw a contact sheet, as a PNG and as a web page: images, masks, and what they show in words."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|WORLD/RULE|analogies|DIR")]
    """A world, a task such as clevr/M-NA, `analogies`, or a folder: an image cache or SVIB's episodes. A folder that is
    called like a world is meant by ./name or name/."""
    n: int = 8
    """How many scenes, episodes or analogies; at most 200."""
    seed: int | None = None
    """Of the scenes, 0 unless given; a folder has its own."""
    out: Place = Path("sheet")
    """The sheet is written to OUT.png and OUT.html."""
    size: int | None = None
    """Pixels a side, 128 unless given; a folder has its own."""
    rule: str | None = None
    """Makes a task of a world, as in `make`."""
    alpha: float | None = None
    """For tasks, as in `make`."""
    split: Split | None = None
    """For tasks, as in `make`."""

    def run(self) -> None:
        """Draws, writes both files and says where they are."""
        if self.n < 1:
            raise InputError(f"--n must be at least 1, got {self.n}")
        if self.n > _MOST_SHOWN:
            raise InputError(f"--n must be at most {_MOST_SHOWN}, got {self.n}; more do not fit on a sheet")
        from alebrije.report.contents import sheet_of
        from alebrije.report.sheets import sheet_paths, write_sheet

        sheet_paths(self.out)  # what would fail at the end is refused before the work
        sheet = sheet_of(
            self.what, self.n, rule=self.rule, alpha=self.alpha, split=self.split, size=self.size, seed=self.seed
        )
        picture, page = write_sheet(sheet, self.out)
        print(f"written to {picture} and {page}")
