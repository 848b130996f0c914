"""The store: with killed writers, full disks, parallel processes and damaged files, no result is lost or made up."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from alebrije.errors import InputError
from alebrije.results import Cell, DamagedResultWarning, Machine, Result, Store
from alebrije.results.result_file import dump_result
from alebrije.results.store import FAILED, file_name

MACHINE = Machine(python="3.12", torch="2.11", platform="Linux", device="cpu")


def cell(number: int = 0, **labels: Any) -> Cell:
    return Cell(study="neurons", labels={"model": "ae", "seed": number} | labels, inputs={"seed": number})


def done(number: int = 0, score: float | None = None, **labels: Any) -> Result:
    """A result whose scores follow from its number, large enough for several writes."""
    score = number / 7 if score is None else score
    return Result.done(cell(number, **labels), {f"m{i}": score for i in range(100)}, seconds=1, machine=MACHINE)


def failed(number: int = 0, why: str = "failed") -> Result:
    return Result.failed(cell(number), RuntimeError(why), seconds=1, machine=MACHINE)


def put_at(moment: float, folder: Path, writer: int, count: int) -> list[float]:
    """Store the same cells as other processes at the same time; return the scores that `put` returned."""
    while time.time() < moment:
        pass
    scores = []
    for number in range(count):
        Store(folder).put(failed(number))
        kept = Store(folder).put(done(number, score=float(writer)))
        scores.append(kept.values["m0"].score or 0.0)
        Store(folder).put(failed(number, "too late"))
    return scores


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


@pytest.fixture(autouse=True)
def _no_silent_damage() -> Any:
    """Turn an unexpected warning about a damaged file into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DamagedResultWarning)
        yield


class TestStore:
    def test_stored_results_are_read_back(self, store: Store) -> None:
        assert (store.get(cell()), store.all(), store.failed(), store.problems()) == (None, [], [], [])
        results = [done(number) for number in range(3)]
        assert [store.put(result) for result in results] == results
        again = Store(str(store.folder))
        assert [again.get(result.cell) for result in results] == results
        assert again.all() == results
        assert again.missing([cell(5), cell(1), cell(4), cell(5)]) == [cell(5), cell(4)]

    def test_the_first_computed_result_stays(self, store: Store) -> None:
        first = store.put(done(score=0.25))
        assert store.put(done(score=0.75)) == first
        assert store.put(failed()) == first
        assert store.all() == [first]
        assert len(os.listdir(store.folder)) == 1

    def test_a_failure_is_replaced(self, store: Store) -> None:
        store.put(failed(why="first"))
        assert store.missing([cell()]) == [cell()]
        second = store.put(failed(why="second"))
        assert store.failed() == [second] == [store.get(cell())]
        assert "second" in (second.traceback or "")
        whole = store.put(done())
        assert (store.get(cell()), store.failed(), store.missing([cell()])) == (whole, [], [])
        assert len(os.listdir(store.folder)) == 1

    def test_killed_before_the_failure_is_removed(self, store: Store) -> None:
        store.put(done())
        (store.folder / file_name(cell(), FAILED)).write_text(dump_result(failed()))
        assert store.all() == [store.get(cell())]
        assert store.failed() == []

    def test_labels_do_not_identify_a_cell(self, store: Store) -> None:
        first = store.put(done())
        assert store.get(cell(model="autoencoder")) == first
        assert store.put(done(model="autoencoder")) == first
        assert store.missing([cell(model="autoencoder")]) == []
        assert len(os.listdir(store.folder)) == 1

    @pytest.mark.parametrize(
        "name",
        [
            "../../etc/passwd",
            "a:b",
            "x" * 300,
            "模型",
            "é\u202e",
            "",
            ".",
            "con",
            "a/b\\c",
            "\x00\n",
            "-",
            "*?<>|",
            "~",
            " ",
        ],
    )
    def test_file_names_stay_in_the_folder(self, store: Store, name: str, tmp_path: Path) -> None:
        result = store.put(done(model=name))
        assert store.get(result.cell) == result
        assert store.all() == [result]
        (file,) = os.listdir(store.folder)
        assert os.listdir(tmp_path) == ["results"]
        assert len(file) < 150
        assert set(file) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
        assert not file.startswith((".", "-"))

    def test_file_names_are_readable(self) -> None:
        named = Cell(study="imagination", labels={"model": "I2I-ViT", "alpha": 0.6, "rule": None}, inputs={})
        assert file_name(named) == f"imagination-i2i-vit-0.6-{named.key[:16]}.json"

    def test_similar_labels_have_different_files(self, store: Store) -> None:
        for number, name in enumerate(("a/b", "a:b", "a b")):
            store.put(done(number, model=name))
        assert len(store.all()) == 3


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def changed(text: str, by: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        before = path.read_text()
        assert text in before
        path.write_text(before.replace(text, by, 1))

    return change


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "cut short": cut,
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 10),
    "other JSON": lambda path: path.write_text('{"schema_version": 2, "results": []}'),
    "a list": lambda path: path.write_text("[1, 2]"),
    "deep": lambda path: path.write_text("[" * 100_000),
    "long number": lambda path: path.write_text("9" * 10_000),
    "inputs": changed('"seed": 0', '"seed": 7'),
    "score": changed('"score": 0.0', '"score": 0.9'),
    "NaN": changed('"score": 0.0', '"score": NaN'),
    "status": changed('"status": "done"', '"status": "failed"'),
    "newer": changed('"schema_version": 2', '"schema_version": 99'),
    "appended": lambda path: path.write_text(path.read_text() + "x"),
    "another's": lambda path: path.write_text(dump_result(done(1))),
    "a failure": lambda path: path.write_text(dump_result(failed())),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGE)
    def test_is_reported_but_not_read_or_removed(self, store: Store, damage: str) -> None:
        store.put(done(0))
        whole = store.put(done(1))
        path = store.folder / file_name(cell(0))
        DAMAGE[damage](path)
        before = path.read_bytes() if path.is_file() else None
        for look in (lambda: store.get(cell(0)), store.all, store.failed, lambda: store.missing([cell(0)])):
            with pytest.warns(DamagedResultWarning, match=path.name):
                look()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedResultWarning)
            assert store.get(cell(0)) is None
            assert store.all() == [whole]
            assert store.missing([cell(0), cell(1)]) == [cell(0)]
        (problem,) = store.problems()
        assert problem.path == path
        assert "\n" not in str(problem)
        assert (path.read_bytes() if path.is_file() else None) == before

    @pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a folder"])
    def test_is_set_aside_when_computed_again(self, store: Store, damage: str) -> None:
        store.put(done(0))
        path = store.folder / file_name(cell(0))
        for _ in range(2):
            DAMAGE[damage](path)
            before = path.read_bytes()
            again = store.put(done(0))  # no warning here: reading it has already caused one
            assert store.get(cell(0)) == again
        problems = store.problems()
        assert len(problems) == 2
        assert all("set aside" in problem.why for problem in problems)
        assert problems[1].path.read_bytes() == before

    def test_a_damaged_failure_is_set_aside_too(self, store: Store) -> None:
        store.put(failed())
        cut(store.folder / file_name(cell(), FAILED))
        again = store.put(failed())
        assert store.failed() == [again]
        assert len(store.problems()) == 1

    def test_foreign_and_renamed_files(self, store: Store) -> None:
        whole = store.put(done())
        (store.folder / "notes.json").write_text("{}")
        os.link(store.folder / file_name(cell()), store.folder / "copy.json")
        (store.folder / "report.html").write_text("not JSON")
        with pytest.warns(DamagedResultWarning) as seen:
            assert store.all() == [whole]
        assert len(seen) == 2
        assert [problem.path.name for problem in store.problems()] == ["copy.json", "notes.json"]

    def test_temporary_files_of_a_killed_writer_are_ignored(self, store: Store) -> None:
        whole = store.put(done())
        (store.folder / ".neurons.json.abc.part").write_text(dump_result(done(1)))
        assert store.all() == [whole]
        assert store.problems() == []

    def test_files_of_schema_1_are_found(self, store: Store) -> None:
        content = json.loads(dump_result(done()))
        del content["checksum"]
        old = content | {"schema_version": 1, "values": {"m": 0.5}, "machine": "Linux"}
        store.folder.mkdir()
        (store.folder / file_name(cell())).write_text(json.dumps(old))
        found = store.get(cell())
        assert found is not None
        assert found.values["m"].score == 0.5
        assert store.missing([cell()]) == []


class TestDiskErrors:
    def sentence(self, call: Callable[[], Any]) -> str:
        with pytest.raises(InputError) as caught:
            call()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("number", "said"),
        [(errno.ENOSPC, "disk is full"), (errno.EROFS, "cannot be written"), (errno.EACCES, "denied")],
    )
    def test_disk(self, store: Store, monkeypatch: pytest.MonkeyPatch, number: int, said: str) -> None:
        kept = store.put(done(0))

        def fail(*_: Any, **__: Any) -> None:
            raise OSError(number, os.strerror(number))

        for call in ("fsync", "link"):
            with monkeypatch.context() as patch:
                patch.setattr(os, call, fail)
                message = self.sentence(lambda: store.put(done(1)))
                assert str(store.folder) in message
                assert said in message
        assert store.all() == [kept]
        assert len(os.listdir(store.folder)) == 1
        store.put(done(1))
        assert len(store.all()) == 2

    def test_a_folder_that_cannot_be_written(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        store.put(done(0))
        store.folder.chmod(0o555)
        if os.access(store.folder, os.W_OK):  # root ignores the mode, so the refusal is simulated

            def refuse(*_: Any, **__: Any) -> None:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

            monkeypatch.setattr(tempfile, "mkstemp", refuse)
        try:
            assert "cannot be written: Permission denied" in self.sentence(lambda: store.put(done(1)))
            assert len(store.all()) == 1
        finally:
            store.folder.chmod(0o755)

    def test_a_disk_that_is_really_full(self, store: Store) -> None:
        """The system refuses to let any file grow past 1,000 bytes."""
        store.put(done(0))
        code = (
            "import resource, signal, sys; sys.path.insert(0, sys.argv[1])\n"
            "from tests.results.test_store import *\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
            "try: Store(sys.argv[2]).put(done(1))\n"
            "except InputError as error: print(error)\n"
        )
        command = [sys.executable, "-c", code, str(Path(__file__).parents[2]), str(store.folder)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said == f"{store.folder}: cannot be written: File too large\n"
        assert len(os.listdir(store.folder)) == 1

    def test_a_file_in_place_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_text("")
        assert "is a file" in self.sentence(lambda: Store(tmp_path / "x"))
        assert "cannot be written" in self.sentence(lambda: Store(tmp_path / "x" / "y").put(done()))


WRITES_UNTIL_KILLED = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from tests.results.test_store import *\n"
    "store, number = Store(sys.argv[2]), int(sys.argv[3])\n"
    "print('started', flush=True)\n"
    "while True:\n"
    "    store.put(failed(number)); store.put(done(number)); print(number, flush=True); number += 1\n"
)


class TestProcesses:
    def test_killed_at_random_moments(self, store: Store) -> None:
        """All results that the child reported are stored, none is partial, and the next process continues."""
        first, reported = 0, 0
        for wait in (0.0, 0.003, 0.011, 0.05, 0.21):
            command = [
                sys.executable,
                "-c",
                WRITES_UNTIL_KILLED,
                str(Path(__file__).parents[2]),
                str(store.folder),
                str(first),
            ]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                assert child.stdout.readline() == "started\n"
                end = time.monotonic() + wait
                while time.monotonic() < end:
                    store.all()  # a concurrent reader never sees a partial file: that would be a warning, and an error
                child.send_signal(signal.SIGKILL)
                finished = [int(line) for line in child.stdout.read().split("\n")[:-1]]
            reported += len(finished)
            results = {result.cell.labels["seed"]: result for result in store.all()}
            assert store.problems() == []
            for number in finished:
                assert results[number].values == done(number).values
            assert all(r.values == done(int(n or 0)).values for n, r in results.items() if r.status == "done")
            first += len(finished)
            assert store.missing([cell(number) for number in range(first)]) == []
        assert reported > 5

    @pytest.mark.parametrize("moment", ["os.fsync", "os.link", "os.chmod", "os.unlink"])
    def test_killed_during_a_system_call(self, store: Store, moment: str) -> None:
        store.put(failed())
        code = (
            "import os, sys, time; sys.path.insert(0, sys.argv[1])\n"
            "from tests.results.test_store import *\n"
            "def stops(*a, **k): print('stopped', flush=True); time.sleep(60)\n"
            f"{moment} = stops\n"
            "Store(sys.argv[2]).put(done())\n"
        )
        command = [sys.executable, "-c", code, str(Path(__file__).parents[2]), str(store.folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "stopped\n"
            child.send_signal(signal.SIGKILL)
        linked = moment == "os.unlink"
        assert store.missing([cell()]) == ([] if linked else [cell()])
        assert store.problems() == []
        store.put(done())
        assert store.missing([cell()]) == []
        assert len(store.all()) == 1

    def test_two_real_processes_on_one_store(self, store: Store) -> None:
        moment, count = time.time() + 3, 20
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            tasks = [pool.submit(put_at, moment, store.folder, writer, count) for writer in (1, 2)]
            scores = [task.result(timeout=60) for task in tasks]
        assert scores[0] == scores[1], "both processes get the stored result"
        found = {result.cell.labels["seed"]: result for result in store.all()}
        assert [found[number].values["m99"].score for number in range(count)] == scores[0]
        assert store.failed() == []
        assert store.problems() == []


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "dangling"])
def test_what_is_no_file_is_set_aside_when_the_cell_is_computed_again(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    path = tmp_path / file_name(cell())
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nowhere" / "x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedResultWarning)
        assert store.missing([cell()]) == [cell()]
    assert store.put(done()) == store.get(cell())
    (problem,) = store.problems()
    assert "set aside" in problem.why
