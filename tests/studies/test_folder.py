"""Result folders: what is kept there, by several processes, also when one is killed."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.results import Cell
from alebrije.studies.folder import ResultFolder, open_results

CELL = Cell(study="grouping", labels={"model": "../x"}, inputs={"seed": 1})


def test_samples_come_back(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "new")
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    folder.keep_samples(CELL, images=images, losses=[0.5, 1.5])
    kept = folder.samples(CELL)
    assert kept["images"].dtype == np.uint8
    np.testing.assert_array_equal(kept["images"], images)
    assert kept["losses"].tolist() == [0.5, 1.5]
    assert folder.samples(Cell(study="grouping", inputs={"seed": 2})) == {}


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.keep_samples(CELL, images=np.zeros(2))
    path = next((tmp_path / "samples").glob("*.npz"))
    np.savez(path, images=np.array([{"a": 1}], dtype=object))
    assert folder.samples(CELL) == {}


def test_damaged_samples_are_no_samples(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.keep_samples(CELL, images=np.zeros((50, 50)))
    path = next((tmp_path / "samples").glob("*.npz"))
    path.write_bytes(path.read_bytes()[:60])
    assert folder.samples(CELL) == {}


def test_arrays_are_computed_once(tmp_path: Path) -> None:
    folder, calls = ResultFolder(tmp_path), []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"images": np.full((2, 3), 7, dtype=np.uint8)}

    for _ in range(2):
        arrays = folder.cached({"name": "corpus", "seed": 3}, compute)
        assert arrays["images"].tolist() == [[7, 7, 7], [7, 7, 7]]
    assert len(calls) == 1
    folder.cached({"name": "corpus", "seed": 4}, compute)
    assert len(calls) == 2


def test_changing_cached_arrays_does_not_change_the_file(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    arrays = folder.cached({"name": "x"}, lambda: {"a": np.zeros(3)})
    arrays["a"][0] = 5
    assert folder.cached({"name": "x"}, dict)["a"].tolist() == [0, 0, 0]


def test_a_computation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)

    def broken() -> dict[str, np.ndarray]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        folder.cached({"name": "x"}, broken)
    assert folder.cached({"name": "x"}, lambda: {"a": np.ones(1)})["a"].tolist() == [1]


HOLDER = """
import sys, time
from alebrije.studies.folder import ResultFolder
with ResultFolder(sys.argv[1]).locked("one"):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        inside = threading.Event()

        def wait() -> None:
            with ResultFolder(tmp_path).locked("one"):
                inside.set()

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        with ResultFolder(tmp_path).locked("another"):  # other names are free
            assert not inside.wait(0.5)
        holder.send_signal(signal.SIGKILL)
        assert inside.wait(20)
        waiting.join()


def test_a_relative_path_is_made_absolute_for_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sent = copy.copy(ResultFolder("here"))  # as pickling does
    monkeypatch.chdir("/")
    assert sent.path == tmp_path / "here"


def test_a_file_or_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        ResultFolder(tmp_path / "file")
    with pytest.raises(InputError, match="no results here; `alebrije eval`"):
        open_results(tmp_path)
