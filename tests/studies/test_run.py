"""Running a study: impossible requests are refused, users' models are prechecked, summaries come last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alebrije import instruments
from alebrije.adapters import Encoder
from alebrije.errors import InputError
from alebrije.instruments import NAMES
from alebrije.results import Cell, Result, Value
from alebrije.studies import run
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job, RunSummary, Workers
from alebrije.studies.model import LoadedModel, Model, user_encoder
from alebrije.studies.references import Noise
from alebrije.studies.request import Request
from alebrije.studies.run import Study, plan_study, precheck_models, run_study

ANALOGY, NEURONS, GROUPING = (instruments.get(name) for name in ("analogy", "neurons", "grouping"))
EncodeFunction = Callable[[Tensor], Tensor]


def colours(images: Tensor) -> Tensor:
    return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def request_for(*models: Model, metrics: tuple[str, ...] = ("mig",)) -> Request:
    return Request(size="tiny", loaded=models, only_loaded=True, metrics=metrics)


def checked_run(study: Study, folder: ResultFolder, asked: Request) -> RunSummary:
    """Plan, precheck and run, as the commands do."""
    planned = plan_study(study, folder, asked)
    precheck_models([planned], folder)
    return run_study(planned, folder)


@pytest.mark.parametrize(
    ("metric", "study", "sentence"),
    [
        ("fg-ari", GROUPING, "^clips takes videos, and sprites in grouping has images$"),
        ("mig", NEURONS, "^clips takes videos, and .* in neurons has images; choose tests for videos$"),
        ("coat", ANALOGY, "^clips takes videos, and analogy shows images; choose tests for videos$"),
    ],
)
def test_a_model_of_videos_is_not_shown_images(metric: str, study: Study, sentence: str, tmp_path: Path) -> None:
    class Clips(nn.Module):
        takes = "videos"

        def forward(self, videos: Tensor) -> Tensor:
            return videos.mean((1, 3, 4))

    request = request_for(LoadedModel(Encoder(Clips()), "clips"), metrics=(metric,))
    with pytest.raises(InputError, match=sentence):
        plan_study(study, ResultFolder(tmp_path), replace(request, worlds=("sprites",) if study is GROUPING else ()))


@pytest.mark.parametrize("name", [name for name in NAMES if not instruments.get(name).options])
@pytest.mark.parametrize("asked", [Request(size="tiny", rules=("S-A",)), Request(size="tiny", alphas=(0.2,))])
def test_options_that_a_study_does_not_use_are_refused(name: str, asked: Request, tmp_path: Path) -> None:
    option = "rules" if asked.rules else "alphas"
    with pytest.raises(InputError, match=f"^{name} has no {option}$"):
        plan_study(instruments.get(name), ResultFolder(tmp_path), asked)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (Request(size="tiny", metrics=("sncc",)), "neurons has no value 'sncc'; did you mean 'SNC'"),
        (Request(size="tiny", seeds=0), "seeds must be at least 1, not 0"),
        (Request(size="tiny", models=("pixel",)), "there is no model 'pixel'; did you mean 'pixels'"),
        (Request(size="tiny", only_loaded=True), "neurons has no cell to compute; request more metrics or models"),
    ],
)
def test_impossible_requests_are_refused(asked: Request, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        plan_study(NEURONS, ResultFolder(tmp_path), asked)
    assert not list(tmp_path.iterdir())


class TestPrecheck:
    """Users' models are checked once, before any of their cells is computed."""

    @pytest.mark.parametrize(
        ("encoder", "words"),
        [
            (lambda images: images.mean((2, 3)) / 0, "it returns NaN or infinite codes"),
            (lambda images: torch.rand(len(images), 8), "its codes are random"),
            (lambda images: torch.ones(len(images), 8), "it returns the same codes for all images"),
        ],
    )
    def test_models_with_meaningless_scores_are_refused(
        self, encoder: EncodeFunction, words: str, tmp_path: Path
    ) -> None:
        folder = ResultFolder(tmp_path / "results")
        asked = request_for(Noise(), LoadedModel(Encoder(encoder, name="mine")))
        with pytest.raises(InputError, match=f"^mine cannot be evaluated as it is: {words}"):
            checked_run(NEURONS, folder, asked)
        assert not (tmp_path / "results").exists()

    def test_a_doubtful_model_is_logged_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        model = LoadedModel(Encoder(lambda images: colours(images) - 0.5 * images.mean((0, 2, 3)).mean(), name="mine"))
        with caplog.at_level(logging.WARNING, "alebrije"):
            checked_run(NEURONS, ResultFolder(tmp_path), request_for(model))
            checked_run(NEURONS, ResultFolder(tmp_path), request_for(model))  # nothing is missing
        assert caplog.text.count("depends on the others in its batch") == 1

    def test_only_users_models_with_missing_cells_are_checked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        checked: list[tuple[str, tuple[int, ...]]] = []

        def note(encoder: Encoder, pixels: tuple[int, ...]) -> list[str]:
            checked.append((encoder.name, pixels))
            return []

        monkeypatch.setattr(run.adapters, "precheck", note)
        folder, asked = ResultFolder(tmp_path), request_for(Noise(), LoadedModel(Encoder(colours, name="mine")))
        checked_run(NEURONS, folder, asked)
        checked_run(NEURONS, folder, asked)  # nothing is missing
        assert checked == [("mine", (64,))]

    def test_a_model_is_checked_once_for_several_studies(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        checked: list[tuple[int, ...]] = []
        monkeypatch.setattr(run.adapters, "precheck", lambda encoder, pixels: checked.append(pixels) or [])
        folder, model = ResultFolder(tmp_path), LoadedModel(Encoder(colours, name="mine"))
        planned = [
            plan_study(study, folder, request_for(model, metrics=(metric,)))
            for study, metric in ((NEURONS, "mig"), (GROUPING, "psnr"))
        ]
        precheck_models(planned, folder)
        assert checked == [(64, 32)]  # the sizes of both

    def test_a_model_with_the_input_size_of_the_study_passes(self, tmp_path: Path) -> None:
        fixed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 4))
        assert not checked_run(NEURONS, ResultFolder(tmp_path), request_for(LoadedModel(Encoder(fixed)))).failed

    @pytest.mark.parametrize("name", NAMES)
    def test_every_study_names_the_models_to_check(self, name: str, tmp_path: Path) -> None:
        encoder = Encoder(colours, name="mine")
        asked = request_for(Noise(), LoadedModel(encoder), metrics=())
        for job in plan_study(instruments.get(name), ResultFolder(tmp_path), asked).jobs:
            own = None if job.model is None else user_encoder(job.model)
            assert own is (encoder if job.cell.labels["model"] == "mine" else None)


def test_results_do_not_depend_on_the_number_of_processes_and_threads(tmp_path: Path) -> None:
    asked = Request(size="tiny", models=("oracle", "noise"), metrics=("NK", "MLP accuracy", "linear accuracy"))
    found = []
    before = torch.get_num_threads()
    try:
        for workers, threads in ((1, 1), (1, 2), (2, 2)):
            torch.set_num_threads(threads)
            folder = ResultFolder(tmp_path / f"{workers}-{threads}")
            run_study(plan_study(NEURONS, folder, asked), folder, Workers(workers))
            found.append({each.key: {n: v.score for n, v in each.values.items()} for each in folder.store.all()})
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 4  # a cell and a summary of each model


class TestSummaryCells:
    """Cells computed from all results wait until all results are there."""

    def test_they_come_last(self, tmp_path: Path) -> None:
        folder, study = ResultFolder(tmp_path), counted_study()
        planned = plan_study(study, folder, Request(size="tiny"))
        first = run_study(planned, folder, Workers(shard=(1, 2)))
        assert (first.done, sums(folder)) == (1, [])
        second = run_study(planned, folder, Workers(shard=(2, 2)))
        assert (second.done, sums(folder)) == (2, [2.0])

    def test_a_request_for_loaded_models_alone_has_none(self, tmp_path: Path) -> None:
        folder, study = ResultFolder(tmp_path), counted_study()
        assert run_study(plan_study(study, folder, Request(size="tiny", only_loaded=True)), folder).done == 2
        assert sums(folder) == []


def counted_study() -> Study:
    """A study with two cells, and one that counts them."""

    def jobs(folder: ResultFolder, asked: Request) -> list[Job]:
        return [Job(Cell(study="count", inputs={"number": n}), partial(value, "number", n)) for n in (1, 2)]

    def summary_jobs(results: Sequence[Result]) -> list[Job]:
        cell = Cell(study="count", inputs={"cells": sorted(result.key for result in results)})
        return [Job(cell, partial(value, "count", len(results)))]

    return replace(NEURONS, name="count", metrics=("number", "count"), jobs=jobs, summary_jobs=summary_jobs)


def value(name: str, number: int) -> dict[str, Value | float]:
    return {name: float(number)}


def sums(folder: ResultFolder) -> list[float | None]:
    return [result.values["count"].score for result in folder.store.all() if "count" in result.values]
