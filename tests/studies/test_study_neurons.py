"""The study of neurons: references have the marks they must have, what is held out is never seen, links are found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from alebrije import data, worlds
from alebrije.adapters import Adapted
from alebrije.adapters.embeddings import Embeddings
from alebrije.cli import main
from alebrije.data import grids, open_cache
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.results import Cell, Result, Value
from alebrije.results.published import published_for
from alebrije.studies import neurons
from alebrije.studies.folder import Folder
from alebrije.studies.neurons_correlation import CORRELATION, correlation, correlations
from alebrije.studies.neurons_generalisation import ACCURACY, FEATURES, PAIRS, SETTINGS, adjusted, pairs_of, without
from alebrije.studies.neurons_images import Gallery, codes_of, gallery_of
from alebrije.studies.neurons_metrics import (
    CHEAP,
    HUGE,
    LONG,
    NAMES,
    Heads,
    diagram,
    evenly,
    metric_values,
    single_neurons,
)
from alebrije.studies.protocol import Ask, run_study
from alebrije.studies.subjects import Model, Noise, Oracle, Pixels, Trained, View
from alebrije.studies.views import READS_SCENES
from alebrije.train.plan import FILE, Plan, plan, read_plan
from alebrije.train.sources import AllImagesWithout, ImagesWithout, left_over, shows

QUICK = Heads(epochs=2, learning_rate=1e-2, batch_size=128)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """The tiny study of two references in rooms, by model."""
    folder = Folder(tmp_path_factory.mktemp("references"))
    tally = run_study(neurons.STUDY, folder, Ask(size="tiny", models=("oracle", "noise")))
    assert not tally.failed
    found: dict[str, list[Result]] = {}
    for result in folder.store.all():
        found.setdefault(str(result.cell.labels["model"]), []).append(result)
    return found


def values_of(results: list[Result]) -> Mapping[str, Value]:
    (found,) = [each.values for each in results if "SNC" in each.values]
    return found


def accuracy_of(results: list[Result], setting: str, feature: str) -> Value:
    wanted = (setting, feature)
    (found,) = [r for r in results if (r.cell.labels.get("setting"), r.cell.labels.get("feature")) == wanted]
    return found.values[ACCURACY]


class TestReferences:
    def test_the_truth_has_full_marks(self, references: dict[str, list[Result]]) -> None:
        values = values_of(references["oracle"])
        assert values["SNC"].score == 1.0
        most = 1 - np.mean([1 / count for count in worlds.get("rooms").vocabulary.counts])
        assert values["NK"].score is not None
        assert most * 0.9 < values["NK"].score <= 1
        assert values["MIG"].score is not None
        assert values["MIG"].score > 0.9
        assert tuple(values) == tuple(name for name in NAMES if name in CHEAP)

    def test_noise_knows_nothing(self, references: dict[str, list[Result]]) -> None:
        values = values_of(references["noise"])
        snc = values["SNC"]
        assert snc.score is not None
        assert abs(snc.score - snc.details["score of shuffled codes"]) < 0.03
        assert snc.score < 0.1
        assert values["NK"].interval is not None
        assert abs(values["NK"].score or 0) < 0.05
        guess = np.mean([1 / count for count in worlds.get("rooms").vocabulary.counts])
        assert values["MLP accuracy"].score == pytest.approx(guess, abs=0.05)
        assert values["linear accuracy"].score == pytest.approx(guess, abs=0.05)

    def test_the_truth_generalises_and_noise_does_not(self, references: dict[str, list[Result]]) -> None:
        for feature in FEATURES:
            right, wrong = (accuracy_of(references[name], "CG", feature) for name in ("oracle", "noise"))
            assert right.score is not None
            assert right.score > 0.9
            assert wrong.score is not None
            assert wrong.score < 0.15
            assert right.details["encoder"] == "frozen"
            assert right.interval is not None
            assert accuracy_of(references["oracle"], "normal test set", feature).score == pytest.approx(1, abs=0.05)
            assert (accuracy_of(references["noise"], "normal test set", feature).score or 0) < 0.15
        assert accuracy_of(references["oracle"], "linear CG", "shape").score is not None

    def test_what_the_diagram_needs(self, references: dict[str, list[Result]]) -> None:
        details = values_of(references["oracle"])["SNC"].details
        assert details["factor_names"] == list(worlds.get("rooms").vocabulary.names)
        information = np.array(details["information"])
        assert information.shape == (6, 6)
        assert details["alignment"] == list(range(6))
        assert np.all(np.diag(information) > 0.9 * np.array(details["entropies"]))
        assert len(values_of(references["noise"])["SNC"].details["information"]) == 32

    def test_every_cell_is_there_once(self, references: dict[str, list[Result]]) -> None:
        for results in references.values():
            assert len(results) == 1 + 1 + len(SETTINGS) * len(FEATURES)
            assert {result.cell.labels["size"] for result in results} == {"tiny"}


class TestTrained:
    @pytest.fixture
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A study whose models take two steps, on few images."""
        made = replace(neurons.EXTENTS["tiny"], n=200, worlds=("dsprites",), heads=QUICK, held=64)
        monkeypatch.setitem(neurons.EXTENTS, "tiny", made)
        monkeypatch.setattr(neurons, "plan", partial(plan, settings={"steps": 2, "batch": 8}))

    @pytest.mark.usefixtures("quick")
    def test_all_cells_and_the_same_again(self, tmp_path: Path) -> None:
        folder, ask = Folder(tmp_path), Ask(size="tiny", models=("beta-vae", "ae"), seeds=2)
        tally = run_study(neurons.STUDY, folder, ask)
        assert not tally.failed
        results = folder.store.all()
        assert len({each.cell.key for each in results}) == tally.done
        for model in ("beta-vae", "ae"):
            for seed in (0, 1):
                own = [each for each in results if each.cell.labels.get("model") == model]
                own = [each for each in own if each.cell.labels["seed"] == seed]
                assert set(values_of(own)) == set(CHEAP)
                accuracy = accuracy_of(own, "CG", "both")
                assert accuracy.score is not None
                assert 0 <= accuracy.score <= 1
                assert accuracy.details["encoder"] == "trained without scale 0, shape 0"
                assert list(accuracy.details["per pair"]) == ["size 0, shape 0"]
                assert any(each.cell.labels.get("held_out") == "size 0, shape 0" for each in own)
        found = [each for each in results if CORRELATION in each.values]
        assert {each.cell.labels["scope"] for each in found} == {"dsprites"}
        assert {str(each.cell.labels["predictor"]) for each in found} >= {"SNC", "NK", "MIG", "SNC of all factors"}
        assert all(len(each.values[CORRELATION].details["points"]) == 4 for each in found)
        assert len(list((tmp_path / "runs").iterdir())) == 4
        again = run_study(neurons.STUDY, folder, ask)
        assert (again.done, again.kept) == (0, tally.done)

    @pytest.mark.usefixtures("quick")
    def test_one_training_for_each_pair(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = replace(neurons.EXTENTS["tiny"], pairs=2, at_once=False, seeds=2, general_seeds=1)
        monkeypatch.setitem(neurons.EXTENTS, "tiny", made)
        jobs = neurons.jobs(Folder(tmp_path), Ask(size="tiny", models=("ae",), metrics=(ACCURACY,)))
        by_seed = {seed: [job for job in jobs if job.cell.labels["seed"] == seed] for seed in (0, 1)}
        plans = {str(sorted((job.cell.inputs["subject"]["plan"].get("without") or {}).items())) for job in by_seed[0]}
        assert len(by_seed[0]) == 2 + 9
        assert len(plans) == 3
        assert {job.cell.labels["setting"] for job in by_seed[1]} == {"normal test set"}
        (first,) = [job for job in by_seed[0] if job.cell.labels.get("setting") == "CG"][:1]
        value = first.work()[ACCURACY]
        assert isinstance(value, Value)
        assert value.interval is not None
        assert len(value.details["per pair"]) == 2

    def test_published_numbers_are_found(self) -> None:
        labels = {"world": "rooms", "model": "beta-vae", "size": "paper"}
        assert published_for(labels | {"setting": "CG", "feature": "both"}, ACCURACY)[0].value == pytest.approx(0.1475)
        assert all(published_for(labels, name) for name in ("SNC", "NK", "MIG", "MED", "MLP accuracy", "DCI-D"))
        found = published_for({"predictor": "SNC", "scope": "rooms"}, CORRELATION)
        assert [each.value for each in found] == [0.849]


class TestHeldOut:
    values = (("scale", 2), ("shape", 1))

    @pytest.mark.parametrize("world", ["dsprites", "rooms"])
    def test_all_images_but_those(self, world: str) -> None:
        place = worlds.get(world)
        made = plan("ae", preset_name="paper", world=world).leaving_out(dict(self.values))
        drawing = made.drawing()
        assert isinstance(drawing, AllImagesWithout)
        counts = dict(zip(place.vocabulary.names, place.vocabulary.counts, strict=True))
        assert (
            made.images
            == made.whole
            == place.vocabulary.size - place.vocabulary.size // (counts["scale"] * counts["shape"])
        )
        numbers = left_over(place, self.values)
        assert len(numbers) == made.images
        assert len(np.unique(numbers)) == len(numbers)
        rows = np.stack(np.unravel_index(numbers, place.vocabulary.counts), 1)
        assert not bool(shows(place, torch.from_numpy(rows), self.values).any())
        last = drawing.scenes(made.images - 3, 3)
        assert place.grid(numbers[-3:]).equals(last)

    @pytest.mark.parametrize("part", ["train", "validation"])
    def test_a_stream_without_them(self, part: Any) -> None:
        made = plan("ae", preset_name="small", world="dsprites", seed=3).leaving_out(dict(self.values))
        drawing, plain = made.drawing(part), replace(made, without=()).drawing(part)
        assert type(drawing) is ImagesWithout
        place, found, before = worlds.get("dsprites"), drawing.scenes(0, 3000), plain.scenes(0, 3000)
        bad = shows(place, before.factors[:, 0], self.values)
        assert 100 < int(bad.sum()) < 250  # a eighteenth of 3,000 is 167
        assert not bool(shows(place, found.factors[:, 0], self.values).any())
        assert torch.equal(found.factors[~bad], before.factors[~bad])
        again = found.factors[bad][:, 0]
        assert {tuple(row) for row in again[:, 1:3].tolist()} == {
            (shape, scale) for shape in range(3) for scale in range(6) if (shape, scale) != (1, 2)
        }

    def test_a_scene_depends_on_its_number_alone(self) -> None:
        drawing = plan("ae", preset_name="small", world="rooms").leaving_out(dict(self.values)).drawing()
        whole = drawing.scenes(0, 700)
        assert drawing.scenes(130, 300).equals(whole[130:430])

    def test_the_images_that_a_model_learns_from(self) -> None:
        made = plan("ae", preset_name="tiny", world="dsprites", images=300).leaving_out({"shape": 0, "scale": 0})
        batch = made.source(torch.device("cpu")).batch(0, 300)["images"]
        left_out = worlds.get("dsprites").grid(np.arange(0, 40 * 32 * 32, 40))  # shape 0, scale 0
        gone = {image.numpy().tobytes() for image in worlds.get("dsprites").render(left_out, 64).images[:, :1]}
        assert len(batch) == 300
        assert not {image.numpy().tobytes() for image in batch} & gone

    @pytest.mark.parametrize("images", [0, None])
    def test_the_size_of_the_set_is_what_is_left(self, images: int | None) -> None:
        made = plan("beta-tcvae", preset_name="paper", world="dsprites", images=images)
        left = made.leaving_out({"shape": 0, "scale": 0})
        assert made.settings["dataset_size"] == 737_280
        assert left.settings["dataset_size"] == 737_280 - 40 * 32 * 32
        assert left.images == (0 if images == 0 else 737_280 - 40 * 32 * 32)

    def test_plans_there_and_back(self, tmp_path: Path) -> None:
        made = plan("beta-tcvae", preset_name="paper", world="rooms", seed=1)
        less = made.leaving_out({"shape": 0, "scale": 7})
        assert "without" not in made.to_json()
        assert less.settings["dataset_size"] == 465_000
        assert Plan.from_json(made.to_json()) == made
        assert Plan.from_json(less.to_json()) == less
        less.settle(tmp_path / "less")
        assert read_plan(tmp_path / "less") == less
        less.settle(tmp_path / "less")
        (tmp_path / "less" / "checkpoints" / "step-000000001").mkdir(parents=True)
        (tmp_path / "less" / "checkpoints" / "step-000000001" / "step.json").write_text("{}")
        with pytest.raises(InputError, match="holds a run with"):
            made.settle(tmp_path / "less")
        with pytest.raises(InputError, match="holds a run with"):
            replace(made, images=465_000, settings=less.settings).settle(tmp_path / "less")
        assert "without" in (tmp_path / "less" / FILE).read_text()

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"colour": 0}, "dsprites has no factor 'colour'"),
            ({"shape": 3}, "shape has values 0 to 2 in dsprites, not 3"),
            ({}, "at least one value"),
        ],
    )
    def test_refusals(self, values: dict[str, int], words: str) -> None:
        with pytest.raises(InputError, match=words):
            plan("ae", preset_name="tiny").leaving_out(values)

    def test_only_grids_and_only_once(self) -> None:
        for made in (plan("slot-attention", preset_name="tiny"), plan("ae").leaving_out({"shape": 0})):
            with pytest.raises(InputError, match="dsprites or rooms, once"):
                made.leaving_out({"shape": 0})

    def test_a_subject_without(self, tmp_path: Path) -> None:
        gallery = Gallery("dsprites", 10, 0, 64)
        pair = pairs_of(gallery)[1]
        trained = Trained(plan("ae", preset_name="tiny", world="dsprites"), Folder(tmp_path))
        less = without(trained, pair, gallery)
        assert isinstance(less, Trained)
        assert less.plan.without == (("scale", 5), ("shape", 2))
        assert without(less, pair, gallery) is less
        assert less.place != trained.place
        assert without(trained, pair, Gallery("rooms", 10, 0, 64)) is trained  # it never saw rooms anyway
        assert without(Noise(), pair, gallery) == Noise()


class TestCorrelation:
    def made_up(self, seeds: int = 2, general: int = 2) -> tuple[list[Result], dict[str, list[tuple[float, float]]]]:
        draw, results, points = np.random.default_rng(0), [], {"dsprites": [], "rooms": []}  # type: ignore[var-annotated]
        for world in points:
            for model in ("a", "b", "c", "oracle"):
                for seed in range(seeds):
                    labels = {"size": "small", "world": world, "model": model, "seed": seed}
                    told = {"reference": "oracle"} if model == "oracle" else {"plan": f"{model}{seed}"}
                    mig, snc, accuracy = draw.random(3)
                    per_factor = {"shape": snc, "scale": 0.5, "orientation": 0.1}
                    values = {"MIG": Value(score=mig), "SNC": Value(score=0.3, details={"per_factor": per_factor})}
                    inputs = {"subject": told, "world": world}
                    results.append(Result.done(Cell(study="neurons", labels=labels, inputs=inputs), values, seconds=1))
                    if seed >= general:
                        continue
                    labels |= {"setting": "CG", "feature": "both"}
                    cell = Cell(study="neurons", labels=labels, inputs=inputs | {"setting": "CG"})
                    results.append(Result.done(cell, {ACCURACY: accuracy}, seconds=1))
                    if model != "oracle":
                        points[world].append((mig, accuracy))
        return results, points

    def test_equals_numpy(self) -> None:
        results, points = self.made_up()
        points["all"] = points["dsprites"] + points["rooms"]
        found = {
            (job.cell.labels["predictor"], job.cell.labels["scope"]): job for job in correlations("neurons", results)
        }
        for scope, pairs in points.items():
            value = found["MIG", scope].work()[CORRELATION]
            assert isinstance(value, Value)
            assert value.score is not None
            assert value.interval is not None
            x, y = np.array(pairs).T
            assert value.score == pytest.approx(np.corrcoef(x, y)[0, 1])
            z, reach = math.atanh(value.score), 1.96 / math.sqrt(len(pairs) - 3)
            assert math.atanh(value.interval.low) == pytest.approx(z - reach, abs=1e-3)
            assert math.atanh(value.interval.high) == pytest.approx(z + reach, abs=1e-3)
        assert found["SNC", "all"].work()[CORRELATION].score is not None  # type: ignore[union-attr]
        constant = found["SNC of all factors", "all"].work()[CORRELATION]
        assert isinstance(constant, Value)
        assert constant.score is None
        assert "same at all points" in str(constant.reason)
        assert {each for each, _ in found} == {"MIG", "SNC", "SNC of all factors"}

    def test_its_cells_are_those_it_comes_from(self) -> None:
        results, _ = self.made_up()
        (job,) = [
            each for each in correlations("neurons", results)
            if (each.cell.labels["predictor"], each.cell.labels["scope"]) == ("MIG", "rooms")
        ]  # fmt: skip
        inside = {r.key for r in results if r.cell.labels["world"] == "rooms" and r.cell.labels["model"] != "oracle"}
        assert set(job.cell.inputs["cells"]) == inside

    def test_means_where_seeds_differ(self) -> None:
        results, _ = self.made_up(seeds=3, general=1)
        jobs = [job for job in correlations("neurons", results) if job.cell.labels["predictor"] == "MIG"]
        value = jobs[-1].work()[CORRELATION]
        assert isinstance(value, Value)
        assert len(value.details["points"]) == 6
        mine = [
            each.values["MIG"].score for each in results
            if "MIG" in each.values and (each.cell.labels["world"], each.cell.labels["model"]) == ("rooms", "b")
        ]  # fmt: skip
        (point,) = [p for p in value.details["points"] if (p["world"], p["model"]) == ("rooms", "b")]
        assert point["metric"] == pytest.approx(np.mean([score for score in mine if score is not None]))

    def test_few_points(self) -> None:
        value = correlation([{"metric": 0.1, "accuracy": 0.2}] * 3)[CORRELATION]
        assert value.score is None
        assert "at least 4 points" in str(value.reason)

    def test_perfect(self) -> None:
        value = correlation([{"metric": x, "accuracy": x} for x in (0.0, 0.25, 0.5, 1.0)])[CORRELATION]
        assert value.score == pytest.approx(1)

    def test_none_without_models(self, references: dict[str, list[Result]]) -> None:
        assert correlations("neurons", [each for results in references.values() for each in results]) == []


class TestImages:
    @pytest.mark.parametrize("world", ["dsprites", "rooms"])
    def test_they_are_those_that_make_makes(self, world: str, tmp_path: Path) -> None:
        gallery = gallery_of(world, 70, neurons.SEED, neurons.PIXELS)
        command = gallery.command.replace("DIR", str(tmp_path / "made"))
        main(command.split()[1:])
        view = gallery.view(Folder(tmp_path / "study"))
        cache = open_cache(tmp_path / "made")
        assert np.array_equal(np.asarray(cache["images"][:]), view.images.numpy())
        assert view.scenes is not None
        assert view.scenes.equals(worlds.get(world).sample(70, seed=neurons.SEED))
        chosen = view.scenes.factors[:, 0, 1:] if world == "dsprites" else view.scenes.factors[:, 0]
        assert np.array_equal(gallery.factors(Folder(tmp_path / "study")), chosen.numpy())

    def test_embeddings_of_them_and_of_others(self, tmp_path: Path) -> None:
        folder, gallery = Folder(tmp_path), Gallery("dsprites", 300, 0, 64)
        view = gallery.view(folder)
        codes = gallery.factors(folder).astype(np.float32)
        for rows, good in ((slice(None), True), (slice(0, 200), False)):
            table = Embeddings("codes.npz", {"codes": codes[rows], "images": view.images[rows].numpy()})
            subject = Model(Adapted(table, name="codes"))
            values = metric_values(folder, subject, subject.identity, gallery, ("SNC", "MIG"), QUICK, False)
            assert (values["SNC"].score == 1.0) is good
            if not good:
                reason = str(values["MIG"].reason)
                assert "alebrije make dsprites --n 300 --seed 0 --size 64" in reason
                assert "not one of them" in reason

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("clevr", "dsprites, rooms, mpi3d:FILE.npz, or a world of your own"),
            ("mpi3d", "give its path"),
            ("mpi3d:/nowhere/real.npz", "there is no file /nowhere/real.npz"),
        ],
    )
    def test_worlds_that_are_not_there(self, name: str, words: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=words):
            neurons.jobs(Folder(tmp_path), Ask(size="tiny", worlds=(name,)))

    def test_mpi3d_from_its_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = (2, 4, 2, 3, 1, 3, 2)
        monkeypatch.setattr(grids, "_MPI3D_COUNTS", (counts,))
        images = np.random.default_rng(0).integers(0, 256, (math.prod(counts), 64, 64, 3), dtype=np.uint8)
        np.savez(tmp_path / "small.npz", images=images)
        world = f"mpi3d:{tmp_path / 'small.npz'}"
        monkeypatch.setitem(neurons.EXTENTS, "tiny", replace(neurons.EXTENTS["tiny"], n=250, heads=QUICK))
        folder = Folder(tmp_path / "study")
        tally = run_study(neurons.STUDY, folder, Ask(size="tiny", worlds=(world,)))  # nothing is trained on a file
        assert not tally.failed
        results = folder.store.all()
        assert {each.cell.labels["model"] for each in results} == {"pixels", "oracle", "noise"}
        assert {each.cell.labels["world"] for each in results} == {"mpi3d"}
        oracle = values_of([each for each in results if each.cell.labels["model"] == "oracle"])["SNC"]
        assert oracle.score == 1.0
        assert oracle.details["factor_names"] == ["color", "shape", "size", "camera height", "horizontal", "vertical"]
        gallery = gallery_of(world, 250, 0, 64)
        rows = np.random.default_rng(0).choice(math.prod(counts), 250, replace=False)
        grid = data.read_mpi3d(tmp_path / "small.npz", rows)
        assert torch.equal(gallery.view(folder).images, grid.images)
        with pytest.raises(InputError, match="cannot be trained on images of a file"):
            neurons.jobs(folder, Ask(size="tiny", worlds=(world,), models=("ae",)))
        (tmp_path / "small.npz").write_bytes(b"PK")
        with pytest.raises(InputError, match="is damaged"):
            gallery_of(world, 250, 0, 64).settings  # noqa: B018


@dataclass(frozen=True)
class Made:
    """A subject that gives what it is told."""

    codes: str

    @property
    def labels(self) -> Mapping[str, str]:
        return {"model": self.codes}

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"made": self.codes}

    def encode(self, view: View) -> Encoding:
        truth = Oracle().encode(view).codes
        if self.codes == "slots":
            return Encoding(slots=torch.stack([truth * 2, truth * 0], 1))
        if self.codes == "huge":
            return Encoding(vector=truth.repeat(1, HUGE // truth.shape[1] + 1))
        if self.codes == "few":
            return Encoding(vector=truth[:, :3])
        if self.codes == "broken":
            return Encoding(vector=truth.masked_fill(truth == truth[0], math.nan))
        raise InputError("it fell over")

    def group(self, view: View) -> Tensor | None:
        return None

    def decode(self, codes: Tensor) -> Tensor | None:
        return None


class TestSubjects:
    @pytest.fixture(autouse=True)
    def few_images(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = replace(neurons.EXTENTS["tiny"], n=300, worlds=("dsprites",), heads=QUICK)
        monkeypatch.setitem(neurons.EXTENTS, "tiny", made)

    def examined(self, tmp_path: Path, codes: str) -> list[Result]:
        folder = Folder(tmp_path)
        run_study(neurons.STUDY, folder, Ask(size="tiny", subjects=(Made(codes),), only_subjects=True))
        return folder.store.all()

    def test_slots_are_pooled(self, tmp_path: Path) -> None:
        values = values_of(self.examined(tmp_path, "slots"))
        assert values["SNC"].score == 1.0
        assert all(value.details["codes"] == "the mean over 2 slots" for value in values.values())

    def test_fewer_neurons_than_factors(self, tmp_path: Path) -> None:
        results = self.examined(tmp_path, "few")
        values = values_of(results)
        assert values["SNC"].score is None
        assert values["NK"].score is None
        assert "a neuron of its own" in str(values["SNC"].reason)
        assert values["MIG"].score is not None
        assert accuracy_of(results, "CG", "shape").score is not None

    def test_codes_that_are_no_numbers(self, tmp_path: Path) -> None:
        results = self.examined(tmp_path, "broken")
        assert all(each.status == "done" for each in results)
        assert all(
            value.score is None and "finite" in str(value.reason) for r in results for value in r.values.values()
        )

    def test_one_that_falls_over(self, tmp_path: Path) -> None:
        results = self.examined(tmp_path, "nothing")
        assert all(each.status == "failed" and "it fell over" in str(each.traceback) for each in results)

    def test_what_is_asked_for(self, tmp_path: Path) -> None:
        jobs = neurons.jobs(Folder(tmp_path), Ask(size="tiny", models=("oracle",), metrics=("mig", "dci-d")))
        (job,) = jobs
        values = job.work()
        assert list(values) == ["MIG", "DCI-D"]
        assert all(isinstance(value, Value) and value.score is not None for value in values.values())

    def test_long_codes(self, tmp_path: Path) -> None:
        folder, gallery, subject = Folder(tmp_path), Gallery("dsprites", 300, 0, 64), Pixels(size=16)
        assert LONG < 3 * 16**2
        values = metric_values(folder, subject, subject.identity, gallery, ("SNC", "SAP"), QUICK, False)
        assert values["SAP"].score is None
        assert "768 neurons; ask for SAP by its name" in str(values["SAP"].reason)
        details = values["SNC"].details
        kept, truth = details["neurons"], gallery.factors(folder)
        assert len(kept) == 32 == len(details["information"])
        aligned = single_neurons(codes_of(subject, gallery, folder, subject.identity).values, truth)[1]["alignment"]
        assert [kept[place] for place in details["alignment"]] == aligned

    def test_huge_codes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        results = self.examined(tmp_path, "huge")
        values = {name: value for each in results for name, value in each.values.items()}
        assert {name for name, value in values.items() if value.score is not None} == {"MIG"}
        width = (HUGE // 6 + 1) * 6
        for name in ("SNC", "NK", "MLP accuracy", "linear accuracy", ACCURACY):
            assert values[name].reason == f"not computed for codes of {width} neurons; ask for {name} by its name"
        assert values["CG both"].reason == values[ACCURACY].reason
        less = replace(neurons.EXTENTS["tiny"], heads=Heads(hidden=2, epochs=1, batch_size=256))
        monkeypatch.setitem(neurons.EXTENTS, "tiny", less)
        ask = Ask(size="tiny", subjects=(Made("huge"),), only_subjects=True, metrics=("linear accuracy", ACCURACY))
        asked = neurons.jobs(Folder(tmp_path), ask)
        assert not {job.cell.key for job in asked} & {each.key for each in results}
        for job in asked:
            assert all(isinstance(value, Value) and value.score is not None for value in job.work().values())

    def test_pixels_at_hand_are_those_by_name(self, tmp_path: Path) -> None:
        named = neurons.jobs(Folder(tmp_path), Ask(size="tiny", models=("pixels",)))
        given = neurons.jobs(Folder(tmp_path), Ask(size="tiny", subjects=(Pixels(),), only_subjects=True))
        assert [job.cell for job in given] == [job.cell for job in named]

    def test_cells_know_their_versions(self, tmp_path: Path) -> None:
        for job in neurons.jobs(Folder(tmp_path), Ask(size="tiny", models=("noise",))):
            assert (job.cell.inputs["protocol"], job.cell.inputs["images"]["version"]) == (1, 1)

    def test_an_oracle_that_reads_scenes(self, tmp_path: Path) -> None:
        folder = Folder(tmp_path)
        learned = plan("oracle", preset_name="tiny", world="sprites", images=4, settings={"steps": 1})
        run_study(neurons.STUDY, folder, Ask(size="tiny", subjects=(Trained(learned, folder),), only_subjects=True))
        reasons = [value.reason for each in folder.store.all() for value in each.values.values()]
        assert set(reasons) == {READS_SCENES}

    def test_names_that_are_wrong(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="learns from episodes"):
            neurons.jobs(Folder(tmp_path), Ask(size="tiny", models=("i2i-vit",)))
        with pytest.raises(InputError):
            neurons.jobs(Folder(tmp_path), Ask(size="tiny", models=("beta-vee",)))


class TestNumbers:
    def test_adjusted_for_chance(self) -> None:
        value = adjusted([np.array([1.0, 0.0]), np.array([1.0, 1.0])], 1 / 32, {})
        assert value.score == pytest.approx((0.75 - 1 / 32) / (31 / 32))
        assert value.details["accuracy"] == 0.75
        assert value.interval is not None
        assert value.interval.method == "Student's t over held-out pairs"
        assert adjusted([np.zeros(10)], 0.25, {}).score == 0.0

    def test_nothing_that_varies(self) -> None:
        most = 1.96**2 / (20 + 1.96**2)  # Wilson's upper end of none in 20
        for cases in ([np.zeros(20)], [np.zeros(8), np.zeros(12)]):
            none = adjusted(cases, 0.0, {}).interval
            all_right = adjusted([each + 1 for each in cases], 0.0, {}).interval
            assert none is not None
            assert all_right is not None
            assert (none.low, none.high) == (pytest.approx(0, abs=1e-9), pytest.approx(most, abs=1e-4))
            assert (all_right.low, all_right.high) == (pytest.approx(1 - most, abs=1e-4), pytest.approx(1))
            assert none.method == "Wilson's over held-out images"

    def test_the_mean_of_the_paper(self) -> None:
        # Table 33: both right, by pair; Table 3 prints 14.75
        rows = [0.0497, 0.0, 0.3294, 0.0, 0.0, 0.3778, 0.1441, 0.4919]
        assert adjusted([np.full(4, row) for row in rows], 1 / 32, {}).score == pytest.approx(0.1475, abs=1e-4)

    def test_pairs(self) -> None:
        assert [len(PAIRS[world]) for world in ("dsprites", "rooms", "mpi3d")] == [5, 8, 6]
        for world in ("dsprites", "rooms"):
            assert len(pairs_of(Gallery(world, 1, 0, 64))) == len(PAIRS[world])
        assert [str(pair) for pair in pairs_of(Gallery("rooms", 1, 0, 64), 2)] == ["size 0, shape 0", "size 5, shape 2"]

    def test_as_many_of_each(self) -> None:
        classes = np.random.default_rng(0).integers(0, 7, 500)
        counts = np.bincount(classes[evenly(classes)])
        assert (counts == np.bincount(classes).min()).all()

    def test_the_diagram_keeps_the_aligned(self) -> None:
        draw = np.random.default_rng(0)
        factors = draw.integers(0, 3, (400, 2))
        codes = draw.normal(size=(400, 50))
        codes[:, 40] = factors[:, 0]
        shown = diagram(codes, factors, [40, 7])
        assert len(shown["neurons"]) == 32
        assert [shown["neurons"][at] for at in shown["alignment"]] == [40, 7]
        assert shown["information"][shown["alignment"][0]][0] == pytest.approx(shown["entropies"][0])
