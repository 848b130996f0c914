"""The page of a run: curves of its history, samples of its last checkpoint, also while it trains."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from alebrije.cli import main
from alebrije.report.run_page import is_run, read_curves, write_run_page
from alebrije.train.options import RunOptions
from alebrije.train.plan import plan
from alebrije.train.run import run_plan
from alebrije.train.run_folder import claim_folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "<b>run"
    settings = {"steps": 4, "batch": 2, "warmup": 0}
    made = plan("slot-attention", preset_name="tiny", world="sprites", images=8, settings=settings)
    run_plan(made, folder, RunOptions(log_every=1, check_every=2, check_size=2, save_every=2, until=3))
    return folder


def test_curves_are_the_numbers_of_the_history(run: Path) -> None:
    curves = {curve.name: curve for curve in read_curves(run)}
    assert curves["loss"].steps == (1, 2, 3)
    assert curves["FG-ARI"].steps == (2, 3)
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert curves["loss"].values == tuple(line["loss"] for line in lines if "loss" in line)
    assert [*curves][-1] == "images per second"


def test_damaged_lines_and_missing_numbers_are_left_out(tmp_path: Path) -> None:
    lines = ['{"step": 1, "loss": 2.0}', '{"step": 2, "loss": null}', "no json", '{"step": 3, "lo']
    (tmp_path / "history.jsonl").write_text("\n".join(lines))
    (curve,) = read_curves(tmp_path)
    assert (curve.name, curve.steps, curve.values) == ("loss", (1,), (2.0,))


def test_the_page_of_an_unfinished_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", str(run), "--n", "2", "--out", str(tmp_path / "page")])
    assert capsys.readouterr().out == f"written to {tmp_path / 'page.html'}\n"
    text = (tmp_path / "page.html").read_text()
    assert "Slot Attention on sprites" in text
    assert "step 3 of 4" in text
    assert text.count("<figure><img") == 6  # two images, their reconstructions and slots
    assert "<b>run" not in text
    assert "http://" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )


def test_a_run_without_a_checkpoint(tmp_path: Path) -> None:
    made = plan("slot-attention", preset_name="tiny", world="sprites")
    claim_folder(made, tmp_path / "run")
    assert is_run(tmp_path / "run")
    assert not is_run(tmp_path)
    text = write_run_page(tmp_path / "run", tmp_path / "page.html").read_text()
    assert "Nothing has been logged yet." in text
    assert "There is no checkpoint yet." in text


def test_a_world_comes_before_a_run_of_its_name(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, "sprites")
    main(["show", "sprites", "--n", "1", "--size", "16"])
    assert capsys.readouterr().out == "written to sheet.png and sheet.html\n"
    main(["show", "./sprites", "--n", "1"])
    assert capsys.readouterr().out == "written to sheet.html\n"


def test_options_of_worlds_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", str(run), "--seed", "3"])
    assert stopped.value.code == 2
    assert "--seed is not for runs" in capsys.readouterr().err
