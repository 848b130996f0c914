"""Errors, skill and accuracies of references: right answers in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from alebrije.adapters import Encoder
from alebrije.instruments.imagination import INSTRUMENT, examination, study
from alebrije.instruments.imagination.examination import Examination
from alebrije.instruments.imagination.head import HeadSettings
from alebrije.instruments.imagination.images import Corpus, Subset
from alebrije.instruments.imagination.reader import ReaderSettings
from alebrije.instruments.imagination.study import SIZES, examinations, jobs
from alebrije.instruments.imagination.values import (
    Predictions,
    accuracy_values,
    compute_values,
    error_values,
    lpips_value,
    start_values,
)
from alebrije.results import Result, Value
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel
from alebrije.studies.references import Noise, Pixels
from alebrije.studies.request import Request
from alebrije.studies.untrained import untrained_twins
from tests.instruments.imagination.running import TINY, BrokenSlots, score


def test_the_oracle_is_best_and_noise_is_at_chance(references: Mapping[str, Result]) -> None:
    oracle, pixels, noise = (references[name] for name in ("oracle", "pixels", "noise"))
    assert score(oracle, "skill") > 0.9
    assert score(oracle, "skill") > score(pixels, "skill") + 0.05
    assert score(pixels, "skill") > score(noise, "skill") + 0.3
    assert abs(score(noise, "skill")) < 0.1
    apart = oracle.values["out-of-distribution error"].interval, pixels.values["out-of-distribution error"].interval
    assert apart[0] is not None
    assert apart[1] is not None
    assert apart[0].high < apart[1].low


def test_factor_accuracies_show_what_failed(references: Mapping[str, Result]) -> None:
    """Under S-A the shape comes from the other object: pixels copy colours and sizes, and miss the shape."""
    oracle, pixels, noise = (references[name] for name in ("oracle", "pixels", "noise"))
    assert score(oracle, "factor accuracy of true images") > 0.9
    assert score(oracle, "shape accuracy") > 0.55
    assert score(pixels, "shape accuracy") < 0.4
    assert min(score(pixels, f"{name} accuracy") for name in ("color", "size")) > 0.9
    assert score(noise, "factor accuracy") < 0.35
    assert "material accuracy" not in oracle.values
    assert references["oracle"].values["shape accuracy"].details["chance"] == 0.25


def test_values_are_consistent(references: Mapping[str, Result]) -> None:
    for result in references.values():
        inside, outside = (score(result, f"{where}-distribution error") for where in ("in", "out-of"))
        assert score(result, "gap") == pytest.approx(math.log(outside) - math.log(inside))
        assert score(result, "skill") == pytest.approx(1 - outside / score(result, "error of the best constant image"))
        assert set(result.values) <= set(INSTRUMENT.metrics)
        assert result.cell.labels["size"] == "tiny"
        assert result.cell.labels["drawn_by"] == "head"
    same = {score(result, "error of an unchanged image") for result in references.values()}
    assert len(same) == 1


def test_samples_are_kept_for_pictures(folder: ResultFolder, references: Mapping[str, Result]) -> None:
    kept = folder.samples(references["oracle"].cell)
    assert set(kept) == {f"{name}{end}" for name in ("source", "target", "predicted") for end in ("", "_in")}
    assert all(array.dtype == np.uint8 and array.shape == (8, 3, 32, 32) for array in kept.values())
    likeness = [np.abs(kept["target"].astype(int) - kept[name].astype(int)).mean() for name in ("predicted", "source")]
    assert likeness[0] < likeness[1]


def test_true_images_have_no_error_and_the_accuracy_of_true_images(
    folder: ResultFolder, references: Mapping[str, Result]
) -> None:
    shown = [TINY.episodes(folder, "known", 256), TINY.episodes(folder, "test", 256)]
    known, new = (Predictions(each, each.target_images.float() / 255) for each in shown)
    found = error_values(known, new)
    assert found["out-of-distribution error"].score == 0
    assert found["skill"].score == 1
    assert found["gap"].score is None
    assert found["gap"].reason
    read = accuracy_values(ReaderSettings("sprites", 32, **SIZES["tiny"].reader).trained(folder), known, new)
    assert read["factor accuracy"].score == read["factor accuracy of true images"].score
    assert read["factor accuracy"].score == score(references["noise"], "factor accuracy of true images")
    assert read["shape accuracy"].score == read["shape accuracy"].details["of true images"]


def test_lpips_is_null_without_weights(folder: ResultFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder.path / "nowhere"))
    shown = TINY.episodes(folder, "test", 4)
    found = lpips_value(Predictions(shown, shown.target_images.float() / 255))
    assert found.score is None
    assert "weights" in str(found.reason)
    small = Corpus("sprites", "S-A", 0.6, 16).episodes(folder, "test", 2)
    assert "pixels" in str(lpips_value(Predictions(small, small.target_images.float() / 255)).reason)


def test_baselines_have_the_same_interval_for_all_models(references: Mapping[str, Result]) -> None:
    for name in ("error of the best constant image", "error of an unchanged image"):
        found = [result.values[name].interval for result in references.values()]
        assert found[0] is not None
        assert found.count(found[0]) == len(found) > 1


def test_an_interval_does_not_depend_on_the_other_values(folder: ResultFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    brief = replace(SIZES["tiny"], head=HeadSettings(steps=20))
    monkeypatch.setattr(study, "SIZES", {"tiny": brief})
    requests = (Request(size="tiny", models=("noise",), metrics=names) for names in ((), ("skill",)))
    every, single = (job for request in requests for job in jobs(folder, request))
    assert every.cell.key != single.cell.key
    expected, found = every.work(), single.work()
    assert len(expected) > len(found) == 1
    assert isinstance(found["skill"], Value)
    assert found["skill"].interval is not None
    assert found["skill"] == expected["skill"]


def test_heads_that_are_fitted_at_once_give_the_same_values(
    folder: ResultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, but on a CPU. A model without codes is left to its own cell."""
    counts: dict[Subset, int] = {"train": 32, "validation": 16, "known": 16, "test": 16}
    brief = replace(SIZES["tiny"], counts=counts, head=HeadSettings(steps=20))
    monkeypatch.setattr(study, "SIZES", {"tiny": brief})
    models = (Noise(), BrokenSlots(), Pixels(16))
    request = Request(size="tiny", loaded=models, only_loaded=True, metrics=("skill", "out-of-distribution error"))
    wanted = ("out-of-distribution error", "skill")
    cells = [
        (job.cell, each) for job, each in zip(jobs(folder, request), examinations(folder, request, wanted), strict=True)
    ]
    left = start_values(folder, cells)
    assert [work is None for work in left] == [False, True, False]
    for work, (cell, each) in zip(left, cells, strict=True):
        if work is not None:
            assert work() == compute_values(folder, cell, each)


def test_codes_that_another_process_has_stored_give_the_same_values(
    folder: ResultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, but on a CPU: a network encodes ahead, and its untrained twin too."""
    counts: dict[Subset, int] = {"train": 32, "validation": 16, "known": 16, "test": 16}
    monkeypatch.setattr(study, "SIZES", {"tiny": replace(SIZES["tiny"], counts=counts, head=HeadSettings(steps=20))})
    network = LoadedModel(Encoder(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8))))
    models = (network, *untrained_twins(network, 1))
    request = Request(size="tiny", loaded=models, only_loaded=True, metrics=("skill",))
    cells = [
        (job.cell, each)
        for job, each in zip(jobs(folder, request), examinations(folder, request, ("skill",)), strict=True)
    ]
    expected = [compute_values(folder, cell, each) for cell, each in cells]
    assert not any(each.stores_codes for _, each in cells)
    monkeypatch.setattr(Examination, "stores_codes", True)
    stored = [each.stored_codes(folder, cell)["test"] for cell, each in cells]
    assert bool((stored[0] != stored[1]).any())

    def encode(model: object, shown: object) -> None:
        raise AssertionError("the codes are stored")

    monkeypatch.setattr(examination, "encode_sources", encode)
    assert [work() for work in start_values(folder, cells) if work is not None] == expected
    cells[0][1].compile_heads()  # for a GPU; on a CPU it only runs
