"""`alebrije eval`: users' models, checkpoints, embeddings, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import alebrije
from alebrije.cli import main
from alebrije.cli.eval import default_jobs
from alebrije.results import Store
from alebrije.studies.encode import READS_SCENES
from alebrije.train.options import RunOptions
from alebrije.train.plan import plan
from alebrije.train.run import run_plan
from tests.cli.running import check_mistake, csv_rows, exit_code

MODELS = """
import torch
from torch import nn

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())

    def forward(self, images):
        return self.layers(images)

class Quarters(nn.Module):
    def forward(self, images):
        masks = torch.zeros(len(images), 2, *images.shape[2:])
        masks[:, 0, : images.shape[2] // 2] = 1
        masks[:, 1] = 1 - masks[:, 0]
        return {"slots": images.mean((2, 3))[:, None].repeat(1, 2, 1), "masks": masks}

def failing(images):  # passes the precheck, which has few images
    if len(images) > 8:
        raise RuntimeError("no memory")
    return images.mean((2, 3))

def broken(images):
    raise RuntimeError("no weights at all")

def nan(images):
    return images.mean((2, 3)) / 0 * 0

def chance(images):
    return torch.rand(len(images), 8)

def constant(images):
    return torch.ones(len(images), 8)

def shapeless(images):
    return images.mean()

def dark(images):
    apart = images - images.mean((1, 2, 3), keepdim=True)
    return (apart / apart.flatten(1).std(1)[:, None, None, None])[:, :, ::16, ::16].flatten(1)
"""


@pytest.fixture
def user_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of models in the current folder, as a user has it."""
    name = f"evaluated_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_users_network(user_models: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", f"{user_models}:Network", "--tests", "snc", "mig", "--size", "tiny", "--pixels", "32"]
    main([*command, "--out", "results", "--beside", "oracle", "noise"])
    out = capsys.readouterr().out
    assert "3 computed, 0 already done, 0 failed; the report is results/report.html" in out
    assert "<html" in Path("results/report.html").read_text()
    main(["results", "results", "--query", "metric=SNC", "--format", "csv"])
    scores = {row["model"]: float(row["value"]) for row in csv_rows(capsys)}
    assert scores["oracle"] == 1
    assert scores["noise"] < 0.15
    main([*command, "--out", "results", "--beside", "oracle", "noise"])
    assert "0 computed, 3 already done" in capsys.readouterr().out
    with torch.random.fork_rng():
        Path(f"{user_models}.py").write_text(MODELS.replace("8, 3, 2", "4, 3, 2"))
        for module in [name for name in sys.modules if name == user_models]:
            del sys.modules[module]
        main([*command, "--out", "results"])
    assert "1 computed, 0 already done" in capsys.readouterr().out  # the same name, other weights


def test_slots_and_masks(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["eval", f"{user_models}:Quarters", "--tests", "grouping", "--size", "tiny", "--out", "results"])
    capsys.readouterr()
    main(["results", "results", "--rows", "model", "--columns", "metric", "--format", "csv"])
    (row,) = csv_rows(capsys)
    assert row["model"] == f"{user_models}:Quarters"
    assert -0.5 < float(row["fg-ari"]) < 0.9


def test_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    main(["make", "rooms", "--n", "1000", "--seed", "0", "--size", "64", "--out", "images"])
    cache = alebrije.data.open_cache("images")
    np.savez("codes.npz", codes=np.asarray(cache["factors"])[:, 0].astype(np.float32))
    spec = "embeddings:codes.npz?images=images"
    main(["eval", spec, "--tests", "snc", "--size", "tiny", "--out", "results", "--name", "my codes"])
    main(["results", "results", "--query", "metric=SNC", "--format", "json"])
    printed = capsys.readouterr().out
    table = json.loads(printed[printed.index('{\n "columns"') :])
    assert table["rows"][0]["model"] == "my codes"
    assert table["rows"][0]["value"]["value"] == 1


def test_failed_cells_are_listed_and_the_others_are_computed(
    user_models: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "eval",
        f"{user_models}:failing",
        "--tests",
        "snc",
        "--size",
        "tiny",
        "--out",
        "results",
        "--beside",
        "noise",
    ]
    assert exit_code(command) == 1
    printed = capsys.readouterr()
    assert "1 computed, 0 already done, 1 failed" in printed.out
    assert "no memory" in printed.out
    assert len(Store("results/cells").failed()) == 1
    assert "no memory" in Path("results/report.html").read_text()
    assert exit_code(command) == 1  # it is tried again
    assert "0 computed, 1 already done, 1 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("broken", "it failed on images [8, 3, 64, 64]: RuntimeError: no weights at all"),
        ("nan", "it returns NaN or infinite codes"),
        ("chance", "its codes are random"),
        ("constant", "it returns the same codes for all images"),
        ("shapeless", "the model returned a tensor []"),
    ],
)
def test_a_model_with_meaningless_scores_is_refused(
    user_models: str, model: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["eval", f"{user_models}:{model}", "--tests", "snc", "--size", "tiny", "--out", "a/b"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"alebrije: {user_models}:{model} cannot be evaluated as it is: {words}")
    assert not Path("a").exists()


def test_a_doubtful_model_causes_a_warning(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["eval", f"{user_models}:dark", "--tests", "mig", "--size", "tiny", "--out", "results"])
    printed = capsys.readouterr()
    assert printed.err.count("for these images: black, white") == 1
    assert "1 computed, 0 already done, 0 failed" in printed.out


def test_a_damaged_file_is_named_once(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "eval",
        f"{user_models}:Network",
        "--tests",
        "mig",
        "--size",
        "tiny",
        "--out",
        "results",
        "--beside",
        "noise",
    ]
    main(command)
    paths = sorted(Path("results/cells").glob("*.json"))
    for path in paths:
        path.write_text(path.read_text()[:50])
    Path("results/cells/notes.json").write_text("{}")
    capsys.readouterr()
    main([*command, "--jobs", "2"])
    lines = capsys.readouterr().err.splitlines()
    for path in (*paths, Path("results/cells/notes.json")):
        (line,) = [line for line in lines if str(path) in line]
        assert line.startswith(f"alebrije: {path}: is ")
    assert not [line for line in lines if "Warning" in line]


@pytest.mark.parametrize(
    ("size", "studies", "beside", "expected"),
    [
        ("tiny", ["imagination"], False, 1),
        ("tiny", ["grouping", "neurons"], False, 1),
        ("tiny", ["imagination", "neurons"], False, 4),
        ("tiny", ["neurons"], True, 4),
        ("small", ["neurons"], False, 4),
    ],
)
def test_the_default_number_of_processes(
    monkeypatch: pytest.MonkeyPatch, size: str, studies: list[str], beside: bool, expected: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert default_jobs(size, studies, beside) == expected


def trained(model: str, folder: Path) -> str:
    """A run of one step, as a spec."""
    run_plan(plan(model, preset_name="tiny", images=4, settings={"steps": 1}), folder, RunOptions(check_size=1))
    return f"checkpoint:{folder}"


@pytest.mark.parametrize("others", [{}, {"mig": "neurons", "coat": "analogy", "fg-ari": "grouping"}])
def test_a_checkpoint_that_reads_scenes(
    others: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, out = trained("svib-oracle", tmp_path / "run"), tmp_path / "results"
    command = ["eval", spec, "--tests", "skill", *others, "--size", "tiny", "--out", str(out)]
    main([*command, "--device", "cpu", "--jobs", "1"])
    printed = capsys.readouterr()
    assert "0 failed" in printed.out
    assert "--pixels" not in printed.out + printed.err
    results = Store(out / "cells").all()
    assert {result.cell.study for result in results} == {"imagination", *others.values()}
    for result in results:
        for value in result.values.values():
            if result.cell.study == "imagination":
                assert value.score is not None
            else:
                assert (value.score, value.reason) == (None, READS_SCENES)


def test_tasks_that_a_checkpoint_cannot_predict_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, out = trained("i2i-cnn", tmp_path / "run"), tmp_path / "results"
    command = ["eval", spec, "--tests", "skill", "--size", "tiny", "--out", str(out), "--device", "cpu"]
    main([*command, "--rules", "S-A", "M-NA", "--alphas", "0.6", "0.2"])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "skipped" in line]
    assert line == (
        f"alebrije: {spec} was trained on sprites S-A at alpha 0.6 and predicts nothing else; "
        "skipped: S-A at 0.2, M-NA at 0.6, M-NA at 0.2"
    )
    (result,) = Store(out / "cells").all()
    assert (result.cell.labels["rule"], result.cell.labels["alpha"]) == ("S-A", 0.6)
    main([*command, "--rules", "S-A"])
    assert "skipped" not in capsys.readouterr().err


def test_a_closed_pipe_causes_no_traceback(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "alebrije",
        "eval",
        "oracle",
        "--tests",
        "snc",
        "--size",
        "tiny",
        "--out",
        "results",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    complaints = process.stderr.read()
    process.wait(timeout=60)
    assert "Traceback" not in complaints
    assert "Errno" not in complaints
    assert (tmp_path / "results" / "report.html").exists()


def test_a_reference_keeps_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["eval", "oracle", "--tests", "mig", "--size", "tiny", "--out", str(tmp_path), "--name", "mine"])
    assert "oracle is a reference, so --name has no effect." in capsys.readouterr().out


@pytest.mark.usefixtures("two_files")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["eval", "pixels", "--tests", "cote", "--out", "x"], "there is no test 'cote'; did you mean 'coat'?"),
        (["eval", "pixels", "--beside", "nois", "--out", "x"], "there is no reference 'nois'; did you mean 'noise'?"),
        (["eval", "nothing", "--out", "x"], "there is no model 'nothing'; a spec is one of"),
        (["eval", "pixels", "--jobs", "0", "--out", "x"], "--jobs must be at least 1"),
        (["eval", "pixels", "--batch", "0", "--out", "x"], "--batch must be at least 1, not 0"),
        (["eval", "pixels", "--pixels", "-3", "--out", "x"], "--pixels must be at least 1, not -3"),
        (["check", "my:model", "--pixels", "0"], "--pixels must be at least 1, not 0"),
        (["eval", "pixel", "--out", "x"], "there is no model 'pixel'; did you mean the reference 'pixels'?"),
        (["eval", "noise:Net", "--out", "x"], "there is no module 'noise'"),
        (["eval", "mine.py:Net", "--out", "x"], "'mine.py' is a file, not a module; did you mean 'mine:Net'"),
        (["eval", "./mine.py:Net", "--out", "x"], "did you mean 'mine:Net'?"),
        (["eval", "./none.py:Net", "--out", "x"], "there is no file './none.py'"),
        (
            ["eval", "pixels", "--tests", "snc", "--worlds", "clvr", "--out", "x"],
            "neurons needs a world with every combination",
        ),
        (["eval", "pixels", "--tests", "coat", "--worlds", "clevr", "--out", "x"], "has its own scenes"),
        (["eval", "pixels", "--tests", "sap-r2", "--out", "x"], "`alebrije score` computes it from your own arrays"),
        (["eval", "checkpoint:.", "--out", "x"], "the folder is not a run"),
        (["eval", "pixels", "--out", ""], "--out needs the name of a file or folder and is empty"),
        (["eval", "pixels", "--out", "x/" + 300 * "a"], "--out has a name of 300 bytes"),
        (["eval", "pixels", "--out", "x", "--name", " "], "--name is empty"),
        (["eval", "pixels", "--tests", "snc", "--out", "file"], "file: is a file"),
        (["eval", "pixels", "--tests", "snc", "--out", "file/x"], "file/x: cannot be written"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_mistake(arguments, sentence, capsys)
