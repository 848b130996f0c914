"""`alebrije score` and `alebrije metrics`: known numbers, intervals, choices and errors."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import alebrije
from alebrije import metrics
from alebrije.cli.score import _MOST_RESAMPLES
from alebrije.data import read_arrays
from alebrije.errors import InputError
from alebrije.results import SCHEMA_VERSION, Scores
from alebrije.scoring import MOST_RESAMPLES, metric_calls, score_file
from tests.cli.command import Outcome, call, call_for_real
from tests.results.examples import strict_json

Arrays = dict[str, np.ndarray]


def neurons(rows: int = 90) -> Arrays:
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 3, (rows, 2))
    codes = np.concatenate([factors, draw.normal(size=(rows, 1))], 1) + 0.2 * draw.normal(size=(rows, 3))
    return {"codes": codes, "factors": factors, "factor_names": np.array(["color", "[bold]size"])}


def segmentations() -> Arrays:
    draw = np.random.default_rng(1)
    true = draw.integers(0, 3, (6, 8, 8))
    return {"true": true, "pred": np.where(draw.random(true.shape) < 0.2, 0, true)}


def masks() -> Arrays:
    maps = segmentations()
    return {"true": maps["true"], "masks": np.moveaxis(np.eye(3)[maps["pred"]], -1, 1) * 0.9 + 0.05}


def analogies(cases: int = 70, shape: tuple[int, ...] = (5,)) -> Arrays:
    a, b, c, noise = np.random.default_rng(2).normal(size=(4, cases, *shape))
    d = b - a + c + 0.1 * noise
    return {"a": a, "b": b, "c": c, "d": d, "negatives.drop": d + 2, "negatives.color": d - noise}


def slots() -> Arrays:
    return analogies(20, (3, 4))


def images() -> Arrays:
    target = np.random.default_rng(3).integers(0, 256, (4, 3, 32, 32)).astype(np.uint8)
    return {"target": target, "predicted": target / 255 * np.array([0.9, 0.8, 0.7, 0.6])[:, None, None, None]}


def of_instrument(name: str, *without: str) -> set[str]:
    return {record.name for record in metrics.catalog().values() if record.instrument == name} - set(without)


KINDS: dict[str, Callable[[], Arrays]] = {
    "neurons": neurons,
    "segmentations": segmentations,
    "masks": masks,
    "analogies": analogies,
    "slots": slots,
    "images": images,
}
EXPECTED = {
    "neurons": of_instrument("neurons") | {"tre"},
    "segmentations": of_instrument("grouping"),
    "masks": of_instrument("grouping"),
    "analogies": of_instrument("analogy", "tre"),
    "slots": of_instrument("analogy", "tre"),
    "images": {"mse", "mse-sum", "psnr", "lpips"},
}


@pytest.fixture(scope="module", autouse=True)
def no_weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No LPIPS weights are found, whatever this machine has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_HOME", str(tmp_path_factory.mktemp("hub")))
        yield


@dataclass(frozen=True)
class Scored:
    file: Path
    outcome: Outcome
    content: dict[str, Any]

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return {result["metric"]: result for result in self.content["results"]}


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scored]:
    """Each kind of file scored once by everything that fits."""
    known: dict[str, Scored] = {}

    def scored_kind(kind: str) -> Scored:
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind)
            file, out = folder / f"{kind}.npz", folder / "result.json"
            np.savez(file, **KINDS[kind]())
            outcome = call("score", file, "--out", out)
            assert outcome.code == 0, outcome.complaints
            known[kind] = Scored(file, outcome, strict_json(out.read_text()))
        return known[kind]

    return scored_kind


@dataclass(frozen=True)
class Desk:
    """A folder with `file.npz` in it, and the command run on that."""

    folder: Path

    def score(self, arrays: Arrays, *arguments: str, name: str = "file.npz") -> Outcome:
        np.savez(self.folder / name, **arrays)
        return call("score", self.folder / name, *arguments)

    def results(self, arrays: Arrays, *arguments: str) -> dict[str, dict[str, Any]]:
        out = self.folder / "result.json"
        outcome = self.score(arrays, *arguments, "--out", str(out))
        assert outcome.code == 0, outcome.complaints
        assert outcome.complaints == []
        return {result["metric"]: result for result in strict_json(out.read_text())["results"]}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
class TestEachKindOfFile:
    def test_the_table_names_every_metric(self, scored: Callable[[str], Scored], kind: str) -> None:
        outcome = scored(kind).outcome
        first_words = {line.split()[0] for line in outcome.out.splitlines() if line.strip()}
        assert first_words >= EXPECTED[kind]
        assert f"{kind}.npz" in outcome.out
        assert "result.json" in outcome.out
        assert outcome.complaints == []

    def test_progress_counts_the_metrics(self, scored: Callable[[str], Scored], kind: str) -> None:
        names, total = list(scored(kind).results), len(EXPECTED[kind])
        assert scored(kind).outcome.progress == [f"[{k}/{total}] {name}" for k, name in enumerate(names, 1)]

    def test_the_file_says_what_was_scored_by_what(self, scored: Callable[[str], Scored], kind: str) -> None:
        content, arrays = scored(kind).content, KINDS[kind]()
        assert content["schema_version"] == SCHEMA_VERSION
        assert content["library_version"] == alebrije.__version__
        assert content["input"]["file"] == f"{kind}.npz"
        assert content["input"]["sha256"] == hashlib.sha256(scored(kind).file.read_bytes()).hexdigest()
        assert content["input"]["arrays"] == {k: f"{v.dtype} {list(v.shape)}" for k, v in arrays.items()}
        assert set(scored(kind).results) == EXPECTED[kind]
        for name, result in scored(kind).results.items():
            record = metrics.catalog()[name]
            assert (result["version"], result["direction"]) == (record.version, record.direction)
            assert result["settings"].items() >= dict(record.settings).items()

    def test_the_file_keeps_its_schema(self, scored: Callable[[str], Scored], kind: str) -> None:
        text = json.dumps(scored(kind).content)
        assert strict_json(Scores.model_validate_json(text).to_json()) == scored(kind).content

    def test_scores_lie_in_range_or_have_a_reason(self, scored: Callable[[str], Scored], kind: str) -> None:
        for name, result in scored(kind).results.items():
            low, high = metrics.catalog()[name].range
            if result["score"] is None:
                assert result["reason"]
            else:
                assert low <= result["score"] <= high

    def test_intervals_hold_the_score_or_have_a_reason(self, scored: Callable[[str], Scored], kind: str) -> None:
        for result in scored(kind).results.values():
            interval = result["interval"]
            if interval is None:
                assert result["interval_reason"]
            else:
                assert result["interval_reason"] is None
                assert interval["low"] <= result["score"] <= interval["high"]
                assert interval["method"]
                assert interval["resamples"] in (10, 1000)

    def test_nearly_every_score_has_an_interval(self, scored: Callable[[str], Scored], kind: str) -> None:
        without = {name for name, result in scored(kind).results.items() if result["interval"] is None}
        assert without <= {"dci", "lpips"}  # costly, and without weights


class TestNumbers:
    """The command reports what the functions say."""

    def test_neurons(self, scored: Callable[[str], Scored]) -> None:
        results, arrays = scored("neurons").results, neurons()
        codes, factors = arrays["codes"], arrays["factors"]
        assert results["mig"]["score"] == metrics.mutual_information_gap(codes, factors).score
        assert results["snc"]["score"] == metrics.single_neuron_classification(codes, factors).score
        assert results["med-raw"]["score"] == metrics.med(codes, factors, normalise=False).score
        linear = metrics.dci(codes, factors, model="linear")
        assert results["dci-linear"]["details"]["disentanglement"] == linear.disentanglement
        assert results["dci-linear"]["details"]["importance"] == linear.importance.tolist()

    def test_grouping(self, scored: Callable[[str], Scored]) -> None:
        results, arrays = scored("segmentations").results, segmentations()
        per_image = metrics.adjusted_rand_index(arrays["true"], arrays["pred"], ignore=0)
        assert results["fg-ari"]["details"]["per_image"] == per_image.tolist()
        assert results["fg-ari"]["score"] == pytest.approx(per_image.mean())

    def test_masks_are_the_labels_they_stand_for(self, scored: Callable[[str], Scored]) -> None:
        by_masks, by_labels = scored("masks").results, scored("segmentations").results
        assert {k: v["score"] for k, v in by_masks.items()} == {k: v["score"] for k, v in by_labels.items()}

    def test_masks_may_keep_their_channel(self) -> None:
        arrays = masks()
        plain, kept = (
            metric_calls({**arrays, "masks": found}, ["ari"])[0].arguments["pred"]
            for found in (arrays["masks"], arrays["masks"][:, :, None])
        )
        np.testing.assert_array_equal(kept, plain)

    @pytest.mark.parametrize("kind", ["analogies", "slots"])
    def test_analogies(self, scored: Callable[[str], Scored], kind: str) -> None:
        arrays = KINDS[kind]()
        negatives = {k.split(".")[1]: v for k, v in arrays.items() if "." in k}
        expected = metrics.coat(*(arrays[k] for k in "abcd"), negatives, loss="l2")
        result = scored(kind).results["coat-l2"]
        assert result["score"] == pytest.approx(expected.score)
        assert result["details"]["passed"] is expected.passed
        assert set(result["details"]["tests"]) == {"drop", "color"}
        assert result["details"]["tests"]["drop"]["p_hat"] == expected.tests["drop"].p_hat

    def test_images(self, scored: Callable[[str], Scored]) -> None:
        results, arrays = scored("images").results, images()
        errors = np.square(arrays["target"] / 255 - arrays["predicted"])
        assert results["mse"]["score"] == pytest.approx(errors.mean())
        assert results["mse-sum"]["details"]["per_image"] == pytest.approx(errors.sum((1, 2, 3)).tolist())

    @pytest.mark.parametrize("kind", ["neurons", "segmentations", "masks", "analogies", "images"])
    def test_byte_order_does_not_matter(self, desk: Desk, scored: Callable[[str], Scored], kind: str) -> None:
        arrays = {k: v.astype(v.dtype.newbyteorder(">")) for k, v in KINDS[kind]().items()}
        chosen = {"neurons": "snc", "analogies": "coat", "images": "mse"}.get(kind, "ari")
        result = desk.results(arrays, "--metrics", chosen, "--bootstrap", "0")[chosen]
        assert result["score"] == scored(kind).results[chosen]["score"]
        assert result["details"] == scored(kind).results[chosen]["details"]

    def test_safetensors_give_the_same(self, scored: Callable[[str], Scored], tmp_path: Path) -> None:
        arrays = neurons()
        names = json.dumps(arrays.pop("factor_names").tolist())
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        save_file(tensors, tmp_path / "x.safetensors", {"factor_names": names})
        out = tmp_path / "x.json"
        assert call("score", tmp_path / "x.safetensors", "--metrics", "mig", "irs", "--out", out).code == 0
        for result in strict_json(out.read_text())["results"]:
            expected = scored("neurons").results[result["metric"]]
            assert {**result, "seconds": 0} == {**expected, "seconds": 0}

    def test_what_belongs_to_factors_is_named(self, scored: Callable[[str], Scored]) -> None:
        results, names = scored("neurons").results, ["color", "[bold]size"]
        for metric in ("snc", "nk", "mig", "sap", "dci", "med", "explicitness"):
            assert list(results[metric]["details"]["per_factor"]) == names
        for field in ("accuracy", "chance", "alignment"):
            assert list(results["snc"]["details"][field]) == names
        assert results["snc"]["details"]["alignment"] == {"color": 0, "[bold]size": 1}
        assert list(results["nk"]["details"]["knockout_accuracy"]) == names

    def test_without_names_there_are_lists(self, desk: Desk) -> None:
        arrays = {k: v for k, v in neurons().items() if k != "factor_names"}
        result = desk.results(arrays, "--metrics", "snc", "--bootstrap", "0")["snc"]
        assert result["details"]["alignment"] == [0, 1]

    def test_what_belongs_to_neurons_is_not_named_after_factors(self, desk: Desk) -> None:
        """With as many neurons as factors the two must still be told apart: here neuron 0 holds factor 1."""
        factors = neurons()["factors"]
        arrays = {"codes": factors[:, ::-1] * 1.0, "factors": factors, "factor_names": np.array(["color", "size"])}
        result = desk.results(arrays, "--metrics", "irs", "modularity", "--bootstrap", "0")
        assert result["irs"]["details"]["best_factor"] == [1, 0]
        assert result["modularity"]["details"]["per_neuron"] == pytest.approx([1.0, 1.0], abs=0.01)

    def test_two_factors_of_one_name_lose_nothing(self, desk: Desk) -> None:
        arrays = {**neurons(), "factor_names": np.array(["color", "color"])}
        out = desk.folder / "x.json"
        outcome = desk.score(arrays, "--metrics", "mig", "--bootstrap", "0", "--out", str(out))
        if outcome.code == 0:
            assert len(strict_json(out.read_text())["results"][0]["details"]["per_factor"]) == 2
        else:
            assert outcome.code == 2

    def test_what_is_too_long_is_named(self, scored: Callable[[str], Scored]) -> None:
        result = scored("neurons").results["beta-vae"]
        assert result["left_out"] == ["correct"]
        assert "correct" not in result["details"]

    @pytest.mark.parametrize(
        ("kind", "metric", "setting"),
        [
            ("segmentations", "ari", ("ignore", None)),
            ("segmentations", "fg-ari", ("ignore", 0)),
            ("segmentations", "sc", ("weighted", True)),
            ("images", "mse", ("reduction", "mean")),
            ("images", "mse-sum", ("reduction", "sum")),
            ("images", "lpips", ("network", "alex")),
            ("analogies", "coat", ("loss", "squared-l2")),
            ("neurons", "nk", ("epochs", 75)),
        ],
    )
    def test_settings_are_told_also_where_they_are_the_default(
        self, scored: Callable[[str], Scored], kind: str, metric: str, setting: tuple[str, Any]
    ) -> None:
        assert setting in scored(kind).results[metric]["settings"].items()

    @pytest.mark.parametrize(
        "arrays",
        [
            {"in_distribution": np.array([1.0, 3.0]), "out_of_distribution": np.array([2.0, 4.0, 6.0])},
            {"alphas": np.array([0.2, 0.4]), "model": np.array([5.0, 1.0]), "oracle": np.array([1.0, 1.0])},
        ],
        ids=["gap", "alpha-efficiency"],
    )
    @pytest.mark.parametrize("arguments", [(), ("--bootstrap", "0")], ids=["with interval", "without"])
    def test_the_other_metrics_of_the_catalog(self, desk: Desk, arrays: Arrays, arguments: tuple[str, ...]) -> None:
        (result,) = desk.results(arrays, *arguments).values()
        expected = {"gap": np.log(2.0), "alpha-efficiency": 0.4}
        assert result["score"] == pytest.approx(expected[result["metric"]])
        assert (result["interval"] is None) == bool(result["interval_reason"])


class TestNotANumber:
    def test_lpips_without_weights(self, scored: Callable[[str], Scored]) -> None:
        result = scored("images").results["lpips"]
        assert result["score"] is None
        assert "without its weights" in result["reason"]
        assert result["details"]["per_image"] == [None] * 4
        assert result["interval"] is None
        row = next(line for line in scored("images").outcome.out.splitlines() if line.startswith("lpips"))
        assert row.split()[1] == "null"
        assert "without its weights" in row

    def test_perfect_prediction_has_no_finite_psnr(self, desk: Desk) -> None:
        target = images()["target"]
        results = desk.results({"target": target, "predicted": target}, "--metrics", "psnr", "mse")
        assert results["mse"]["score"] == 0.0
        assert results["psnr"]["score"] is None
        assert "infinite" in results["psnr"]["reason"]
        assert results["psnr"]["interval"] is None

    def test_no_foreground(self, desk: Desk) -> None:
        true = segmentations()["true"] * np.array([0, 0, 1, 1, 1, 1])[:, None, None]
        maps = {"true": true, "pred": true}
        result = desk.results(maps, "--metrics", "fg-ari", "ari")
        assert result["ari"]["reason"] is None
        assert result["fg-ari"]["score"] == 1.0
        assert "2 of 6 images" in result["fg-ari"]["reason"]
        nothing = desk.results({"true": 0 * true, "pred": true}, "--metrics", "fg-ari")["fg-ari"]
        assert nothing["score"] is None
        assert "6 of 6 images" in nothing["reason"]
        assert nothing["interval"] is None

    def test_constant_factor(self, desk: Desk) -> None:
        arrays = neurons()
        arrays["factors"][:, 1] = 7
        result = desk.results(arrays, "--metrics", "mig", "--bootstrap", "2")["mig"]
        assert result["details"]["per_factor"]["[bold]size"] is None
        assert "single value" in result["reason"]

    def test_constant_analogies(self, desk: Desk) -> None:
        result = desk.results({name: np.ones((10, 3)) for name in "abcd"}, "--metrics", "coat")["coat"]
        assert result["score"] is None
        assert "same code" in result["reason"]

    @pytest.mark.filterwarnings("error::RuntimeWarning")
    @pytest.mark.parametrize("seed", range(6))
    def test_resamples_without_a_score_leave_a_usable_result(self, desk: Desk, seed: int) -> None:
        """One row in twelve has the other value, so a third of the resamples have a constant factor."""
        codes, factors = np.random.default_rng(0).normal(size=(12, 1)), np.eye(12, 1, dtype=int)
        arguments = ("--metrics", "mig", "--bootstrap", "2", "--seed", str(seed))
        result = desk.results({"codes": codes, "factors": factors}, *arguments)["mig"]
        interval = result["interval"]
        if interval is None:
            assert result["interval_reason"]
        else:
            assert interval["low"] <= result["score"] <= interval["high"]

    def test_warnings_do_not_reach_the_user(self, tmp_path: Path) -> None:
        """All is said in the result: numpy's and scikit-learn's remarks on undefined means are noise."""
        arrays = neurons(24)
        np.savez(tmp_path / "x.npz", codes=arrays["codes"], factors=0 * arrays["factors"])
        outcome = call_for_real("score", tmp_path / "x.npz", "--metrics", "nk", "snc", "explicitness", "sap-r2")
        assert outcome.code == 0
        assert outcome.complaints == []


class TestChoice:
    def test_metrics_are_picked_in_the_order_given(self, desk: Desk) -> None:
        outcome = desk.score(neurons(), "--metrics", "irs", "mig", "--bootstrap", "0")
        assert outcome.code == 0
        assert outcome.progress == ["[1/2] irs", "[2/2] mig"]
        assert "snc" not in outcome.out

    @pytest.mark.parametrize(
        ("name", "metric"),
        [
            ("MIG", "mig"),
            ("mutual_information_gap", "mig"),
            ("Mutual-Information-Gap", "mig"),
            ("med_raw", "med-raw"),
            ("MED", "med"),
            ("Separated_Attribute_Predictability", "sap"),
            ("single_neuron_classification", "snc"),
        ],
    )
    def test_names_are_taken_as_people_write_them(self, desk: Desk, name: str, metric: str) -> None:
        assert list(desk.results(neurons(), "--metrics", name, "--bootstrap", "0")) == [metric]

    def test_every_function_of_the_catalog_is_a_name(self) -> None:
        for record in metrics.catalog().values():
            assert metrics.find(record.name.upper()) is record
            found = metrics.find(record.function.__name__)
            assert found.function is record.function
            assert not found.settings, "the plain form is meant"

    @pytest.mark.parametrize(
        ("name", "hint"),
        [("migg", "'mig'"), ("SNCC", "'snc'"), ("modularty", "'modularity'"), ("dci_lin", "dci-linear")],
    )
    def test_unknown_metric_suggests_the_nearest(self, desk: Desk, name: str, hint: str) -> None:
        outcome = desk.score(neurons(), "--metrics", "mig", name)
        assert outcome.code == 2
        assert outcome.progress == []
        (sentence,) = outcome.complaints
        assert repr(name) in sentence
        assert hint in sentence

    def test_a_metric_like_no_other(self, desk: Desk) -> None:
        outcome = desk.score(neurons(), "--metrics", "qqqqqqqq")
        assert outcome.code == 2
        (sentence,) = outcome.complaints
        assert "alebrije metrics" in sentence

    def test_metric_without_its_inputs(self, desk: Desk) -> None:
        outcome = desk.score(neurons(), "--metrics", "mig", "ari")
        assert outcome.code == 2
        assert outcome.progress == []
        (sentence,) = outcome.complaints
        for word in ("ari", "true", "pred"):
            assert word in sentence

    def test_only_the_missing_input_is_called_missing(self, desk: Desk) -> None:
        outcome = desk.score({"codes": neurons()["codes"]}, "--metrics", "mig")
        assert outcome.code == 2
        (sentence,) = outcome.complaints
        assert sentence.endswith("missing: factors")
        assert "missing: codes" not in sentence

    def test_analogies_without_negatives_are_scored_and_say_so(self, desk: Desk) -> None:
        arrays = {name: analogies()[name] for name in "abcd"}
        outcome = desk.score(arrays, "--metrics", "coat", "--bootstrap", "0")
        assert outcome.code == 0
        assert "no hard negatives" in outcome.out

    def test_hard_negatives_are_in_the_table(self, desk: Desk) -> None:
        arrays = analogies()
        passed = desk.score(arrays, "--metrics", "coat", "--bootstrap", "0")
        failed = desk.score({**arrays, "negatives.size": arrays["d"]}, "--metrics", "coat", "--bootstrap", "0")
        assert "passes every hard negative" in passed.out
        assert "fails size" in failed.out


class TestBootstrap:
    METRICS = ("--metrics", "mig", "dci", "factor-vae")

    def test_none(self, desk: Desk) -> None:
        for result in desk.results(neurons(), *self.METRICS, "--bootstrap", "0").values():
            assert result["score"] is not None
            assert result["interval"] is None
            assert result["interval_reason"] == "resampling is off"

    def test_five(self, desk: Desk) -> None:
        for result in desk.results(neurons(), *self.METRICS, "--bootstrap", "5").values():
            assert result["interval"]["resamples"] == 5
            assert result["interval_reason"] is None

    @pytest.mark.parametrize("number", ["1", "-1", "-3"])
    def test_one_or_less(self, desk: Desk, number: str) -> None:
        outcome = desk.score(neurons(), "--bootstrap", number)
        assert outcome.code == 2
        assert outcome.progress == []
        (sentence,) = outcome.complaints
        assert "--bootstrap" in sentence
        assert number in sentence

    def test_more_than_memory_holds(self, desk: Desk) -> None:
        outcome = desk.score(neurons(), "--bootstrap", "1000000000000")
        assert outcome.code == 2
        assert MOST_RESAMPLES == _MOST_RESAMPLES
        assert outcome.complaints == ["alebrije: --bootstrap must be at most 100,000, not 1,000,000,000,000"]
        with pytest.raises(InputError, match="resamples must be at most 100,000, not 100,001"):
            score_file(read_arrays(desk.folder / "file.npz"), resamples=MOST_RESAMPLES + 1)

    @pytest.mark.parametrize("number", ["many", "2.5", ""])
    def test_no_number(self, desk: Desk, number: str) -> None:
        outcome = desk.score(neurons(), "--bootstrap", number)
        assert outcome.code == 2
        assert outcome.progress == []

    def test_seeds_move_intervals_and_not_scores(self, desk: Desk) -> None:
        def found(seed: str) -> list[tuple[Any, Any]]:
            results = desk.results(analogies(), "--metrics", "coat", "--bootstrap", "50", "--seed", seed)
            return [(result["score"], result["interval"]) for result in results.values()]

        first, again, other = found("0"), found("0"), found("1")
        assert first == again
        assert first[0][0] == other[0][0]
        assert first[0][1] != other[0][1]

    def test_seed_below_zero(self, desk: Desk) -> None:
        outcome = desk.score(neurons(), "--metrics", "mig", "--seed", "-1")
        assert outcome.code == 2
        assert "seed" in " ".join(outcome.complaints)

    def test_few_rows_and_single_cases_have_no_interval(self, desk: Desk) -> None:
        few = {name: array[:9] for name, array in neurons().items() if name != "factor_names"}
        assert "10 rows" in desk.results(few, "--metrics", "mig")["mig"]["interval_reason"]
        single = {name: array[:1] for name, array in segmentations().items()}
        assert "only one case" in desk.results(single, "--metrics", "ari")["ari"]["interval_reason"]


def changed(kind: Callable[[], Arrays], **changes: Any) -> Arrays:
    """The arrays of `kind` with some exchanged, or left out where None is given."""
    return {name: array for name, array in {**kind(), **changes}.items() if array is not None}


def as_text(array: np.ndarray) -> np.ndarray:
    return array.astype(str)


def as_complex(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex64)


def as_objects(array: np.ndarray) -> np.ndarray:
    return array.astype(object)


def as_dates(array: np.ndarray) -> np.ndarray:
    return array.astype(np.int64).astype("datetime64[s]")


def with_nan(array: np.ndarray) -> np.ndarray:
    spoiled = array.astype(np.float64)
    spoiled.flat[5] = np.nan
    return spoiled


def with_inf(array: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(with_nan(array)), -np.inf, array)


CHEAP = ("--metrics", "mig", "--bootstrap", "0")
N, S, M, A, I = neurons(), segmentations(), masks(), analogies(), images()
BAD: dict[str, tuple[Arrays, tuple[str, ...], str]] = {
    # what is in the file, further arguments, a word of the sentence
    "codes alone": ({"codes": N["codes"]}, (), "factors"),
    "true alone": ({"true": S["true"]}, (), "pred"),
    "masks alone": ({"masks": masks()["masks"]}, (), "true"),
    "no d": (changed(analogies, d=None), (), "a, b, c and d"),
    "no predicted": (changed(images, predicted=None), (), "predicted"),
    "names nobody knows": ({"x": N["codes"], "y": N["factors"]}, (), "x, y"),
    "codes in one axis": (changed(neurons, codes=N["codes"][:, 0]), CHEAP, "codes must have shape"),
    "codes in three axes": (changed(neurons, codes=N["codes"][None]), CHEAP, "codes must have shape"),
    "no neurons": (changed(neurons, codes=N["codes"][:, :0]), CHEAP, "codes must have shape"),
    "no rows": ({"codes": N["codes"][:0], "factors": N["factors"][:0]}, CHEAP, "rows"),
    "one row": ({"codes": N["codes"][:1], "factors": N["factors"][:1]}, CHEAP, "rows"),
    "codes a number": (changed(neurons, codes=np.array(1.0)), CHEAP, "codes must have shape"),
    "factors in one axis": (changed(neurons, factors=N["factors"][:, 0], factor_names=None), CHEAP, "factors"),
    "factors a number": (changed(neurons, factors=np.array(1), factor_names=None), CHEAP, "factors"),
    "other rows": (changed(neurons, factors=N["factors"][:-1]), CHEAP, "as many rows"),
    "more factors than neurons": (changed(neurons, codes=N["codes"][:, :1]), ("--metrics", "snc"), "2 factors"),
    "continuous factors": (changed(neurons, factors=N["factors"] + 0.5), CHEAP, "discrete"),
    "one name too many": (changed(neurons, factor_names=np.array(["a", "b", "c"])), CHEAP, "factor_names"),
    "one name too few": (changed(neurons, factor_names=np.array(["a"])), CHEAP, "factor_names"),
    "names in two axes": (changed(neurons, factor_names=np.array([["a", "b"]])), CHEAP, "factor_names"),
    "maps in two axes": ({"true": S["true"][0], "pred": S["pred"][0]}, (), "true must have shape"),
    "maps of two sizes": (changed(segmentations, pred=S["pred"][:, :4]), (), "shape"),
    "no maps": ({"true": S["true"][:0], "pred": S["pred"][:0]}, (), "true"),
    "masks in three axes": (changed(masks, masks=S["true"] * 1.0), (), "masks must have shape"),
    "masks of a video": (changed(masks, masks=np.stack([masks()["masks"]] * 2, 1)), (), "masks must have shape"),
    "masks of another size": (changed(masks, masks=masks()["masks"][..., :4]), (), "shape"),
    "no masks": (changed(masks, masks=masks()["masks"][:, :0]), (), "masks"),
    "float labels": (changed(segmentations, pred=S["pred"] * 1.0), (), "pred must hold integer labels"),
    "codes of scenes in one axis": ({name: np.ones(4) for name in "abcd"}, (), "a must have shape"),
    "slots and vectors": (changed(analogies, d=A["d"][:, None]), (), "d must have"),
    "other number of cases": (changed(analogies, c=A["c"][:-1]), (), "c must have the shape of a"),
    "negatives of another shape": ({**A, "negatives.drop": A["d"][:, :2]}, (), "negatives.drop"),
    "images in three axes": ({"target": I["target"][0], "predicted": I["predicted"][0]}, (), "target must have"),
    "images of two sizes": (changed(images, predicted=I["predicted"][..., :16]), (), "the same shape"),
    "images in 0..255": (changed(images, target=I["target"] * 1.0), ("--metrics", "mse"), "0..1"),
}


def spoiled_arrays() -> Iterator[tuple[str, tuple[Arrays, tuple[str, ...], str]]]:
    """Every array with values that are no real numbers."""
    kinds = ((N, "codes"), (N, "factors"), (S, "true"), (S, "pred"), (M, "masks"), (A, "a"), (A, "d"))
    kinds += ((A, "negatives.color"), (I, "target"), (I, "predicted"))
    for arrays, key in kinds:
        chosen = CHEAP if arrays is N else ()
        for spoil in (as_text, as_complex, as_dates):
            yield f"{key} {spoil.__name__}", ({**arrays, key: spoil(arrays[key])}, chosen, f"{key} must")
        yield f"{key} as_objects", ({**arrays, key: as_objects(arrays[key])}, chosen, "pickled objects")
        for spoil in (with_nan, with_inf):
            if key not in ("true", "pred", "target"):  # integers have neither
                yield f"{key} {spoil.__name__}", ({**arrays, key: spoil(arrays[key])}, chosen, f"{key} must be finite")
    yield "factor_names as_objects", ({**N, "factor_names": as_objects(N["factor_names"])}, CHEAP, "pickled objects")


BAD |= dict(spoiled_arrays())


class TestBadInput:
    @pytest.mark.parametrize("case", BAD)
    def test_one_sentence_and_nothing_written(self, desk: Desk, case: str) -> None:
        arrays, arguments, word = BAD[case]
        old, new = desk.folder / "old.json", desk.folder / "new.json"
        old.write_text("old")
        for out in (old, new):
            outcome = desk.score(arrays, *arguments, "--out", str(out))
            assert outcome.code == 2
            assert len(outcome.complaints) == 1, outcome.complaints
            assert outcome.complaints[0].startswith("alebrije: file.npz: ")
            assert word in outcome.complaints[0]
            assert outcome.out == ""
        assert old.read_text() == "old"
        assert sorted(os.listdir(desk.folder)) == ["file.npz", "old.json"]

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("x.npz", b""),
            ("x.npz", b"no zip"),
            ("x.safetensors", b""),
            ("x.safetensors", b"\xff" * 64),
            ("x.txt", b"hello"),
            ("missing.npz", None),
        ],
    )
    def test_unreadable_file(self, tmp_path: Path, name: str, content: bytes | None) -> None:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        before = sorted(os.listdir(tmp_path))
        outcome = call("score", tmp_path / name, "--out", tmp_path / "out.json")
        assert outcome.code == 2
        assert outcome.progress == []
        (sentence,) = outcome.complaints
        assert name in sentence
        assert sorted(os.listdir(tmp_path)) == before

    @pytest.mark.parametrize("keep", [0.0, 0.1, 0.5, 0.9, 0.999])
    def test_truncated_file(self, tmp_path: Path, keep: float) -> None:
        file = tmp_path / "x.npz"
        np.savez(file, **neurons())
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * keep)])
        outcome = call("score", file, *CHEAP, "--out", tmp_path / "out.json")
        assert outcome.code == 2
        assert len(outcome.complaints) == 1
        assert os.listdir(tmp_path) == ["x.npz"]

    def test_folder_as_file(self, tmp_path: Path) -> None:
        (tmp_path / "x.npz").mkdir()
        outcome = call("score", tmp_path / "x.npz")
        assert outcome.code == 2
        assert len(outcome.complaints) == 1

    @pytest.mark.parametrize("name", ["a\nb.npz", "a\r\x1b[31mb.npz"])
    def test_a_name_with_line_ends_is_still_one_sentence(self, desk: Desk, name: str) -> None:
        outcome = desk.score({"codes": N["codes"]}, name=name)
        assert outcome.code == 2
        assert len(outcome.complaints) == 1

    def test_hostile_pickle_for_real(self, tmp_path: Path) -> None:
        class Trap:
            def __reduce__(self) -> tuple[Any, ...]:
                return os.mkdir, (str(tmp_path / "sprung"),)

        file, out = tmp_path / "x.npz", tmp_path / "out.json"
        np.savez(file, **{**neurons(), "extra": np.array([Trap()], dtype=object)})
        out.write_text("old")
        outcome = call_for_real("score", file, "--out", out)
        assert outcome.code == 2
        assert len(outcome.complaints) == 1
        assert "never loaded" in outcome.complaints[0]
        assert out.read_text() == "old"
        assert sorted(os.listdir(tmp_path)) == ["out.json", "x.npz"]


def test_parts_without_a_value_are_shown_as_null(tmp_path: Path) -> None:
    """With every factor constant, informativeness is not a number and the table must still print."""
    np.savez(tmp_path / "x.npz", codes=np.random.default_rng(0).normal(size=(40, 2)), factors=np.zeros((40, 2), int))
    outcome = call("score", tmp_path / "x.npz", "--metrics", "dci", "med")
    assert outcome.code == 0
    assert outcome.out.count("I null") == 2


class TestOut:
    def test_missing_folder_is_noticed_before_any_work(self, desk: Desk) -> None:
        outcome = desk.score(neurons(), "--out", str(desk.folder / "missing" / "x.json"))
        assert outcome.code == 2
        assert outcome.progress == []
        (sentence,) = outcome.complaints
        assert "missing" in sentence
        assert os.listdir(desk.folder) == ["file.npz"]

    def test_a_folder_gets_results_and_a_report(self, desk: Desk) -> None:
        (desk.folder / "folder").mkdir()
        outcome = desk.score(neurons(), *CHEAP, "--out", str(desk.folder / "folder"))
        assert outcome.code == 0
        assert sorted(set(os.listdir(desk.folder / "folder")) & {"cells", "report.html"}) == ["cells", "report.html"]

    def test_the_input_is_not_overwritten(self, desk: Desk) -> None:
        outcome = desk.score(neurons(), *CHEAP, "--out", str(desk.folder / "file.npz"))
        assert outcome.code == 2
        with np.load(desk.folder / "file.npz", allow_pickle=False) as archive:
            assert "codes" in archive.files

    def test_replaces_an_old_result(self, desk: Desk) -> None:
        out = desk.folder / "x.json"
        out.write_text("old" * 10_000)
        assert desk.score(neurons(), *CHEAP, "--out", str(out)).code == 0
        assert [result["metric"] for result in strict_json(out.read_text())["results"]] == ["mig"]
        assert sorted(os.listdir(desk.folder)) == ["file.npz", "x.json"]

    def test_without_it_nothing_is_written(self, desk: Desk) -> None:
        assert desk.score(neurons(), *CHEAP).code == 0
        assert os.listdir(desk.folder) == ["file.npz"]

    def test_full_disk(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        out = desk.folder / "x.json"
        out.write_text("old")
        monkeypatch.setattr(os, "replace", fail)
        outcome = desk.score(neurons(), *CHEAP, "--out", str(out))
        assert outcome.code == 2
        (sentence,) = outcome.complaints
        assert "x.json: the disk is full" in sentence
        assert "written to" not in outcome.out
        assert out.read_text() == "old"
        assert sorted(os.listdir(desk.folder)) == ["file.npz", "x.json"]

    def test_a_place_that_cannot_be_written_is_refused_before_computing(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr("alebrije.scoring.run_metric", lambda *_, **__: pytest.fail("computed"))
        monkeypatch.setattr("alebrije.atomic.tempfile.mkstemp", fail)
        outcome = desk.score(neurons(), *CHEAP, "--out", str(desk.folder / "x.json"))
        assert outcome.code == 2
        (sentence,) = outcome.complaints
        assert sentence.endswith("cannot be written: Read-only file system")

    def test_interrupted(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("alebrije.scoring.run_metric", stop)
        outcome = desk.score(neurons(), *CHEAP, "--out", str(desk.folder / "x.json"))
        assert outcome.code == 130
        assert len(outcome.complaints) == 1
        assert os.listdir(desk.folder) == ["file.npz"]


class TestPrinting:
    @pytest.mark.parametrize("name", ["[red]x.npz", "[bold]a[nothing].npz", "x\\[b].npz", "[x.npz", ":smile:.npz"])
    def test_names_are_printed_literally(self, desk: Desk, name: str) -> None:
        outcome = desk.score(neurons(), *CHEAP, name=name)
        assert outcome.code == 0
        assert name in outcome.out

    @pytest.mark.parametrize("name", ["[red]x.npz", "[/].npz"])
    def test_names_are_complained_about_literally(self, tmp_path: Path, name: str) -> None:
        if "/" in name:
            (tmp_path / "[").mkdir()
        outcome = call("score", tmp_path / name)
        assert outcome.code == 2
        (sentence,) = outcome.complaints
        assert name in sentence

    def test_hard_negatives_are_printed_literally(self, desk: Desk) -> None:
        arrays = {**analogies(), "negatives.[/red]": analogies()["d"]}
        outcome = desk.score(arrays, "--metrics", "coat", "--bootstrap", "0")
        assert outcome.code == 0
        assert "fails [/red]" in outcome.out

    def test_a_name_that_is_no_text(self, desk: Desk) -> None:
        name = os.fsdecode(b"\xff.npz")
        out = desk.folder / "x.json"
        outcome = desk.score(neurons(), *CHEAP, "--out", str(out), name=name)
        if outcome.code == 0:
            assert strict_json(out.read_text())["results"]
        else:
            assert outcome.code == 2
            assert len(outcome.complaints) == 1

    def test_numbers_in_the_table_are_those_of_the_file(self, scored: Callable[[str], Scored]) -> None:
        for line in scored("segmentations").outcome.out.splitlines():
            words = line.split()
            if words and words[0] in EXPECTED["segmentations"]:
                result = scored("segmentations").results[words[0]]
                assert float(words[1]) == pytest.approx(result["score"], abs=5e-5)
                assert float(words[2]) == pytest.approx(result["interval"]["low"], rel=5e-4)
                assert words[3] == ".."
                assert float(words[4]) == pytest.approx(result["interval"]["high"], rel=5e-4)


class TestMetrics:
    def test_metrics_lists_the_catalog(self) -> None:
        outcome = call("metrics")
        assert outcome.code == 0
        first_words = [line.split()[0] for line in outcome.out.splitlines() if line and not line.startswith(" ")]
        assert [word for word in first_words if word in metrics.catalog()] == list(metrics.catalog())
        for record in metrics.catalog().values():
            assert ", ".join(record.inputs) in outcome.out

    def test_a_narrow_terminal_cuts_no_word(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the output for a terminal
        monkeypatch.setenv("COLUMNS", "100")
        shown = call("metrics").out
        assert max(map(len, shown.splitlines())) <= 100
        assert "…" not in shown
        printed = set(shown.split())
        for record in metrics.catalog().values():
            assert {record.name, *record.title.split(), *record.cites.split()} <= printed

    def test_score_help_names_the_keys(self) -> None:
        text = call("score", "--help").out
        for word in ("codes", "factors", "factor_names", "true", "pred", "masks", "negatives.", "--bootstrap", "--out"):
            assert word in text


def test_the_installed_command_for_real(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **segmentations())
    script = Path(sys.executable).parent / "alebrije"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "alebrije"]
    arguments = ["score", "x.npz", "--metrics", "ari", "fg-ari", "--out", "x.json"]
    done = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    outcome = Outcome.of(done.returncode, done.stdout, done.stderr)
    assert outcome.code == 0
    assert outcome.complaints == []
    assert outcome.progress == ["[1/2] ari", "[2/2] fg-ari"]
    assert "\x1b" not in done.stdout + done.stderr
    assert len(strict_json((tmp_path / "x.json").read_text())["results"]) == 2
