"""Processes that start while a model is loaded and then compute whole groups of cells.

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
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import TerminatedWorkerError

if TYPE_CHECKING:
    import torch

    from alebrije.studies.jobs import Computed, Job

_MOST = 6  # processes on a GPU: about as many as there are groups of cells
_CORES_EACH = 2
_MEMORY_EACH = 12 * 2**30  # bytes of the GPU
_IN_GROUP = ("world", "corpus", "rule")  # labels of a cell that decide its group, besides the study

Compute = Callable[["Job"], "Computed"]
_taken: dict[int, list[Job]] = {}  # groups of this process, by their number


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


def grouped(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of each corpus, those that take longest first: heads that are fitted together, then many cells."""
    groups: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        labels = job.cell.labels
        groups.setdefault((job.cell.study, *(labels.get(name) for name in _IN_GROUP)), []).append(job)
    return sorted(groups.values(), key=lambda own: (all(job.together is None for job in own), -len(own)))


@dataclass(frozen=True, eq=False)
class SharedWork:
    """Groups of cells that this process and others take one after another."""

    groups: deque[tuple[int, list[Job]]]
    found: SimpleQueue[Computed] = field(default_factory=SimpleQueue)
    lost: list[Job] = field(default_factory=list)  # of a process that died

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> SharedWork:
        """All groups of some jobs."""
        return cls(deque(enumerate(grouped(jobs))))

    def run(self, processes: Processes, prepare: Any, compute: Any, here: Compute) -> Iterator[Computed]:
        """Results as they are stored. `compute` runs in another process, `here` in this one.

        `prepare` makes the jobs of a group ready in the process that computes them.
        """
        threads = [
            threading.Thread(target=self._drive, args=(pool, prepare, compute), daemon=True) for pool in processes.pools
        ]
        with suppress(IndexError):
            _, own = self.groups.popleft()
            for thread in threads:
                thread.start()
            while True:
                for job in prepare(own):
                    yield here(job)
                    yield from self._arrived()
                _, own = self.groups.popleft()
        while any(thread.is_alive() for thread in threads):
            yield from self._arrived(wait=0.1)
        yield from self._arrived()
        with suppress(IndexError):  # groups that could not be sent to another process
            while True:
                for job in prepare(self.groups.popleft()[1]):
                    yield here(job)

    def _arrived(self, wait: float = 0.0) -> Iterator[Computed]:
        with suppress(Empty):
            while True:
                yield self.found.get(timeout=wait) if wait else self.found.get_nowait()

    def _drive(self, pool: Any, prepare: Any, compute: Any) -> None:
        """Let one process compute groups while there are any."""
        while True:
            try:
                number, jobs = self.groups.popleft()
            except IndexError:
                return
            left = {job.cell.key: job for job in jobs}
            try:
                pool.submit(_take, number, jobs, prepare).result()
            except TerminatedWorkerError:
                self.lost.extend(left.values())
                return
            except Exception:  # a model that cannot be pickled stays in the first process
                self.groups.append((number, jobs))
                return
            try:
                for place in range(len(jobs)):
                    computed = pool.submit(_compute_taken, number, place, compute).result()
                    left.pop(computed.result.key, None)
                    self.found.put(computed)
            except Exception:
                self.lost.extend(left.values())
                return


def _get_ready(modules: Sequence[str], device: str, precisions: Sequence[Any]) -> None:
    """Import modules, start the GPU, and round products there as the process does that started this one."""
    import torch

    for name in modules:
        importlib.import_module(name)
    torch.set_float32_matmul_precision(precisions[0])
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = precisions[1:]
    some = torch.zeros(1, 3, 8, 8, device=device)
    torch.nn.functional.conv2d(some, some).flatten() @ some.flatten()[:1]


def _precisions() -> tuple[Any, ...]:
    import torch

    cudnn = torch.backends.cudnn
    return torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark


def _take(number: int, jobs: list[Job], prepare: Callable[[list[Job]], list[Job]]) -> None:
    _taken.clear()
    _taken[number] = prepare(jobs)


def _compute_taken(number: int, place: int, compute: Compute) -> Computed:
    return compute(_taken[number][place])
