"""`alebrije eval`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from alebrije.cli.options import Device, Size, Spec, Triple, at_least_one, device_name
from alebrije.cli.paths import OutPath
from alebrije.cli.printing import print_outcome, print_times
from alebrije.errors import InputError
from alebrije.instruments import NAMES

_QUICK = {"neurons", "grouping"}  # seconds at the size tiny, less than starting more processes takes


@dataclass(frozen=True)
class Eval:
    """Examine a model and write the report. The same command computes only what is missing."""

    spec: Spec
    """package.module:object, timm:NAME, hf:NAME, zoo:NAME (see `alebrije zoo`), checkpoint:DIR (trained by alebrije),
    embeddings:FILE, or a reference: pixels, oracle, projection, noise."""
    out: OutPath
    """The folder for results and report.html. Several models may share one."""
    tests: tuple[str, ...] = NAMES
    """Instruments, or names of metrics such as coat, snc, nk, fg-ari, or package.module:function for your own."""
    size: Size = "small"
    """How much is computed: tiny takes about a minute on a CPU, small minutes; only paper is what was published."""
    beside: tuple[str, ...] = ()
    """References to examine as well: pixels, oracle, projection, noise."""
    worlds: tuple[str, ...] = ()
    """Worlds to test on, for instruments with several; by default those of the size. data:FOLDER are images of your
    own, with masks for grouping and a table of attributes for neurons."""
    rules: tuple[str, ...] = ()
    """For imagination: rules such as S-A and M-NA, or `analysis` for the sixteen rules of SVIB's
    analysis; by default those of the size."""
    alphas: tuple[float, ...] = ()
    """For imagination: shares of the non-core combinations that training shows; by default those of the size."""
    name: str | None = None
    """Name of the model in tables."""
    pixels: int | None = None
    """Side of the images that the model expects; by default the model's own, or that of the images."""
    mean: Triple | None = None
    """Per-channel mean to subtract (images in 0..1)."""
    std: Triple | None = None
    """Per-channel standard deviation to divide by."""
    layer: str | None = None
    """The submodule whose output is used instead of the model's."""
    pool: Literal["cls", "mean", "tokens"] | None = None
    """Codes of a model with tokens: the class token, their mean, or all of them as slots; by default the model's own
    pooled output."""
    method: str | None = None
    """The method that is called instead of the model, such as encode; package.module:Class.method says the same."""
    batch: int = 64
    """Images per forward pass."""
    device: Device = "auto"
    """Where the model runs; `auto` is a GPU if there is one."""
    jobs: int | None = None
    """Processes that share the work, one thread each. By default up to four on a CPU, up to eight on a GPU with enough
    memory, and one for work that takes seconds: the size tiny on a GPU, or with a single instrument, or with neurons
    and grouping."""

    def run(self) -> None:
        """Examine, write the report, print the verdicts; exit with 1 if a cell failed."""
        began = time.perf_counter()
        at_least_one(batch=self.batch, jobs=self.jobs, pixels=self.pixels)
        if self.name is not None and not self.name.strip():
            raise InputError("--name is empty")
        from alebrije.cli.progress import cell_progress
        from alebrije.evaluate import evaluate, select_tests, tests_for
        from alebrije.studies.commands import note_command

        tests = tests_for(self.tests, self.worlds)
        instruments, device = select_tests(tests), device_name(self.device)
        jobs = self.jobs or default_jobs(self.size, instruments, bool(self.beside), device)
        with cell_progress() as progress:
            report = evaluate(
                self.spec,
                tests,
                self.size,
                out=self.out,
                beside=self.beside,
                worlds=self.worlds,
                rules=self.rules,
                alphas=self.alphas,
                name=self.name,
                pixels=self.pixels,
                mean=self.mean,
                std=self.std,
                layer=self.layer,
                pool=self.pool,
                method=self.method,
                batch=self.batch,
                device=device,
                workers=jobs,
                progress=progress.cells,
                activity=progress.activity,
            )
        for instrument in instruments:
            note_command(report.folder, instrument, typed_command())
        computed = time.perf_counter()
        page = report.save(self.out / "report.html")  # before printing, which a closed pipe may end
        saved = time.perf_counter()
        self._print_kept_name({str(result.cell.labels.get("model")) for result in report.results})
        print(report)
        print_times(report.summary, processes=jobs, report=saved - computed, total=saved - began)
        print_outcome(report.summary, f"the report is {page}", failures_printed=True)

    def _print_kept_name(self, names: Collection[str]) -> None:
        """Say so if the stored results of this model have another name than `--name`."""
        from alebrije.studies.references import REFERENCES

        if self.name and self.name not in names:
            kept = " and ".join(sorted(set(names) - set(self.beside)))
            reason = "is a reference" if self.spec in REFERENCES else "is its name in earlier results"
            print(f"{kept} {reason}, so --name has no effect.")


def default_jobs(size: str, instruments: Collection[str], beside: bool, device: str = "cpu") -> int:
    """The number of processes for an evaluation: one if it is over before others have started.

    >>> default_jobs("tiny", ["grouping", "neurons"], beside=False)
    1
    """
    if device != "cpu":
        from alebrije.studies.processes import default_processes

        return default_processes(device, size)
    if size == "tiny" and not beside and (len(instruments) == 1 or _QUICK.issuperset(instruments)):
        return 1
    return min(4, os.cpu_count() or 1)


def typed_command() -> str:
    """The command as it was typed, quoted for a shell."""
    return shlex.join(["alebrije", *sys.argv[1:]])
