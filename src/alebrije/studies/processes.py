"""Processes that get ready while a model is loaded, and then compute cells beside this one.

A process on a GPU takes seconds to get ready, so it keeps what it has: the model, its untrained twins, kernels, images.
Each takes the cells of one corpus at a time, one after another. While some encode images, others render or score.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from joblib.externals.loky import ProcessPoolExecutor, process_executor
from joblib.externals.loky.cloudpickle_wrapper import CloudpickledObjectWrapper

if TYPE_CHECKING:
    import torch

    from alebrije.studies.jobs import Computed, Job

_MOST = 8  # processes on a GPU: about as many as there are corpora, and some that encode for others
_CORES_EACH = 2
_MEMORY_EACH = 12 * 2**30  # bytes of the GPU
_CORPUS = ("world", "corpus", "rule")  # labels of a cell that say what its corpus is, besides the study

Compute = Callable[["Job"], "Computed"]
Prepare = Callable[[Sequence["Job"]], "list[Job]"]
_received: list[list[Job]] = []  # in a process that was started: the cells of each corpus


@dataclass(frozen=True)
class Processes:
    """Processes that are getting ready, besides this one."""

    pools: tuple[Any, ...]

    @classmethod
    def start(cls, count: int, device: str) -> Processes:
        """Processes that import what this one has imported, and start the device."""
        modules = tuple(name for name in sys.modules if name.partition(".")[0] == "alebrije")
        pools = tuple(ProcessPoolExecutor(max_workers=1) for _ in range(count))
        for pool in pools:
            pool.submit(_get_ready, modules, device, _precisions())
        return cls(pools)

    def end(self) -> None:
        """End the other processes."""
        for pool in self.pools:
            pool.shutdown(wait=False, kill_workers=True)


@contextmanager
def started_processes(count: int, device: str | torch.device | None) -> Iterator[Processes | None]:
    """`count` processes that import what this one has imported and start the GPU; None for a single one or a CPU.

    This process is one of them. The others end with the block.
    """
    import torch

    where = torch.device(device or "cpu")
    if count < 2 or where.type != "cuda":
        yield None
        return
    processes = Processes.start(count - 1, str(where))
    try:
        yield processes
    finally:
        processes.end()


def default_processes(device: str, size: str) -> int:
    """The number of processes for an evaluation on a GPU: one if they would take longer to start than the work."""
    import torch

    if size == "tiny" or torch.device(device).type != "cuda":
        return 1
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    return max(1, min(_MOST, (os.cpu_count() or 1) // _CORES_EACH, int(free // _MEMORY_EACH)))


def by_corpus(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of each corpus, those that take longest first: what others work ahead for, then many cells."""
    parts: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        labels = job.cell.labels
        parts.setdefault((job.cell.study, *(labels.get(name) for name in _CORPUS)), []).append(job)
    return sorted(parts.values(), key=lambda own: (all(job.ahead is None for job in own), -len(own)))


@dataclass(frozen=True)
class _Task:
    """The cells of a corpus. With a place, only what one of them needs is computed, for another process."""

    part: int
    place: int | None = None


@dataclass(frozen=True, eq=False)
class SharedWork:
    """The cells of each corpus, which this process and others take one after another. This one takes the first."""

    parts: Sequence[list[Job]]
    found: SimpleQueue[Computed] = field(default_factory=SimpleQueue)
    lost: list[Job] = field(default_factory=list)  # of a process that died
    tasks: deque[_Task] = field(default_factory=deque)

    def run(self, processes: Processes, prepare: Prepare, compute: Compute) -> Iterator[Computed]:
        """Results as they are stored. `prepare` makes the jobs of a corpus ready in the process that computes them."""
        ahead = [_Task(n, i) for n, own in enumerate(self.parts) for i, job in enumerate(own) if job.ahead is not None]
        # corpora whose images are cached keep the GPU busy, so what the longest work waits for comes before them
        seen = [n for n in range(1, len(self.parts)) if _seen(self.parts[n])]
        new = [_Task(n) for n in range(1, len(self.parts)) if n not in seen]
        both = zip_longest(new, reversed(ahead))  # this process begins with the first, so the others with the last
        self.tasks.extend([task for pair in both for task in pair if task is not None])
        self.tasks.extend([_Task(n) for n in seen])
        drives = self._drives(processes, prepare, compute)
        for job in prepare(self.parts[0]) if self.parts else ():
            yield compute(job)
            yield from self._arrived()
        yield from self._here(prepare, compute)
        while any(drive.is_alive() for drive in drives):
            yield from self._arrived(wait=0.05)
        yield from self._arrived()
        yield from self._here(prepare, compute)  # what could not be sent to another process

    def _drives(self, processes: Processes, prepare: Prepare, compute: Compute) -> list[threading.Thread]:
        """A thread for each process; none if the jobs cannot be sent, such as those of some models."""
        try:
            sent = _Sent([*CloudpickledObjectWrapper((self.parts, prepare, compute)).__reduce__()])
        except Exception:
            return []
        drives = [threading.Thread(target=self._drive, args=(pool, sent), daemon=True) for pool in processes.pools]
        for drive in drives:
            drive.start()
        return drives

    def _here(self, prepare: Prepare, compute: Compute) -> Iterator[Computed]:
        """Groups that nobody has taken."""
        with suppress(IndexError):
            while True:
                task = self.tasks.popleft()
                for job in prepare(self.parts[task.part]) if task.place is None else ():
                    yield compute(job)
                    yield from self._arrived()

    def _arrived(self, wait: float = 0.0) -> Iterator[Computed]:
        with suppress(Empty):
            while True:
                yield self.found.get(timeout=wait) if wait else self.found.get_nowait()

    def _drive(self, pool: Any, sent: _Sent) -> None:
        """Let one process carry out tasks while there are any."""
        try:
            pool.submit(_receive, sent).result()
        except Exception:  # it cannot read what was sent, or it died: others do the work
            return
        with suppress(IndexError):
            while True:
                task = self.tasks.popleft()
                jobs = self.parts[task.part]
                left = {job.cell.key: job for job in jobs} if task.place is None else {}
                places = range(len(jobs)) if task.place is None else [task.place]
                try:
                    for place in places:
                        computed = pool.submit(_carry_out, task.part, place, task.place is not None).result()
                        if computed is not None:
                            left.pop(computed.result.key, None)
                            self.found.put(computed)
                except Exception:  # the process died
                    self.lost.extend(left.values())
                    return


def _seen(jobs: Sequence[Job]) -> bool:
    """Whether this machine has examined pixels on a corpus, so that its images are probably cached."""
    return any(job.kept is not None and job.kept.exists for job in jobs)


class _Sent:
    """An object that is turned into bytes once, for several processes."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple(self.parts)


def _get_ready(modules: Sequence[str], device: str, precisions: Sequence[Any]) -> None:
    """Import modules, start the GPU, and round products there as the process does that started this one."""
    import torch

    process_executor._USE_PSUTIL = False  # joblib would end a process that keeps a model in memory
    for name in modules:
        importlib.import_module(name)
    torch.set_num_threads(1)  # as in cells
    torch.set_float32_matmul_precision(precisions[0])
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = precisions[1:]
    some = torch.zeros(1, 3, 8, 8, device=device)
    torch.nn.functional.conv2d(some, some).flatten() @ some.flatten()[:1]


def _precisions() -> tuple[Any, ...]:
    import torch

    cudnn = torch.backends.cudnn
    return torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark


def _receive(sent: Any) -> None:
    """Keep the cells of all corpora, ready to be computed."""
    global _compute
    parts, prepare, _compute = sent
    _received[:] = [prepare(jobs) for jobs in parts]


def _carry_out(part: int, place: int, only_ahead: bool) -> Computed | None:
    """Compute a cell, or only what it needs; an error in that is left to the cell."""
    job = _received[part][place]
    if not only_ahead:
        return _compute(job)
    with suppress(Exception):
        assert job.ahead is not None
        job.ahead()
    return None


def _compute(job: Job) -> Computed:
    raise RuntimeError("nothing was sent to this process")
