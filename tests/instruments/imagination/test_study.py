"""The cells of a request."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alebrije import worlds
from alebrije.adapters import Encoder, Preprocessing
from alebrije.adapters.embeddings import Embeddings
from alebrije.errors import InputError
from alebrije.instruments.imagination import INSTRUMENT, study
from alebrije.instruments.imagination.examination import episode_plan
from alebrije.instruments.imagination.head import HeadSettings
from alebrije.instruments.imagination.images import Subset
from alebrije.instruments.imagination.study import SIZES, SkippedTasksWarning, examinations, jobs
from alebrije.instruments.imagination.values import METRICS, compute_values, lpips_weights
from alebrije.results import Result, Store, Value, compare, merge_results, result_table
from alebrije.results.merge import latest_results
from alebrije.results.published import published_for
from alebrije.scenes import Scenes
from alebrije.studies.encode import NOT_FINITE
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, Model, TrainedModel
from alebrije.studies.references import Noise, Pixels
from alebrije.studies.request import Request
from alebrije.train.plan import Plan, plan
from alebrije.train.run import run_plan
from alebrije.train.scene_sets import TaskSources
from tests.instruments.imagination.running import TINY, BrokenSlots, run, score


@pytest.mark.parametrize("again", ["skill", "lpips", "factor accuracy"])
def test_a_later_request_for_one_metric_hides_no_other(
    folder: ResultFolder, references: Mapping[str, Result], tmp_path: Path, again: str
) -> None:
    (job,) = jobs(folder, Request(size="tiny", models=("noise",), metrics=(again,)))
    store, first = Store(tmp_path), references["noise"]
    store.put(first)
    later = Result.done(job.cell, {again: -9.0}, seconds=1)
    store.put(later.model_copy(update={"created": first.created + timedelta(seconds=5)}))
    (together,), left_out = latest_results(store.all())
    assert left_out == 0
    assert set(together.values) == set(first.values)
    assert together.values[again].score == -9.0
    assert {name: value for name, value in together.values.items() if name != again} == {
        name: value for name, value in first.values.items() if name != again
    }
    columns = compare([store])
    assert {row["metric"] for row in columns.rows} == {row["metric"] for row in result_table([first]).rows}


def test_results_of_another_head_are_not_merged(folder: ResultFolder) -> None:
    one, other = jobs(folder, Request(size="tiny", models=("noise",), seeds=2))
    assert len(merge_results([Result.done(job.cell, {"skill": 0.5}, seconds=1) for job in (one, other)])) == 2


def test_the_weights_of_lpips_are_part_of_the_key(
    folder: ResultFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(*metrics: str) -> str:
        (job,) = jobs(folder, Request(size="tiny", models=("noise",), metrics=metrics))
        return job.cell.key

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    assert lpips_weights() is None
    keys, plain = [key("lpips")], key("skill")
    (tmp_path / "checkpoints").mkdir()
    heads = tmp_path / "checkpoints" / "alex.pth"
    for file, content in (("alexnet-owt-1.pth", b"features"), ("alex.pth", b"first"), ("alex.pth", b"other")):
        (tmp_path / "checkpoints" / file).write_bytes(content)
        os.utime(heads.parent / file, ns=(len(keys), len(keys)))
        keys.append(key("lpips"))
    assert keys[0] == keys[1]  # one file alone cannot be used
    assert len(set(keys)) == 3
    os.utime(heads, ns=(99, 99))
    assert key("lpips") == keys[-1]  # the content counts, not the time
    assert key("skill") == plain


def test_encoder_saw_of_models_trained_by_the_study(folder: ResultFolder) -> None:
    models = ("ae", "slot-attention", "i2i-cnn", "noise")
    made = jobs(folder, Request(size="tiny", models=models, metrics=("skill",)))
    found = {job.cell.labels["model"]: job.cell.labels.get("encoder_saw") for job in made}
    saw = "training combinations"
    assert found == {"ae": saw, "slot-attention": saw, "i2i-cnn": None, "noise": None}


def test_encoder_saw_of_loaded_models(folder: ResultFolder) -> None:
    def saw(model: Model) -> Any:
        (job,) = jobs(folder, Request(size="tiny", loaded=(model,), only_loaded=True, metrics=("skill",)))
        return job.cell.labels.get("encoder_saw")

    learned = {
        "all combinations": plan("ae", preset_name="tiny", world="sprites"),
        "training combinations": plan("ae", preset_name="tiny", world="sprites", rule="M-A", alpha=0.6),
        "training combinations of alpha 0.2": plan("ae", preset_name="tiny", world="sprites", rule="S-A", alpha=0.2),
        None: plan("ae", preset_name="tiny", world="dsprites"),
    }
    for words, made in learned.items():
        assert saw(TrainedModel(made, folder)) == words
        assert saw(LoadedModel(Encoder(made.new_model(), preprocessing=Preprocessing(size=64), plan=made))) == words
    assert saw(LoadedModel(Encoder(torch.nn.Flatten(), name="mine"))) is None
    assert saw(Noise()) is None


def test_an_encoder_is_trained_for_each_task_and_alpha(folder: ResultFolder) -> None:
    request = Request(size="tiny", models=("ae", "noise"), rules=("S-A", "M-A"), alphas=(0.2, 0.6), seeds=2)
    cells = [job.cell for job in jobs(folder, request)]
    assert len({cell.key for cell in cells}) == 2 * 8
    trained = [cell for cell in cells if cell.labels["model"] == "ae"]
    plans = [cell.inputs["subject"]["plan"] for cell in trained]
    assert len({str(each) for each in plans}) == len(trained) == 8
    for cell, own in zip(trained, plans, strict=True):
        assert [own[name] for name in ("rule", "alpha", "seed")] == [
            cell.labels[name] for name in ("rule", "alpha", "seed")
        ]


def test_encoders_are_trained_on_training_combinations_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Mapping[Subset, int] = {"train": 32, "validation": 8, "known": 8, "test": 8}
    few = replace(SIZES["tiny"], counts=counts, head=HeadSettings(steps=2), settings={"steps": 2, "batch": 4})
    monkeypatch.setattr(study, "SIZES", {**SIZES, "tiny": few})
    monkeypatch.setattr(
        "alebrije.studies.model.run_plan",
        lambda made, run, options: run_plan(made, run, replace(options, check_size=1)),
    )
    learned_from = _training_combinations(monkeypatch)
    study._plan.cache_clear()
    folder = ResultFolder(tmp_path)
    try:
        summary = run(folder, Request(size="tiny", models=("ae",), alphas=(0.2, 0.6), metrics=("skill",)))
    finally:
        study._plan.cache_clear()
    assert not summary.failed
    results = [result for result in folder.store.all() if "skill" in result.values]
    assert {result.cell.labels["encoder_saw"] for result in results} == {"training combinations"}
    assert len(results) == len(learned_from) == len(list((tmp_path / "runs").iterdir())) == 2
    for alpha, shown in learned_from.items():
        assert shown <= set(worlds.task("sprites", "S-A", alpha).split.train)


def _training_combinations(monkeypatch: pytest.MonkeyPatch) -> dict[float, set[tuple[int, ...]]]:
    """A table that fills with the combinations in the images that models are trained on, by alpha."""
    found: dict[float, set[tuple[int, ...]]] = {}
    draw = TaskSources.scenes

    def scenes(drawing: TaskSources, first: int, count: int) -> Scenes:
        drawn = draw(drawing, first, count)
        combinations = {tuple(one) for one in drawn.factors.flatten(0, 1).tolist()}
        found.setdefault(drawing.task.split.alpha, set()).update(combinations)
        return drawn

    monkeypatch.setattr(TaskSources, "scenes", scenes)
    return found


def test_loaded_pixels_have_the_cell_of_the_reference(folder: ResultFolder) -> None:
    (named,) = jobs(folder, Request(size="tiny", models=("pixels",)))
    (given,) = jobs(folder, Request(size="tiny", loaded=(Pixels(),), only_loaded=True))
    assert given.cell == named.cell


def test_a_model_that_learns_from_episodes_predicts_by_itself(folder: ResultFolder) -> None:
    request = Request(size="tiny", models=("i2i-cnn",), metrics=("skill", "out-of-distribution error"))
    (job,) = jobs(folder, request)
    labels = job.cell.labels
    assert (labels["model"], labels["drawn_by"], labels["pixels"], labels["seed"]) == ("i2i-cnn", "itself", 16, 0)
    summary = run(folder, request)
    assert not summary.failed
    found = folder.store.get(job.cell)
    assert found is not None
    assert set(found.values) == {"skill", "out-of-distribution error"}
    assert score(found, "skill") > 0.1
    assert run(folder, request).done == 0


def _svib_oracle() -> Plan:
    """The plan of a model that learns sprites M-A at alpha 0.2."""
    settings = {"steps": 2}
    return plan("svib-oracle", preset_name="tiny", world="sprites", rule="M-A", alpha=0.2, images=16, settings=settings)


def test_a_loaded_model_is_examined_on_its_own_task(folder: ResultFolder) -> None:
    own = _svib_oracle()
    model = TrainedModel(own, folder)
    request = Request(size="tiny", loaded=(model, Noise()), only_loaded=True, metrics=("skill",))
    by_head, by_itself = jobs(folder, request)
    assert (by_head.cell.labels["model"], by_head.cell.labels["rule"]) == ("noise", "S-A")
    assert (by_itself.cell.labels["rule"], by_itself.cell.labels["alpha"]) == ("M-A", 0.2)
    assert episode_plan(model) == own
    assert set(by_itself.work()) == {"skill"}


@pytest.mark.parametrize(
    "asked",
    [{"worlds": ("clevr",)}, {"rules": ("S-A",)}, {"alphas": (0.6,)}, {"rules": ("M-A",), "alphas": (0.4, 0.6)}],
)
def test_a_request_without_the_own_task_of_a_model_is_an_error(folder: ResultFolder, asked: dict[str, Any]) -> None:
    own = _svib_oracle()
    for model in (
        TrainedModel(own, folder),
        LoadedModel(Encoder(own.new_model(), preprocessing=Preprocessing(), plan=own)),
    ):
        request = Request(size="tiny", loaded=(model,), only_loaded=True, metrics=("skill",), **asked)
        with pytest.raises(
            InputError, match=r"trained on sprites M-A at alpha 0\.2 and .* leave out --worlds"
        ) as caught:
            jobs(folder, request)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"worlds": ("sprites",), "rules": ("M-A",), "alphas": (0.2,)},
        {"worlds": ("clevr", "sprites"), "rules": ("S-A", "M-A"), "alphas": (0.2, 0.6)},
        {"alphas": (0.2,)},
    ],
)
def test_a_request_with_several_tasks_has_one_cell_for_the_own_task(
    folder: ResultFolder, asked: dict[str, Any]
) -> None:
    own = _svib_oracle()
    request = Request(size="tiny", loaded=(TrainedModel(own, folder),), only_loaded=True, metrics=("skill",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedTasksWarning)
        ((job,), (plain,)) = jobs(folder, replace(request, **asked)), jobs(folder, request)
    assert job.cell == plain.cell
    assert (job.cell.labels["world"], job.cell.labels["rule"], job.cell.labels["alpha"]) == ("sprites", "M-A", 0.2)


@pytest.mark.parametrize(
    ("asked", "skipped"),
    [
        ({}, None),
        ({"worlds": ("sprites",), "rules": ("M-A",), "alphas": (0.2, 0.2)}, None),
        ({"alphas": (0.2, 0.6)}, "M-A at 0.6"),
        ({"rules": ("S-A", "M-A"), "alphas": (0.2, 0.6)}, "S-A at 0.2, S-A at 0.6, M-A at 0.6"),
        ({"worlds": ("clevr", "sprites")}, "clevr M-A at 0.2"),
    ],
)
def test_skipped_tasks_are_named_in_a_warning(folder: ResultFolder, asked: dict[str, Any], skipped: str | None) -> None:
    own = _svib_oracle()
    model = LoadedModel(Encoder(own.new_model(), name="mine", preprocessing=Preprocessing(), plan=own))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        jobs(folder, Request(size="tiny", loaded=(model,), only_loaded=True, metrics=("skill",), **asked))
    start = "mine was trained on sprites M-A at alpha 0.2 and predicts nothing else; skipped: "
    assert [str(each.message) for each in caught] == ([] if skipped is None else [start + skipped])


def test_cells_of_the_sizes(folder: ResultFolder) -> None:
    small = jobs(folder, Request(size="small", models=("i2i-cnn", "noise", "svib-oracle"), seeds=2))
    assert len(small) == 2 * 3 * 2
    assert len({job.cell.key for job in small}) == len(small)
    paper = jobs(folder, Request(size="paper", worlds=("sprites",), models=("i2i-vit",)))
    assert {(job.cell.labels["rule"], job.cell.labels["alpha"]) for job in paper} == {
        (rule, alpha) for rule in ("S-A", "M-A", "S-NA", "M-NA") for alpha in (0.0, 0.2, 0.4, 0.6)
    }
    for job in paper:
        assert len(published_for(job.cell.labels, "out-of-distribution error")) == 1
    assert SIZES["paper"].worlds == ("sprites", "clevr", "clevrtex")


def test_only_wanted_values_are_planned(folder: ResultFolder) -> None:
    (each,) = examinations(folder, Request(size="tiny", models=("noise",), metrics=("skill",)), ("skill",))
    assert each.reader is None
    assert jobs(folder, Request(size="tiny", metrics=("coat",))) == []
    request = Request(size="tiny", models=("noise",), metrics=("alpha-efficiency",), alphas=(0.2, 0.6))
    for job in jobs(folder, request):
        assert "out-of-distribution error" in job.cell.inputs["metrics"]["values"]
    assert set(METRICS) < set(INSTRUMENT.metrics)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"alphas": (1.5,)}, "alpha"),
        ({"rules": ("S-B",)}, "rule"),
        ({"worlds": ("spritez",)}, "spritez"),
        ({"worlds": ("rooms",)}, "two objects"),
        ({"models": ("i2i-cmn",)}, "i2i-cnn"),
    ],
)
def test_unknown_names_are_errors(folder: ResultFolder, change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        jobs(folder, Request(**({"size": "tiny", "models": ("noise",)} | change)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("alphas", [(), (0.2,), (0.2, 0.2)])
def test_values_over_alphas_need_several_alphas(folder: ResultFolder, alphas: tuple[float, ...]) -> None:
    request = Request(size="tiny", models=("noise",), metrics=("Alpha-efficiency",), alphas=alphas)
    with pytest.raises(InputError, match=r"alpha-efficiency needs at least two alphas, and there is only 0\.[26]"):
        jobs(folder, request)


def test_values_over_alphas_need_a_study(folder: ResultFolder) -> None:
    request = Request(size="small", loaded=(Noise(),), only_loaded=True, metrics=("mean gap",))
    with pytest.raises(InputError, match="only a study computes mean gap"):
        jobs(folder, request)


def test_codes_of_other_images_have_null_values(folder: ResultFolder) -> None:
    table = Embeddings("codes.npz", {"codes": np.eye(2, dtype="f4"), "images": np.zeros((2, 3, 4, 4), "u1")})
    request = Request(
        size="tiny", loaded=(LoadedModel(Encoder(table, name="table")),), only_loaded=True, metrics=("skill",)
    )
    (job,) = jobs(folder, request)
    found = job.work()["skill"]
    assert isinstance(found, Value)
    assert found.score is None
    assert "codes.npz" in str(found.reason)


@pytest.mark.parametrize("missing", ["train", "validation", "known", "test"])
def test_codes_must_cover_all_episodes(folder: ResultFolder, missing: str) -> None:
    counts = {subset: count for subset, count in SIZES["tiny"].counts.items() if subset != missing}
    images = torch.cat([TINY.episodes(folder, *each).source_images for each in counts.items()]).numpy()
    table = Embeddings("codes.npz", {"codes": np.ones((len(images), 2), "f4"), "images": images})
    request = Request(
        size="tiny", loaded=(LoadedModel(Encoder(table, name=missing)),), only_loaded=True, metrics=("skill",)
    )
    (job,) = jobs(folder, request)
    found = job.work()["skill"]
    assert isinstance(found, Value)
    assert "not one of them" in str(found.reason)


def test_nan_codes_have_null_values(folder: ResultFolder) -> None:
    (job,) = jobs(folder, Request(size="tiny", loaded=(BrokenSlots(),), only_loaded=True, metrics=("skill", "gap")))
    assert {value.reason for value in job.work().values() if isinstance(value, Value)} == {NOT_FINITE}


def test_a_job_can_be_pickled(folder: ResultFolder) -> None:
    """Other processes do the work of jobs."""
    (job,) = jobs(folder, Request(size="tiny", models=("noise",), metrics=("skill",)))
    again = pickle.loads(pickle.dumps(job))
    assert again.cell == job.cell
    assert again.work.func is compute_values
