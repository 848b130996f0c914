"""Files of arrays as models: values, verdicts, pictures, and the commands that open their folder."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from alebrije.cli import main
from alebrije.data import read_arrays
from alebrije.errors import InputError
from alebrije.evaluate import scored_report
from alebrije.instruments.scored_files import Options, score_files
from alebrije.scoring import score_file
from alebrije.studies.folder import ResultFolder

NAMES = ("snc", "mig", "fg-ari", "coat", "psnr")
QUICK = Options(NAMES, resamples=0)


def write(path: Path, noise: float, seed: int = 0) -> Path:
    """A file with arrays for all instruments."""
    draw = np.random.default_rng(seed)
    factors, true = draw.integers(0, 3, (60, 2)), draw.integers(0, 3, (6, 8, 8))
    a, b, c, off = draw.normal(size=(4, 40, 5))
    target = draw.random((6, 3, 8, 8)).astype(np.float32)
    np.savez(
        path,
        codes=factors + noise * draw.normal(size=(60, 2)),
        factors=factors,
        true=true,
        pred=np.where(draw.random(true.shape) < noise / 2, 0, true),
        a=a, b=b, c=c, d=b - a + c + noise * off,
        target=target,
        predicted=np.clip(target + 0.1 * noise * draw.normal(size=target.shape), 0, 1).astype(np.float32),
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    return [write(folder / f"{name}.npz", noise) for name, noise in (("clean", 0.05), ("noisy", 1.0))]


@pytest.fixture(scope="module")
def folder(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> ResultFolder:
    folder = ResultFolder(tmp_path_factory.mktemp("found"))
    scored = score_files(files, folder, QUICK)
    assert (scored.summary.done, scored.summary.failed) == (8, [])
    return folder


def test_values_are_those_of_one_file(files: list[Path], folder: ResultFolder) -> None:
    stored = {result.cell.labels["model"]: {} for result in folder.store.all()}
    for result in folder.store.all():
        stored[result.cell.labels["model"]] |= {name: value.score for name, value in result.values.items()}
    for path in files:
        alone = score_file(read_arrays(path), NAMES, 0)
        assert stored[path.stem] == {one.metric: one.score for one in alone.results}


def test_nothing_is_scored_twice_and_a_new_file_replaces_the_old(files: list[Path], tmp_path: Path) -> None:
    folder, path = ResultFolder(tmp_path / "found"), write(tmp_path / "mine.npz", 0.05)
    assert score_files([path], folder, QUICK).summary.done == 4
    again = score_files([path], folder, QUICK).summary
    assert (again.done, again.kept) == (0, 4)
    write(path, 1.0)
    scored = score_files([path], folder, QUICK)
    assert scored.summary.done == 4
    report = scored_report(folder, scored)
    assert report.findings.models == ("mine",)
    assert report.findings.older == 4
    assert (report.score("snc", model="mine") or 1.0) < 0.8


def test_verdicts_say_that_there_is_no_yardstick(files: list[Path], folder: ResultFolder) -> None:
    report = scored_report(folder, score_files(files, folder, QUICK))
    clean = report.verdicts["clean"]
    assert {name: verdict.mark for name, verdict in clean.items()} == {
        "analogy": "partly", "imagination": "none", "grouping": "partly", "neurons": "partly",
    }  # fmt: skip
    assert "Each factor is held by one neuron" in clean["neurons"].text
    assert "It was compared with no yardstick" in clean["neurons"].text
    assert "clean (arrays in a file)" in str(report)
    page = report.save(folder.path / "report.html").read_text()
    assert "neurons-information" in page or "Hinton" in page
    assert page.count("its groups") >= 2
    assert "the predicted next scene" in page


def test_names_of_files_in_several_folders(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    same = write(tmp_path / "other" / "clean.npz", 0.5)
    scored = score_files([files[0], same], ResultFolder(tmp_path / "found"), Options(("mig",), 0))
    assert {cell.labels["model"] for cell in scored.cells} == {str(files[0]), str(same)}
    with pytest.raises(InputError, match="is named twice"):
        score_files([same, same], ResultFolder(tmp_path / "none"), QUICK)
    assert not (tmp_path / "none").exists()


def test_a_bad_file_is_named_before_anything_is_written(files: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.npz"
    np.savez(bad, codes=np.full((30, 2), np.nan), factors=np.zeros((30, 1), int))
    with pytest.raises(InputError, match=r"bad\.npz: "):
        score_files([files[0], bad], ResultFolder(tmp_path / "found"), Options(("snc",), 0))
    assert not (tmp_path / "found").exists()


def test_the_commands(files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, out = [str(path) for path in files], str(tmp_path / "found")
    main(["score", *paths, "--metrics", "mig", "snc", "--bootstrap", "0", "--out", out])
    assert (tmp_path / "found" / "report.html").is_file()
    assert "noisy (arrays in a file)" in capsys.readouterr().out
    main(["results", out, "--summary", "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["model"] for row in rows] == ["clean", "noisy"]
    main(["score", *paths, "--metrics", "mig", "--bootstrap", "0", "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["model"], row["metric"]) for row in rows] == [("clean", "mig"), ("noisy", "mig")]
    assert float(rows[0]["value"]) > float(rows[1]["value"])
    main(["score", *paths, "--metrics", "mig", "--bootstrap", "0", "--format", "markdown"])
    printed = capsys.readouterr().out
    assert "| clean " in printed
    assert "(n=1)" not in printed
    main(["score", paths[0], "--metrics", "mig", "--bootstrap", "0", "--format", "latex"])
    assert r"\toprule" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["score", *paths, "--out", str(tmp_path / "all.json")])
    assert stopped.value.code == 2
    assert "the scores of 2 files need a folder, not a JSON file" in capsys.readouterr().err
