"""The study of analogies: its sanity checks through the whole pipeline, at the size that everybody can run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters, worlds
from alebrije.adapters import Adapted
from alebrije.adapters.embeddings import Embeddings
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.metrics.analogy import HARD_NEGATIVES
from alebrije.results import Result, Value
from alebrije.results.cells import Label
from alebrije.studies import analogy, analogy_files
from alebrije.studies.analogy import EXTENTS, STUDY
from alebrije.studies.analogy_codes import NO_MASKS, VARIANTS
from alebrije.studies.analogy_corpora import ROLES, Corpus
from alebrije.studies.analogy_curves import checkpoint_subjects
from alebrije.studies.analogy_files import CodesInFile
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import Ask, run_study
from alebrije.studies.subjects import Model, Pixels, Subject, Trained, View
from alebrije.studies.training import carry_out
from alebrije.studies.views import NOT_FINITE, READS_SCENES
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


def score(result: Result, metric: str = "coat") -> float:
    value = result.values[metric].score
    assert value is not None
    return value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("analogy"))


@pytest.fixture(scope="module")
def references(folder: Folder) -> Found:
    return found(folder, Ask(size="tiny"), "model", "corpus")


@pytest.mark.parametrize("corpus", ["occluded", "unoccluded"])
@pytest.mark.parametrize("model", ["oracle", "projection"])
def test_what_is_known_of_a_scene_adds_and_subtracts_perfectly(references: Found, model: str, corpus: str) -> None:
    """Section 4.2 of Xie et al.: concatenated factors and a random projection of them score 1.0 and pass."""
    result = references[model, corpus]
    for metric in ("coat", "coat-l2", "coat-acos"):
        value = result.values[metric]
        assert value.score == pytest.approx(1.0, abs=1e-4)
        assert value.details["passed"] is True
        assert set(value.details["tests"]) == set(HARD_NEGATIVES) - {"pixel"}
        assert list(value.details["left out negatives"]) == ["pixel"]
    assert score(result, "fg-ari") == 1.0


@pytest.mark.parametrize("corpus", ["occluded", "unoccluded"])
def test_noise_sits_at_chance(references: Found, corpus: str) -> None:
    result = references["noise", corpus]
    for metric in ("coat", "coat-l2", "coat-acos"):
        assert abs(score(result, metric)) < 0.12
        assert result.values[metric].details["passed"] is False
    assert abs(score(result, "fg-ari")) < 0.02
    assert result.values["tre"].details["relative"] > 0.9


def test_pixels_lose_their_trivial_compositionality_under_occlusion(references: Found) -> None:
    hidden, plain = references["pixels", "occluded"], references["pixels", "unoccluded"]
    for metric in ("coat", "coat-l2", "coat-acos"):
        ends = plain.values[metric].interval, hidden.values[metric].interval
        assert ends[0] is not None
        assert ends[1] is not None
        assert ends[0].low > ends[1].high
    assert score(plain) > 0.95
    assert score(hidden) < 0.9
    for result in (hidden, plain):  # nothing is nearer to b - a + c in pixels than itself
        value = result.values["coat"]
        assert value.details["tests"]["pixel"]["p_hat"] == 0.0
        assert value.details["passed"] is False
        assert "too long" in str(result.values["tre"].reason)


def test_what_is_known_is_composed_better_than_noise(references: Found) -> None:
    errors = {model: references[model, "occluded"].values["tre"].details["relative"] for model in ("oracle", "noise")}
    assert errors["oracle"] < errors["noise"]


def test_values_have_intervals_and_cells_labels(references: Found) -> None:
    for (model, corpus), result in references.items():
        assert result.cell.labels == {"size": "tiny", "model": model, "corpus": corpus, "pixels": 64}
        value = result.values["coat"]
        assert value.interval is not None
        assert value.interval.low <= score(result) <= value.interval.high
        assert value.standard_error is not None
        assert (value.direction, value.details["cases"]) == ("higher", EXTENTS["tiny"].cases)


def test_the_same_again_computes_nothing(references: Found, folder: Folder) -> None:
    tally = run_study(STUDY, folder, Ask(size="tiny"))
    assert (tally.done, tally.kept) == (0, len(references))


def test_pictures_are_kept(references: Found, folder: Folder) -> None:
    kept = folder.samples(references["pixels", "occluded"].cell)
    assert sorted(kept) == ["a", "b", "c", "d", "decoded", "losses", "negative_losses", "negatives"]
    assert kept["decoded"].shape == kept["d"].shape == (8, 3, 64, 64)
    assert kept["negatives"].shape == (8, 7, 3, 64, 64)
    assert np.abs(kept["decoded"].astype(int) - kept["negatives"][:, -1].astype(int)).max() <= 1  # the pixel negative
    difference = (kept["b"].astype(float) - kept["a"] + kept["c"] - kept["d"]) / 255
    assert np.allclose(kept["losses"], np.square(difference).sum((1, 2, 3)), rtol=1e-4)
    known = folder.samples(references["oracle", "occluded"].cell)
    assert "decoded" not in known
    assert np.allclose(known["losses"], 0, atol=1e-6)
    assert (known["negative_losses"][:, :-1] > 0.1).all()
    assert np.isnan(known["negative_losses"][:, -1]).all()


def test_a_corpus_is_what_worlds_draw(tmp_path: Path) -> None:
    views = Corpus("unoccluded", 3, 16).views(Folder(tmp_path))
    cases = worlds.analogies("clevr", 3, occluded=False)
    assert tuple(views) == ROLES
    for role, scenes in {"a": cases.a, "b": cases.b, "c": cases.c, "d": cases.d, **cases.negatives}.items():
        assert views[role].scenes is not None
        assert views[role].scenes.equals(scenes)
        assert torch.equal(views[role].images, worlds.get("coat").render(scenes, 16).images)
    assert views["pixel"].scenes is None
    pixel = cases.pixel_negative(views["a"].images, views["b"].images, views["c"].images)
    assert torch.equal(views["pixel"].images, pixel)


@dataclass(frozen=True)
class Crowded:
    """True slots, each object a random direction, spoilt by a second slot for one object and by one that is junk."""

    masked: bool = True
    kind: str = "slots"
    labels: Mapping[str, Label] = field(default_factory=lambda: {"model": "crowded"})

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"crowded": self.masked}

    def encode(self, view: View) -> Encoding:
        draw = torch.Generator().manual_seed(int(view.images.long().sum()))
        if view.scenes is None:
            return Encoding(slots=torch.randn(len(view), 8, 64, generator=draw), masks=self.masks(view, 8))
        scenes = view.scenes
        slots = torch.zeros(len(view), 8, 64)
        for row in range(len(view)):
            there = scenes.present[row].nonzero()[:, 0].tolist()
            for place in there:
                known = [*scenes.factors[row, place].tolist(), *scenes.position[row, place].tolist()]
                own = torch.Generator().manual_seed(abs(hash(tuple(known))) % 2**40)
                slots[row, place] = torch.randn(64, generator=own)
            twin = there[int(torch.randint(len(there), (1,), generator=draw))]
            slots[row, 6] = 1.5 * slots[row, twin]
            slots[row, 7] = torch.randn(64, generator=draw)
        return Encoding(slots=slots, masks=self.masks(view, 8))

    def masks(self, view: View, slots: int) -> Tensor | None:
        """Every slot wins a pixel but the last, which wins none."""
        if not self.masked:
            return None
        masks = torch.zeros(len(view), slots, 4, slots)
        for slot in range(slots - 1):
            masks[:, slot, :, slot] = 1
        return masks

    def group(self, view: View) -> Tensor | None:
        return None

    def decode(self, codes: Tensor) -> Tensor | None:
        return None


def by_variant(folder: Folder, subject: Subject) -> Found:
    ask = Ask(size="tiny", subjects=(subject,), only_subjects=True, metrics=("coat", "coat-acos"))
    return found(folder, ask, "corpus", "variant")


def test_slots_that_repeat_or_show_nothing_are_dropped(folder: Folder, references: Found) -> None:
    results = by_variant(folder, Crowded())
    assert {variant for _, variant in results} == set(VARIANTS)
    for corpus in ("occluded", "unoccluded"):
        raw, alone, seen = (results[corpus, variant] for variant in VARIANTS)
        assert score(raw) < score(alone) < score(seen)
        assert score(seen) == pytest.approx(1.0, abs=1e-4)
        assert seen.values["coat"].details["passed"] is True


def test_without_masks_it_is_not_known_which_slots_are_invisible(folder: Folder, references: Found) -> None:
    results = by_variant(folder, Crowded(masked=False))
    value = results["occluded", VARIANTS[2]].values["coat"]
    assert (value.score, value.reason) == (None, NO_MASKS)
    assert score(results["occluded", VARIANTS[1]]) > score(results["occluded", VARIANTS[0]])


class Means(nn.Module):
    """The mean colour of each quarter of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def test_a_strangers_model_is_examined(folder: Folder, references: Found) -> None:
    subject = Model(adapters.load(Means()))
    results = found(folder, Ask(size="tiny", subjects=(subject,), only_subjects=True), "model", "corpus")
    assert set(results) == {("Means", "occluded"), ("Means", "unoccluded")}
    value = results["Means", "unoccluded"].values
    assert set(value) == set(STUDY.metrics)
    assert set(value["coat"].details["tests"]) == set(HARD_NEGATIVES)
    assert value["fg-ari"].score is None
    assert value["tre"].score is not None
    assert score(results["Means", "unoccluded"]) > score(results["Means", "occluded"])


class Constant(nn.Module):
    """Sees nothing."""

    def forward(self, images: Tensor) -> Tensor:
        return images.new_ones(len(images), 5)


def test_a_constant_code_has_no_score_but_a_reason(folder: Folder, references: Found) -> None:
    subject = Model(adapters.load(Constant()))
    ask = Ask(size="tiny", subjects=(subject,), only_subjects=True)
    with pytest.raises(InputError, match="it gives all images the same codes"):
        run_study(STUDY, folder, ask)
    values = {name: value for name, value in STUDY.jobs(folder, ask)[0].work().items() if isinstance(value, Value)}
    for metric in ("coat", "tre"):
        assert values[metric].score is None
        assert "same" in str(values[metric].reason)


def test_pixels_at_hand_are_those_by_name(folder: Folder) -> None:
    for size, side in (("tiny", 64), ("small", 64), ("paper", 128)):
        named = STUDY.jobs(folder, Ask(size=size, models=("pixels",)))  # type: ignore[arg-type]
        given = STUDY.jobs(folder, Ask(size=size, subjects=(Pixels(),), only_subjects=True))  # type: ignore[arg-type]
        assert [job.cell for job in given] == [job.cell for job in named]
        assert {job.cell.inputs["subject"]["size"] for job in given} == {side}


def only(folder: Folder, subject: Subject) -> Found:
    return found(folder, Ask(size="tiny", subjects=(subject,), only_subjects=True), "corpus", "variant")


@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 5)])
def test_embeddings_of_other_images_have_no_score_but_a_reason(folder: Folder, shape: tuple[int, ...]) -> None:
    codes = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    table = Embeddings("codes.npz", {"codes": codes, "images": np.zeros((2, 3, 4, 4), "u1")})
    results = only(folder, Model(Adapted(table, name="table")))
    assert {variant for _, variant in results} == (set(VARIANTS) if len(shape) == 3 else {None})
    for result in results.values():
        assert set(result.values) == set(STUDY.metrics)
        assert all(each.score is None and "codes.npz" in str(each.reason) for each in result.values.values())


def test_an_oracle_that_reads_scenes_has_a_reason(folder: Folder) -> None:
    learned = plan("oracle", preset_name="tiny", world="sprites", images=4, settings={"steps": 1})
    for result in only(folder, Trained(learned, folder)).values():
        assert {value.reason for value in result.values.values()} == {READS_SCENES}


@dataclass(frozen=True)
class Broken(Crowded):
    """Slots with a number that is none."""

    bad: float = math.nan

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"broken": str(self.bad)}

    def encode(self, view: View) -> Encoding:
        slots = torch.ones(len(view), 3, 5)
        slots[0, 0, 0] = self.bad
        return Encoding(slots=slots, masks=self.masks(view, 3))

    def group(self, view: View) -> Tensor | None:
        return None if view.masks is None else view.masks.long()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_codes_that_are_no_numbers_have_a_reason(folder: Folder, bad: float) -> None:
    for result in only(folder, Broken(bad=bad)).values():
        for metric, value in result.values.items():
            assert (value.score, value.reason) == ((1.0, None) if metric == "fg-ari" else (None, NOT_FINITE))


class SlotsAt(nn.Module):
    """Slots of images of one size alone; as many as there are, or fewer for few images."""

    def __init__(self, side: int, varied: bool = False) -> None:
        super().__init__()
        self.side, self.varied = side, varied

    def forward(self, images: Tensor) -> Encoding:
        if images.shape[-1] != self.side:
            raise ValueError("the wrong size")
        slots = nn.functional.adaptive_avg_pool2d(images, 2).flatten(2).transpose(1, 2)
        return Encoding(slots=slots[:, :3] if self.varied and images.mean() > 0.48 else slots)


def test_slots_are_tried_at_the_size_of_the_corpus(folder: Folder) -> None:
    for side, variants in ((64, set(VARIANTS)), (128, {None})):
        subject = Model(adapters.load(SlotsAt(side)))
        jobs = STUDY.jobs(folder, Ask(size="tiny", subjects=(subject,), only_subjects=True))
        assert {job.cell.labels.get("variant") for job in jobs} == variants
    with pytest.raises(InputError, match="the wrong size"):  # as its cell says when it fails
        jobs[0].work()


def test_a_number_of_slots_that_varies_is_refused(folder: Folder) -> None:
    subject = Model(adapters.load(SlotsAt(64, varied=True)))
    jobs = STUDY.jobs(folder, Ask(size="tiny", subjects=(subject,), only_subjects=True))
    assert len(jobs) == 2 * 3
    with pytest.raises(InputError, match=r"one shape, not \[3, 3\] and \[4, 3\]; give the model a fixed number"):
        jobs[1].work()


def test_only_what_is_asked_is_computed(folder: Folder, references: Found) -> None:
    ask = Ask(size="tiny", models=("oracle",), metrics=("COAT",))
    results = found(folder, ask, "model", "corpus")
    assert all(list(result.values) == ["coat"] for result in results.values())
    assert {result.key for result in results.values()}.isdisjoint(result.key for result in references.values())
    assert STUDY.jobs(folder, replace(ask, metrics=("SNC",))) == []


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(InputError, match="not sprites"):
        STUDY.jobs(folder, Ask(size="tiny", worlds=("sprites",)))
    with pytest.raises(InputError, match="slot-attention"):
        STUDY.jobs(folder, Ask(size="tiny", models=("slot-atention",)))
    with pytest.raises(InputError, match="no run with checkpoints"):
        STUDY.jobs(folder, Ask(size="tiny", models=(f"checkpoints:{tmp_path}",)))


def test_sizes_train_what_table_1_lists(tmp_path: Path) -> None:
    jobs = STUDY.jobs(Folder(tmp_path), Ask(size="paper", seeds=1))
    rows = {
        tuple(job.cell.labels.get(name) for name in ("model", "train_set", "corpus", "variant")): job for job in jobs
    }
    assert len(rows) == len(jobs) == 2 * (4 + 3 + 2 * 3)  # references; vectors; slots in three variants, two sets
    for variant in VARIANTS:
        assert ("slot-attention", "correlated", "occluded", variant) in rows
    inputs = rows["ae", "iid", "occluded", None].cell.inputs
    assert inputs["corpus"]["cases"] == 1600
    learned = inputs["subject"]["plan"]
    assert (learned["model"], learned["settings"]["beta"], learned["settings"]["gamma"]) == ("beta-tcvae", 0, 0)
    assert not [job for job in STUDY.jobs(Folder(tmp_path), Ask(size="tiny")) if "seed" in job.cell.labels]


def test_a_model_is_trained_for_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(
        EXTENTS["tiny"], cases=3, settings={"slot-attention": {"slots": 3, "steps": 2, "warmup": 0}}, images=4
    )
    monkeypatch.setattr(analogy, "EXTENTS", {**EXTENTS, "tiny": few})
    monkeypatch.setattr(analogy, "CORPORA", ("unoccluded",))
    monkeypatch.setattr("alebrije.studies.subjects.carry_out", lambda *a, **k: carry_out(*a, **{**k, "looks": 1}))
    folder = Folder(tmp_path)
    ask = Ask(size="tiny", models=("slot-attention",), worlds=("coat-correlated",))
    results = found(folder, ask, "model", "train_set", "seed", "variant")
    assert set(results) == {("slot-attention", "correlated", 0, variant) for variant in VARIANTS}
    for result in results.values():
        assert set(result.values) == set(STUDY.metrics)
        assert -0.5 <= score(result, "fg-ari") <= 1
        assert folder.samples(result.cell)["decoded"].shape == (3, 3, 64, 64)


def test_a_run_is_a_curve_over_its_checkpoints(folder: Folder, references: Found, tmp_path: Path) -> None:
    made = plan("ae", preset_name="tiny", world="coat", images=2, settings={"steps": 4, "batch": 2})
    carry_out(made, tmp_path, looks=1, save_every=1, keep_every=2)
    assert len(checkpoint_subjects(tmp_path)) == 3  # step 2, and the last two
    with pytest.raises(InputError, match="keep_every"):
        carry_out(made, tmp_path / "other", looks=1, keep_every=-1)
    ask = Ask(size="tiny", models=(f"checkpoints:{tmp_path}",), metrics=("coat",))
    results = found(folder, ask, "model", "train_set", "seed", "step", "corpus")
    assert {labels[3] for labels in results} == {2, 3, 4}
    assert {labels[:3] for labels in results} == {("ae", "iid", 0)}
    scores = {labels[3]: score(result) for labels, result in results.items() if labels[4] == "occluded"}
    assert len(set(scores.values())) == 3
    assert all(map(math.isfinite, scores.values()))


def test_long_codes_wait_in_files_and_score_the_same(
    folder: Folder, references: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analogy_files, "LONG", 0)
    written: list[CodesInFile] = []

    class Watched(CodesInFile):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            written.append(self)

    monkeypatch.setattr(analogy_files, "CodesInFile", Watched)
    for job in STUDY.jobs(folder, Ask(size="tiny")):
        held = references[job.cell.labels["model"], job.cell.labels["corpus"]]
        assert job.work() == held.values
    assert len(written) == 2 * (2 * 11 + 2 * 10)  # the oracle and its projection do not see `pixel`
    assert {each.shape for each in written} >= {(32, 3 * 64 * 64), (32, 64)}


def test_rows_of_a_file(tmp_path: Path) -> None:
    codes = torch.randn(10, 2, 3)
    kept = CodesInFile(codes.split(4), tmp_path)
    assert (kept.shape, len(kept)) == ((10, 2, 3), 10)
    for rows in (slice(None), slice(3), slice(2, 7), slice(8, 99), slice(5, 5), slice(-2, None)):
        assert torch.equal(kept[rows], codes[rows])
    with pytest.raises(IndexError, match="one after another"):
        kept[::2]
    assert list(tmp_path.iterdir()) == []  # no name, so nothing is left behind
    with pytest.raises(InputError, match="one shape"):
        CodesInFile([torch.zeros(2, 3), torch.zeros(2, 4)], tmp_path)
    with pytest.raises(InputError, match="nowhere"):
        CodesInFile([torch.zeros(2, 3)], tmp_path / "nowhere")
