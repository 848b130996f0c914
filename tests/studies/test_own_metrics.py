"""Metrics of a user in evaluations and studies: their values, intervals, keys and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from alebrije import evaluate, metrics, worlds
from alebrije.errors import InputError
from alebrije.instruments.grouping import INSTRUMENT as GROUPING
from alebrije.instruments.neurons.images import Corpus
from alebrije.metrics import find
from alebrije.studies.folder import ResultFolder
from alebrije.studies.own_metrics import own_value, own_versions
from alebrije.studies.request import Request
from tests.instruments.running import results_by_labels

CODE = """
from alebrije.errors import InputError
from alebrije.metrics import register

def own(name, instrument, inputs):
    return register(f"{name}-{TAG}", title=name, instrument=instrument, inputs=inputs, cites="c", invariances=())

@own("spread", "neurons", ("codes", "factors"))
def spread(codes, factors):
    return float(codes.var(0).max() / codes.var(0).sum())

@own("share", "grouping", ("true", "pred"))
def share(true, pred):
    return (true == pred).float().mean((1, 2))

@own("refuses", "neurons", ("codes", "factors"))
def refuses(codes, factors):
    raise InputError("these codes are too short")

@own("elsewhere", "sounds", ("codes", "factors"))
def elsewhere(codes, factors):
    return 0.5

@own("depth", "neurons", ("codes", "depth"))
def needs_depth(codes, depth):
    return 0.5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(CODE.replace("{TAG}", name.replace("_", "-")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("alebrije.metrics.record._CATALOG", metrics.catalog())  # undone after the test
    return name


def colours(images: torch.Tensor) -> torch.Tensor:
    return images.mean((2, 3))


def test_a_metric_of_codes_beside_those_of_neurons(module: str, tmp_path: Path) -> None:
    name = f"{module}:spread"
    report = evaluate(colours, ["mig", name], "tiny", out=tmp_path / "out", name="colours")
    value = report.value(name, world="rooms")
    images = Corpus.of("rooms", 1000).view(ResultFolder(tmp_path / "out")).images
    codes = images.float().div(255).mean((2, 3)).double()
    expected = float(codes.var(0).max() / codes.var(0).sum())
    assert value.score == pytest.approx(expected, rel=1e-3)
    assert value.interval is not None
    assert value.interval.low <= expected <= value.interval.high
    assert report.score("mig", world="rooms") is not None
    assert name in str(report)


def test_a_metric_of_masks_in_a_study(module: str, tmp_path: Path) -> None:
    name = f"{module}:share"
    request = Request(size="tiny", models=("oracle", "noise"), metrics=(name,))
    found = results_by_labels(GROUPING, ResultFolder(tmp_path / "out"), request, "model")
    assert found[("oracle",)].values[name].score == 1.0
    noise = found[("noise",)].values[name]
    assert noise.interval is not None
    assert 0.1 < (noise.score or 0.0) < 0.2  # one in seven groups
    masks = worlds.get("sprites").render(worlds.get("sprites").sample(64, seed=0), 32).masks
    assert len(noise.details["per_image"]) == len(masks)


def test_an_edited_metric_has_another_key(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = own_versions([f"{module}:spread", "snc"])
    assert list(first) == [f"{module}:spread"]
    other = f"{module}_edited"
    text = (tmp_path / f"{module}.py").read_text().replace("var(0).max()", "var(0).min()").replace("-own-", "-new-")
    (tmp_path / f"{other}.py").write_text(text.replace(module.replace("_", "-"), other.replace("_", "-")))
    (edited,) = own_versions([f"{other}:spread"]).values()
    assert edited["contents"] != first[f"{module}:spread"]["contents"]


def test_what_a_metric_refuses_is_null_with_a_reason(module: str) -> None:
    arrays = {"codes": np.random.default_rng(0).normal(size=(30, 3)), "factors": np.zeros((30, 1), int)}
    assert own_value(f"{module}:refuses", arrays).reason == "these codes are too short"
    lacking = own_value(f"{module}:needs_depth", arrays)
    assert lacking.reason == f"{module}:needs_depth needs depth, and neurons has codes, factors"


def test_wrong_names_are_one_sentence(module: str) -> None:
    with pytest.raises(InputError, match="says that it belongs to 'sounds'; it must be analogy"):
        evaluate(colours, f"{module}:elsewhere", "tiny")
    with pytest.raises(InputError, match="there is no module"):
        evaluate(colours, "no_such_module:spread", "tiny")
    assert find(f"{module}:spread").instrument == "neurons"
