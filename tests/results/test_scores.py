"""The JSON of `alebrije score`: strict, validated, and kept small."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from alebrije.results import SCHEMA_VERSION, MetricResult, Scores
from alebrije.results.scores import LONGEST, InputDescription, IntervalResult, details
from tests.results.examples import strict_json


@dataclass(frozen=True)
class Inner:
    values: Any


@dataclass(frozen=True)
class Answer:
    score: float
    reason: str | None
    settings: dict[str, Any]
    short: Any
    long: Any
    tests: dict[str, Any]


def test_details_keep_what_is_short_and_name_what_is_not() -> None:
    answer = Answer(1.0, None, {"bins": 20}, np.zeros((LONGEST // 2, 2)), np.zeros(LONGEST + 1), {"drop": Inner(1.0)})
    kept, left_out = details(answer)
    assert set(kept) == {"short", "tests"}
    assert np.shape(kept["short"]) == (LONGEST // 2, 2)
    assert kept["tests"] == {"drop": {"values": 1.0}}
    assert left_out == ["long"]


def example_scores(**changes: Any) -> Scores:
    result = MetricResult(
        metric="mig",
        title="Mutual information gap",
        version=1,
        instrument="neurons",
        range=(0.0, None),
        direction="higher",
        cites="Chen et al. 2018",
        score=0.25,
        interval=IntervalResult(low=0.2, high=0.3, method="percentiles", resamples=1000, seed=0),
        settings={"bins": 20, "ignore": None},
        details={"per_factor": {"größe": 0.25, "color": None}, "information": [[0.1, 0.2]]},
        left_out=["drops"],
        seconds=0.125,
    )
    described = InputDescription(file="x.npz", sha256="0" * 64, arrays={"codes": "float64 [3, 2]"})
    return Scores(library_version="0.1.0", input=described, results=[result.model_copy(update=changes)])


class TestScores:
    def test_round_trip(self) -> None:
        scores = example_scores()
        assert Scores.model_validate_json(scores.to_json()) == scores
        assert Scores.model_validate_json(scores.to_json()).to_json() == scores.to_json()

    def test_says_which_schema(self) -> None:
        content = strict_json(example_scores().to_json())
        assert content["schema_version"] == SCHEMA_VERSION
        assert list(content) == ["schema_version", "library_version", "input", "results"]
        assert example_scores().to_json().endswith("}\n")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_is_strict_json_even_if_a_number_slipped_through(self, value: float) -> None:
        endless = IntervalResult(low=value, high=value, method="m", resamples=2, seed=0)
        scores = example_scores(score=value, interval=endless, settings={"x": value}, details={"y": [[value]]})
        result = strict_json(scores.to_json())["results"][0]
        assert result["score"] is None
        assert result["interval"]["low"] is None
        assert result["settings"] == {"x": None}
        assert result["details"] == {"y": [[None]]}

    @pytest.mark.parametrize(
        "path",
        [(), ("input",), ("results", 0), ("results", 0, "interval")],
        ids=["top", "input", "result", "interval"],
    )
    def test_extra_keys_are_refused(self, path: tuple[str | int, ...]) -> None:
        content = strict_json(example_scores().to_json())
        part = content
        for step in path:
            part = part[step]
        part["surprise"] = 1
        with pytest.raises(ValidationError, match="surprise"):
            Scores.model_validate_json(json.dumps(content))

    @pytest.mark.parametrize("field", ["input", "results", "library_version"])
    def test_missing_keys_are_refused(self, field: str) -> None:
        content = strict_json(example_scores().to_json())
        del content[field]
        with pytest.raises(ValidationError, match=field):
            Scores.model_validate_json(json.dumps(content))

    def test_cannot_be_changed(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            example_scores().results[0].score = 1.0
