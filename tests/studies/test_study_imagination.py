"""The study of imagination: right verdicts in seconds, and what it is made of."""

from __future__ import annotations

import math
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
from torch import Tensor

from alebrije import worlds
from alebrije.adapters import Adapted, Preprocessing
from alebrije.adapters.embeddings import Embeddings
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.head import PartsHead, pixel_points
from alebrije.results import Cell, Result, Store, Value, compare, merged, table
from alebrije.results.merging import latest
from alebrije.results.published import published_for
from alebrije.scenes import Scenes
from alebrije.studies import imagination
from alebrije.studies.folder import Folder
from alebrije.studies.imagination import EXTENTS, METRICS, STUDY, LeftOutWarning, examinations, jobs, own_plan, work
from alebrije.studies.imagination_alphas import after
from alebrije.studies.imagination_episodes import Setting, Shown
from alebrije.studies.imagination_factors import Course, around, places
from alebrije.studies.imagination_head import Drawer, Lesson, codes_of, linear_head
from alebrije.studies.imagination_scores import Imagined, errors, factors_read, perceptual, perceptual_weights
from alebrije.studies.protocol import Ask, run_study
from alebrije.studies.subjects import Model, Noise, Oracle, Pixels, Subject, Trained, View
from alebrije.studies.training import carry_out
from alebrije.studies.views import NOT_FINITE
from alebrije.train.plan import plan
from alebrije.train.sources import TaskSources

TINY = Setting("sprites", "S-A", 0.6, 32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """One folder for all, so that episodes and reader are made once."""
    return Folder(tmp_path_factory.mktemp("imagination"))


@pytest.fixture(scope="module")
def marks(folder: Folder) -> Mapping[str, Result]:
    """The references, examined."""
    ask = Ask(size="tiny", models=("pixels", "oracle", "noise"))
    tally = run_study(STUDY, folder, ask)
    assert not tally.failed
    found = [folder.store.get(job.cell) for job in jobs(folder, ask)]  # others may be there before, in another order
    return {str(result.cell.labels["model"]): result for result in found if result is not None}


def score(result: Result, name: str) -> float:
    """A value that is there."""
    found = result.values[name].score
    assert found is not None
    return found


# --- Verdicts ---


def test_the_oracle_wins_and_noise_sits_at_chance(marks: Mapping[str, Result]) -> None:
    oracle, pixels, noise = (marks[name] for name in ("oracle", "pixels", "noise"))
    assert score(oracle, "skill") > 0.9
    assert score(oracle, "skill") > score(pixels, "skill") + 0.05
    assert score(pixels, "skill") > score(noise, "skill") + 0.3
    assert abs(score(noise, "skill")) < 0.1
    apart = oracle.values["out-of-distribution error"].interval, pixels.values["out-of-distribution error"].interval
    assert apart[0] is not None
    assert apart[1] is not None
    assert apart[0].high < apart[1].low


def test_factors_tell_what_failed(marks: Mapping[str, Result]) -> None:
    """Under S-A the shape comes from the other object: pixels copy colours and sizes, and miss the shape."""
    oracle, pixels, noise = (marks[name] for name in ("oracle", "pixels", "noise"))
    assert score(oracle, "factor accuracy of true images") > 0.9
    assert score(oracle, "shape accuracy") > 0.55
    assert score(pixels, "shape accuracy") < 0.4
    assert min(score(pixels, f"{name} accuracy") for name in ("color", "size")) > 0.9
    assert score(noise, "factor accuracy") < 0.35
    assert "material accuracy" not in oracle.values
    assert marks["oracle"].values["shape accuracy"].details["chance"] == 0.25


def test_values_fit_together(marks: Mapping[str, Result]) -> None:
    for result in marks.values():
        inside, outside = (score(result, f"{where}-distribution error") for where in ("in", "out-of"))
        assert score(result, "gap") == pytest.approx(math.log(outside) - math.log(inside))
        assert score(result, "skill") == pytest.approx(1 - outside / score(result, "error of the best constant image"))
        assert set(result.values) <= set(STUDY.metrics)
        assert result.cell.labels["size"] == "tiny"
        assert result.cell.labels["drawn_by"] == "head"
    same = {score(result, "error of an unchanged image") for result in marks.values()}
    assert len(same) == 1


def test_samples_are_kept_for_pictures(folder: Folder, marks: Mapping[str, Result]) -> None:
    kept = folder.samples(marks["oracle"].cell)
    assert set(kept) == {f"{name}{end}" for name in ("source", "target", "predicted") for end in ("", "_in")}
    assert all(array.dtype == np.uint8 and array.shape == (8, 3, 32, 32) for array in kept.values())
    likeness = [np.abs(kept["target"].astype(int) - kept[name].astype(int)).mean() for name in ("predicted", "source")]
    assert likeness[0] < likeness[1]


def test_the_truth_has_no_error_and_is_read_as_the_truth(folder: Folder, marks: Mapping[str, Result]) -> None:
    shown = {lot: TINY.episodes(folder, lot, 256) for lot in ("known", "test")}  # type: ignore[arg-type]
    known, new = (Imagined(each, each.target.float() / 255) for each in shown.values())
    found = errors(known, new)
    assert found["out-of-distribution error"].score == 0
    assert found["skill"].score == 1
    assert found["gap"].score is None
    assert found["gap"].reason
    read = factors_read(Course("sprites", 32, **EXTENTS["tiny"].course).reader(folder), known, new)
    assert read["factor accuracy"].score == read["factor accuracy of true images"].score
    assert read["factor accuracy"].score == score(marks["noise"], "factor accuracy of true images")
    assert read["shape accuracy"].score == read["shape accuracy"].details["of true images"]


@pytest.mark.parametrize("again", ["skill", "lpips", "factor accuracy"])
def test_one_metric_asked_for_later_hides_no_other(
    folder: Folder, marks: Mapping[str, Result], tmp_path: Path, again: str
) -> None:
    (job,) = jobs(folder, Ask(size="tiny", models=("noise",), metrics=(again,)))
    store, first = Store(tmp_path), marks["noise"]
    store.put(first)
    later = Result.done(job.cell, {again: -9.0}, seconds=1)
    store.put(later.model_copy(update={"created": first.created + timedelta(seconds=5)}))
    (together,), left_out = latest(store.all())
    assert left_out == 0
    assert set(together.values) == set(first.values)
    assert together.values[again].score == -9.0
    assert {name: value for name, value in together.values.items() if name != again} == {
        name: value for name, value in first.values.items() if name != again
    }
    columns = compare([store])
    assert {row["metric"] for row in columns.rows} == {row["metric"] for row in table([first]).rows}


def test_results_of_another_head_stay_apart(folder: Folder) -> None:
    one, other = jobs(folder, Ask(size="tiny", models=("noise",), seeds=2))
    assert len(merged([Result.done(job.cell, {"skill": 0.5}, seconds=1) for job in (one, other)])) == 2


def test_lpips_is_null_without_weights(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder.path / "nowhere"))
    shown = TINY.episodes(folder, "test", 4)
    found = perceptual(Imagined(shown, shown.target.float() / 255))
    assert found.score is None
    assert "weights" in str(found.reason)
    small = Setting("sprites", "S-A", 0.6, 16).episodes(folder, "test", 2)
    assert "pixels" in str(perceptual(Imagined(small, small.target.float() / 255)).reason)


def test_the_weights_of_lpips_are_among_the_inputs(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(*metrics: str) -> str:
        (job,) = jobs(folder, Ask(size="tiny", models=("noise",), metrics=metrics))
        return job.cell.key

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    assert perceptual_weights() is None
    keys, plain = [key("lpips")], key("skill")
    (tmp_path / "checkpoints").mkdir()
    heads = tmp_path / "checkpoints" / "alex.pth"
    for file, content in (("alexnet-owt-1.pth", b"features"), ("alex.pth", b"first"), ("alex.pth", b"other")):
        (tmp_path / "checkpoints" / file).write_bytes(content)
        os.utime(heads.parent / file, ns=(len(keys), len(keys)))
        keys.append(key("lpips"))
    assert keys[0] == keys[1]  # one file alone is of no use
    assert len(set(keys)) == 3
    os.utime(heads, ns=(99, 99))
    assert key("lpips") == keys[-1]  # what counts is what it holds
    assert key("skill") == plain


# --- Models that are trained here ---


def test_what_an_encoder_saw_is_told(folder: Folder) -> None:
    models = ("ae", "slot-attention", "i2i-cnn", "noise")
    made = jobs(folder, Ask(size="tiny", models=models, metrics=("skill",)))
    told = {job.cell.labels["model"]: job.cell.labels.get("encoder_saw") for job in made}
    seen = "training combinations"
    assert told == {"ae": seen, "slot-attention": seen, "i2i-cnn": None, "noise": None}


def test_what_an_encoder_that_is_brought_saw_is_told_as_far_as_it_is_known(folder: Folder) -> None:
    def saw(subject: Subject) -> Any:
        (job,) = jobs(folder, Ask(size="tiny", subjects=(subject,), only_subjects=True, metrics=("skill",)))
        return job.cell.labels.get("encoder_saw")

    learned = {
        "all combinations": plan("ae", preset_name="tiny", world="sprites"),
        "training combinations": plan("ae", preset_name="tiny", world="sprites", rule="M-A", alpha=0.6),
        "training combinations of alpha 0.2": plan("ae", preset_name="tiny", world="sprites", rule="S-A", alpha=0.2),
        None: plan("ae", preset_name="tiny", world="dsprites"),
    }
    for words, made in learned.items():
        assert saw(Trained(made, folder)) == words
        assert saw(Model(Adapted(made.new_model(), preprocessing=Preprocessing(size=64), plan=made))) == words
    assert saw(Model(Adapted(torch.nn.Flatten(), name="stranger"))) is None
    assert saw(Noise()) is None


def test_an_encoder_is_trained_for_each_task_and_alpha(folder: Folder) -> None:
    ask = Ask(size="tiny", models=("ae", "noise"), rules=("S-A", "M-A"), alphas=(0.2, 0.6), seeds=2)
    made = [each for each in examinations(folder, ask) if isinstance(each.subject, Trained)]
    runs = {each.subject.place: each for each in made if isinstance(each.subject, Trained)}
    assert len(runs) == len(made) == 8
    for each in runs.values():
        learned = each.inputs["subject"]["plan"]
        assert (learned["rule"], learned["alpha"]) == (each.setting.rule, each.setting.alpha)
        assert each.subject.labels["seed"] == learned["seed"]
    assert len({job.cell.key for job in jobs(folder, ask)}) == 2 * 8


def test_an_encoder_that_learned_training_combinations_is_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"train": 32, "validation": 8, "known": 8, "test": 8}
    few = replace(EXTENTS["tiny"], counts=counts, lesson=Lesson(steps=2), settings={"steps": 2, "batch": 4})
    monkeypatch.setattr(imagination, "EXTENTS", {**EXTENTS, "tiny": few})
    monkeypatch.setattr("alebrije.studies.subjects.carry_out", lambda *a, **k: carry_out(*a, **{**k, "looks": 1}))
    learned_from = _watched(monkeypatch)
    imagination._plan.cache_clear()
    folder = Folder(tmp_path)
    try:
        tally = run_study(STUDY, folder, Ask(size="tiny", models=("ae",), alphas=(0.2, 0.6), metrics=("skill",)))
    finally:
        imagination._plan.cache_clear()
    assert not tally.failed
    results = [result for result in folder.store.all() if "skill" in result.values]
    assert {result.cell.labels["encoder_saw"] for result in results} == {"training combinations"}
    assert len(results) == len(learned_from) == len(list((tmp_path / "runs").iterdir())) == 2
    for alpha, shown in learned_from.items():
        assert shown <= set(worlds.task("sprites", "S-A", alpha).split.train)


def _watched(monkeypatch: pytest.MonkeyPatch) -> dict[float, set[tuple[int, ...]]]:
    """The combinations of all images that are drawn for models of images to learn from, by alpha."""
    found: dict[float, set[tuple[int, ...]]] = {}
    draw = TaskSources.scenes

    def scenes(drawing: TaskSources, first: int, count: int) -> Scenes:
        drawn = draw(drawing, first, count)
        combinations = {tuple(one) for one in drawn.factors.flatten(0, 1).tolist()}
        found.setdefault(drawing.task.split.alpha, set()).update(combinations)
        return drawn

    monkeypatch.setattr(TaskSources, "scenes", scenes)
    return found


def test_pixels_at_hand_are_those_by_name(folder: Folder) -> None:
    (named,) = jobs(folder, Ask(size="tiny", models=("pixels",)))
    (given,) = jobs(folder, Ask(size="tiny", subjects=(Pixels(),), only_subjects=True))
    assert given.cell == named.cell


def test_a_trained_model_predicts_by_itself(folder: Folder) -> None:
    ask = Ask(size="tiny", models=("i2i-cnn",), metrics=("skill", "out-of-distribution error"))
    (job,) = jobs(folder, ask)
    labels = job.cell.labels
    assert (labels["model"], labels["drawn_by"], labels["pixels"], labels["seed"]) == ("i2i-cnn", "itself", 16, 0)
    tally = run_study(STUDY, folder, ask)
    assert not tally.failed
    found = folder.store.get(job.cell)
    assert found is not None
    assert set(found.values) == {"skill", "out-of-distribution error"}
    assert score(found, "skill") > 0.1
    assert run_study(STUDY, folder, ask).done == 0


def test_a_subject_that_learned_episodes_is_asked_for_its_own_task(folder: Folder) -> None:
    own = plan("oracle", preset_name="tiny", world="sprites", rule="M-A", alpha=0.2, images=16, settings={"steps": 2})
    subject = Trained(own, folder)
    ask = Ask(size="tiny", subjects=(subject, Noise()), only_subjects=True, metrics=("skill",))
    by_head, by_itself = jobs(folder, ask)
    assert (by_head.cell.labels["model"], by_head.cell.labels["rule"]) == ("noise", "S-A")
    assert (by_itself.cell.labels["rule"], by_itself.cell.labels["alpha"]) == ("M-A", 0.2)
    assert own_plan(subject) == own
    assert set(by_itself.work()) == {"skill"}


@pytest.mark.parametrize(
    "asked",
    [{"worlds": ("clevr",)}, {"rules": ("S-A",)}, {"alphas": (0.6,)}, {"rules": ("M-A",), "alphas": (0.4, 0.6)}],
)
def test_a_subject_that_learned_episodes_cannot_be_asked_for_another_task(
    folder: Folder, asked: dict[str, Any]
) -> None:
    own = plan("oracle", preset_name="tiny", world="sprites", rule="M-A", alpha=0.2, images=16, settings={"steps": 2})
    for subject in (Trained(own, folder), Model(Adapted(own.new_model(), preprocessing=Preprocessing(), plan=own))):
        ask = Ask(size="tiny", subjects=(subject,), only_subjects=True, metrics=("skill",), **asked)
        with pytest.raises(InputError, match=r"learned sprites M-A at alpha 0\.2 and .* leave out --worlds") as caught:
            jobs(folder, ask)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"worlds": ("sprites",), "rules": ("M-A",), "alphas": (0.2,)},
        {"worlds": ("clevr", "sprites"), "rules": ("S-A", "M-A"), "alphas": (0.2, 0.6)},
        {"alphas": (0.2,)},
    ],
)
def test_a_subject_that_learned_episodes_is_planned_once_where_its_own_task_is_among_others(
    folder: Folder, asked: dict[str, Any]
) -> None:
    own = plan("oracle", preset_name="tiny", world="sprites", rule="M-A", alpha=0.2, images=16, settings={"steps": 2})
    ask = Ask(size="tiny", subjects=(Trained(own, folder),), only_subjects=True, metrics=("skill",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        ((job,), (plain,)) = jobs(folder, replace(ask, **asked)), jobs(folder, ask)
    assert job.cell == plain.cell
    assert (job.cell.labels["world"], job.cell.labels["rule"], job.cell.labels["alpha"]) == ("sprites", "M-A", 0.2)


@pytest.mark.parametrize(
    ("asked", "left_out"),
    [
        ({}, None),
        ({"worlds": ("sprites",), "rules": ("M-A",), "alphas": (0.2, 0.2)}, None),
        ({"alphas": (0.2, 0.6)}, "M-A at 0.6"),
        ({"rules": ("S-A", "M-A"), "alphas": (0.2, 0.6)}, "S-A at 0.2, S-A at 0.6, M-A at 0.6"),
        ({"worlds": ("clevr", "sprites")}, "clevr M-A at 0.2"),
    ],
)
def test_what_a_subject_that_learned_episodes_leaves_out_is_told(
    folder: Folder, asked: dict[str, Any], left_out: str | None
) -> None:
    own = plan("oracle", preset_name="tiny", world="sprites", rule="M-A", alpha=0.2, images=16, settings={"steps": 2})
    subject = Model(Adapted(own.new_model(), name="mine", preprocessing=Preprocessing(), plan=own))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        jobs(folder, Ask(size="tiny", subjects=(subject,), only_subjects=True, metrics=("skill",), **asked))
    begun = "mine was trained on sprites M-A at alpha 0.2 and predicts nothing else; left out: "
    assert [str(each.message) for each in told] == ([] if left_out is None else [begun + left_out])


def test_cells_of_the_sizes(folder: Folder) -> None:
    small = jobs(folder, Ask(size="small", models=("i2i-cnn", "noise", "svib-oracle"), seeds=2))
    assert len(small) == 2 * 3 * 2
    assert len({job.cell.key for job in small}) == len(small)
    paper = jobs(folder, Ask(size="paper", worlds=("sprites",), models=("i2i-vit",)))
    assert {(job.cell.labels["rule"], job.cell.labels["alpha"]) for job in paper} == {
        (rule, alpha) for rule in ("S-A", "M-A", "S-NA", "M-NA") for alpha in (0.0, 0.2, 0.4, 0.6)
    }
    for job in paper:
        assert len(published_for(job.cell.labels, "out-of-distribution error")) == 1
    assert EXTENTS["paper"].worlds == ("sprites", "clevr", "clevrtex")


def test_only_what_is_wanted(folder: Folder) -> None:
    (each,) = examinations(folder, Ask(size="tiny", models=("noise",), metrics=("skill",)), ("skill",))
    assert each.course is None
    assert jobs(folder, Ask(size="tiny", metrics=("coat",))) == []
    ask = Ask(size="tiny", models=("noise",), metrics=("alpha-efficiency",), alphas=(0.2, 0.6))
    for job in jobs(folder, ask):
        assert "out-of-distribution error" in job.cell.inputs["metrics"]["values"]
    assert set(METRICS) < set(STUDY.metrics)


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
def test_names_that_there_are_not(folder: Folder, change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        jobs(folder, Ask(**({"size": "tiny", "models": ("noise",)} | change)))
    assert "\n" not in str(caught.value)


# --- Over alphas ---


@pytest.mark.parametrize("alphas", [(), (0.2,), (0.2, 0.2)])
def test_values_over_alphas_need_several(folder: Folder, alphas: tuple[float, ...]) -> None:
    ask = Ask(size="tiny", models=("noise",), metrics=("Alpha-efficiency",), alphas=alphas)
    with pytest.raises(InputError, match=r"alpha-efficiency needs two alphas or more, and there is only 0\.[26]"):
        jobs(folder, ask)


def test_values_over_alphas_need_a_whole_study(folder: Folder) -> None:
    ask = Ask(size="small", subjects=(Noise(),), only_subjects=True, metrics=("mean gap",))
    with pytest.raises(InputError, match="mean gap is found by a study alone"):
        jobs(folder, ask)


def test_what_is_the_same_for_all_has_the_same_interval(marks: Mapping[str, Result]) -> None:
    for name in ("error of the best constant image", "error of an unchanged image"):
        found = [result.values[name].interval for result in marks.values()]
        assert found[0] is not None
        assert found.count(found[0]) == len(found) > 1


def test_an_interval_does_not_depend_on_what_else_is_asked(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    brief = replace(EXTENTS["tiny"], lesson=Lesson(steps=20))
    monkeypatch.setattr(imagination, "EXTENTS", {"tiny": brief})
    asks = (Ask(size="tiny", models=("noise",), metrics=names) for names in ((), ("skill",)))
    whole, alone = (job for ask in asks for job in jobs(folder, ask))
    assert whole.cell.key != alone.cell.key
    expected, found = whole.work(), alone.work()
    assert len(expected) > len(found) == 1
    assert isinstance(found["skill"], Value)
    assert found["skill"].interval is not None
    assert found["skill"] == expected["skill"]


def _result(model: str, alpha: float, error: float, seed: int = 0) -> Result:
    labels = {"size": "tiny", "world": "sprites", "rule": "S-A", "alpha": alpha, "seed": seed, "model": model}
    cell = Cell(study="imagination", labels=labels, inputs={"made up": [model, alpha, seed]})
    return Result.done(cell, {"out-of-distribution error": error, "gap": math.log(error)}, seconds=0)


def test_alpha_efficiency() -> None:
    oracle = [_result("oracle", alpha, 1.0) for alpha in (0.0, 0.2, 0.4, 0.6)]
    model = [_result("i2i-cnn", alpha, error) for alpha, error in ((0.0, 9.0), (0.2, 5.0), (0.4, 1.6), (0.6, 1.1))]
    again = [_result("i2i-cnn", alpha, error, 1) for alpha, error in ((0.0, 9.0), (0.2, 5.0), (0.4, 1.2), (0.6, 1.1))]
    made = {str(job.cell.labels["model"]): job for job in after([*oracle, *model, *again, _result("noise", 0.6, 9.0)])}
    assert set(made) == {"oracle", "i2i-cnn"}
    found = made["i2i-cnn"].work()
    efficiency, gap = found["alpha-efficiency"], found["mean gap"]
    assert isinstance(efficiency, Value)
    assert isinstance(gap, Value)
    assert efficiency.score == 0.4  # 1.4 over both seeds, at most 1.5 times the Oracle's 1
    assert gap.score == pytest.approx(np.mean([math.log(9), math.log(5), math.log(1.6 * 1.2) / 2, math.log(1.1)]))
    assert set(made["i2i-cnn"].cell.inputs["cells"]) == {result.key for result in (*model, *again)}
    assert "alpha" not in made["i2i-cnn"].cell.labels
    yardstick = made["oracle"].work()["alpha-efficiency"]
    assert isinstance(yardstick, Value)
    assert yardstick.score is None


def test_the_oracle_is_the_yardstick_whatever_encoders_saw() -> None:
    def at(model: str, alpha: float, **more: Any) -> Result:
        result = _result(model, alpha, 1.0)
        labels = {**result.cell.labels, **more}
        return result.model_copy(update={"cell": result.cell.model_copy(update={"labels": labels})})

    results = [at("oracle", alpha) for alpha in (0.2, 0.6)]
    results += [at("ae", alpha, encoder_saw="all combinations") for alpha in (0.2, 0.6)]
    (job,) = [job for job in after(results) if job.cell.labels["model"] == "ae"]
    found = job.work()["alpha-efficiency"]
    assert isinstance(found, Value)
    assert found.score == 0.2


def test_alpha_efficiency_needs_an_oracle() -> None:
    (job,) = after([_result("pixels", 0.2, 2.0), _result("pixels", 0.6, 1.0)])
    found = job.work()["alpha-efficiency"]
    assert isinstance(found, Value)
    assert "Oracle" in str(found.reason)
    assert after([_result("pixels", 0.6, 1.0)]) == []


# --- Episodes, places, heads ---


def test_test_combinations_are_never_learned_from(folder: Folder) -> None:
    split = TINY.task.split
    for lot, allowed in (
        ("train", split.train),
        ("validation", split.train),
        ("known", split.train),
        ("test", split.test),
    ):
        shown = TINY.episodes(folder, lot, 64)  # type: ignore[arg-type]
        assert {tuple(one) for one in shown.before.factors.flatten(0, 1).tolist()} <= set(allowed)
        assert not torch.equal(shown.source, shown.target)
    known, train = (TINY.episodes(folder, lot, 64).source for lot in ("known", "train"))  # type: ignore[arg-type]
    assert not torch.equal(known, train)
    with pytest.raises(InputError, match="at least 1"):
        TINY.episodes(folder, "test", 0)


@pytest.mark.parametrize("name", ["sprites", "clevr"])
def test_places_are_where_objects_are_drawn(name: str) -> None:
    world = worlds.get(name)
    scenes = world.sample(3, seed=3)
    masks, where = world.render(scenes, 64).masks, places(scenes)
    for scene in range(3):
        for each in range(2):
            x, y = where[scene, each, :2]
            column, row = (int((float(value) + 1) * 32) for value in (x, y))
            seen = (masks[scene] == each + 1).nonzero().float()
            assert abs(float(seen[:, 1].mean()) - column) < 8
            assert abs(float(seen[:, 0].mean()) - row) < 12


def test_what_is_seen_around_a_place() -> None:
    images = torch.zeros(1, 3, 32, 32)
    images[0, :, 4, 20] = 1  # the pixel whose centre is at x = 0.28125, y = -0.71875
    seen = around(images, torch.tensor([[[0.28125, -0.71875, 1.0], [-0.9, 0.9, 1.0]]]))
    assert seen.shape == (1, 2, 3, 24, 24)
    assert float(seen[0, 0, 0, 11:13, 11:13].sum()) == pytest.approx(1)
    assert float(seen[0, 1].sum()) == 0


def test_the_order_of_slots_means_nothing() -> None:
    torch.manual_seed(0)
    head, codes = PartsHead(5, slots=True), torch.randn(2, 4, 5)
    points, ground = pixel_points(4), torch.rand(2, 16, 3)
    assert torch.allclose(head(codes, points, ground), head(codes[:, [2, 0, 3, 1]], points, ground), atol=1e-5)
    with pytest.raises(InputError, match=r"\[B, K, 5\]"):
        head(torch.zeros(2, 5), points, ground)
    with pytest.raises(InputError, match=r"\[B, 5\]"):
        PartsHead(5, slots=False)(codes, points, ground)


def test_the_linear_head_finds_a_linear_map_and_no_other() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(600, 4, generator=generator)
    target = (128 + codes @ torch.randn(4, 12, generator=generator) * 20).clamp(0, 255).byte().view(600, 3, 2, 2)
    drawn = linear_head(codes[:400], target[:400], codes[400:500], target[400:500])(codes[500:])
    assert float((drawn - target[500:].flatten(1) / 255).abs().mean()) < 0.01
    noise = torch.randn(600, 4, generator=generator)
    drawn = linear_head(noise[:400], target[:400], noise[400:500], target[400:500])(noise[500:])
    mean = target[:400].flatten(1).float().mean(0) / 255
    assert float((drawn - mean).abs().mean()) < 0.02


class Tokens(Oracle):
    """The oracle's slots, followed by many that are empty, or with one number that is none."""

    broken = False

    def encode(self, view: View) -> Encoding:
        slots = super().encode(view).slots
        assert slots is not None
        more = torch.zeros(len(slots), 40, slots.shape[2])
        return Encoding(slots=torch.cat([slots, more * (torch.nan if self.broken else 1)], 1))


class BrokenTokens(Tokens):
    """With numbers that are none."""

    broken = True


def test_a_great_many_tokens_are_one_vector_and_codes_must_be_numbers(folder: Folder) -> None:
    shown = TINY.episodes(folder, "test", 4)
    assert codes_of(Oracle(), shown).shape == (4, 2, 14)
    assert codes_of(Tokens(), shown).shape == (4, 42 * 14)
    with pytest.raises(InputError, match="finite"):
        codes_of(BrokenTokens(), shown)


def test_codes_of_other_images_cannot_be_examined(folder: Folder) -> None:
    table = Embeddings("codes.npz", {"codes": np.eye(2, dtype="f4"), "images": np.zeros((2, 3, 4, 4), "u1")})
    ask = Ask(size="tiny", subjects=(Model(Adapted(table, name="table")),), only_subjects=True, metrics=("skill",))
    (job,) = jobs(folder, ask)
    found = job.work()["skill"]
    assert isinstance(found, Value)
    assert found.score is None
    assert "codes.npz" in str(found.reason)


@pytest.mark.parametrize("lacking", ["train", "validation", "known", "test"])
def test_codes_must_be_of_all_lots(folder: Folder, lacking: str) -> None:
    lots = {lot: TINY.episodes(folder, lot, count).source for lot, count in EXTENTS["tiny"].counts.items()}
    images = torch.cat([shown for lot, shown in lots.items() if lot != lacking]).numpy()
    table = Embeddings("codes.npz", {"codes": np.ones((len(images), 2), "f4"), "images": images})
    ask = Ask(size="tiny", subjects=(Model(Adapted(table, name=lacking)),), only_subjects=True, metrics=("skill",))
    (job,) = jobs(folder, ask)
    found = job.work()["skill"]
    assert isinstance(found, Value)
    assert "not one of them" in str(found.reason)


def test_codes_that_are_no_numbers_have_a_reason(folder: Folder) -> None:
    (job,) = jobs(folder, Ask(size="tiny", subjects=(BrokenTokens(),), only_subjects=True, metrics=("skill", "gap")))
    assert {value.reason for value in job.work().values() if isinstance(value, Value)} == {NOT_FINITE}


def _drawn(shown: Shown, codes: Tensor, seed: int) -> Tensor:
    lesson = Lesson(steps=5, batch=8, points=16, components=8)
    return Drawer((codes, shown.target), (codes, shown.target), lesson, seed, "cpu")(codes)


def test_the_same_seed_learns_the_same_and_leaves_torch_alone(folder: Folder) -> None:
    shown = TINY.episodes(folder, "known", 16)
    codes = torch.randn(16, 20, generator=torch.Generator().manual_seed(0))  # longer than the components
    before = torch.random.get_rng_state()
    first, second, other = (_drawn(shown, codes, seed) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.shape == shown.target.shape
    assert 0 <= float(first.min()) <= float(first.max()) <= 1


def test_codes_that_are_all_the_same_draw_the_mean(folder: Folder) -> None:
    shown = TINY.episodes(folder, "known", 64)
    drawn = _drawn(shown, torch.ones(64, 3), seed=0)
    mean = shown.target.float().mean(0) / 255
    assert float((drawn - mean).abs().mean()) < 0.05


def test_an_examination_travels(folder: Folder) -> None:
    """A job's work is handed to other processes."""
    (job,) = jobs(folder, Ask(size="tiny", models=("noise",), metrics=("skill",)))
    again = pickle.loads(pickle.dumps(job))
    assert again.cell == job.cell
    assert again.work.func is work
