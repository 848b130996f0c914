"""Cells of pixels that a machine keeps: equal to computed ones, computed again when damaged, never kept if null."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from alebrije.data.machine_cache import FOLDER
from alebrije.results import Cell, Result, Value
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job, run_jobs
from alebrije.studies.kept_cells import kept_once
from alebrije.studies.references import Noise, Pixels
from alebrije.studies.together import Together

CELL = Cell(study="squares", labels={"model": "pixels"}, inputs={"subject": {"reference": "pixels"}})


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))


def _job(folder: ResultFolder, computed: list[Path], score: float | None = 0.25, cell: Cell = CELL) -> Job:
    def work() -> Mapping[str, Value | float]:
        computed.append(folder.path)
        folder.keep_samples(cell, labels=np.eye(2))
        reason = "too little memory" if score is None else None
        details = {"per_factor": {"shape": 1 / 3}}
        return {"square": Value(score=score, reason=reason, range=(0, float("inf")), details=details), "other": 1.0}

    return kept_once(Job(cell, work, Pixels()), "cpu")


def _run(folder: ResultFolder, job: Job) -> Result:
    run_jobs([job], folder.ready().store)
    found = folder.store.get(job.cell)
    assert found is not None
    return found


def test_a_second_folder_gets_the_values_and_samples_of_the_first(tmp_path: Path) -> None:
    computed: list[Path] = []
    folders = [ResultFolder(tmp_path / name) for name in ("one", "two")]
    first, second = (_run(folder, _job(folder, computed)) for folder in folders)
    assert computed == [tmp_path / "one"]
    assert second.status == "done"
    assert second.values == first.values
    assert second.values["square"].details == {"per_factor": {"shape": 1 / 3}}
    assert (folders[1].samples(CELL)["labels"] == np.eye(2)).all()


def test_a_damaged_entry_is_mentioned_and_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("alebrije"), "propagate", True)
    computed: list[Path] = []
    folders = [ResultFolder(tmp_path / name) for name in ("one", "two")]
    expected = _run(folders[0], _job(folders[0], computed)).values
    (path,) = (tmp_path / "cache").rglob("values.npy")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    assert _run(folders[1], _job(folders[1], computed)).values == expected
    assert len(computed) == 2
    assert "computed again" in caplog.text


def test_null_values_other_models_and_images_of_files_are_not_kept(tmp_path: Path) -> None:
    folders = [ResultFolder(tmp_path / name) for name in ("one", "two")]
    computed: list[Path] = []
    for folder in folders:
        assert _run(folder, _job(folder, computed, score=None)).values["square"].reason == "too little memory"
    assert len(computed) == 2
    of_a_file = Cell(study="squares", labels={}, inputs={"images": [{"checksum": 12}]})
    assert kept_once(Job(of_a_file, dict, Pixels()), "cpu").kept is None
    assert kept_once(Job(CELL, dict, Noise()), "cpu").kept is None
    assert kept_once(Job(CELL, dict), "cpu").kept is None


def test_an_exception_is_stored_and_not_kept(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "one")
    job = kept_once(Job(CELL, partial(divmod, 1, 0), Pixels()), "cpu")  # type: ignore[arg-type]
    assert _run(folder, job).status == "failed"
    assert not list((tmp_path / "cache").rglob("values.npy"))


def test_what_is_kept_is_not_started_beside_others(tmp_path: Path) -> None:
    started: list[list[str]] = []

    def start(items: list[str]) -> list[None]:
        started.append(list(items))
        return [None] * len(items)

    def together(folder: ResultFolder, item: str) -> Job:
        cell = Cell(study="squares", labels={"model": "pixels"}, inputs={"item": item})
        job = _job(folder, [], cell=cell)
        return Job(cell, job.work, job.model, together=Together("all", item, start), kept=job.kept)

    for name, items in (("one", "ab"), ("two", "abcd")):
        folder = ResultFolder(tmp_path / name).ready()
        run_jobs([together(folder, item) for item in items], folder.store)
    assert started == [["a", "b"], ["c", "d"]]


def test_without_a_cache_everything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "off")
    computed: list[Path] = []
    for name in ("one", "two"):
        folder = ResultFolder(tmp_path / name)
        assert _run(folder, _job(folder, computed)).values["square"].score == 0.25
    assert len(computed) == 2
