"""`alebrije.evaluate`: scores, labels, verdicts and refusals of the Python interface."""

from __future__ import annotations

import csv
import io
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import alebrije
from alebrije.cli import main
from alebrije.errors import InputError
from alebrije.evaluate import select_tests
from alebrije.instruments.imagination import study
from alebrije.instruments.imagination.head import HeadSettings
from tests.cli.running import csv_rows


class Colour(nn.Module):
    """The mean colour of each quarter."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def test_a_report_has_scores_and_a_page(tmp_path: Path) -> None:
    cells: list[str] = []
    report = alebrije.evaluate(
        Colour(),
        tests=["snc", "fg-ari"],
        size="tiny",
        out=tmp_path,
        name="<b>colour</b>",
        progress=lambda done, of, cell, left: cells.append(str(cell)),
    )
    assert len(cells) == len(report.results) == 2
    assert 0 < (report.score("snc") or 0) < 0.9
    assert report.value("fg-ari").score is None
    assert "does not group pixels" in (report.value("fg-ari").reason or "")
    assert "SNC" in str(report)
    page = report.save(tmp_path / "page.html").read_text()
    assert "<b>colour" not in page
    assert "&lt;b&gt;colour" in page
    with pytest.raises(InputError, match="there is no value 'sncc'"):
        report.score("sncc")


def test_values_that_a_report_lacks(tmp_path: Path) -> None:
    report = alebrije.evaluate(Colour(), tests=["snc", "mig"], size="tiny", out=tmp_path, name="mine", beside=["noise"])
    for metric, labels, sentence in (
        ("sncc", {}, "there is no value 'sncc'; did you mean 'SNC'?"),
        ("nk", {}, "there is no value 'nk' here: it belongs to neurons and was not requested"),
        ("zzz", {}, "there is no value 'zzz'; choose from MIG, SNC"),
        ("neurons", {}, "'neurons' is an instrument; its values here are MIG, SNC"),
        ("snc", {"wrld": "rooms"}, "'snc' has no label 'wrld'; did you mean 'world'?"),
        ("snc", {"world": "room"}, "there is no 'snc' with world='room'; did you mean 'rooms'?"),
        ("snc", {"model": "oracle"}, "there is no 'snc' with model='oracle'; choose from mine, noise"),
    ):
        for method in (report.value, report.score):
            with pytest.raises(InputError) as caught:
                method(metric, **labels)
            assert str(caught.value) == sentence
    assert len(report.table("metric=mig model=noise")) == 1
    with pytest.raises(InputError, match="no model is 'nosie'; did you mean 'noise'"):
        report.table("model=nosie")
    with pytest.raises(InputError, match="there is no column 'modl'; did you mean 'model'"):
        report.table("modl=noise")


def test_a_single_name_may_stand_for_a_list(tmp_path: Path) -> None:
    report = alebrije.evaluate(Colour(), tests="mig", size="tiny", out=tmp_path, beside="noise", worlds="rooms")
    assert {result.cell.labels["model"] for result in report.results} == {report.model, "noise"}
    assert {result.cell.labels["world"] for result in report.results} == {"rooms"}


def test_labels_that_do_not_occur_together(tmp_path: Path) -> None:
    report = alebrije.evaluate(Colour(), tests="mig", size="tiny", out=tmp_path, name="mine", pixels=32)
    other = alebrije.evaluate(Colour(), tests="mig", size="tiny", out=tmp_path, name="other")
    both = replace(report, keys=report.keys | other.keys)
    with pytest.raises(
        InputError, match="'mig' exists, but not with model=other input_size=32 together; it exists for"
    ):
        both.value("mig", model="other", input_size=32)


def test_the_same_name_with_other_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 8))
        report = alebrije.evaluate(network, tests="mig", size="tiny", out=tmp_path, name="mine", beside=["noise"])
    main(["results", str(tmp_path), "--query", "model=mine", "--format", "csv"])
    printed = capsys.readouterr()
    (row,) = csv.DictReader(io.StringIO(printed.out))
    assert float(row["value"]) == report.score("mig")  # the latest, of the model and not of noise
    assert "Skipped 1 older result with the same labels" in printed.err
    other = tmp_path / "other"
    alebrije.evaluate("noise", tests="mig", size="tiny", out=other)
    main(["compare", str(tmp_path), str(other), "--format", "csv"])
    assert len(csv_rows(capsys)) == 2
    assert repr(report).startswith("<Report on mine in ")
    assert set(report.verdicts) == {"mine", "noise"}
    assert str(report).startswith("Computed at size tiny, worlds rooms.")
    assert "\nmine (training data unknown to alebrije)\n  neurons" in str(report)


def test_layers_have_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 8))
    for layer in ("1", "2"):
        alebrije.evaluate(network, tests="mig", size="tiny", out=tmp_path, name="mine", layer=layer)
    main(["results", str(tmp_path), "--format", "csv"])
    assert [row["layer"] for row in csv_rows(capsys)] == ["1", "2"]


class Locked(nn.Module):
    """A model that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, images: Tensor) -> Tensor:
        with self.lock:
            return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def test_a_model_that_cannot_be_pickled(tmp_path: Path) -> None:
    report = alebrije.evaluate(Locked(), tests=["mig"], size="tiny", out=tmp_path, workers=2, beside=["noise"])
    assert not report.summary.failed
    assert report.summary.done == 2


def test_everything_is_planned_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neurons needs a world with every combination"):
        alebrije.evaluate(Colour(), tests=["grouping", "neurons"], size="tiny", out=tmp_path, worlds=["clevr6"])
    assert not (tmp_path / "cells").exists()


def test_nothing_is_prechecked_if_nothing_is_missing(tmp_path: Path) -> None:
    seen: list[int] = []

    def colours(images: Tensor) -> Tensor:
        seen.append(len(images))
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)

    def evaluate() -> None:
        alebrije.evaluate(colours, tests="mig", size="tiny", out=tmp_path, name="colours")

    evaluate()
    assert sum(seen) > 8
    seen.clear()
    evaluate()
    assert not seen


def test_a_model_with_the_input_size_of_the_images_needs_no_pixels(tmp_path: Path) -> None:
    fixed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 12))
    assert alebrije.evaluate(fixed, tests="snc", size="tiny", out=tmp_path, name="fixed").score("snc") is not None
    with pytest.raises(InputError, match=r"^other cannot be evaluated as it is: .*if it takes one size only"):
        alebrije.evaluate(nn.Sequential(nn.Flatten(), nn.Linear(48, 9)), tests="snc", size="tiny", name="other")


def test_rules_and_alphas_are_for_imagination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brief = replace(study.SIZES["tiny"], head=HeadSettings(steps=20))
    monkeypatch.setattr(study, "SIZES", {"tiny": brief})
    report = alebrije.evaluate(
        Colour(), tests=["skill", "mig"], size="tiny", out=tmp_path, name="mine", rules="M-A", alphas=[0.2]
    )
    labels = [one.cell.labels for one in report.results]
    chosen = {(each["rule"], each["alpha"]) for each in labels if "rule" in each}
    assert chosen == {("M-A", 0.2)}
    assert report.score("mig") is not None
    with pytest.raises(InputError, match="alphas are for imagination, and the tests are neurons"):
        alebrije.evaluate(Colour(), tests="mig", size="tiny", alphas=[0.2])


def test_the_verdict_on_skill_alone_compares_with_the_unchanged_source() -> None:
    quarters = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    report = alebrije.evaluate(quarters, tests="skill", size="tiny", name="mine")
    assert report.score("skill") > 0.3  # type: ignore[operator]
    assert "Its error is larger than that of the unchanged source image" in report.verdicts["mine"]["imagination"].text


def test_an_encoder_is_not_loaded_again() -> None:
    encoder = alebrije.adapters.Encoder(Colour(), name="mine")
    assert alebrije.evaluate(encoder, tests="mig", size="tiny").score("mig") is not None
    with pytest.raises(InputError, match="mine is loaded already; pass pixels, mean to adapters"):
        alebrije.evaluate(encoder, tests="mig", size="tiny", pixels=16, mean=0.5)


class Narrow(nn.Module):
    """A model that runs out of memory with many images."""

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > 40:
            raise MemoryError
        return images.mean((2, 3))


def test_a_failure_is_gone_after_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = ["mig", "snc"]
    first = alebrije.evaluate(Narrow(), tests="mig", size="tiny", out=tmp_path, name="mine", batch=32)
    failing = alebrije.evaluate(Narrow(), tests=tests, size="tiny", out=tmp_path, name="mine", batch=64)
    assert len(failing.summary.failed) == 1
    repaired = alebrije.evaluate(Narrow(), tests=tests, size="tiny", out=tmp_path, name="mine", batch=32)
    assert repaired.score("mig") == first.score("mig")
    page = repaired.save(tmp_path / "report.html").read_text()
    assert "cells failed" not in page
    assert "mine [" not in page  # one model, whatever its batch size
    main(["results", str(tmp_path)])
    assert "failed" not in capsys.readouterr().out


def test_evaluate_refuses() -> None:
    with pytest.raises(InputError, match="out is empty; it must be the name of a folder"):
        alebrije.evaluate(Colour(), out="")
    with pytest.raises(InputError, match="size must be one of"):
        alebrije.evaluate(Colour(), size="huge")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no test was requested"):
        select_tests([])
    assert select_tests(["coat", "neurons", "snc"]) == {"analogy": ("coat",), "neurons": ()}
