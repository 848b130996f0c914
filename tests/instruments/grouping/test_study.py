"""The study of grouping: sizes, requests, and the grid of training by test slots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from alebrije.errors import InputError
from alebrije.instruments.grouping import INSTRUMENT, study
from alebrije.instruments.grouping.slots import CORRELATIONS
from alebrije.instruments.grouping.study import PAPER_SLOTS, SIZES, jobs
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import TrainedModel
from alebrije.studies.references import Pixels
from alebrije.studies.request import Request
from alebrije.studies.run import plan_study, run_study
from alebrije.train.options import RunOptions
from alebrije.train.plan import Plan, plan
from alebrije.train.run import run_plan
from tests.instruments.grouping.running import results_of, results_of_model, scores


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two training steps on few images."""
    random, learned = {"initial": "random"}, {"initial": "learned"}
    variants = {"slot-attention": (random, learned), "bo-qsa": (learned,)}
    few = replace(SIZES["tiny"], images=8, slots=(2, 3), variants=variants)
    monkeypatch.setattr(study, "SIZES", {**SIZES, "tiny": few})
    steps = {"steps": 2, "batch": 4, "warmup": 0}

    def brief_plan(name: str, *, settings: dict[str, Any], **others: Any) -> Plan:
        return plan(name, settings={**steps, **settings}, **others)

    def brief_run(made: Plan, path: Path, options: RunOptions) -> nn.Module:
        return run_plan(made, path, replace(options, check_size=1))

    monkeypatch.setattr(study, "plan", brief_plan)
    monkeypatch.setattr("alebrije.studies.model.run_plan", brief_run)


@pytest.mark.usefixtures("brief")
def test_a_grid_has_a_cell_for_each_pair_of_numbers(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    request = Request(size="tiny", models=("slot-attention", "bo-qsa"))
    grid = results_of(folder, request, "model", "initial", "train_slots", "test_slots", "seed")
    assert set(grid) == {
        *(("slot-attention", "random", train, test, 0) for train in (2, 3) for test in (2, 3)),
        *((model, "learned", own, own, 0) for model in ("slot-attention", "bo-qsa") for own in (2, 3)),
    }
    for result in grid.values():
        assert all(score is not None for score in scores(result).values())
    samples = folder.samples(grid["slot-attention", "random", 2, 3, 0].cell)
    assert set(np.unique(samples["groups"]).tolist()) <= {0, 1, 2}
    assert len({scores(result)["psnr"] for result in grid.values()}) == len(grid)

    (over,) = [result for result in folder.store.all() if "seed" not in result.cell.labels]
    assert over.cell.labels == {
        "size": "tiny",
        "world": "sprites",
        "pixels": 32,
        "model": "slot-attention",
        "initial": "random",
    }
    assert set(over.values) == set(CORRELATIONS)
    for value in over.values.values():
        assert value.score is not None
        assert -1 <= value.score <= 1
        assert value.details["n"] == 4
    random = [result for labels, result in grid.items() if labels[1] == "random"]
    pairs = np.array([(scores(result)["psnr"], scores(result)["fg-arp"]) for result in random], dtype=float)
    assert over.values["pearson(PSNR, FG-ARP)"].score == pytest.approx(np.corrcoef(pairs.T)[0, 1])
    assert over.cell.inputs["cells"] == sorted(result.key for result in random)

    again = run_study(plan_study(INSTRUMENT, folder, request), folder)
    assert (again.done, again.kept) == (0, len(grid) + 1)


@pytest.mark.usefixtures("brief")
def test_a_loaded_model_trained_by_alebrije_is_a_row_of_the_grid(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    made = plan("slot-attention", preset_name="tiny", settings={"slots": 4, "steps": 1, "batch": 4, "warmup": 0})
    results = results_of_model(folder, TrainedModel(made, folder), "train_slots", "test_slots")
    assert set(results) == {(4, 2), (4, 3), (4, 4)}
    spec = f"checkpoint:{TrainedModel(made, folder).path}"
    loaded = results_of(folder, Request(size="tiny", models=(spec,), metrics=("psnr",)), "train_slots", "test_slots")
    for slots, result in loaded.items():
        assert scores(result) == {"psnr": pytest.approx(scores(results[slots])["psnr"])}


@pytest.mark.usefixtures("brief")
def test_iodine_has_a_grid_without_a_way_to_start(tmp_path: Path) -> None:
    """Its K is free at test time, and its slots start from one learned Gaussian."""
    folder = ResultFolder(tmp_path)
    request = Request(size="tiny", models=("iodine",), metrics=("fg-ari", *CORRELATIONS))
    grid = results_of(folder, request, "train_slots", "test_slots")
    assert set(grid) == {(train, test) for train in (2, 3) for test in (2, 3)}
    assert len({scores(result)["psnr"] for result in grid.values()}) == 4
    assert all("initial" not in result.cell.labels for result in grid.values())
    (over,) = [result for result in folder.store.all() if "seed" not in result.cell.labels]
    assert over.cell.labels == {"size": "tiny", "world": "sprites", "pixels": 32, "model": "iodine"}
    assert over.values["pearson(PSNR, FG-ARI)"].details["n"] == 4


def test_loaded_pixels_are_the_reference_pixels(folder: ResultFolder) -> None:
    (named,) = jobs(folder, Request(size="tiny", models=("pixels",)))
    (given,) = jobs(folder, Request(size="tiny", loaded=(Pixels(),), only_loaded=True))
    assert given.cell == named.cell


def test_a_model_without_slots_has_no_grid(tmp_path: Path) -> None:
    request = Request(size="tiny", models=("ae",), seeds=2)
    labels = [job.cell.labels for job in jobs(ResultFolder(tmp_path), request)]
    assert [(one["model"], one["seed"]) for one in labels] == [("ae", 0), ("ae", 1)]
    assert "test_slots" not in labels[0]


def test_the_size_paper_is_the_grid_of_the_paper(tmp_path: Path) -> None:
    labels = [job.cell.labels for job in jobs(ResultFolder(tmp_path), Request(size="paper", seeds=1))]
    random = [one for one in labels if one.get("initial") == "random"]
    assert {(one["train_slots"], one["test_slots"]) for one in random} == {
        (train, test) for train in PAPER_SLOTS for test in PAPER_SLOTS
    }
    assert len(random) == 169
    assert len([one for one in labels if one.get("initial") == "learned"]) == 13
    assert {one["world"] for one in labels} == {"clevr10"}


def test_only_requested_values_are_computed(folder: ResultFolder) -> None:
    results = results_of(folder, Request(size="tiny", models=("oracle",), metrics=("FG-ARI",)), "model")
    assert list(results[("oracle",)].values) == ["fg-ari"]
    (job,) = jobs(folder, Request(size="tiny", models=("oracle",), metrics=("pearson(PSNR, FG-ARP)",)))
    assert set(job.cell.inputs["metrics"]) == {"psnr", "fg-arp"}
    assert jobs(folder, Request(size="tiny", metrics=("coat",))) == []


def test_impossible_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="I2I-CNN learns from episodes; grouping"):
        jobs(ResultFolder(tmp_path), Request(size="tiny", models=("i2i-cnn",)))
    with pytest.raises(InputError, match="no world"):
        jobs(ResultFolder(tmp_path), Request(size="tiny", worlds=("clever",)))
    with pytest.raises(InputError, match="several objects per scene, and rooms has one; try sprites"):
        jobs(ResultFolder(tmp_path), Request(size="tiny", worlds=("sprites", "rooms")))
    with pytest.raises(InputError, match="slot-attention"):
        jobs(ResultFolder(tmp_path), Request(size="tiny", models=("slot-atention",)))
