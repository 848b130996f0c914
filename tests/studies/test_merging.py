"""Merging result folders: nothing is lost, replaced or made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.results import Cell, Result
from alebrije.studies.commands import note_command, noted_commands
from alebrije.studies.folder import ResultFolder
from alebrije.studies.merging import merge_folders


def cell(seed: int) -> Cell:
    return Cell(study="neurons", labels={"model": "mine", "seed": seed}, inputs={"seed": seed})


def fill(path: Path, *seeds: int, score: float = 0.5) -> ResultFolder:
    folder = ResultFolder(path).ready()
    for seed in seeds:
        folder.keep_samples(cell(seed), codes=np.full(3, seed))
        folder.store.put(Result.done(cell(seed), {"SNC": score}, seconds=1))
    return folder


def test_results_pictures_models_and_commands_are_copied(tmp_path: Path) -> None:
    a, b = fill(tmp_path / "a", 0, 1), fill(tmp_path / "b", 2)
    weights = b.path / "runs/ae-1234/checkpoints/step-000000010/weights.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    (b.path / "runs/.ae-5678.0a.part").mkdir()
    note_command(b, "neurons", "alebrije study neurons --shard 2/2")
    merged = merge_folders([a.path, b.path], tmp_path / "c")
    assert (merged.added, merged.known, merged.runs, merged.different, merged.damaged) == (3, 0, 1, (), ())
    c = ResultFolder(tmp_path / "c")
    assert {result.cell.labels["seed"] for result in c.store.all()} == {0, 1, 2}
    assert [c.samples(cell(seed))["codes"].tolist() for seed in range(3)] == [[0] * 3, [1] * 3, [2] * 3]
    assert (c.path / weights.relative_to(b.path)).read_bytes() == b"weights"
    assert [path.name for path in (c.path / "runs").iterdir()] == ["ae-1234"]
    assert noted_commands(c) == {"neurons": ("alebrije study neurons --shard 2/2",)}
    again = merge_folders([a.path, b.path], tmp_path / "c")
    assert (again.added, again.known, again.runs) == (0, 3, 0), "the same call adds nothing"


def test_the_first_of_two_different_values_is_kept_and_named(tmp_path: Path) -> None:
    a, b = fill(tmp_path / "a", 0, score=0.5), fill(tmp_path / "b", 0, score=0.6)
    merged = merge_folders([a.path, b.path], tmp_path / "c")
    assert (merged.added, merged.known, merged.different) == (1, 0, (cell(0),))
    kept = ResultFolder(tmp_path / "c").store.get(cell(0))
    assert kept is not None
    assert kept.values["SNC"].score == 0.5


def test_a_computed_result_replaces_a_failure_and_never_the_reverse(tmp_path: Path) -> None:
    failed, done = ResultFolder(tmp_path / "failed").ready(), fill(tmp_path / "done", 0)
    failed.store.put(Result.failed(cell(0), ValueError("no"), seconds=1))
    for number, order in enumerate(([failed, done], [done, failed])):
        merge_folders([folder.path for folder in order], tmp_path / str(number))
        kept = ResultFolder(tmp_path / str(number)).store.get(cell(0))
        assert kept is not None
        assert kept.status == "done"


def test_damaged_files_are_skipped_and_named(tmp_path: Path) -> None:
    a = fill(tmp_path / "a", 0, 1)
    path = next(a.store.folder.glob("*.json"))
    path.write_text(path.read_text()[:50])
    merged = merge_folders([a.path], tmp_path / "c")
    assert merged.added == 1
    assert len(merged.damaged) == 1
    assert path.name in merged.damaged[0]


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    a = fill(tmp_path / "a", 0)
    with pytest.raises(InputError, match="nothing to merge"):
        merge_folders([], tmp_path / "c")
    with pytest.raises(InputError, match="no results here"):
        merge_folders([tmp_path / "x"], tmp_path / "c")
    with pytest.raises(InputError, match="cannot be merged into itself"):
        merge_folders([a.path], tmp_path / "a")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file, not a folder"):
        merge_folders([a.path], tmp_path / "file")
