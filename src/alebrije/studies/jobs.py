"""Jobs: the missing cells are computed by one process or many, and each result is stored at once."""

from __future__ import annotations

import os
import re
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import ThreadpoolController

from alebrije.data.machine_cache import machine_cache
from alebrije.encoding import Shows
from alebrije.errors import InputError
from alebrije.imports import first_line
from alebrije.results import Cell, Result, Store
from alebrije.results.canonical_json import digest
from alebrije.studies.folder import ResultFolder
from alebrije.studies.kept_cells import Kept, kept_values
from alebrije.studies.processes import Processes, SharedWork, by_corpus
from alebrije.studies.stages import Activity, StageName, listening, seconds_of_stages, watched_processes, write_stages
from alebrije.studies.together import Together, Work, joined

if TYPE_CHECKING:
    from alebrije.studies.model import Model

Backend = Literal["local", "ray"]
Progress = Callable[[int, int, Cell, float], object]  # cells done, cells in all, the last cell, seconds left
_IMAGES = ("world", "corpus", "rule", "alpha")  # labels of the images that a cell needs
_RAY_SECONDS = 10  # to wait for the first answer of a cluster
_POLL_SECONDS = 0.5  # between looks for results that other machines have stored


class LostWorkerError(RuntimeError):
    """The process that computed a cell died, for instance because memory ran out."""


@dataclass(frozen=True)
class Job:
    """A cell and the work that computes it. The work may depend only on the cell's inputs."""

    cell: Cell
    work: Work
    model: Model | None = None  # what is examined; None for a cell about several models
    pixels: int | None = None  # side of the images that it is shown
    together: Together | None = None  # how it is computed beside others
    kept: Kept | None = None  # where its values are kept once per machine
    ahead: Callable[[], object] | None = None  # what another process can compute for it before
    shows: Shows = "images"  # what it is shown


@dataclass(frozen=True)
class Workers:
    """Who computes the cells: how many processes, where, and which shard (i, n) of the cells is theirs."""

    count: int = 1
    backend: Backend = "local"
    shard: tuple[int, int] = (1, 1)
    progress: Progress | None = None
    activity: Activity | None = None
    processes: Processes | None = None  # that are ready to compute the cells of a corpus


@dataclass(frozen=True)
class Computed:
    """A result, and how long each stage of its work took; no stages if another process had stored it before."""

    result: Result
    stages: Mapping[StageName, float] = field(default_factory=dict)


@dataclass
class RunSummary:
    """How the requested cells ended."""

    kept: int = 0  # stored before
    done: int = 0
    failed: list[Result] = field(default_factory=list)
    seconds: float = 0.0  # of work, summed over processes
    stages: dict[StageName, float] = field(default_factory=dict)  # the same, by stage

    def __add__(self, other: RunSummary) -> RunSummary:
        total = RunSummary(
            self.kept + other.kept, self.done + other.done, self.failed + other.failed, self.seconds + other.seconds
        )
        for each in (self, other):
            total.add_stages(each.stages)
        return total

    def add_stages(self, stages: Mapping[StageName, float]) -> None:
        """Add the seconds of each stage of a cell."""
        for name, seconds in stages.items():
            self.stages[name] = self.stages.get(name, 0.0) + seconds

    def __str__(self) -> str:
        return f"{self.done:,} computed, {self.kept:,} already done, {len(self.failed):,} failed"


def run_jobs(jobs: Sequence[Job], store: Store, workers: Workers | None = None) -> RunSummary:
    """Compute the jobs whose cells are not in the store. A failing cell is stored as failed; the others go on.

    Failed cells are tried again. Each process stores its results itself, so nothing finished is lost when one is
    killed, and the same call continues. With a shard (i, n), n machines that share the folder share the work.
    """
    workers = workers or Workers()
    shard = in_shard(jobs, workers.shard)
    missing = {cell.key for cell in store.missing([job.cell for job in shard])}
    todo = [job for job in shard if job.cell.key in missing]
    summary = RunSummary(kept=len(shard) - len(todo))
    if todo and (images := machine_cache()) is not None:
        images.check_usable()  # here, so that no process of several says it again
    started = time.perf_counter()
    for computed in _computed(todo, store.folder.absolute(), workers):
        result = computed.result
        summary.seconds += result.seconds
        summary.add_stages(computed.stages)
        if result.status == "done":
            summary.done += 1
        else:
            summary.failed.append(result)
        count = summary.done + len(summary.failed)
        if workers.progress is not None:
            left = (time.perf_counter() - started) / count * (len(todo) - count)
            workers.progress(count, len(todo), result.cell, left)
    return summary


def in_shard(jobs: Sequence[Job], shard: tuple[int, int]) -> list[Job]:
    """The i-th of n shards of the jobs, each cell once. It is the same on every machine.

    >>> jobs = [Job(Cell(study="s", inputs={"number": n}), dict) for n in range(10)]
    >>> sum(len(in_shard(jobs, (i, 3))) for i in (1, 2, 3)), len(in_shard(jobs + jobs, (1, 1)))
    (10, 10)
    """
    part, parts = shard
    if not 1 <= part <= parts:
        raise InputError(f"a shard is i/n with i from 1 to n, not {part}/{parts}")
    once = {job.cell.key: job for job in jobs}
    order = sorted(once)[part - 1 :: parts]
    chosen = set(order)
    return [job for key, job in once.items() if key in chosen]


def estimate(jobs: Sequence[Job], store: Store) -> float | None:
    """Seconds to compute the missing cells one by one, from the median of their study; None if unknown."""
    done = [result for result in store.all() if result.status == "done"]
    times: dict[str, list[float]] = {}
    for result in done:
        times.setdefault(result.cell.study, []).append(result.seconds)
    missing = store.missing([job.cell for job in jobs])
    if any(cell.study not in times for cell in missing):
        return None
    return sum(statistics.median(times[cell.study]) for cell in missing)


def _computed(jobs: Sequence[Job], folder: Path, workers: Workers) -> Iterator[Computed]:
    """Results of jobs as they finish."""
    if workers.count == 1 and workers.backend == "local":
        with listening(workers.activity):
            yield from (_compute(job, folder) for job in joined(jobs))
        return
    if workers.processes is not None:
        yield from _by_corpus(jobs, folder, workers.processes, workers.activity)
        return
    lost = _lost_workers(workers.backend)
    waiting = {job.cell.key: job for job in _spread(jobs)}
    try:
        compute = _on_ray if workers.backend == "ray" else _on_this_machine
        for computed in compute(list(waiting.values()), folder, workers):
            waiting.pop(computed.result.key, None)
            yield computed
    except lost:
        # a pool does not say which job killed a process: compute the remaining ones one at a time
        yield from _one_by_one(waiting.values(), folder, workers.backend, lost)
    except Exception as error:
        if type(error).__name__ not in ("PicklingError", "BrokenProcessPool"):
            raise
        # a model that cannot be pickled for another process stays in this one
        yield from (_compute(job, folder) for job in waiting.values())


def _spread(jobs: Sequence[Job]) -> list[Job]:
    """Jobs in an order in which neighbours share neither images nor a model.

    While one process renders images or trains a model, others that need the same would wait.
    """
    by_images: dict[str, list[Job]] = {}
    for job in jobs:
        about = [job.cell.labels.get(name) for name in _IMAGES]
        by_images.setdefault(digest([job.cell.study, *about]), []).append(job)
    turned = [_rotated(_by_model(own), turn) for turn, own in enumerate(by_images.values())]
    return [job for round_ in zip_longest(*turned) for job in round_ if job is not None]


def _by_model(jobs: Sequence[Job]) -> list[Job]:
    """Jobs in rounds of one for each model."""
    by_model: dict[str, list[Job]] = {}
    for job in jobs:
        model = job.cell.inputs.get("subject")
        plan = model.get("plan") if isinstance(model, dict) else None
        by_model.setdefault(digest(plan or model), []).append(job)
    return [job for round_ in zip_longest(*by_model.values()) for job in round_ if job is not None]


def _rotated(jobs: list[Job], turn: int) -> list[Job]:
    turn %= max(len(jobs), 1)
    return jobs[turn:] + jobs[:turn]


def _on_this_machine(jobs: Iterable[Job], folder: Path, workers: Workers) -> Iterator[Computed]:
    with watched_processes(workers.activity) as stages:
        calls = (delayed(_apart)(job, folder, os.getpid(), stages) for job in jobs)
        yield from Parallel(n_jobs=workers.count, return_as="generator_unordered")(calls)


def _by_corpus(
    jobs: Sequence[Job], folder: Path, processes: Processes, activity: Activity | None
) -> Iterator[Computed]:
    """Results of cells, those of one corpus in one process.

    Where the memory of a GPU was too small for several processes, cells are computed again at the end.
    """
    work, again = SharedWork(by_corpus(jobs)), dict[str, Job]()
    by_key = {job.cell.key: job for job in jobs}
    with watched_processes(activity) as stages:
        compute = partial(_apart, folder=folder, parent=os.getpid(), stages=stages)
        for computed in work.run(processes, joined, compute):
            if computed.result.status == "failed" and "out of memory" in computed.result.fault:
                again[computed.result.key] = by_key[computed.result.key]
            else:
                yield computed
    processes.end()
    yield from _one_by_one(work.lost, folder, "local", _lost_workers("local"))
    with listening(activity):
        yield from (_compute(job, folder) for job in joined(list(again.values())))


def _on_ray(jobs: Sequence[Job], folder: Path, workers: Workers) -> Iterator[Computed]:
    """Results as they finish if the cluster shares the folder, else at the end: Ray returns all at once."""
    store, waiting = Store(folder), {job.cell.key: job.cell for job in jobs}
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(_all_on_ray, jobs, folder, workers.count)
        while not wait([answers], timeout=_POLL_SECONDS).done:
            for cell in list(waiting.values()):
                # a failed result may be from an earlier run and about to be replaced
                if store.has_file(cell) and (result := store.get(cell)) is not None and result.status == "done":
                    del waiting[cell.key]
                    yield Computed(result)
        for computed in answers.result():
            if computed.result.key in waiting:
                store.put(computed.result)  # a machine with its own disk stored it there
                yield computed


def _all_on_ray(jobs: Iterable[Job], folder: Path, workers: int) -> list[Computed]:
    """All results from Ray. One worker means as many as the cluster has."""
    with parallel_config(backend="ray"):
        calls = (delayed(_compute)(job, folder) for job in jobs)
        found: list[Computed] = Parallel(n_jobs=-1 if workers == 1 else workers, batch_size=1)(calls)
    return found


def _one_by_one(
    jobs: Iterable[Job], folder: Path, backend: Backend, lost: tuple[type[BaseException], ...]
) -> Iterator[Computed]:
    """Each job alone in a process that may die."""
    store = Store(folder)
    for job in jobs:
        started = time.perf_counter()
        there = store.get(job.cell)
        if there is not None and there.status == "done":  # stored before the pool died
            yield Computed(there)
            continue
        try:
            if backend == "ray":
                (computed,) = _all_on_ray([job], folder, 2)
            else:
                (computed,) = Parallel(n_jobs=2)([delayed(_apart)(job, folder, os.getpid())])
        except lost:
            error = LostWorkerError("the process that computed this cell was killed; it may have run out of memory")
            computed = Computed(Result.failed(job.cell, error, seconds=time.perf_counter() - started))
        store.put(computed.result)
        yield computed


def _lost_workers(backend: Backend) -> tuple[type[BaseException], ...]:
    """The exceptions for a dead process of a pool. Registers Ray if it is the backend."""
    if backend == "local":
        return (TerminatedWorkerError,)
    try:
        from ray.exceptions import RayError  # type: ignore[import-not-found, unused-ignore]
        from ray.util.joblib import register_ray  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InputError(
            "the backend ray needs the package ray; install it with: pip install 'alebrije[cluster]'"
        ) from None
    register_ray()  # type: ignore[no-untyped-call, unused-ignore]
    _start_ray()
    return (RayError,)


def _start_ray() -> None:
    """Connect to the cluster, or start one on this machine; an InputError if neither works."""
    import ray  # type: ignore[import-not-found, unused-ignore]

    if ray.is_initialized():
        return
    address = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", os.environ.get("RAY_ADDRESS", ""))
    try:
        if address:  # Ray itself would try for minutes
            _check_speaks_http2(address[1], int(address[2]))
        ray.init()
    except Exception as error:  # Ray has errors of many kinds
        raise InputError(f"--backend ray: no Ray cluster can be reached or started ({first_line(error)})") from error


def _check_speaks_http2(host: str, port: int) -> None:
    """Raise an OSError unless a server speaks HTTP/2, as Ray's do; Ray would wait for any other forever."""
    with socket.create_connection((host, port), _RAY_SECONDS) as connection:
        connection.settimeout(_RAY_SECONDS)
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        answer = connection.recv(9)
    if len(answer) < 4 or answer[3] != 4:  # a frame of settings comes first
        raise OSError(f"the server at {host}:{port} is not a Ray server")


def _apart(job: Job, folder: Path, parent: int, stages: Path | None = None) -> Computed:
    """`_compute` in a process that `parent` started, or in `parent` itself; its stage is written into a folder."""
    if os.getppid() == parent:
        _end_with(parent)
    with listening(write_stages(stages)):
        return _compute(job, folder)


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent was killed, so that it does not disturb the next run."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _compute(job: Job, folder: Path) -> Computed:
    """Compute and store one cell. An exception becomes its result."""
    started = time.perf_counter()
    _keep_memory()
    with seconds_of_stages() as stages:
        try:
            with _one_thread():
                values = job.work() if job.kept is None else kept_values(job, ResultFolder(folder.parent))
            result = Result.done(job.cell, values, seconds=time.perf_counter() - started)
        except Exception as error:
            result = Result.failed(job.cell, error, seconds=time.perf_counter() - started)
        stored = Store(folder).put(result)
    return Computed(stored, stages)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread, so that sums and therefore results do not depend on the number of processes."""
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
    """The thread pools of this process, looked up once because that takes as long as a small cell."""
    return ThreadpoolController()


@cache
def _keep_memory() -> None:
    """Make glibc keep freed memory: small networks on a CPU would otherwise allocate theirs in every step.

    Freeing one large block raises the threshold above which glibc returns memory; its limit is 32 MB.
    """
    import torch

    torch.empty(2**25 - 2**16, dtype=torch.uint8)
