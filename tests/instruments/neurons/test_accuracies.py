"""Accuracies of heads on every factor."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from alebrije.instruments.neurons import accuracies, study
from alebrije.instruments.neurons.accuracies import BOTH, MEANS, VALUES, accuracy_values, read_factors
from alebrije.instruments.neurons.codes import LONG, EncodedCorpus
from alebrije.instruments.neurons.generalisation import Pair
from alebrije.instruments.neurons.images import Corpus
from alebrije.instruments.neurons.values import Heads
from alebrije.probes import split_rows
from alebrije.results import Result, Value
from alebrije.studies.folder import ResultFolder
from alebrije.studies.references import Oracle, Pixels
from alebrije.studies.request import Request

QUICK = Heads(hidden=16, epochs=2, learning_rate=2e-2, batch_size=64)
SETS = ("one split", "2 splits", "size 0, shape 0")


def of(results: list[Result], test_set: str) -> Mapping[str, Value]:
    (found,) = [result.values for result in results if result.cell.labels.get("test_set") == test_set]
    return found


def score(values: Mapping[str, Value], name: str) -> float:
    found = values[name].score
    assert found is not None
    return found


class TestReferences:
    def test_the_oracle_reads_everything(self, references: dict[str, list[Result]]) -> None:
        for test_set in SETS:
            values = of(references["oracle"], test_set)
            assert score(values, "SNC mean") == score(values, "SNC both") == 1.0
            assert score(values, "MLP mean") > 0.9
            assert score(values, "MLP both") > 0.9
        chance = np.mean([1 / count for count in (10, 10, 10, 8, 4, 15)])
        assert score(of(references["oracle"], "one split"), "knockout mean") == pytest.approx(chance, abs=0.05)
        assert score(of(references["oracle"], "size 0, shape 0"), "linear both") < 0.1

    def test_noise_is_at_chance(self, references: dict[str, list[Result]]) -> None:
        values = of(references["noise"], "2 splits")
        for name in VALUES:
            found = values[name]
            assert score(values, name) == pytest.approx(found.details["chance"], abs=0.06)
        assert values["MLP both"].details["chance"] == 1 / 32

    def test_what_a_cell_has(self, references: dict[str, list[Result]]) -> None:
        for results in references.values():
            assert tuple(of(results, "one split")) == tuple(of(results, "2 splits")) == VALUES
            assert set(of(results, "size 0, shape 0")) == set(VALUES) - {"knockout mean"}
            for name in MEANS.values():
                one, two = (of(results, test_set)[name].details["per test set"] for test_set in SETS[:2])
                assert one == two[:1]
                assert two[0] != two[1] or name == "SNC mean"
                mean = of(results, "2 splits")[name]
                assert list(mean.details["per_factor"].values()) == pytest.approx(np.mean(two, 0))
                assert mean.score == pytest.approx(np.mean(two))

    def test_both_lies_between_its_bounds(self, references: dict[str, list[Result]]) -> None:
        for results in references.values():
            for test_set in (SETS[0], SETS[2]):
                values = of(results, test_set)
                for head, name in BOTH.items():
                    each = values[MEANS[head]].details["per_factor"]
                    a, b = each["scale"], each["shape"]
                    assert a + b - 1 - 1e-9 <= score(values, name) <= min(a, b) + 1e-9


class TestHeads:
    @pytest.fixture
    def encoded(self, tmp_path: Path) -> EncodedCorpus:
        model = Oracle()
        return EncodedCorpus(ResultFolder(tmp_path), Corpus("dsprites", 400), model, dict(model.identity))

    def test_rows(self, encoded: EncodedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
        """Heads see the other rows only, and all of them."""
        factors = encoded.corpus.factors(encoded.folder)
        seen: list[tuple[np.ndarray, np.ndarray]] = []

        def record(codes: np.ndarray, classes: np.ndarray, new: np.ndarray) -> np.ndarray:
            seen.append((classes, new))
            return classes[: len(new)]

        monkeypatch.setattr(accuracies, "single_neuron_predictions", record)
        read_factors(encoded, 3, QUICK)
        read_factors(encoded, Pair(2, 1), QUICK)
        fit, test = split_rows(400, 1 / 3, seed=3)
        assert np.array_equal(seen[0][0], factors[fit])
        assert np.array_equal(seen[0][1], encoded.codes().values[test])
        names = encoded.corpus.factor_names
        shown = (factors[:, names.index("scale")] == 2) & (factors[:, names.index("shape")] == 1)
        assert np.array_equal(seen[1][0], factors[~shown])
        assert len(seen[1][1]) == shown.sum() > 0

    def test_splits_differ(self, encoded: EncodedCorpus) -> None:
        sets = [set(split_rows(400, 1 / 3, seed=seed)[1].tolist()) for seed in range(5)]
        assert all(a != b for a, b in pairwise(sets))
        values = accuracy_values(encoded, range(3), QUICK)
        found = values["MLP mean"]
        assert found.interval is not None
        assert found.interval.method == "Student's t over test sets"
        spread = np.std([np.mean(each) for each in found.details["per test set"]], ddof=1)
        assert (found.interval.high - found.interval.low) / 2 == pytest.approx(4.302653 * spread / 3**0.5)

    def test_a_pair_that_no_image_shows(self, encoded: EncodedCorpus) -> None:
        few = EncodedCorpus(encoded.folder, Corpus("dsprites", 12), encoded.model, encoded.identity)
        names, factors = few.corpus.factor_names, few.corpus.factors(few.folder)
        shown = set(zip(factors[:, names.index("scale")], factors[:, names.index("shape")], strict=True))
        pair = next(Pair(size, shape) for size in range(6) for shape in range(3) if (size, shape) not in shown)
        values = accuracy_values(few, [pair], QUICK)
        assert "knockout mean" not in values
        assert all("more images are needed" in str(value.reason) for value in values.values())

    def test_long_codes(self, tmp_path: Path) -> None:
        model = Pixels(size=16)
        encoded = EncodedCorpus(ResultFolder(tmp_path), Corpus("dsprites", 300), model, dict(model.identity))
        one, two = (accuracy_values(encoded, range(count), QUICK, any_length=False) for count in (1, 2))
        assert LONG < 768
        assert {name for name, value in one.items() if value.score is None} == {"knockout mean"}
        assert all("768 neurons unless" in str(value.reason) for value in (*two.values(), one["knockout mean"]))
        asked = accuracy_values(encoded, range(1), QUICK)
        assert all(value.score is not None for value in asked.values())

    def test_by_name(self, tmp_path: Path) -> None:
        folder = ResultFolder(tmp_path)
        jobs = study.jobs(folder, Request(size="tiny", models=("oracle",), metrics=("mlp both",)))
        assert [job.cell.labels["test_set"] for job in jobs] == list(SETS)
        keys = {job.cell.key for job in study.jobs(folder, Request(size="tiny", models=("oracle",)))}
        assert not {job.cell.key for job in jobs} & keys
