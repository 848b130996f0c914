"""Correlations of metrics with generalisation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alebrije.instruments.neurons.correlation import CORRELATION, correlation, correlation_jobs
from alebrije.instruments.neurons.generalisation import (
    ACCURACY,
)
from alebrije.results import Cell, Result, Value


class TestCorrelation:
    def made_up(self, seeds: int = 2, general: int = 2) -> tuple[list[Result], dict[str, list[tuple[float, float]]]]:
        draw, results, points = np.random.default_rng(0), [], {"dsprites": [], "rooms": []}  # type: ignore[var-annotated]
        for world in points:
            for model in ("a", "b", "c", "oracle"):
                for seed in range(seeds):
                    labels = {"size": "small", "world": world, "model": model, "seed": seed}
                    identity = {"reference": "oracle"} if model == "oracle" else {"plan": f"{model}{seed}"}
                    mig, snc, accuracy = draw.random(3)
                    per_factor = {"shape": snc, "scale": 0.5, "orientation": 0.1}
                    values = {"MIG": Value(score=mig), "SNC": Value(score=0.3, details={"per_factor": per_factor})}
                    inputs = {"subject": identity, "world": world}
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
        found = {(job.cell.labels["predictor"], job.cell.labels["scope"]): job for job in correlation_jobs(results)}
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
        assert {predictor for predictor, _ in found} == {"MIG", "SNC", "SNC of all factors"}

    def test_its_inputs_are_the_cells_it_is_computed_from(self) -> None:
        results, _ = self.made_up()
        (job,) = [
            job for job in correlation_jobs(results)
            if (job.cell.labels["predictor"], job.cell.labels["scope"]) == ("MIG", "rooms")
        ]  # fmt: skip
        inside = {r.key for r in results if r.cell.labels["world"] == "rooms" and r.cell.labels["model"] != "oracle"}
        assert set(job.cell.inputs["cells"]) == inside

    def test_means_if_seeds_differ(self) -> None:
        results, _ = self.made_up(seeds=3, general=1)
        jobs = [job for job in correlation_jobs(results) if job.cell.labels["predictor"] == "MIG"]
        value = jobs[-1].work()[CORRELATION]
        assert isinstance(value, Value)
        assert len(value.details["points"]) == 6
        mine = [
            result.values["MIG"].score for result in results
            if "MIG" in result.values and (result.cell.labels["world"], result.cell.labels["model"]) == ("rooms", "b")
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
        assert correlation_jobs([result for results in references.values() for result in results]) == []
