"""The study of neurons: known scores of references, trained models, and models with unusual codes."""

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

from alebrije import worlds
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.instruments.neurons import study
from alebrije.instruments.neurons.codes import HUGE, LONG, EncodedCorpus
from alebrije.instruments.neurons.correlation import CORRELATION
from alebrije.instruments.neurons.generalisation import (
    ACCURACY,
    FEATURES,
    SETTINGS,
)
from alebrije.instruments.neurons.images import Corpus
from alebrije.instruments.neurons.snc import balanced_snc
from alebrije.instruments.neurons.values import FAST, METRICS, Heads, compute_values
from alebrije.results import Result, Value
from alebrije.studies.encode import READS_SCENES
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import TrainedModel, View
from alebrije.studies.references import Oracle, Pixels
from alebrije.studies.request import Request
from alebrije.train.plan import plan
from tests.instruments.neurons.running import QUICK, accuracy_of, run_neurons, values_of


class TestReferences:
    def test_the_oracle_has_perfect_scores(self, references: dict[str, list[Result]]) -> None:
        values = values_of(references["oracle"])
        assert values["SNC"].score == 1.0
        most = 1 - np.mean([1 / count for count in worlds.get("rooms").vocabulary.counts])
        assert values["NK"].score is not None
        assert most * 0.9 < values["NK"].score <= 1
        assert values["MIG"].score is not None
        assert values["MIG"].score > 0.9
        assert tuple(values) == tuple(name for name in METRICS if name in FAST)

    def test_noise_is_at_chance(self, references: dict[str, list[Result]]) -> None:
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

    def test_the_oracle_generalises_and_noise_does_not(self, references: dict[str, list[Result]]) -> None:
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

    def test_details_of_the_hinton_diagram(self, references: dict[str, list[Result]]) -> None:
        details = values_of(references["oracle"])["SNC"].details
        assert details["factor_names"] == list(worlds.get("rooms").vocabulary.names)
        information = np.array(details["information"])
        assert information.shape == (6, 6)
        assert details["alignment"] == list(range(6))
        assert np.all(np.diag(information) > 0.9 * np.array(details["entropies"]))
        assert len(values_of(references["noise"])["SNC"].details["information"]) == 32

    def test_every_cell_exists_once(self, references: dict[str, list[Result]]) -> None:
        for results in references.values():
            assert len(results) == 2 + 1 + len(SETTINGS) * len(FEATURES) + 3
            assert {result.cell.labels["size"] for result in results} == {"tiny"}


class TestTrained:
    @pytest.fixture
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A study whose models take two steps, on few images."""
        changed = replace(study.SIZES["tiny"], images=200, worlds=("dsprites",), heads=QUICK, training_images=64)
        monkeypatch.setitem(study.SIZES, "tiny", changed)
        monkeypatch.setattr(study, "plan", partial(plan, settings={"steps": 2, "batch": 8}))

    @pytest.mark.usefixtures("quick")
    def test_all_cells_and_none_the_second_time(self, tmp_path: Path) -> None:
        folder, request = ResultFolder(tmp_path), Request(size="tiny", models=("beta-vae", "ae"), seeds=2)
        summary = run_neurons(folder, request)
        assert not summary.failed
        results = folder.store.all()
        assert len({result.cell.key for result in results}) == summary.done
        for model in ("beta-vae", "ae"):
            for seed in (0, 1):
                own = [result for result in results if result.cell.labels.get("model") == model]
                own = [result for result in own if result.cell.labels["seed"] == seed]
                assert set(values_of(own)) == set(FAST)
                accuracy = accuracy_of(own, "CG", "both")
                assert accuracy.score is not None
                assert 0 <= accuracy.score <= 1
                assert accuracy.details["encoder"] == "trained without scale 0, shape 0"
                assert list(accuracy.details["per pair"]) == ["size 0, shape 0"]
                assert any(result.cell.labels.get("held_out") == "size 0, shape 0" for result in own)
        found = [result for result in results if CORRELATION in result.values]
        assert {result.cell.labels["scope"] for result in found} == {"dsprites"}
        assert {str(result.cell.labels["predictor"]) for result in found} >= {"SNC", "NK", "MIG", "SNC of all factors"}
        assert all(len(result.values[CORRELATION].details["points"]) == 4 for result in found)
        assert len(list((tmp_path / "runs").iterdir())) == 4
        again = run_neurons(folder, request)
        assert (again.done, again.kept) == (0, summary.done)

    @pytest.mark.usefixtures("quick")
    def test_one_training_for_each_pair(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        changed = replace(study.SIZES["tiny"], pairs=2, single_training=False, seeds=2, pair_seeds=1)
        monkeypatch.setitem(study.SIZES, "tiny", changed)
        jobs = study.jobs(ResultFolder(tmp_path), Request(size="tiny", models=("ae",), metrics=(ACCURACY,)))
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


@dataclass(frozen=True)
class KnownCodes:
    """A model that gives what it is told."""

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
        raise InputError("no codes today")

    def group(self, view: View) -> Tensor | None:
        return None

    def decode(self, codes: Tensor) -> Tensor | None:
        return None


class TestModels:
    @pytest.fixture(autouse=True)
    def few_images(self, monkeypatch: pytest.MonkeyPatch) -> None:
        few = replace(study.SIZES["tiny"], images=300, worlds=("dsprites",), heads=QUICK)
        monkeypatch.setitem(study.SIZES, "tiny", few)

    def examined(self, tmp_path: Path, codes: str) -> list[Result]:
        folder = ResultFolder(tmp_path)
        run_neurons(folder, Request(size="tiny", loaded=(KnownCodes(codes),), only_loaded=True))
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
        assert "needs its own neuron" in str(values["SNC"].reason)
        assert values["MIG"].score is not None
        assert accuracy_of(results, "CG", "shape").score is not None

    def test_codes_that_are_not_finite(self, tmp_path: Path) -> None:
        results = self.examined(tmp_path, "broken")
        assert all(result.status == "done" for result in results)
        assert all(
            value.score is None and "finite" in str(value.reason) for r in results for value in r.values.values()
        )

    def test_a_model_that_raises(self, tmp_path: Path) -> None:
        results = self.examined(tmp_path, "nothing")
        assert all(result.status == "failed" and "no codes today" in str(result.traceback) for result in results)

    def test_values_by_name(self, tmp_path: Path) -> None:
        jobs = study.jobs(ResultFolder(tmp_path), Request(size="tiny", models=("oracle",), metrics=("mig", "dci-d")))
        (job,) = jobs
        values = job.work()
        assert list(values) == ["MIG", "DCI-D"]
        assert all(isinstance(value, Value) and value.score is not None for value in values.values())

    def test_long_codes(self, tmp_path: Path) -> None:
        folder, corpus, model = ResultFolder(tmp_path), Corpus("dsprites", 300), Pixels(size=16)
        assert LONG < 3 * 16**2
        encoded = EncodedCorpus(folder, corpus, model, model.identity)
        values = compute_values(encoded, ("SNC", "SAP"), QUICK, False)
        assert values["SAP"].score is None
        assert "768 neurons unless SAP is requested by name" in str(values["SAP"].reason)
        details = values["SNC"].details
        kept, truth = details["neurons"], corpus.factors(folder)
        assert len(kept) == 32 == len(details["information"])
        aligned = balanced_snc(encoded.codes().values, truth)[1]["alignment"]
        assert [kept[column] for column in details["alignment"]] == aligned

    def test_huge_codes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        results = self.examined(tmp_path, "huge")
        values = {name: value for result in results for name, value in result.values.items()}
        assert {name for name, value in values.items() if value.score is not None} == {"MIG"}
        width = (HUGE // 6 + 1) * 6
        for name in ("SNC", "NK", "MLP accuracy", "linear accuracy", ACCURACY):
            assert (
                values[name].reason == f"not computed for codes of {width} neurons unless {name} is requested by name"
            )
        assert values["CG both"].reason == values[ACCURACY].reason
        less = replace(study.SIZES["tiny"], heads=Heads(hidden=2, epochs=1, batch_size=256))
        monkeypatch.setitem(study.SIZES, "tiny", less)
        request = Request(
            size="tiny", loaded=(KnownCodes("huge"),), only_loaded=True, metrics=("linear accuracy", ACCURACY)
        )
        asked = study.jobs(ResultFolder(tmp_path), request)
        assert not {job.cell.key for job in asked} & {result.key for result in results}
        for job in asked:
            assert all(isinstance(value, Value) and value.score is not None for value in job.work().values())

    def test_pixels_as_an_object_and_by_name(self, tmp_path: Path) -> None:
        named = study.jobs(ResultFolder(tmp_path), Request(size="tiny", models=("pixels",)))
        given = study.jobs(ResultFolder(tmp_path), Request(size="tiny", loaded=(Pixels(),), only_loaded=True))
        assert [job.cell for job in given] == [job.cell for job in named]

    def test_the_models_of_the_paper(self, monkeypatch: pytest.MonkeyPatch) -> None:
        named = study.SIZES["paper"].trained
        assert {"beta-vae", "beta-tcvae", "factor-vae", "parted-vae", "parted-vae-ss", "weakde", "mtd"} <= set(named)
        assert {"ae", "beta-vae"} <= set(study._trainable(("ae", "unheard-of", "i2i-vit", "beta-vae")))
        assert not {"unheard-of", "i2i-vit"} & set(study._trainable((*named, "unheard-of", "i2i-vit")))

    def test_versions_in_cells(self, tmp_path: Path) -> None:
        for job in study.jobs(ResultFolder(tmp_path), Request(size="tiny", models=("noise",))):
            assert (job.cell.inputs["protocol"], job.cell.inputs["images"]["version"]) == (1, 1)

    def test_a_model_that_reads_scenes(self, tmp_path: Path) -> None:
        folder = ResultFolder(tmp_path)
        learned = plan("svib-oracle", preset_name="tiny", world="sprites", images=4, settings={"steps": 1})
        run_neurons(folder, Request(size="tiny", loaded=(TrainedModel(learned, folder),), only_loaded=True))
        reasons = [value.reason for result in folder.store.all() for value in result.values.values()]
        assert set(reasons) == {READS_SCENES}

    def test_wrong_names(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="learns from episodes"):
            study.jobs(ResultFolder(tmp_path), Request(size="tiny", models=("i2i-vit",)))
        with pytest.raises(InputError):
            study.jobs(ResultFolder(tmp_path), Request(size="tiny", models=("beta-vee",)))
