"""Jobs: only missing cells are computed, and no stored result is lost."""

from __future__ import annotations

import itertools
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from joblib import parallel_config

from alebrije.data.machine_cache import FOLDER
from alebrije.errors import InputError
from alebrije.results import Cell, Result, Store, Value
from alebrije.studies.jobs import Job, Progress, RunSummary, Workers, _spread, estimate, in_shard, run_jobs

ROOT = Path(__file__).parents[2]  # from which another process imports this module


def square(number: int, note: Path | None = None, pause: float = 0.0) -> Mapping[str, Value | float]:
    time.sleep(pause)
    if note is not None:
        (note / f"{number}-{os.urandom(4).hex()}").touch()  # one file for each time it is computed
    return {"square": float(number**2)}


def broken(number: int) -> Mapping[str, Value | float]:
    raise ZeroDivisionError(f"cell {number} fails")


def deadly(number: int) -> Mapping[str, Value | float]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def job(number: int, work: object = square, **arguments: object) -> Job:
    cell = Cell(study="squares", labels={"number": number}, inputs={"number": number})
    return Job(cell, partial(work, number, **arguments))  # type: ignore[operator]


def scores(store: Store) -> dict[object, float | None]:
    return {
        result.cell.labels["number"]: result.values["square"].score for result in store.all() if result.status == "done"
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_a_thousand_cells_are_computed_once(tmp_path: Path, workers: int) -> None:
    store, notes = Store(tmp_path / "results"), tmp_path / "notes"
    notes.mkdir()
    jobs = [job(number, note=notes) for number in range(1000)]
    summary = run_jobs(jobs, store, Workers(workers))
    assert (summary.done, summary.kept, summary.failed) == (1000, 0, [])
    assert scores(store) == {number: float(number**2) for number in range(1000)}
    again = run_jobs(jobs, store, Workers(workers))
    assert (again.done, again.kept) == (0, 1000)
    more = run_jobs([*jobs, job(1000, note=notes)], store)
    assert (more.done, more.kept) == (1, 1000)
    assert len(list(notes.iterdir())) == 1001


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cell_that_fails_is_stored_and_the_others_go_on(tmp_path: Path, workers: int) -> None:
    store = Store(tmp_path)
    jobs = [job(0), job(1, broken), job(2), job(3)]
    summary = run_jobs(jobs, store, Workers(workers))
    assert (summary.done, len(summary.failed)) == (3, 1)
    assert "ZeroDivisionError: cell 1 fails" in (summary.failed[0].traceback or "")
    assert [result.cell.labels["number"] for result in store.failed()] == [1]
    repaired = run_jobs([job(0), job(1), job(2), job(3)], store, Workers(workers))
    assert (repaired.done, repaired.kept) == (1, 3)
    assert store.failed() == []
    assert scores(store)[1] == 1.0


def test_a_worker_that_dies_takes_only_its_own_cell_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    summary = run_jobs([job(0), job(1, deadly), job(2, pause=0.2), job(3)], store, Workers(2))
    assert [result.cell.labels["number"] for result in summary.failed] == [1]
    assert "LostWorkerError" in (summary.failed[0].traceback or "")
    assert scores(store) == {0: 0.0, 2: 4.0, 3: 9.0}
    assert summary.done == 3


@pytest.mark.parametrize("workers", [1, 2])
def test_the_time_of_all_cells_is_added_up_by_stage(tmp_path: Path, workers: int) -> None:
    summary = run_jobs([job(number, pause=0.05) for number in range(6)], Store(tmp_path), Workers(workers))
    assert set(summary.stages) == {"scoring"}
    assert 6 * 0.05 <= summary.seconds <= summary.stages["scoring"]
    both = summary + RunSummary(stages={"scoring": 1.0, "encoding": 2.0})
    assert both.stages == {"scoring": summary.stages["scoring"] + 1.0, "encoding": 2.0}


def test_a_cache_that_cannot_be_used_is_mentioned_before_processes_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("alebrije"), "propagate", True)
    (tmp_path / "cache").write_text("mine")
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    monkeypatch.setenv("ALEBRIJE_CACHE_WARNED", "1")  # restored at the end
    monkeypatch.delenv("ALEBRIJE_CACHE_WARNED")
    for number in range(2):
        assert run_jobs([job(number)], Store(tmp_path / "cells")).done == 1
    said = {id(record): record.getMessage() for record in caplog.records}.values()
    assert len(said) == 1
    assert "images are kept in the result folder instead" in next(iter(said))


def test_neighbours_share_neither_images_nor_a_model() -> None:
    jobs = [
        Job(
            Cell(study=study, labels={"world": world, "part": part}, inputs={"subject": model, "part": part}),
            dict,
        )
        for study, world in (("grouping", "clevr6"), ("analogy", "coat"), ("neurons", "rooms"))
        for model in ("own", "twin 0", "twin 1", "pixels")
        for part in ("a", "b")
    ]
    order = _spread(jobs)
    assert sorted(one.cell.key for one in order) == sorted(one.cell.key for one in jobs)
    for one, following in itertools.pairwise(order):
        assert one.cell.study != following.cell.study
        assert one.cell.inputs["subject"] != following.cell.inputs["subject"]


def test_shards_are_disjoint_and_do_not_depend_on_the_order_of_jobs(tmp_path: Path) -> None:
    jobs = [job(number) for number in range(50)]
    parts = [{one.cell.key for one in in_shard(jobs, (part, 4))} for part in (1, 2, 3, 4)]
    assert sum(map(len, parts)) == 50
    assert set().union(*parts) == {one.cell.key for one in jobs}
    assert {one.cell.key for one in in_shard(jobs[::-1], (2, 4))} == parts[1]
    store = Store(tmp_path)
    for part in (3, 1, 4, 2):
        run_jobs(jobs, store, Workers(shard=(part, 4)))
    assert len(scores(store)) == 50


@pytest.mark.parametrize("shard", [(0, 4), (5, 4), (1, 0), (-1, 2)])
def test_impossible_shards_are_refused(shard: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="i from 1 to n"):
        in_shard([], shard)


def test_progress_is_reported_after_each_cell(tmp_path: Path) -> None:
    calls: list[tuple[int, int, object]] = []

    def progress(done: int, total: int, cell: Cell, left: float) -> None:
        assert left >= 0
        calls.append((done, total, cell.labels["number"]))

    run_jobs([job(number) for number in range(3)], Store(tmp_path), Workers(progress=progress))
    assert calls == [(1, 3, 0), (2, 3, 1), (3, 3, 2)]


def test_the_remaining_time_is_estimated_from_the_cells_that_are_done(tmp_path: Path) -> None:
    store = Store(tmp_path)
    jobs = [job(number) for number in range(5)]
    assert estimate(jobs, store) is None
    for number, seconds in enumerate((1.0, 2.0, 9.0)):
        store.put(Result.done(jobs[number].cell, {"square": 0.0}, seconds=seconds))
    assert estimate(jobs, store) == 4.0


def test_the_summary_as_a_sentence() -> None:
    assert str(RunSummary(kept=1200, done=3)) == "3 computed, 1,200 already done, 0 failed"


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.studies.test_jobs import job
from alebrije.results import Store
from alebrije.studies.jobs import Workers, run_jobs
run_jobs([job(number, pause=0.01) for number in range(60)], Store(Path({folder!r})), Workers({workers}))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_killed_at_random_moments_ends_with_the_same_results(tmp_path: Path, workers: int) -> None:
    chance = random.Random(workers)
    folder = tmp_path / "killed"
    code = KILLED.format(root=str(ROOT), folder=str(folder), workers=workers)
    for _ in range(3):
        before = len(list(folder.glob("*.json"))) if folder.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        limit = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < limit:
            there = len(list(folder.glob("*.json"))) if folder.exists() else 0
            if there > before + 2:
                time.sleep(chance.random() * 0.1)
                break
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    store = Store(folder)
    found = scores(store)
    assert len(found) >= 3
    summary = run_jobs([job(number) for number in range(60)], store)
    assert summary.kept == len(found)
    assert summary.failed == []
    whole = Store(tmp_path / "whole")
    run_jobs([job(number) for number in range(60)], whole)
    assert scores(store) == scores(whole)


def test_two_runs_share_a_folder(tmp_path: Path) -> None:
    code = KILLED.format(root=str(ROOT), folder=str(tmp_path), workers=1)
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert scores(Store(tmp_path)) == {number: float(number**2) for number in range(60)}


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from pathlib import Path
        from tests.studies.test_jobs import job, never_ending
        from alebrije.results import Store
        from alebrije.studies.jobs import Workers, run_jobs
        folder = Path({str(tmp_path)!r})
        run_jobs([job(n, never_ending, folder=folder) for n in range(4)], Store(folder / "store"), Workers(2))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    limit = time.monotonic() + 60
    while len(list(tmp_path.glob("*.pid"))) < 2:
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait(timeout=30)
    workers = [int(path.stem) for path in tmp_path.glob("*.pid")]
    while any(runs(worker) for worker in workers):
        assert time.monotonic() < limit
        time.sleep(0.1)


def test_the_users_own_process_watches_no_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[int] = []
    monkeypatch.setattr("alebrije.studies.jobs._end_with", watched.append)
    with parallel_config("sequential"):  # as joblib does where it cannot start processes
        assert run_jobs([job(0), job(1)], Store(tmp_path), Workers(2)).done == 2
    assert watched == []


def never_ending(number: int, folder: Path) -> Mapping[str, Value | float]:
    """Work that takes longer than a test may take."""
    (folder / f"{os.getpid()}.pid").touch()
    time.sleep(600)
    return {}


def runs(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_without_ray_the_message_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.util.joblib", None)
    with pytest.raises(InputError, match="needs the package ray"):
        run_jobs([job(0)], Store(tmp_path), Workers(backend="ray"))


def test_ray_without_a_cluster_at_its_address_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        for scheme in ("", "ray://"):
            monkeypatch.setenv("RAY_ADDRESS", f"{scheme}127.0.0.1:{unused.getsockname()[1]}")
            with pytest.raises(InputError, match=r"no Ray cluster can be reached or started .ConnectionRefusedError"):
                run_jobs([job(0)], Store(tmp_path), Workers(backend="ray"))


def test_ray_that_cannot_start_ends_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray_module = pytest.importorskip("ray")

    def broken(**_: object) -> None:
        raise ValueError("no \x1b[31mcluster")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_module, "init", broken)
    with pytest.raises(InputError, match=r"started \(ValueError: no cluster\)"):
        run_jobs([job(0)], Store(tmp_path), Workers(backend="ray"))


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    """A cluster of one machine with two processes."""
    module = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        # workers inherit this and can import this module; Ray's own way, runtime_env, hangs if a path has a space
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *sys.path]))
        module.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    module.shutdown()


@pytest.mark.usefixtures("ray")
def test_ray_computes_the_same(tmp_path: Path) -> None:
    calls: list[int] = []
    jobs = [*(job(number, pause=0.2) for number in range(12)), job(12, broken)]
    store = Store(tmp_path)
    progress: Progress = lambda done, total, cell, left: calls.append(done)  # noqa: E731
    summary = run_jobs(jobs, store, Workers(2, "ray", progress=progress))
    assert (summary.done, summary.kept, len(summary.failed)) == (12, 0, 1)
    assert calls == list(range(1, 14))
    assert scores(store) == {number: number**2 for number in range(12)}
    assert "ZeroDivisionError" in (summary.failed[0].traceback or "")
    again = run_jobs(jobs[:12], store, Workers(2, "ray"))
    assert (again.done, again.kept) == (0, 12)


@pytest.mark.usefixtures("ray")
def test_ray_does_not_return_a_failure_of_an_earlier_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert len(run_jobs([job(0, broken)], store).failed) == 1
    summary = run_jobs([job(0, pause=2.5)], store, Workers(2, "ray"))
    assert (summary.done, summary.failed) == (1, [])
    assert scores(store) == {0: 0}


@pytest.mark.usefixtures("ray")
def test_ray_loses_a_worker(tmp_path: Path) -> None:
    store = Store(tmp_path)
    summary = run_jobs([job(0), job(1, deadly), job(2), job(3)], store, Workers(2, "ray"))
    assert scores(store) == {0: 0, 2: 4, 3: 9}
    assert [result.cell.labels["number"] for result in summary.failed] == [1]
    assert "LostWorkerError" in (summary.failed[0].traceback or "")
