"""From a model to an answer: `alebrije eval`, `study`, `results`, `compare`, `report`, and `alebrije.evaluate`."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import alebrije
from alebrije.cli import main
from alebrije.cli.examining import default_jobs
from alebrije.errors import InputError
from alebrije.report.evaluation import chosen
from alebrije.results import Store
from alebrije.studies import imagination
from alebrije.studies.folder import Folder
from alebrije.studies.imagination_head import Lesson
from alebrije.studies.protocol import Ask, get, run_study
from alebrije.studies.training import carry_out
from alebrije.studies.views import READS_SCENES
from alebrije.train.plan import plan

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

def tired(images):  # it passes the look that comes before, which takes few images at once
    if len(images) > 8:
        raise RuntimeError("no weights today")
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
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of models in the current folder, as a user has it."""
    name = f"evaluated_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def ended(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_a_strangers_network(strangers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", f"{strangers}:Network", "--tests", "snc", "mig", "--size", "tiny", "--pixels", "32"]
    main([*command, "--out", "found", "--beside", "oracle", "noise"])
    out = capsys.readouterr().out
    assert "3 computed, 0 there already, 0 failed; the report is found/report.html" in out
    assert "<html" in Path("found/report.html").read_text()
    main(["results", "found", "--query", "metric=SNC", "--format", "csv"])
    scores = {row["model"]: float(row["value"]) for row in rows(capsys)}
    assert scores["oracle"] == 1
    assert scores["noise"] < 0.15
    main([*command, "--out", "found", "--beside", "oracle", "noise"])
    assert "0 computed, 3 there already" in capsys.readouterr().out
    with torch.random.fork_rng():
        Path(f"{strangers}.py").write_text(MODELS.replace("8, 3, 2", "4, 3, 2"))
        for module in [name for name in sys.modules if name == strangers]:
            del sys.modules[module]
        main([*command, "--out", "found"])
    assert "1 computed, 0 there already" in capsys.readouterr().out  # the same name, other weights


def test_slots_and_masks(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["eval", f"{strangers}:Quarters", "--tests", "grouping", "--size", "tiny", "--out", "found"])
    capsys.readouterr()
    main(["results", "found", "--rows", "model", "--columns", "metric", "--format", "csv"])
    (row,) = rows(capsys)
    assert row["model"] == f"{strangers}:Quarters"
    assert -0.5 < float(row["fg-ari"]) < 0.9


def test_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    main(["make", "rooms", "--n", "1000", "--seed", "0", "--size", "64", "--out", "images"])
    cache = alebrije.data.open_cache("images")
    np.savez("codes.npz", codes=np.asarray(cache["factors"])[:, 0].astype(np.float32))
    spec = "embeddings:codes.npz?images=images"
    main(["eval", spec, "--tests", "snc", "--size", "tiny", "--out", "found", "--name", "my codes"])
    main(["results", "found", "--query", "metric=SNC", "--format", "json"])
    told = capsys.readouterr().out
    table = json.loads(told[told.index('{\n "columns"') :])
    assert table["rows"][0]["model"] == "my codes"
    assert table["rows"][0]["value"]["value"] == 1


def test_what_fails_is_listed_and_the_rest_goes_on(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", f"{strangers}:tired", "--tests", "snc", "--size", "tiny", "--out", "found", "--beside", "noise"]
    assert ended(command) == 1
    told = capsys.readouterr()
    assert "1 computed, 0 there already, 1 failed" in told.out
    assert "no weights today" in told.out
    assert len(Store("found/cells").failed()) == 1
    assert "no weights today" in Path("found/report.html").read_text()
    assert ended(command) == 1  # it is tried again
    assert "0 computed, 1 there already, 1 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("broken", "it failed on images [8, 3, 64, 64]: RuntimeError: no weights at all"),
        ("nan", "it gives codes that are not numbers"),
        ("chance", "its codes are random"),
        ("constant", "it gives all images the same codes"),
        ("shapeless", "the model returned a tensor []"),
    ],
)
def test_a_model_whose_scores_would_mean_nothing_is_refused_at_once(
    strangers: str, model: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(["eval", f"{strangers}:{model}", "--tests", "snc", "--size", "tiny", "--out", "a/b"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"alebrije: {strangers}:{model} cannot be evaluated as it is: {words}")
    assert not Path("a").exists()


def test_a_model_that_is_only_doubtful_is_warned_of(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["eval", f"{strangers}:dark", "--tests", "mig", "--size", "tiny", "--out", "found"])
    told = capsys.readouterr()
    assert told.err.count("for images of black, white") == 1
    assert "1 computed, 0 there already, 0 failed" in told.out


def test_the_look_before_is_left_out_where_nothing_is_missing(tmp_path: Path) -> None:
    seen: list[int] = []

    def colours(images: Tensor) -> Tensor:
        seen.append(len(images))
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)

    def ask() -> None:
        alebrije.evaluate(colours, tests="mig", size="tiny", out=tmp_path, name="colours")

    ask()
    assert sum(seen) > 8
    seen.clear()
    ask()
    assert not seen


def test_a_damaged_file_is_named_once(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "eval",
        f"{strangers}:Network",
        "--tests",
        "mig",
        "--size",
        "tiny",
        "--out",
        "found",
        "--beside",
        "noise",
    ]
    main(command)
    paths = sorted(Path("found/cells").glob("*.json"))
    for path in paths:
        path.write_text(path.read_text()[:50])
    Path("found/cells/notes.json").write_text("{}")
    capsys.readouterr()
    main([*command, "--jobs", "2"])
    told = capsys.readouterr().err.splitlines()
    for path in (*paths, Path("found/cells/notes.json")):
        (line,) = [line for line in told if str(path) in line]
        assert line.startswith(f"alebrije: {path}: is ")
    assert not [line for line in told if "Warning" in line]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["eval", "pixels", "--tests", "cote", "--out", "x"], "there is no test 'cote'; did you mean 'coat'?"),
        (["eval", "pixels", "--beside", "nois", "--out", "x"], "there is no reference 'nois'; did you mean 'noise'?"),
        (["eval", "nothing", "--out", "x"], "'nothing' names no model"),
        (["eval", "pixels", "--jobs", "0", "--out", "x"], "--jobs must be at least 1"),
        (["eval", "pixels", "--batch", "0", "--out", "x"], "--batch must be at least 1, got 0"),
        (["eval", "pixels", "--pixels", "-3", "--out", "x"], "--pixels must be at least 1, got -3"),
        (["check", "my:model", "--pixels", "0"], "--pixels must be at least 1, got 0"),
        (["eval", "pixel", "--out", "x"], "'pixel' names no model; did you mean the reference 'pixels'?"),
        (["eval", "noise:Net", "--out", "x"], "there is no module 'noise'"),
        (["eval", "mine.py:Net", "--out", "x"], "'mine.py' is a file, and a module is wanted; did you mean 'mine:Net'"),
        (["eval", "./mine.py:Net", "--out", "x"], "did you mean 'mine:Net'?"),
        (["eval", "./none.py:Net", "--out", "x"], "there is no file './none.py'"),
        (["eval", "pixels", "--tests", "snc", "--worlds", "clvr", "--out", "x"], "neurons are studied where"),
        (["eval", "pixels", "--tests", "coat", "--worlds", "clevr", "--out", "x"], "scenes of their own"),
        (["eval", "pixels", "--tests", "miou", "--out", "x"], "`alebrije score` computes it of your own arrays"),
        (["eval", "checkpoint:.", "--out", "x"], "that folder holds no run"),
        (["eval", "pixels", "--out", ""], "--out wants the name of a file or folder, and got none"),
        (["study", "neurons", "--out="], "--out wants the name of a file or folder, and got none"),
        (["report", "x", "--figures", " "], "--figures wants the name of a file or folder, and got none"),
        (["eval", "pixels", "--out", "x/" + 300 * "a"], "--out has a name of 300 bytes"),
        (["results", 300 * "a"], "is too long for the name of a file"),
        (["study", "neuron", "--out", "x"], "there is no study 'neuron'; did you mean 'neurons'?"),
        (["study", "neurons", "--out", "x", "--shard", "3/2"], "--shard is written i/n"),
        (["study", "neurons", "--out", "x", "--shard", "one"], "--shard is written i/n"),
        (["study", "neurons", "--out", "x", "--seeds", "0"], "--seeds must be at least 1"),
        (["study", "neurons", "--out", "x", "--models", "beta-vaes"], "did you mean 'beta-vae'?"),
        (["study", "analogy", "--out", "x", "--models", "pixl"], "there is no model 'pixl' (one from outside is"),
        (["study", "imagination", "--out", "x", "--models", "svib-oracl"], "did you mean 'svib-oracle'?"),
        (["study", "neurons", "--out", "x", "--worlds", "dsprite"], "dsprites"),
        (["study", "neurons", "--out", "x", "--metrics", "bogus"], "neurons has no value 'bogus'"),
        (["results", "x"], "x: there are no results here"),
        (["results", ".", "--rows", "model"], "needs both --rows and --columns"),
        (["compare", "x", "y"], "x: there are no results here"),
        (["compare", "x"], "x alone has nothing beside it; name another folder, or give --published"),
        (["eval", "pixels", "--out", "x", "--name", " "], "--name wants a name, and got none"),
        (["report", "x"], "x: there are no results here"),
        (["eval", "pixels", "--tests", "snc", "--out", "file"], "file: is a file"),
        (["eval", "pixels", "--tests", "snc", "--out", "file/x"], "file/x: cannot be written"),
    ],
)
def test_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "mine.py").write_text("")
    assert ended(arguments) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert sentence in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine.py"]


STUDY = ["study", "neurons", "--size", "tiny", "--models", "oracle", "noise", "--metrics", "SNC", "MIG", "--out", "s"]


def test_a_study_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    main([*STUDY, "--dry-run"])
    listed = capsys.readouterr().out
    assert "2 cells, 2 missing; time: unknown until one of them is done" in listed
    assert not (tmp_path / "s").exists()
    main([*STUDY, "--shard", "1/2"])
    main([*STUDY, "--dry-run"])
    assert "2 cells, 1 missing; time: about" in capsys.readouterr().out
    main([*STUDY, "--shard", "2/2"])
    main(STUDY)
    assert "0 computed, 2 there already" in capsys.readouterr().out
    main(["compare", "s", "--published", "--format", "csv"])
    assert {row["model"] for row in rows(capsys)} == {"oracle", "noise"}
    main(["report", "s", "--out", "page.html", "--figures", "figures"])
    assert list((tmp_path / "figures").glob("*.svg"))
    assert list((tmp_path / "figures").glob("*.pdf"))


def done(folder: Path) -> int:
    """How many cells are stored there."""
    return len(list((folder / "cells").rglob("*.json")))


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
def test_how_many_share_an_evaluation(
    monkeypatch: pytest.MonkeyPatch, size: str, studies: list[str], beside: bool, expected: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert default_jobs(size, studies, beside) == expected


def test_killed_at_any_moment_it_ends_the_same(tmp_path: Path) -> None:
    """As if it had never been, and as with one process."""
    asked = ["study", "neurons", "--size", "tiny", "--models", "oracle", "noise"]
    asked += ["--metrics", "SNC", "MIG", "IRS", "CG accuracy"]
    main([*asked, "--jobs", "1", "--out", str(tmp_path / "calm")])
    command = [sys.executable, "-m", "alebrije", *asked, "--jobs", "2"]
    home = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    luck, left = random.Random(4), []  # how many cells were done when it was killed
    for _ in range(2):
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "rough")],
            env=home,
            start_new_session=True,
            **quiet,  # type: ignore[call-overload]
        )
        before = done(tmp_path / "rough")
        while process.poll() is None and done(tmp_path / "rough") == before:
            time.sleep(0.05)
        time.sleep(luck.uniform(0, 1))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            left.append(done(tmp_path / "rough"))
        process.wait()
    assert any(0 < count < done(tmp_path / "calm") for count in left)
    subprocess.run([*command, "--out", str(tmp_path / "rough")], check=True, env=home, **quiet)  # type: ignore[call-overload]
    calm, rough = (
        {result.key: {name: value.score for name, value in result.values.items()} for result in Store(place).all()}
        for place in (tmp_path / "calm" / "cells", tmp_path / "rough" / "cells")
    )
    assert calm == rough
    assert len(calm) > 2
    assert not Store(tmp_path / "rough" / "cells").problems()


def test_what_is_found_does_not_depend_on_how_many_share_the_work(tmp_path: Path) -> None:
    ask = Ask(size="tiny", models=("oracle", "noise"), metrics=("NK", "MLP accuracy", "linear accuracy"))
    found = []
    threads = torch.get_num_threads()
    try:
        for workers, several in ((1, 1), (1, 2), (2, 2)):
            torch.set_num_threads(several)
            folder = Folder(tmp_path / f"{workers}-{several}")
            run_study(get("neurons"), folder, ask, workers=workers)
            found.append({each.key: {n: v.score for n, v in each.values.items()} for each in folder.store.all()})
            assert torch.get_num_threads() == several
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2


def test_one_name_with_other_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 8))
        report = alebrije.evaluate(network, tests="mig", size="tiny", out=tmp_path, name="mine", beside=["noise"])
    main(["results", str(tmp_path), "--query", "model=mine", "--format", "csv"])
    told = capsys.readouterr()
    (row,) = csv.DictReader(io.StringIO(told.out))
    assert float(row["value"]) == report.score("mig")  # the last, and of the model, not of noise
    assert "1 older results have the labels of others" in told.err
    other = tmp_path / "other"
    alebrije.evaluate("noise", tests="mig", size="tiny", out=other)
    main(["compare", str(tmp_path), str(other), "--format", "csv"])
    assert len(rows(capsys)) == 2
    assert repr(report).startswith("<Report on mine in ")
    assert set(report.verdicts) == {"mine", "noise"}
    assert str(report).startswith("mine\n  neurons")


def test_layers_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 8))
    for layer in ("1", "2"):
        alebrije.evaluate(network, tests="mig", size="tiny", out=tmp_path, name="mine", layer=layer)
    main(["results", str(tmp_path), "--format", "csv"])
    assert [row["layer"] for row in rows(capsys)] == ["1", "2"]


class Locked(nn.Module):
    """A model that cannot be sent to another process."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, images: Tensor) -> Tensor:
        with self.lock:
            return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def test_a_model_that_cannot_be_sent_to_another_process(tmp_path: Path) -> None:
    report = alebrije.evaluate(Locked(), tests=["mig"], size="tiny", out=tmp_path, workers=2, beside=["noise"])
    assert not report.tally.failed
    assert report.tally.done == 2


def test_all_is_planned_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neurons are studied where"):
        alebrije.evaluate(Colour(), tests=["grouping", "neurons"], size="tiny", out=tmp_path, worlds=["clevr6"])
    assert not (tmp_path / "cells").exists()


def trained(model: str, folder: Path) -> str:
    """A run of one step, as a spec."""
    carry_out(plan(model, preset_name="tiny", images=4, settings={"steps": 1}), folder, looks=1)
    return f"checkpoint:{folder}"


@pytest.mark.parametrize("others", [{}, {"mig": "neurons", "coat": "analogy", "fg-ari": "grouping"}])
def test_a_run_that_reads_scenes_is_examined_where_it_can_be(
    others: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, out = trained("oracle", tmp_path / "run"), tmp_path / "found"
    command = ["eval", spec, "--tests", "skill", *others, "--size", "tiny", "--out", str(out)]
    main([*command, "--device", "cpu", "--jobs", "1"])
    told = capsys.readouterr()
    assert "0 failed" in told.out
    assert "--pixels" not in told.out + told.err
    results = Store(out / "cells").all()
    assert {result.cell.study for result in results} == {"imagination", *others.values()}
    for result in results:
        for value in result.values.values():
            if result.cell.study == "imagination":
                assert value.score is not None
            else:
                assert (value.score, value.reason) == (None, READS_SCENES)


def test_what_a_run_cannot_predict_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, out = trained("i2i-cnn", tmp_path / "run"), tmp_path / "found"
    command = ["eval", spec, "--tests", "skill", "--size", "tiny", "--out", str(out), "--device", "cpu"]
    main([*command, "--rules", "S-A", "M-NA", "--alphas", "0.6", "0.2"])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert line == (
        f"alebrije: {spec} was trained on sprites S-A at alpha 0.6 and predicts nothing else; "
        "left out: S-A at 0.2, M-NA at 0.6, M-NA at 0.2"
    )
    (result,) = Store(out / "cells").all()
    assert (result.cell.labels["rule"], result.cell.labels["alpha"]) == ("S-A", 0.6)
    main([*command, "--rules", "S-A"])
    assert "left out" not in capsys.readouterr().err


class Colour(nn.Module):
    """The mean colour of each quarter."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def test_evaluate(tmp_path: Path) -> None:
    heard: list[str] = []
    report = alebrije.evaluate(
        Colour(),
        tests=["snc", "fg-ari"],
        size="tiny",
        out=tmp_path,
        name="<b>colour</b>",
        progress=lambda done, of, cell, left: heard.append(str(cell)),
    )
    assert len(heard) == len(report.results) == 2
    assert 0 < (report.score("snc") or 0) < 0.9
    assert report.value("fg-ari").score is None
    assert "which pixels belong together" in (report.value("fg-ari").reason or "")
    assert "SNC" in str(report)
    page = report.save(tmp_path / "page.html").read_text()
    assert "<b>colour" not in page
    assert "&lt;b&gt;colour" in page
    with pytest.raises(InputError, match="there is no value 'sncc'"):
        report.score("sncc")


def test_what_a_report_has_not(tmp_path: Path) -> None:
    report = alebrije.evaluate(Colour(), tests=["snc", "mig"], size="tiny", out=tmp_path, name="mine", beside=["noise"])
    for metric, labels, sentence in (
        ("sncc", {}, "there is no value 'sncc'; did you mean 'SNC'?"),
        ("nk", {}, "there is no value 'nk' here: it belongs to neurons, and was not among the tests"),
        ("zzz", {}, "there is no value 'zzz'; there are MIG, SNC"),
        ("neurons", {}, "'neurons' is an instrument, not a value; its values here are MIG, SNC"),
        ("snc", {"wrld": "rooms"}, "'snc' has no label 'wrld'; did you mean 'world'?"),
        ("snc", {"world": "room"}, "there is no 'snc' with world='room'; did you mean 'rooms'?"),
        ("snc", {"model": "oracle"}, "there is no 'snc' with model='oracle'; there are mine, noise"),
    ):
        for ask in (report.value, report.score):
            with pytest.raises(InputError) as caught:
                ask(metric, **labels)
            assert str(caught.value) == sentence
    assert len(report.table("metric=mig model=noise")) == 1
    with pytest.raises(InputError, match="no model is 'nosie'; did you mean 'noise'"):
        report.table("model=nosie")
    with pytest.raises(InputError, match="there is no column 'modl'; did you mean 'model'"):
        report.table("modl=noise")


def test_one_name_stands_for_several(tmp_path: Path) -> None:
    report = alebrije.evaluate(Colour(), tests="mig", size="tiny", out=tmp_path, beside="noise", worlds="rooms")
    assert {result.cell.labels["model"] for result in report.results} == {report.model, "noise"}
    assert {result.cell.labels["world"] for result in report.results} == {"rooms"}


def test_labels_that_never_come_together(tmp_path: Path) -> None:
    report = alebrije.evaluate(Colour(), tests="mig", size="tiny", out=tmp_path, name="mine", pixels=32)
    other = alebrije.evaluate(Colour(), tests="mig", size="tiny", out=tmp_path, name="other")
    both = replace(report, keys=report.keys | other.keys)
    with pytest.raises(
        InputError, match="'mig' was found, but not with model=other input_size=32 together; it was for"
    ):
        both.value("mig", model="other", input_size=32)


def test_a_query_that_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alebrije.evaluate(Colour(), tests=["snc", "mig"], size="tiny", out=tmp_path, name="mine")
    for command in (["results"], ["compare", "--published"]):
        capsys.readouterr()
        assert ended([*command, str(tmp_path), "--query", "model=mien", "--format", "csv"]) == 2
        assert capsys.readouterr() == ("", "alebrije: no values fit: no model is 'mien'; did you mean 'mine'?\n")
    main(["results", str(tmp_path), "--query", "metric=snk,mig"])
    told = capsys.readouterr()
    assert told.err == "no metric is 'snk'; did you mean 'SNC'?\n"
    assert "MIG" in told.out
    main(["results", str(tmp_path), "--query", "value>3"])
    assert capsys.readouterr().err == "no values fit 'value>3'\n"


def test_a_model_of_the_size_that_is_shown_needs_no_size(tmp_path: Path) -> None:
    fixed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 12))
    assert alebrije.evaluate(fixed, tests="snc", size="tiny", out=tmp_path, name="fixed").score("snc") is not None
    with pytest.raises(InputError, match=r"^other cannot be evaluated as it is: .*if it takes one size only"):
        alebrije.evaluate(nn.Sequential(nn.Flatten(), nn.Linear(48, 9)), tests="snc", size="tiny", name="other")


def test_a_reference_needs_no_check(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "oracle"])
    assert "can be evaluated" in capsys.readouterr().out


def test_nobody_reads_to_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "alebrije", "eval", "oracle", "--tests", "snc", "--size", "tiny", "--out", "found"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    complaints = process.stderr.read()
    process.wait(timeout=60)
    assert "Traceback" not in complaints
    assert "Errno" not in complaints
    assert (tmp_path / "found" / "report.html").exists()


def test_rules_and_alphas_are_for_imagination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brief = replace(imagination.EXTENTS["tiny"], lesson=Lesson(steps=20))
    monkeypatch.setattr(imagination, "EXTENTS", {"tiny": brief})
    report = alebrije.evaluate(
        Colour(), tests=["skill", "mig"], size="tiny", out=tmp_path, name="mine", rules="M-A", alphas=[0.2]
    )
    labels = [one.cell.labels for one in report.results]
    chosen = {(each["rule"], each["alpha"]) for each in labels if "rule" in each}
    assert chosen == {("M-A", 0.2)}
    assert report.score("mig") is not None
    with pytest.raises(InputError, match="rules and alphas are for imagination, which is not among the tests neurons"):
        alebrije.evaluate(Colour(), tests="mig", size="tiny", alphas=[0.2])


def test_skill_alone_tells_whether_to_change_nothing_is_better() -> None:
    quarters = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    report = alebrije.evaluate(quarters, tests="skill", size="tiny", name="mine")
    assert report.score("skill") > 0.3  # type: ignore[operator]
    assert "It is worse than showing the source unchanged" in report.verdicts["mine"]["imagination"].text


def test_a_model_that_is_adapted_is_not_adapted_again() -> None:
    adapted = alebrije.adapters.Adapted(Colour(), name="mine")
    assert alebrije.evaluate(adapted, tests="mig", size="tiny").score("mig") is not None
    with pytest.raises(InputError, match="mine is adapted already: give pixels, mean where it is adapted"):
        alebrije.evaluate(adapted, tests="mig", size="tiny", pixels=16, mean=0.5)


class Narrow(nn.Module):
    """A model that has memory for few images at a time."""

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > 40:
            raise MemoryError
        return images.mean((2, 3))


def test_a_failure_that_was_mended_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = ["mig", "snc"]
    first = alebrije.evaluate(Narrow(), tests="mig", size="tiny", out=tmp_path, name="mine", batch=32)
    failing = alebrije.evaluate(Narrow(), tests=tests, size="tiny", out=tmp_path, name="mine", batch=64)
    assert len(failing.tally.failed) == 1
    mended = alebrije.evaluate(Narrow(), tests=tests, size="tiny", out=tmp_path, name="mine", batch=32)
    assert mended.score("mig") == first.score("mig")
    page = mended.save(tmp_path / "report.html").read_text()
    assert "cells failed" not in page
    assert "mine [" not in page  # one model, however many images it sees at a time
    main(["results", str(tmp_path)])
    assert "failed" not in capsys.readouterr().out


def test_evaluate_refuses() -> None:
    with pytest.raises(InputError, match="out must be the name of a folder"):
        alebrije.evaluate(Colour(), out="")
    with pytest.raises(InputError, match="size must be one of"):
        alebrije.evaluate(Colour(), size="huge")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no test to do"):
        chosen([])
    assert chosen(["coat", "neurons", "snc"]) == {"analogy": ("coat",), "neurons": ()}


def test_where_there_is_nothing_beside_it_is_said(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, test in (("Network", "mig"), ("Quarters", "fg-ari")):
        main(["eval", f"{strangers}:{name}", "--tests", test, "--size", "tiny", "--pixels", "32", "--out", name])
    capsys.readouterr()
    main(["compare", "Network", "--published"])
    assert "no paper printed a number for these" in capsys.readouterr().err
    main(["compare", "Network", "Quarters"])
    assert "Network and Quarters have no value in common" in capsys.readouterr().err
    main(["eval", "oracle", "--tests", "mig", "--size", "tiny", "--out", "Network", "--name", "mine"])
    assert "oracle is a reference, so it keeps that name." in capsys.readouterr().out
