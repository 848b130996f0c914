"""Many cells: computed by one process or by many, each stored as soon as it is found, and only what is missing."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import ThreadpoolController

from alebrije.errors import InputError
from alebrije.results import Cell, Result, Store, Value
from alebrije.results.canonical import digest

if TYPE_CHECKING:
    from alebrije.adapters import Adapted

Backend = Literal["local", "ray"]
_LOOK_EVERY = 0.5  # seconds, for what others have stored
Progress = Callable[[int, int, Cell, float], object]  # done, of how many, the last one, seconds left


class LostWorkerError(RuntimeError):
    """The process that computed a cell ended without a word, as when memory runs out."""


@dataclass(frozen=True)
class Job:
    """A cell and how to compute it; the work must not depend on anything that the cell's inputs leave out."""

    cell: Cell
    work: Callable[[], Mapping[str, Value | float]]
    stranger: Adapted | None = None  # the model from outside that it examines, to be looked at before
    pixels: int | None = None  # a side of the images that it is shown


@dataclass
class Tally:
    """What became of the cells that were asked for."""

    kept: int = 0  # were there already
    done: int = 0
    failed: list[Result] = field(default_factory=list)
    seconds: float = 0.0  # of work, added up over processes

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.kept + other.kept, self.done + other.done, self.failed + other.failed, self.seconds + other.seconds
        )

    def __str__(self) -> str:
        return f"{self.done:,} computed, {self.kept:,} there already, {len(self.failed):,} failed"


def run_jobs(
    jobs: Sequence[Job],
    store: Store,
    *,
    workers: int = 1,
    backend: Backend = "local",
    shard: tuple[int, int] = (1, 1),
    progress: Progress | None = None,
) -> Tally:
    """Compute the jobs whose cells are not done in the store; a cell that fails is stored as such, the others go on.

    Cells that failed before are tried again. `shard` (i, n) takes the i-th of n parts, the same on every machine, so
    that n machines with one folder share the work. Each process stores what it found by itself: killed at any moment,
    nothing that was finished is lost, and the same call goes on.
    """
    mine = in_shard(jobs, shard)
    open_cells = {cell.key for cell in store.missing([job.cell for job in mine])}
    todo = [job for job in mine if job.cell.key in open_cells]
    tally = Tally(kept=len(mine) - len(todo))
    started = time.perf_counter()
    for result in _computed(todo, store.folder.absolute(), workers, backend):
        tally.seconds += result.seconds
        if result.status == "done":
            tally.done += 1
        else:
            tally.failed.append(result)
        count = tally.done + len(tally.failed)
        if progress is not None:
            left = (time.perf_counter() - started) / count * (len(todo) - count)
            progress(count, len(todo), result.cell, left)
    return tally


def in_shard(jobs: Sequence[Job], shard: tuple[int, int]) -> list[Job]:
    """The i-th of n parts of the jobs, each cell once; the same on every machine for the same jobs.

    >>> jobs = [Job(Cell(study="s", inputs={"number": n}), dict) for n in range(10)]
    >>> sum(len(in_shard(jobs, (i, 3))) for i in (1, 2, 3)), len(in_shard(jobs + jobs, (1, 1)))
    (10, 10)
    """
    part, parts = shard
    if not 1 <= part <= parts:
        raise InputError(f"a shard is written i/n with i from 1 to n, not {part}/{parts}")
    once = {job.cell.key: job for job in jobs}
    order = sorted(once)[part - 1 :: parts]
    chosen = set(order)
    return [job for key, job in once.items() if key in chosen]


def estimate(jobs: Sequence[Job], store: Store) -> float | None:
    """Seconds that the missing cells will take one after another, by those of their study that are done."""
    done = [result for result in store.all() if result.status == "done"]
    times: dict[str, list[float]] = {}
    for result in done:
        times.setdefault(result.cell.study, []).append(result.seconds)
    missing = store.missing([job.cell for job in jobs])
    if any(cell.study not in times for cell in missing):
        return None
    return sum(statistics.median(times[cell.study]) for cell in missing)


def _computed(jobs: Sequence[Job], folder: Path, workers: int, backend: Backend) -> Iterator[Result]:
    """The results of jobs as they come."""
    if workers == 1 and backend == "local":
        yield from (_compute(job, folder) for job in jobs)
        return
    lost = _lost_workers(backend)
    waiting = {job.cell.key: job for job in _spread(jobs)}
    try:
        for result in (_on_ray if backend == "ray" else _on_this_machine)(list(waiting.values()), folder, workers):
            waiting.pop(result.key, None)
            yield result
    except lost:
        # a pool does not say which of its processes died of what: those that are left go one at a time
        yield from _one_by_one(waiting.values(), folder, backend, lost)
    except Exception as error:
        if type(error).__name__ not in ("PicklingError", "BrokenProcessPool"):
            raise
        # a model that cannot be sent to another process, or not be read there, stays in this one
        yield from (_compute(job, folder) for job in waiting.values())


def _spread(jobs: Sequence[Job]) -> list[Job]:
    """The jobs in an order in which those of one subject are far apart: while one trains it, the others would wait."""
    by_subject: dict[str, list[Job]] = {}
    for job in jobs:
        subject = job.cell.inputs.get("subject")
        trained = subject.get("plan") if isinstance(subject, dict) else None
        by_subject.setdefault(digest(trained or subject), []).append(job)
    return [job for turn in zip_longest(*by_subject.values()) for job in turn if job is not None]


def _on_this_machine(jobs: Iterable[Job], folder: Path, workers: int) -> Iterator[Result]:
    calls = (delayed(_apart)(job, folder, os.getpid()) for job in jobs)
    yield from Parallel(n_jobs=workers, return_as="generator_unordered")(calls)


def _on_ray(jobs: Sequence[Job], folder: Path, workers: int) -> Iterator[Result]:
    """As they come where the cluster shares the folder, and else at the end, for Ray gives all answers together."""
    store, waiting = Store(folder), {job.cell.key: job.cell for job in jobs}
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(_all_on_ray, jobs, folder, workers)
        while not wait([answers], timeout=_LOOK_EVERY).done:
            for cell in list(waiting.values()):
                # one that failed may have done so before, and be computed anew right now
                if store.has_file(cell) and (result := store.get(cell)) is not None and result.status == "done":
                    del waiting[cell.key]
                    yield result
        for result in answers.result():
            if result.key in waiting:
                yield store.put(result)  # a machine with a disk of its own keeps it there


def _all_on_ray(jobs: Iterable[Job], folder: Path, workers: int) -> list[Result]:
    """One worker would be this process itself, so it means all that the cluster has."""
    with parallel_config(backend="ray"):
        calls = (delayed(_compute)(job, folder) for job in jobs)
        found: list[Result] = Parallel(n_jobs=-1 if workers == 1 else workers, batch_size=1)(calls)
    return found


def _one_by_one(
    jobs: Iterable[Job], folder: Path, backend: Backend, lost: tuple[type[BaseException], ...]
) -> Iterator[Result]:
    """Each job in a process that may die of it."""
    store = Store(folder)
    for job in jobs:
        started = time.perf_counter()
        there = store.get(job.cell)
        if there is not None and there.status == "done":  # stored before the pool broke
            yield there
            continue
        try:
            if backend == "ray":
                (result,) = _all_on_ray([job], folder, 2)
            else:
                (result,) = Parallel(n_jobs=2)([delayed(_apart)(job, folder, os.getpid())])
        except lost:
            error = LostWorkerError("the process that computed this cell was killed, perhaps for want of memory")
            result = Result.failed(job.cell, error, seconds=time.perf_counter() - started)
        yield store.put(result)


def _lost_workers(backend: Backend) -> tuple[type[BaseException], ...]:
    """What is raised when a process of a pool dies; Ray is made ready."""
    if backend == "local":
        return (TerminatedWorkerError,)
    try:
        from ray.exceptions import RayError  # type: ignore[import-not-found, unused-ignore]
        from ray.util.joblib import register_ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InputError("the backend ray needs the package ray: pip install 'alebrije[cluster]'") from None
    register_ray()  # type: ignore[no-untyped-call, unused-ignore]
    return (RayError,)


def _apart(job: Job, folder: Path, parent: int) -> Result:
    """As `_compute`, in a process that `parent` has started; joblib may also call it in that one itself."""
    if os.getppid() == parent:
        _end_with(parent)
    return _compute(job, folder)


@cache
def _end_with(parent: int) -> None:
    """Let this process end soon after the one that started it was killed, lest it be in the way of the next run."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _compute(job: Job, folder: Path) -> Result:
    """Compute and store one cell; what goes wrong in it is its result."""
    started = time.perf_counter()
    _keep_memory()
    try:
        with _one_thread():
            values = job.work()
        result = Result.done(job.cell, values, seconds=time.perf_counter() - started)
    except Exception as error:
        result = Result.failed(job.cell, error, seconds=time.perf_counter() - started)
    return Store(folder).put(result)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Numbers are added up as a single thread does it, so what is found does not depend on how many share the work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _threads().limit(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _threads() -> ThreadpoolController:
    """The libraries of this process that have threads; to look for them takes as long as a small cell."""
    return ThreadpoolController()


@cache
def _keep_memory() -> None:
    """Let this process keep memory that is freed, for the next step: glibc returns blocks larger than any freed before.

    Small networks on a CPU would ask for theirs anew in every step. The largest size that glibc heeds is 32 MB.
    """
    import torch

    torch.empty(2**25 - 2**16, dtype=torch.uint8)
