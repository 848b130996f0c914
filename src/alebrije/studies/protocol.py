"""What every study has in common: what can be asked of it, its cells, and how they are run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from alebrije import adapters
from alebrije.adapters import FORMS
from alebrije.errors import InputError
from alebrije.models.catalog import catalog, suggestion
from alebrije.results import Result, Store
from alebrije.studies.cells import Backend, Job, Progress, Tally, in_shard, run_jobs
from alebrije.studies.folder import Folder
from alebrije.studies.subjects import CALLED, REFERENCES, Subject, sized

Size = Literal["tiny", "small", "paper"]
SIZES: tuple[Size, ...] = ("tiny", "small", "paper")
_OF_SOME = ("rules", "alphas")  # what of an Ask not every study reads
_LOG = logging.getLogger("alebrije")
STUDY_NAMES = ("analogy", "imagination", "grouping", "neurons")


@dataclass(frozen=True)
class Ask:
    """What is wanted of a study; what is empty is left to the study and its size.

    `models` are names of references or of models that are trained for the study (`alebrije models`), or specs;
    `subjects` are examined besides, as they are. `metrics` are names of values, to compute no others.
    """

    size: Size = "small"
    models: tuple[str, ...] = ()
    subjects: tuple[Subject, ...] = ()
    metrics: tuple[str, ...] = ()
    worlds: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    seeds: int | None = None  # trainings of each model, numbered from 0
    device: str = "cpu"
    only_subjects: bool = False  # nothing is examined but `subjects`

    def examined(self, pixels: int) -> tuple[Subject, ...]:
        """The subjects that are examined besides; the reference `pixels` sees images of so many pixels a side."""
        return tuple(sized(subject, pixels) for subject in self.subjects)

    def wants(self, metric: str) -> bool:
        """Whether a value is to be computed."""
        return not self.metrics or metric.lower() in {name.lower() for name in self.metrics}


@dataclass(frozen=True)
class Study:
    """A protocol: its cells, and what is found in all of them together."""

    name: str
    title: str
    question: str
    cites: str
    jobs: Callable[[Folder, Ask], list[Job]]
    metrics: tuple[str, ...]  # names of the values that its cells may have
    after: Callable[[Sequence[Result]], list[Job]] = lambda results: []
    reads: tuple[str, ...] = ()  # of `_OF_SOME`, what of an Ask it reads


def get(name: str) -> Study:
    """A study by its name."""
    if name not in STUDY_NAMES:
        raise InputError(f"there is no study {name!r}{suggestion(name, list(STUDY_NAMES))}")
    study: Study = import_module(f"alebrije.studies.{name}").STUDY
    return study


def studies() -> Mapping[str, Study]:
    """All four studies by name."""
    return {name: get(name) for name in STUDY_NAMES}


def planned(study: Study, folder: Folder, ask: Ask) -> list[Job]:
    """The cells of a study; a request that is for nothing at all is refused."""
    known = {name.lower() for name in study.metrics}
    for name in ask.metrics:
        if name.lower() not in known:
            raise InputError(f"{study.name} has no value {name!r}{suggestion(name, list(study.metrics))}")
    for option in _OF_SOME:
        if getattr(ask, option) and option not in study.reads:
            readers = ", ".join(name for name, each in studies().items() if option in each.reads)
            raise InputError(f"{study.name} has no {option}; they are for {readers}")
    if ask.seeds is not None and ask.seeds < 1:
        raise InputError(f"seeds must be at least 1, not {ask.seeds}")
    for name in ask.models:
        _see_that_it_is_known(name)
    jobs = study.jobs(folder, ask)
    if not jobs:
        wanted = f" for {', '.join(ask.metrics)} alone" if ask.metrics else ""
        raise InputError(f"{study.name} has no cell to compute{wanted}; ask for more metrics or models")
    return jobs


def _see_that_it_is_known(model: str) -> None:
    """Raise an InputError for the name of a model that is neither a reference, nor trained here, nor from outside."""
    known = [*REFERENCES, *catalog(), *CALLED.values()]
    if ":" not in model and model not in known:
        raise InputError(f"there is no model {model!r} (one from outside is {FORMS}){suggestion(model, known)}")


def _look_before(jobs: Sequence[Job], store: Store) -> None:
    """Refuse models from outside whose scores would mean nothing, unless nothing is missing of them."""
    missing = {cell.key for cell in store.missing([job.cell for job in jobs])}
    examined = {id(job.stranger): job for job in jobs if job.cell.key in missing}
    for job in examined.values():
        if job.stranger is not None:
            for sentence in adapters.look_before(job.stranger, job.pixels):
                _LOG.warning("%s", sentence)


def run_study(
    study: Study,
    folder: Folder,
    ask: Ask,
    *,
    workers: int = 1,
    backend: Backend = "local",
    shard: tuple[int, int] = (1, 1),
    progress: Progress | None = None,
    looked: bool = False,
) -> Tally:
    """Compute what is missing of a study; then, once every cell is there, what is found in all of them together.

    A model from outside whose scores would mean nothing is refused before any is computed (`adapters.look_before`),
    unless whoever calls has `looked` at it already.
    """
    jobs = planned(study, folder, ask)
    if not looked:
        _look_before(in_shard(jobs, shard), folder.store)
    folder.ready()  # not before the request is known to be good
    tally = run_jobs(jobs, folder.store, workers=workers, backend=backend, shard=shard, progress=progress)
    cells = {job.cell.key for job in jobs}
    done = [result for result in folder.store.all() if result.key in cells and result.status == "done"]
    if len(done) == len(cells) and not ask.only_subjects:
        tally += run_jobs(study.after(done), folder.store)
    return tally
