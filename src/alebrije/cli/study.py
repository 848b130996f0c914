"""`alebrije study`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.cli.eval import typed_command
from alebrije.cli.options import Device, Size, at_least_one, device_name
from alebrije.cli.paths import OutPath
from alebrije.cli.printing import print_outcome, print_times
from alebrije.errors import InputError
from alebrije.instruments import NAMES

if TYPE_CHECKING:
    from alebrije.studies.folder import ResultFolder
    from alebrije.studies.run import PlannedStudy


@dataclass(frozen=True)
class Study:
    """Run an instrument over many models, worlds and seeds. The same command computes only what is missing."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="|".join(NAMES))]
    """The instrument."""
    out: OutPath
    """The folder for results, trained models and pictures. Studies may share one."""
    size: Size = "small"
    """How much is computed: tiny takes minutes on a CPU, small about an hour on a GPU; only paper is what was
    published."""
    models: tuple[str, ...] = ()
    """Names from `alebrije models`, references (pixels, oracle, projection, noise), or specs as in `eval`; by default
    those of the size."""
    metrics: tuple[str, ...] = ()
    """Compute only these values."""
    worlds: tuple[str, ...] = ()
    """Worlds to test on, or for analogy to train on (coat, coat-correlated); by default those of the size."""
    rules: tuple[str, ...] = ()
    """For imagination: rules such as S-A and M-NA, or `analysis` for the sixteen rules of SVIB's analysis."""
    alphas: tuple[float, ...] = ()
    """For imagination: shares of the non-core combinations that training shows."""
    betas: tuple[float, ...] = ()
    """For analogy: weights beta that beta-tcvae is trained with, such as 0 1 2 3."""
    seeds: int | None = None
    """How often each model is trained."""
    device: Device = "auto"
    """Where models are trained and run; `auto` is a GPU if there is one."""
    jobs: int = 1
    """Processes that share the work, one thread each; with `--backend ray`, 1 means as many as the cluster has."""
    backend: Literal["local", "ray"] = "local"
    """Where the processes run: on this machine, or on a Ray cluster."""
    shard: str = "1/1"
    """i/n: compute only the i-th of n parts of the cells, the same on every machine, for job arrays."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """List the cells and which are missing; compute nothing."""

    def run(self) -> None:
        """Compute what is missing; exit with 1 if a cell failed."""
        at_least_one(jobs=self.jobs, seeds=self.seeds)
        shard = _parse_shard(self.shard)
        from alebrije import instruments
        from alebrije.cli.progress import cell_progress
        from alebrije.studies.commands import note_command
        from alebrije.studies.folder import ResultFolder
        from alebrije.studies.jobs import Workers
        from alebrije.studies.request import Request
        from alebrije.studies.run import plan_study, precheck_models, run_study

        instrument, folder = instruments.get(self.name), ResultFolder(self.out)
        request = Request(
            size=self.size,
            models=self.models,
            metrics=self.metrics,
            worlds=self.worlds,
            rules=self.rules,
            alphas=self.alphas,
            betas=self.betas,
            seeds=self.seeds,
            device=device_name(self.device),
        )
        planned = plan_study(instrument, folder, request)
        if self.dry_run:
            self._list(planned, folder, shard)
            return
        precheck_models([planned], folder, shard)
        with cell_progress() as progress:
            summary = run_study(
                planned, folder, Workers(self.jobs, self.backend, shard, progress.cells, progress.activity)
            )
        print_times(summary, processes=self.jobs)
        note_command(folder, self.name, typed_command())
        print_outcome(summary, f"`alebrije report {shlex.quote(str(self.out))}` writes the report")

    def _list(self, planned: PlannedStudy, folder: ResultFolder, shard: tuple[int, int]) -> None:
        from alebrije.studies.jobs import estimate, in_shard

        jobs = in_shard((*planned.jobs, *planned.yardsticks), shard)
        missing = {cell.key for cell in folder.store.missing([job.cell for job in jobs])}
        for job in jobs:
            print(f"{'missing' if job.cell.key in missing else 'done   '}  {job.cell}")
        seconds = estimate(jobs, folder.store)
        time = "unknown until one of them is done" if seconds is None else f"about {duration(seconds / self.jobs)}"
        cells = f"{len(jobs):,} cell{'s' if len(jobs) > 1 else ''}"
        print(f"{cells}, {len(missing):,} missing; time: {time if missing else 'none'}")


def duration(seconds: float) -> str:
    """A duration in words.

    >>> duration(42), duration(400), duration(10_000)
    ('42 seconds', '7 minutes', '2.8 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _parse_shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"--shard must be i/n with i from 1 to n, not {text!r}")
    return int(found[1]), int(found[2])
