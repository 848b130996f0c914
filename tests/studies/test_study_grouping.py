"""The study of grouping: known groupings, a grid of training by test slots, and what is found in all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters
from alebrije.adapters import Adapted, Preprocessing
from alebrije.adapters.embeddings import Embeddings
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.results import Result
from alebrije.results.cells import Label
from alebrije.results.links import LINKS
from alebrije.studies import grouping, subjects
from alebrije.studies.folder import Folder
from alebrije.studies.grouping import EXTENTS, GROUPING, NO_DRAWING, NO_GROUPS, STUDY, Pictures
from alebrije.studies.grouping_grid import CORRELATIONS, correlations, rows
from alebrije.studies.protocol import Ask, run_study
from alebrije.studies.subjects import Model, Pixels, Subject, Trained, View
from alebrije.studies.training import carry_out
from alebrije.studies.views import READS_SCENES
from alebrije.train.plan import plan

Found = dict[tuple[Any, ...], Result]


def found(folder: Folder, ask: Ask, *labels: str) -> Found:
    """The results of what is asked, by some of their labels."""
    tally = run_study(STUDY, folder, ask)
    assert not tally.failed, tally.failed[0].traceback
    keys = {job.cell.key for job in STUDY.jobs(folder, ask)}
    mine = [result for result in folder.store.all() if result.key in keys]
    by_labels = {tuple(result.cell.labels.get(name) for name in labels): result for result in mine}
    assert len(by_labels) == len(mine) == len(keys)
    return by_labels


def scores(result: Result) -> dict[str, float | None]:
    return {name: value.score for name, value in result.values.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("grouping"))


@pytest.fixture(scope="module")
def references(folder: Folder) -> Found:
    return found(folder, Ask(size="tiny"), "model")


def test_the_truth_wins_and_noise_sits_at_chance(references: Found) -> None:
    assert set(references) == {("pixels",), ("oracle",), ("noise",)}
    for name in GROUPING:
        assert scores(references[("oracle",)])[name] == 1.0
        assert scores(references[("noise",)])[name] == pytest.approx(0.0, abs=0.02)
        pixels = scores(references[("pixels",)])[name]
        assert pixels is not None
        assert 0.1 < pixels < 1.0


def test_cells_tell_what_they_are_of(references: Found) -> None:
    for (model,), result in references.items():
        assert result.cell.labels == {"size": "tiny", "world": "sprites", "pixels": 32, "model": model}
        value = result.values["fg-ari"]
        assert value.interval is not None
        assert value.interval.low <= (value.score or 0.0) <= value.interval.high
        assert value.details["by objects"] == {"2": pytest.approx(value.score)}
        assert result.values["psnr"].score is None
        assert result.values["psnr"].reason == NO_DRAWING


def test_pictures_are_kept(references: Found, folder: Folder) -> None:
    kept = folder.samples(references[("oracle",)].cell)
    assert sorted(kept) == ["groups", "images", "true"]
    assert kept["images"].shape == (8, 3, 32, 32)
    assert {kept[name].dtype for name in kept} == {np.dtype(np.uint8)}
    assert np.array_equal(kept["true"], kept["groups"])


@dataclass(frozen=True)
class Wrong:
    """True masks that are merged into one, or cut along every second column."""

    how: str
    labels: Mapping[str, Label] = field(default_factory=lambda: {"model": "wrong"})

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"wrong": self.how}

    def encode(self, view: View) -> Encoding:
        return Encoding(vector=torch.zeros(len(view), 1), reconstruction=view.images.float() / 255 + 0.1)

    def group(self, view: View) -> Tensor | None:
        assert view.masks is not None
        if self.how == "merged":
            return (view.masks > 0).long()
        return view.masks.long() * 2 + torch.arange(view.masks.shape[-1]) % 2

    def decode(self, codes: Tensor) -> Tensor | None:
        return None


class Looks(nn.Module):
    """A model that counts how often it looks."""

    looks = 0

    def forward(self, images: Tensor) -> Encoding:
        type(self).looks += len(images)
        masks = torch.nn.functional.one_hot((images.mean(1) > 0.3).long(), 2).movedim(-1, 1).float()
        return Encoding(slots=torch.zeros(len(images), 2, 1), masks=masks, reconstruction=images)


def test_a_model_looks_at_each_image_once() -> None:
    adapted = Adapted(Looks())
    Looks.looks = 0
    view = View(torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8))
    groups, drawn = grouping.seen(Model(adapted), view)
    assert Looks.looks == 5
    assert groups is not None
    assert torch.equal(groups, (view.images.float().div(255).mean(1) > 0.3).long())
    assert drawn is not None


def examined(folder: Folder, subject: Subject, *labels: str) -> Found:
    return found(folder, Ask(size="tiny", subjects=(subject,), only_subjects=True), *labels)


def test_merging_costs_precision_and_splitting_recall(folder: Folder) -> None:
    """Definition 3 and Figure 9 of Zimmermann et al."""
    (merged,) = examined(folder, Wrong("merged")).values()
    (split,) = examined(folder, Wrong("split")).values()
    assert scores(merged)["fg-arp"] == pytest.approx(0.0, abs=1e-9)
    assert scores(merged)["fg-arr"] == 1.0
    assert scores(split)["fg-arp"] == 1.0
    recall = scores(split)["fg-arr"]
    assert recall is not None
    assert 0.2 < recall < 0.6
    for result in (merged, split):
        low, middle, high = sorted([scores(result)["fg-arp"], scores(result)["fg-arr"], scores(result)["fg-ari"]])  # type: ignore[type-var]
        assert low <= middle <= high
        assert middle == scores(result)["fg-ari"]


def test_psnr_is_that_of_the_images_drawn_again(folder: Folder) -> None:
    (result,) = examined(folder, Wrong("split")).values()
    view = Pictures("sprites", EXTENTS["tiny"].images, 32).view(folder)
    target = view.images.double() / 255
    error = ((target + 0.1).clamp(0, 1) - target).square().mean((1, 2, 3))
    assert scores(result)["psnr"] == pytest.approx(float((-10 * error.log10()).mean()), abs=1e-3)
    assert folder.samples(result.cell)["reconstruction"].shape == (8, 3, 32, 32)


class Means(nn.Module):
    """The mean colour of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mean((2, 3))


def test_a_model_that_does_not_group_has_a_reason(folder: Folder) -> None:
    (result,) = examined(folder, Model(adapters.load(Means()))).values()
    for name in GROUPING:
        assert (result.values[name].score, result.values[name].reason) == (None, NO_GROUPS)
    assert result.values["psnr"].reason == NO_DRAWING


def test_pixels_at_hand_are_those_by_name(folder: Folder) -> None:
    (named,) = STUDY.jobs(folder, Ask(size="tiny", models=("pixels",)))
    (given,) = STUDY.jobs(folder, Ask(size="tiny", subjects=(Pixels(),), only_subjects=True))
    assert given.cell == named.cell


def test_who_cannot_be_shown_the_images_has_a_reason(folder: Folder) -> None:
    codes = {"codes": np.arange(30, dtype="f4").reshape(2, 3, 5), "masks": np.ones((2, 3, 4, 4), "f4")}
    table = Embeddings("codes.npz", {**codes, "images": np.zeros((2, 3, 4, 4), "u1")})
    (stored,) = examined(folder, Model(Adapted(table, name="table"))).values()
    assert all(value.score is None and "codes.npz" in str(value.reason) for value in stored.values.values())
    learned = plan("oracle", preset_name="tiny", world="sprites", images=4, settings={"steps": 1})
    (oracle,) = examined(folder, Trained(learned, folder)).values()
    assert {value.reason for value in oracle.values.values()} == {READS_SCENES}
    assert set(oracle.values) == set(stored.values) == {*GROUPING, "psnr"}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that hardly learn."""
    ways = {"slot-attention": ("random", "learned"), "bo-qsa": ("learned",)}
    few = replace(EXTENTS["tiny"], images=8, slots=(2, 3), initial=ways, settings={"steps": 2, "batch": 4, "warmup": 0})
    monkeypatch.setattr(grouping, "EXTENTS", {**EXTENTS, "tiny": few})
    monkeypatch.setattr("alebrije.studies.subjects.carry_out", lambda *a, **k: carry_out(*a, **{**k, "looks": 1}))


@pytest.mark.usefixtures("hasty")
def test_a_grid_has_a_cell_for_every_pair_of_numbers(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    ask = Ask(size="tiny", models=("slot-attention", "bo-qsa"))
    grid = found(folder, ask, "model", "initial", "train_slots", "test_slots", "seed")
    assert set(grid) == {
        *(("slot-attention", "random", train, test, 0) for train in (2, 3) for test in (2, 3)),
        *((model, "learned", own, own, 0) for model in ("slot-attention", "bo-qsa") for own in (2, 3)),
    }
    for result in grid.values():
        assert all(score is not None for score in scores(result).values())
    seen = folder.samples(grid["slot-attention", "random", 2, 3, 0].cell)
    assert set(np.unique(seen["groups"]).tolist()) <= {0, 1, 2}
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

    again = run_study(STUDY, folder, ask)
    assert (again.done, again.kept) == (0, len(grid) + 1)


@pytest.mark.usefixtures("hasty")
def test_a_model_at_hand_that_was_trained_here_is_a_row_of_the_grid(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    made = plan("slot-attention", preset_name="tiny", settings={"slots": 4, "steps": 1, "batch": 4, "warmup": 0})
    results = examined(folder, Trained(made, folder), "train_slots", "test_slots")
    assert set(results) == {(4, 2), (4, 3), (4, 4)}
    spec = f"checkpoint:{Trained(made, folder).place}"
    loaded = found(folder, Ask(size="tiny", models=(spec,), metrics=("psnr",)), "train_slots", "test_slots")
    for place, result in loaded.items():
        assert scores(result) == {"psnr": pytest.approx(scores(results[place])["psnr"])}


@pytest.mark.parametrize("batch", [3, 64])
def test_a_row_of_the_grid_looks_at_as_many_images_at_once_as_its_model(tmp_path: Path, batch: int) -> None:
    made = plan("slot-attention", preset_name="tiny", settings={"slots": 4})
    inner = Adapted(made.new_model(), preprocessing=Preprocessing(size=made.size), batch=batch, plan=made)
    view = View(torch.zeros(8, 3, 32, 32, dtype=torch.uint8))
    for row in rows(Model(inner), (2, 4)):
        assert row.adapted().batch == row.identity["batch"] == batch
        slots = row.encode(view).slots
        assert slots is not None
        assert slots.shape[:2] == (8, row.slots)
    own = rows(Model(inner), ())[0].encode(view).slots
    assert own is not None
    assert torch.equal(own, inner.codes(view.images))  # slots begin at random in each batch


def test_a_run_of_another_training_has_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("slot-attention", preset_name="tiny", settings={"slots": 4})
    subject = Trained(made, Folder(tmp_path))
    told = {name: value for name, value in made.to_json().items() if name != "alebrije"}
    assert subject.place == Folder(tmp_path).run({**told, "device": "cpu"})  # as it was before there was a version
    places = []
    for version in (1, 2, 3, 2):
        monkeypatch.setattr(subjects, "TRAINING", version)
        assert subject.identity["training"] == version
        places.append(subject.place)
    assert len(set(places)) == 3
    assert places[1] == places[3]


def test_a_model_without_slots_is_trained_once(tmp_path: Path) -> None:
    ask = Ask(size="tiny", models=("ae",), seeds=2)
    labels = [job.cell.labels for job in STUDY.jobs(Folder(tmp_path), ask)]
    assert [(one["model"], one["seed"]) for one in labels] == [("ae", 0), ("ae", 1)]
    assert "test_slots" not in labels[0]


def test_the_paper_size_is_the_grid_of_the_paper(tmp_path: Path) -> None:
    labels = [job.cell.labels for job in STUDY.jobs(Folder(tmp_path), Ask(size="paper", seeds=1))]
    random = [one for one in labels if one.get("initial") == "random"]
    assert {(one["train_slots"], one["test_slots"]) for one in random} == {
        (train, test) for train in range(1, 16) for test in range(1, 16)
    }
    assert len(random) == 225
    assert len([one for one in labels if one.get("initial") == "learned"]) == 15
    assert {one["world"] for one in labels} == {"clevr10"}


def test_correlations_have_known_answers() -> None:
    places = [(train, test) for train in (1, 2, 3) for test in (1, 2, 3)]
    grid = [(k, j, {"psnr": float(k - j), "fg-ari": float(j - k), "fg-arp": 2.0 * (k - j) + 1}) for k, j in places]
    values = correlations(grid)
    assert [round(value.score or 0.0, 9) for value in values.values()] == [-1.0, 1.0, -1.0]
    seeds = [*grid, *((k, j, {**row, "psnr": (row["psnr"] or 0.0) + 4}) for k, j, row in grid)]
    assert correlations(seeds)["pearson(PSNR, FG-ARI)"].score == pytest.approx(-1.0)
    assert correlations(seeds)["pearson(PSNR, FG-ARI)"].details["n"] == 9


@pytest.mark.parametrize(
    ("places", "psnr", "reason"),
    [
        ([(1, 1), (1, 2)], None, "fewer than 3"),
        ([(1, 1), (1, 2), (1, 3)], 7.0, "the same in every place"),
        ([(1, 1), (2, 2), (3, 3)], None, "both ways around"),
    ],
)
def test_a_correlation_that_is_not_defined_has_a_reason(
    places: list[tuple[int, int]], psnr: float | None, reason: str
) -> None:
    rows = [(k, j, {"psnr": psnr or k + j / 10, "fg-ari": k * j + 0.5, "fg-arp": None}) for k, j in places]
    values = correlations(rows)
    assert values["pearson(PSNR, FG-ARP)"].score is None
    assert any(value.score is None and reason in str(value.reason) for value in values.values())
    assert all(value.score is not None or value.reason for value in values.values())


def test_correlations_bear_the_names_of_the_published_ones() -> None:
    published = {name for link in LINKS if link.table == "slots" for name in link.metrics}
    assert published == set(CORRELATIONS) <= set(STUDY.metrics)


def test_only_what_is_asked_is_computed(folder: Folder) -> None:
    results = found(folder, Ask(size="tiny", models=("oracle",), metrics=("FG-ARI",)), "model")
    assert list(results[("oracle",)].values) == ["fg-ari"]
    jobs = STUDY.jobs(folder, Ask(size="tiny", models=("oracle",), metrics=("pearson(PSNR, FG-ARP)",)))
    assert set(jobs[0].cell.inputs["metrics"]) == {"psnr", "fg-arp"}
    assert STUDY.jobs(folder, Ask(size="tiny", metrics=("coat",))) == []


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="I2I-CNN learns from episodes, and grouping"):
        STUDY.jobs(Folder(tmp_path), Ask(size="tiny", models=("i2i-cnn",)))
    with pytest.raises(InputError, match="no world"):
        STUDY.jobs(Folder(tmp_path), Ask(size="tiny", worlds=("clever",)))
    with pytest.raises(InputError, match="several objects, and rooms has one in each; take sprites"):
        STUDY.jobs(Folder(tmp_path), Ask(size="tiny", worlds=("sprites", "rooms")))
    with pytest.raises(InputError, match="slot-attention"):
        STUDY.jobs(Folder(tmp_path), Ask(size="tiny", models=("slot-atention",)))
