"""The command `make`: render the images of a world or the episodes of a task."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from alebrije.cli.paths import OutPath
from alebrije.errors import InputError

Split = Literal["train", "test", "omni", "all"]


@dataclass(frozen=True)
class Make:
    """Render the images of a world or the episodes of a task to a folder; the same command resumes."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|WORLD/RULE")]
    """A world: sprites, clevr, clevrtex, dsprites, rooms, arm, clevr6, clevr10, coat, coat-correlated; of videos:
    moving, moving-textured, scripted; of views: clevr3d, furniture. Or a task, such as clevr/M-NA: one of the first
    three and S-A, S-NA, M-A, M-NA or one of the sixteen rules of SVIB's analysis."""
    n: int
    """Number of scenes or episodes. A smaller number gives the first ones of a larger number. The number of an
    existing folder cannot change."""
    out: OutPath
    """The folder to write to; it must be new, empty or from the same command."""
    seed: int = 0
    """Seed of the scenes."""
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    """Device that renders the images."""
    format: Literal["cache", "svib", "mpi3d"] = "cache"
    """An image cache (data.open_cache), PNG and JSON files as SVIB released them (data.read_svib), or for arm all
    images in one file as MPI3D (data.read_mpi3d)."""
    workers: int = 1
    """Processes that render on the CPU; the files do not depend on their number."""
    size: int = 128
    """Image height and width in pixels."""
    alpha: float | None = None
    """For tasks: the share of non-core combinations that training shows, 0 to 1; default 0.6. Test combinations are
    always held out, so from 0.8 on training shows all the others."""
    rule: str | None = None
    """Turns a world into a task: `clevr --rule M-NA` is clevr/M-NA."""
    split: Split | None = None
    """For tasks: the combinations of training (default), of the test, all combinations (omni), or all three splits in
    one folder each (all)."""
    compile: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Render the 3D worlds through torch.compile where they are plain torch: minutes to start, then faster. Not needed
    on a CPU or on a GPU with Triton."""

    def run(self) -> None:
        """Render what is missing and print the speed."""
        for name, value, least in (("n", self.n, 1), ("workers", self.workers, 1), ("size", self.size, 8)):
            if value < least:
                raise InputError(f"--{name} must be at least {least}, not {value}")
        if self.format == "mpi3d":
            self._run_mpi3d()
            return
        from alebrije.cli.progress import image_progress
        from alebrije.data.datasets import check_split_folders, datasets_for, write_dataset

        sets = datasets_for(
            self.what, rule=self.rule, alpha=self.alpha, split=self.split, size=self.size, seed=self.seed
        )
        check_split_folders(self.out, sets)
        if self.device != "cpu" and self.workers > 1:
            print(f"alebrije: --workers is ignored, because {self.device} renders in one process", file=sys.stderr)
        start, made, images = time.perf_counter(), 0, 0
        for part, dataset in sets.items():
            with image_progress(part or self.what) as progress:
                made += write_dataset(
                    dataset,
                    self.n,
                    self.out / part,
                    format="svib" if self.format == "svib" else "cache",
                    device=self.device,
                    workers=self.workers,
                    compiled=self.compile,
                    progress=progress,
                )
            images += self.n * len(dataset.sides)
        self._report(images, made, start)

    def _run_mpi3d(self) -> None:
        """Write every image of a world to the file of MPI3D."""
        from alebrije import worlds
        from alebrije.cli.progress import image_progress
        from alebrije.data.mpi3d_file import SIDE, mpi3d_path, write_mpi3d

        whole = worlds.get(self.what).whole
        for name, value in (("split", self.split), ("alpha", self.alpha), ("rule", self.rule)):
            if value is not None:
                raise InputError(f"--{name} {value} needs a task, and MPI3D's file holds a world")
        if whole is not None and (self.n, self.size) != (whole, SIDE):
            raise InputError(f"MPI3D's file holds every image of {self.what}: --n {whole} --size {SIDE}")
        start = time.perf_counter()
        with image_progress(self.what) as progress:
            made = write_mpi3d(self.what, self.out, device=self.device, workers=self.workers, progress=progress)
        self._report(self.n, made, start, str(mpi3d_path(self.out, self.what)))

    def _report(self, images: int, made: int, start: float, where: str = "") -> None:
        seconds = time.perf_counter() - start
        speed = f"{made:,} made now, {made / seconds:,.1f} images/s" if made else "all were already there"
        print(f"{images:,} image{'s' if images > 1 else ''} in {where or self.out} ({speed})")
