"""Processes that compute the cells of a corpus: the same results, wherever a cell is computed and whoever dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from alebrije.results import Cell, Store, Value
from alebrije.studies.jobs import Job, Workers, run_jobs
from alebrije.studies.processes import Processes, by_corpus, default_processes, started_processes
from alebrije.studies.together import Together

_PATIENCE = 60.0  # seconds that a cell waits for one of another process


def label(number: int, note: Path) -> Mapping[str, Value | float]:
    """A value, and a file that says which process computed it."""
    (note / f"{number}-{os.getpid()}").touch()
    return {"number": float(number)}


def patient(number: int, note: Path) -> Mapping[str, Value | float]:
    """Wait until another process has begun a cell."""
    given_up = time.monotonic() + _PATIENCE
    while not (note / "begun").exists() and time.monotonic() < given_up:
        time.sleep(0.02)
    return label(number, note)


def deadly(number: int, note: Path) -> Mapping[str, Value | float]:
    """Kill every process but the one that the tests run in, once."""
    if os.getpid() != _parent(note) and not (note / "begun").exists():
        (note / "begun").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return label(number, note)


def short_of_memory(number: int, note: Path) -> Mapping[str, Value | float]:
    """Fail in every process but the one that the tests run in."""
    if os.getpid() != _parent(note):
        (note / "begun").touch()
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
    return label(number, note)


def with_lock(number: int, note: Path, lock: object) -> Mapping[str, Value | float]:
    """Work that cannot be sent to another process."""
    assert lock is not None
    return label(number, note)


def doubled(items: Sequence[int]) -> list[partial[Mapping[str, float]] | None]:
    """Work that notes in its values how many cells were computed together."""
    return [partial(dict, number=float(item), together=float(len(items))) for item in items]


def job(number: int, corpus: str, note: Path, work: object = label, **more: object) -> Job:
    cell = Cell(study="numbers", labels={"corpus": corpus, "number": number}, inputs={"number": number})
    return Job(cell, partial(work, number, note, **more))  # type: ignore[operator]


def _parent(note: Path) -> int:
    return int((note / "parent").read_text())


@pytest.fixture
def note(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "parent").write_text(str(os.getpid()))
    return folder


def run(jobs: Sequence[Job], tmp_path: Path) -> dict[object, float | None]:
    """The values of all cells, computed by this process and another one."""
    store, processes = Store(tmp_path / "results"), Processes.start(1, "cpu")
    summary = run_jobs(jobs, store, Workers(2, processes=processes))
    processes.end()
    assert (summary.done, summary.failed) == (len(jobs), [])
    return {result.cell.labels["number"]: result.values["number"].score for result in store.all()}


def test_cells_of_one_corpus_stay_together_and_those_with_work_ahead_come_first(note: Path) -> None:
    jobs = [job(0, "a", note), job(1, "b", note), job(2, "b", note), replace(job(3, "c", note), ahead=dict)]
    numbers = [[each.cell.labels["number"] for each in own] for own in by_corpus(jobs)]
    assert numbers == [[3], [1, 2], [0]]


def test_a_gpu_is_needed_and_tiny_work_stays_in_one_process() -> None:
    with started_processes(4, "cpu") as found:
        assert found is None
    assert default_processes("cuda", "tiny") == default_processes("cpu", "small") == 1


def test_corpora_are_computed_side_by_side(tmp_path: Path, note: Path) -> None:
    jobs = [job(0, "a", note, patient), *(job(n, "a", note) for n in range(4, 8))]
    jobs += [job(n, "b", note, short_of_memory) for n in (1, 2)]
    assert run(jobs, tmp_path) == {job.cell.labels["number"]: float(job.cell.inputs["number"]) for job in jobs}


@pytest.mark.parametrize("work", [deadly, short_of_memory])
def test_what_another_process_could_not_compute_is_computed_again(tmp_path: Path, note: Path, work: object) -> None:
    jobs = [job(0, "a", note, patient), job(1, "a", note), job(2, "b", note, work), job(3, "b", note)]
    assert run(jobs, tmp_path) == {n: float(n) for n in range(4)}
    assert (note / "begun").exists()


def test_work_that_cannot_be_sent_stays_in_this_process(tmp_path: Path, note: Path) -> None:
    jobs = [job(n, "ab"[n % 2], note, with_lock, lock=threading.Lock()) for n in range(4)]
    assert run(jobs, tmp_path) == {n: float(n) for n in range(4)}
    assert {path.name.partition("-")[2] for path in note.glob("*-*")} == {str(os.getpid())}


def test_cells_that_belong_together_are_started_at_once_in_another_process(tmp_path: Path, note: Path) -> None:
    together = Together("key", None, doubled)
    jobs = [Job(job(n, "b", note).cell, partial(label, n, note), together=replace(together, item=n)) for n in (1, 2)]
    found = run([job(0, "a", note, patient), *jobs, job(3, "c", note, short_of_memory)], tmp_path)
    assert found == {n: float(n) for n in range(4)}
    assert not list(note.glob("1-*"))
