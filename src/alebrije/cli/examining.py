"""Commands about a model at hand: check it, examine it; and studies of many."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.cli.devices import Device, device_of
from alebrije.cli.places import Place
from alebrije.cli.printing import conclude
from alebrije.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from alebrije.studies.folder import Folder
    from alebrije.studies.protocol import Ask
    from alebrije.studies.protocol import Study as Protocol

Spec = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SPEC")]
Size = Literal["tiny", "small", "paper"]
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Check:
    """Tell in plain words whether a model can be evaluated, and how to mend what is in the way."""

    spec: Spec
    """package.module:object, timm:NAME, hf:NAME, checkpoint:DIR (a model trained here) or embeddings:FILE."""
    pixels: int | None = None
    """Pixels a side that the model wants; the model's own, or as images come, unless given."""
    mean: Triple | None = None
    """What to take off each channel of images in 0..1."""
    std: Triple | None = None
    """What to divide it by then."""
    layer: str | None = None
    """The submodule whose output is taken instead of the model's."""
    device: Device = "auto"
    """Where the model runs; `auto` takes a GPU if there is one."""

    def run(self) -> None:
        """Prints the findings; ends with 1 if there is a problem."""
        _at_least_one(pixels=self.pixels)
        from alebrije.adapters import check
        from alebrije.studies.subjects import REFERENCES

        if self.spec in REFERENCES:
            print(f"{self.spec} is a reference of alebrije's own and can be evaluated.")
            return
        report = check(
            self.spec,
            size=self.pixels,
            mean=self.mean,
            std=self.std,
            layer=self.layer,
            device=device_of(self.device),
        )
        print(report)
        if not report.passed:
            sys.exit(1)


@dataclass(frozen=True)
class Eval:
    """Examine a model with the instruments and write the report; the same command computes only what is missing."""

    spec: Spec
    """package.module:object, timm:NAME, hf:NAME, checkpoint:DIR (a model trained here), embeddings:FILE, or a
    reference: pixels, oracle, projection, noise."""
    out: Place
    """The folder for results and report.html. Several models may share one."""
    tests: tuple[str, ...] = ("analogy", "imagination", "grouping", "neurons")
    """Instruments, or names of metrics such as coat, snc, nk, fg-ari."""
    size: Size = "small"
    """How much is done: tiny takes about a minute on a CPU, small minutes; only paper is what was published."""
    beside: tuple[str, ...] = ()
    """References to examine as well: pixels, oracle, projection, noise."""
    worlds: tuple[str, ...] = ()
    """Where to look, for instruments that know several worlds; those of the size unless given."""
    rules: tuple[str, ...] = ()
    """For imagination: rules such as S-A and M-NA; those of the size unless given."""
    alphas: tuple[float, ...] = ()
    """For imagination: the parts of the non-core combinations that training shows; those of the size unless given."""
    name: str | None = None
    """What to call the model in tables."""
    pixels: int | None = None
    """Pixels a side that the model wants; the model's own, or as images come, unless given."""
    mean: Triple | None = None
    """What to take off each channel of images in 0..1."""
    std: Triple | None = None
    """What to divide it by then."""
    layer: str | None = None
    """The submodule whose output is taken instead of the model's."""
    batch: int = 64
    """Images that go through the model at once."""
    device: Device = "auto"
    """Where the model runs; `auto` takes a GPU if there is one."""
    jobs: int | None = None
    """Processes that share the work, each with one thread; unless given, up to four on a CPU, and one on a GPU or
    for what takes seconds: at the size tiny, one model and one study, or neurons and grouping."""

    def run(self) -> None:
        """Examines, writes the report, prints what was found; ends with 1 if a cell failed."""
        _at_least_one(batch=self.batch, jobs=self.jobs, pixels=self.pixels)
        if self.name is not None and not self.name.strip():
            raise InputError("--name wants a name, and got none")
        from alebrije.report.bars import cells_counted
        from alebrije.report.commands import note_command
        from alebrije.report.evaluation import chosen, evaluate
        from alebrije.studies.folder import Folder
        from alebrije.studies.subjects import REFERENCES

        wanted, device = chosen(self.tests), device_of(self.device)
        folder = Folder(self.out)
        jobs = self.jobs or (default_jobs(self.size, wanted, bool(self.beside)) if device == "cpu" else 1)
        with cells_counted() as progress:
            report = evaluate(
                self.spec,
                self.tests,
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
                batch=self.batch,
                device=device,
                workers=jobs,
                progress=progress,
            )
        for study in wanted:
            note_command(folder, study, _command())
        page = report.save(self.out / "report.html")  # before anything is printed, of which nobody may read the end
        kept = {str(result.cell.labels.get("model")) for result in report.results}
        if self.name and self.name not in kept:
            known = " and ".join(sorted(kept - set(self.beside)))
            reason = "is a reference" if self.spec in REFERENCES else "is how it was examined before"
            print(f"{known} {reason}, so it keeps that name.")
        print(report)
        conclude(report.tally, f"the report is {page}", told=True)


@dataclass(frozen=True)
class Study:
    """Run a study: all its models, worlds and seeds; the same command computes only what is missing."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="analogy|imagination|grouping|neurons")]
    """Which of the four."""
    out: Place
    """The folder for results, trained models and pictures. Studies may share one."""
    size: Size = "small"
    """tiny takes minutes on a CPU, small an hour or so on a GPU; only paper is what was published."""
    models: tuple[str, ...] = ()
    """Names from `alebrije models`, references (pixels, oracle, projection, noise), or specs as in `eval`; those of the
    size unless given. SVIB's Oracle is svib-oracle here."""
    metrics: tuple[str, ...] = ()
    """Names of values, to compute no others."""
    worlds: tuple[str, ...] = ()
    """Worlds; those of the size unless given."""
    rules: tuple[str, ...] = ()
    """For imagination: rules such as S-A and M-NA."""
    alphas: tuple[float, ...] = ()
    """For imagination: the parts of the non-core combinations that training shows."""
    seeds: int | None = None
    """Trainings of each model."""
    device: Device = "auto"
    """Where models are trained and run; `auto` takes a GPU if there is one."""
    jobs: int = 1
    """Processes that share the work, each with one thread; with `--backend ray`, 1 means as many as the cluster has."""
    backend: Literal["local", "ray"] = "local"
    """Where the processes are: on this machine, or on a Ray cluster."""
    shard: str = "1/1"
    """i/n: only the i-th of n parts of the cells, the same on every machine, for job arrays."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """List the cells and what is missing of them, and compute nothing."""

    def run(self) -> None:
        """Computes what is missing; ends with 1 if a cell failed."""
        _at_least_one(jobs=self.jobs, seeds=self.seeds)
        part = _shard(self.shard)
        from alebrije.report.bars import cells_counted
        from alebrije.report.commands import note_command
        from alebrije.studies.folder import Folder
        from alebrije.studies.protocol import Ask, get, run_study

        study, folder = get(self.name), Folder(self.out)
        ask = Ask(
            size=self.size,
            models=self.models,
            metrics=self.metrics,
            worlds=self.worlds,
            rules=self.rules,
            alphas=self.alphas,
            seeds=self.seeds,
            device=device_of(self.device),
        )
        if self.dry_run:
            self._list(study, folder, ask, part)
            return
        with cells_counted() as progress:
            tally = run_study(
                study, folder, ask, workers=self.jobs, backend=self.backend, shard=part, progress=progress
            )
        note_command(folder, self.name, _command())
        conclude(tally, f"`alebrije report {shlex.quote(str(self.out))}` makes a page of it")

    def _list(self, study: Protocol, folder: Folder, ask: Ask, part: tuple[int, int]) -> None:
        from alebrije.studies.cells import estimate, in_shard
        from alebrije.studies.protocol import planned

        jobs = in_shard(planned(study, folder, ask), part)
        missing = {cell.key for cell in folder.store.missing([job.cell for job in jobs])}
        for job in jobs:
            print(f"{'missing' if job.cell.key in missing else 'done   '}  {job.cell}")
        seconds = estimate(jobs, folder.store)
        told = "unknown until one of them is done" if seconds is None else f"about {duration(seconds / self.jobs)}"
        cells = f"{len(jobs):,} cell{'s' if len(jobs) > 1 else ''}"
        print(f"{cells}, {len(missing):,} missing; time: {told if missing else 'none'}")


def duration(seconds: float) -> str:
    """A span of time in words.

    >>> duration(42), duration(400), duration(10_000)
    ('42 seconds', '7 minutes', '2.8 hours')
    """
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def default_jobs(size: str, studies: Collection[str], beside: bool) -> int:
    """The processes that share an evaluation on a CPU: one for what is done before others would be there.

    >>> default_jobs("tiny", ["grouping", "neurons"], beside=False)
    1
    """
    if size == "tiny" and not beside and (len(studies) == 1 or {"neurons", "grouping"}.issuperset(studies)):
        return 1
    return min(4, os.cpu_count() or 1)


def _at_least_one(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"--{name} must be at least 1, got {number}")


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"--shard is written i/n with i from 1 to n, not {text!r}")
    return int(found[1]), int(found[2])


def _command() -> str:
    """What was typed, as it can be typed again."""
    return shlex.join(["alebrije", *sys.argv[1:]])
