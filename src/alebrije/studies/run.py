"""Running a study: plan its cells, precheck the user's models, compute what is missing, then summarise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from alebrije import adapters
from alebrije.errors import InputError
from alebrije.metrics import find
from alebrije.results import Result
from alebrije.results.canonical_json import digest
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job, RunSummary, Workers, in_shard, run_jobs
from alebrije.studies.kept_cells import kept_once
from alebrije.studies.model import takes_of, user_encoder
from alebrije.studies.own_metrics import own_names
from alebrije.studies.references import is_pixels, reference
from alebrije.studies.request import Request
from alebrije.studies.untrained import untrained_twins
from alebrije.suggest import did_you_mean

_OPTIONS = ("rules", "alphas", "betas")  # fields of a Request that only some studies use
_SETTING = ("world", "corpus", "rule", "alpha", "pixels")  # labels of what a model is examined on
_LOG = logging.getLogger("alebrije")


@dataclass(frozen=True, kw_only=True)
class Study:
    """What the runner knows about an instrument."""

    name: str  # in cells and on the command line
    metrics: tuple[str, ...]  # names of all values that its cells may have
    jobs: Callable[[ResultFolder, Request], list[Job]]  # the cells of a request
    summary_jobs: Callable[[Sequence[Result]], list[Job]] = lambda results: []  # cells computed from all results
    options: tuple[str, ...] = ()  # those of `rules`, `alphas` and `betas` that it uses
    score: str | None = None  # the value that models are compared with their yardsticks by


@dataclass(frozen=True)
class PlannedStudy:
    """A study, a request, the jobs that answer it, and the jobs of the yardsticks that its models are compared with."""

    study: Study
    request: Request
    jobs: tuple[Job, ...]
    yardsticks: tuple[Job, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the requested cells."""
        return frozenset(job.cell.key for job in self.jobs)

    @property
    def all_keys(self) -> frozenset[str]:
        """The keys of the requested cells and of those of the yardsticks."""
        return self.keys | {job.cell.key for job in self.yardsticks}


def plan_study(study: Study, folder: ResultFolder, request: Request) -> PlannedStudy:
    """The jobs of a request; an InputError if the study cannot answer it."""
    known = {name.lower() for name in study.metrics}
    for name in request.metrics:
        if own_names([name]) and find(name).instrument == study.name:
            continue
        if name.lower() not in known:
            raise InputError(f"{study.name} has no value {name!r}{did_you_mean(name, study.metrics)}")
    for option in _OPTIONS:
        if getattr(request, option) and option not in study.options:
            raise InputError(f"{study.name} has no {option}")
    if request.seeds is not None and request.seeds < 1:
        raise InputError(f"seeds must be at least 1, not {request.seeds}")
    request.check_models()
    jobs = study.jobs(folder, request)
    if not jobs:
        wanted = f" for {', '.join(request.metrics)} alone" if request.metrics else ""
        raise InputError(f"{study.name} has no cell to compute{wanted}; request more metrics or models")
    _check_takes(jobs, request)
    return PlannedStudy(study, request, tuple(jobs), tuple(_yardstick_jobs(study, folder, request, jobs)))


def _check_takes(jobs: Iterable[Job], request: Request) -> None:
    """Raise an InputError if a model would be shown something else than it takes."""
    for job in jobs:
        takes = None if job.model is None else takes_of(job.model)
        if job.model is not None and takes not in (None, job.shows):
            name, world, study = job.model.labels.get("model"), job.cell.labels.get("world"), job.cell.study
            shown = f"{study} shows" if world is None else f"{world} in {study} has"
            hint = "" if request.worlds else f"; choose tests for {takes}"
            raise InputError(f"{name} takes {takes}, and {shown} {job.shows}{hint}")


def _yardstick_jobs(study: Study, folder: ResultFolder, request: Request, jobs: Iterable[Job]) -> list[Job]:
    """The cells of the yardsticks of all models, pixels and their untrained twins, but for those examined anyway.

    Only the value that is compared is computed, and only if it was requested.
    """
    if study.score is None or not request.wants(study.score):
        return []
    models = {id(job.model): job.model for job in jobs if job.model is not None}.values()
    if all(is_pixels(model) for model in models):
        return []
    twins = [twin for model in models for twin in untrained_twins(model)]
    loaded = (reference("pixels"), *twins)
    own = replace(request, models=(), loaded=loaded, metrics=(study.score,), only_loaded=True, yardsticks=True)
    examined = {digest(dict(job.cell.labels)) for job in jobs}
    settings = {_setting(job) for job in jobs}
    planned = {job.cell.key: job for job in study.jobs(folder, own) if _setting(job) in settings}
    missing = (job for job in planned.values() if digest(dict(job.cell.labels)) not in examined)
    return [kept_once(job, request.device) for job in missing]


def _setting(job: Job) -> tuple[object, ...]:
    """What the model of a job is examined on."""
    return tuple(job.cell.labels.get(name) for name in _SETTING)


def precheck_models(planned: Iterable[PlannedStudy], folder: ResultFolder, shard: tuple[int, int] = (1, 1)) -> None:
    """Check each user's model that has missing cells, once; an InputError if its scores would be meaningless."""
    jobs = [job for each in planned for job in in_shard(each.jobs, shard)]
    encoders = {job.cell.key: user_encoder(job.model) for job in jobs if job.model is not None}
    jobs = [job for job in jobs if encoders.get(job.cell.key) is not None]
    missing = {cell.key for cell in folder.store.missing([job.cell for job in jobs])} if jobs else set()
    unchecked: dict[int, list[Job]] = {}
    for job in jobs:
        if job.cell.key in missing:
            unchecked.setdefault(id(encoders[job.cell.key]), []).append(job)
    for own in unchecked.values():
        encoder = encoders[own[0].cell.key]
        sizes = dict.fromkeys(job.pixels for job in own if job.pixels is not None)
        assert encoder is not None
        for warning in adapters.precheck(encoder, tuple(sizes)):
            _LOG.warning("%s", warning)


def run_study(planned: PlannedStudy, folder: ResultFolder, workers: Workers | None = None) -> RunSummary:
    """Compute the missing cells, then, once all are done, the cells that summarise them."""
    return run_studies([planned], folder, workers)


def run_studies(planned: Sequence[PlannedStudy], folder: ResultFolder, workers: Workers | None = None) -> RunSummary:
    """`run_study` for several studies whose cells are computed side by side."""
    folder.ready()
    summary = run_jobs([job for each in planned for job in (*each.jobs, *each.yardsticks)], folder.store, workers)
    results = [result for result in folder.store.all() if result.status == "done"]
    for each in planned:
        done = [result for result in results if result.key in each.keys]
        if len(done) == len(each.keys) and not each.request.only_loaded:
            summary += run_jobs(each.study.summary_jobs(done), folder.store)
    return summary
