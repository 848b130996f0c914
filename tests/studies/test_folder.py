"""Result folders: what is kept there, by several processes, also when one is killed."""

from __future__ import annotations

import copy
import logging
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from alebrije.data import checked_arrays
from alebrije.errors import InputError
from alebrije.files import sha256_of
from alebrije.results import Cell
from alebrije.studies.folder import ResultFolder, open_results
from tests.damages import DAMAGES

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


SETTINGS = {"name": "corpus", "seed": 3}


def corpus() -> dict[str, np.ndarray]:
    return {"images": np.arange(600, dtype=np.uint8).reshape(10, 60), "masks": np.ones((10, 4), np.uint8)}


def test_the_arrays_of_another_entry_are_not_taken(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    for number in (1, 2):
        folder.cached({"name": "a", "number": number}, lambda number=number: {"x": np.full(3, number)})  # type: ignore[misc]
    one, other = sorted(
        (tmp_path / "data").iterdir(), key=lambda path: '"number": 2' in (path / "settings.json").read_text()
    )
    shutil.rmtree(one)
    shutil.copytree(other, one)
    found = ResultFolder(tmp_path).cached({"name": "a", "number": 1}, lambda: {"x": np.full(3, 1)})
    assert found["x"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["masks.npy", "checksums.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arrays_are_computed_again_and_mentioned_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, damage: str, name: str
) -> None:
    monkeypatch.setattr(logging.getLogger("alebrije"), "propagate", True)
    folder = ResultFolder(tmp_path)
    folder.cached(SETTINGS, corpus)
    (stored,) = (tmp_path / "data").iterdir()
    DAMAGES[damage](stored / name)
    for _ in range(2):
        arrays = folder.cached(SETTINGS, corpus)
        assert {each: array.tolist() for each, array in arrays.items()} == {
            each: array.tolist() for each, array in corpus().items()
        }
    (mention,) = {id(record): record.getMessage() for record in caplog.records}.values()  # two handlers may see one
    assert stored.name in mention
    assert mention.endswith("; the arrays are computed again")


@pytest.mark.parametrize("damage", ["delete", "pipe", "device", "empty"])
def test_anything_in_place_of_the_folder_of_arrays_is_replaced(tmp_path: Path, damage: str) -> None:
    folder = ResultFolder(tmp_path)
    folder.cached(SETTINGS, corpus)
    (stored,) = (tmp_path / "data").iterdir()
    shutil.rmtree(stored)
    stored.touch()
    DAMAGES[damage](stored)
    assert folder.cached(SETTINGS, corpus)["masks"].sum() == 40


def test_a_checksum_is_compared_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, hashed = ResultFolder(tmp_path), []
    folder.cached(SETTINGS, corpus)
    monkeypatch.setattr(checked_arrays, "_VERIFIED", set())
    monkeypatch.setattr(checked_arrays, "sha256_of", lambda file: hashed.append(file) or sha256_of(file))
    for _ in range(3):
        folder.cached(SETTINGS, corpus)
    assert len(hashed) == 2  # images and masks


def test_empty_arrays_and_scalars_are_cached(tmp_path: Path) -> None:
    arrays = {"none": np.empty((0, 3), np.float32), "one": np.array(2.5)}
    for _ in range(2):
        kept = ResultFolder(tmp_path).cached(SETTINGS, lambda: arrays)
        assert kept["none"].shape == (0, 3)
        assert float(kept["one"]) == 2.5


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_a_lock_that_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    folder = ResultFolder(tmp_path)
    with folder.locked("one"):
        pass
    DAMAGES[kind](tmp_path / "locks" / "one.lock")
    with pytest.raises(InputError, match=r"one\.lock: is (not a regular file|a folder, not a lock file); remove it"):
        folder.locked("one").__enter__()


def test_samples_of_another_cell_are_not_shown(tmp_path: Path) -> None:
    folder, other = ResultFolder(tmp_path), Cell(study="grouping", inputs={"seed": 2})
    folder.keep_samples(CELL, images=np.zeros(2))
    (path,) = (tmp_path / "samples").iterdir()
    folder.keep_samples(other, images=np.ones(2))
    (second,) = set((tmp_path / "samples").iterdir()) - {path}
    assert set(folder.samples(other)) == {"images"}
    second.write_bytes(path.read_bytes())
    assert folder.samples(other) == {}


@pytest.mark.parametrize("damage", ["truncate", "empty", "append", "delete", "pipe", "folder", "device"])
def test_any_damage_of_samples_means_no_or_the_same_samples(tmp_path: Path, damage: str) -> None:
    folder = ResultFolder(tmp_path)
    folder.keep_samples(CELL, images=np.arange(50))
    (path,) = (tmp_path / "samples").iterdir()
    DAMAGES[damage](path)
    assert all(np.array_equal(array, np.arange(50)) for array in folder.samples(CELL).values())


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
