"""Running a study: plan its cells, precheck the user's models, compute what is missing, then summarise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from alebrije import adapters
from alebrije.errors import InputError
from alebrije.results import Result
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job, RunSummary, Workers, in_shard, run_jobs
from alebrije.studies.request import Request
from alebrije.suggest import did_you_mean

_OPTIONS = ("rules", "alphas")  # fields of a Request that only some studies use
_LOG = logging.getLogger("alebrije")


@dataclass(frozen=True, kw_only=True)
class Study:
    """What the runner knows about an instrument."""

    name: str  # in cells and on the command line
    metrics: tuple[str, ...]  # names of all values that its cells may have
    jobs: Callable[[ResultFolder, Request], list[Job]]  # the cells of a request
    summary_jobs: Callable[[Sequence[Result]], list[Job]] = lambda results: []  # cells computed from all results
    options: tuple[str, ...] = ()  # those of `rules` and `alphas` that it uses


@dataclass(frozen=True)
class PlannedStudy:
    """A study, a request, and the jobs that answer it."""

    study: Study
    request: Request
    jobs: tuple[Job, ...]


def plan_study(study: Study, folder: ResultFolder, request: Request) -> PlannedStudy:
    """The jobs of a request; an InputError if the study cannot answer it."""
    known = {name.lower() for name in study.metrics}
    for name in request.metrics:
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
    return PlannedStudy(study, request, tuple(jobs))


def precheck_models(planned: Iterable[PlannedStudy], folder: ResultFolder, shard: tuple[int, int] = (1, 1)) -> None:
    """Check each user's model that has missing cells, once; an InputError if its scores would be meaningless."""
    jobs = [job for each in planned for job in in_shard(each.jobs, shard) if job.encoder is not None]
    missing = {cell.key for cell in folder.store.missing([job.cell for job in jobs])} if jobs else set()
    unchecked: dict[int, Job] = {}
    for job in jobs:
        if job.cell.key in missing:
            unchecked.setdefault(id(job.encoder), job)
    for job in unchecked.values():
        assert job.encoder is not None
        for warning in adapters.precheck(job.encoder, job.pixels):
            _LOG.warning("%s", warning)


def run_study(planned: PlannedStudy, folder: ResultFolder, workers: Workers | None = None) -> RunSummary:
    """Compute the missing cells, then, once all are done, the cells that summarise them."""
    folder.ready()
    summary = run_jobs(planned.jobs, folder.store, workers)
    keys = {job.cell.key for job in planned.jobs}
    done = [result for result in folder.store.all() if result.key in keys and result.status == "done"]
    if len(done) == len(keys) and not planned.request.only_loaded:
        summary += run_jobs(planned.study.summary_jobs(done), folder.store)
    return summary
