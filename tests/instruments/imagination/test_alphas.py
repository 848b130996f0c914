"""Values over several alphas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from alebrije.instruments.imagination.alphas import alpha_jobs
from alebrije.results import Cell, Result, Value
from alebrije.results.cells import Label


def _result(model: str, alpha: float, error: float, seed: int = 0) -> Result:
    labels: dict[str, Label] = {
        "size": "tiny",
        "world": "sprites",
        "rule": "S-A",
        "alpha": alpha,
        "seed": seed,
        "model": model,
    }
    cell = Cell(study="imagination", labels=labels, inputs={"test": [model, alpha, seed]})
    return Result.done(cell, {"out-of-distribution error": error, "gap": math.log(error)}, seconds=0)


def test_alpha_efficiency() -> None:
    oracle = [_result("oracle", alpha, 1.0) for alpha in (0.0, 0.2, 0.4, 0.6)]
    model = [_result("i2i-cnn", alpha, error) for alpha, error in ((0.0, 9.0), (0.2, 5.0), (0.4, 1.6), (0.6, 1.1))]
    again = [_result("i2i-cnn", alpha, error, 1) for alpha, error in ((0.0, 9.0), (0.2, 5.0), (0.4, 1.2), (0.6, 1.1))]
    made = {
        str(job.cell.labels["model"]): job for job in alpha_jobs([*oracle, *model, *again, _result("noise", 0.6, 9.0)])
    }
    assert set(made) == {"oracle", "i2i-cnn"}
    found = made["i2i-cnn"].work()
    efficiency, gap = found["alpha-efficiency"], found["mean gap"]
    assert isinstance(efficiency, Value)
    assert isinstance(gap, Value)
    assert efficiency.score == 0.4  # 1.4 over both seeds, at most 1.5 times the Oracle's 1
    assert gap.score == pytest.approx(np.mean([math.log(9), math.log(5), math.log(1.6 * 1.2) / 2, math.log(1.1)]))
    assert set(made["i2i-cnn"].cell.inputs["cells"]) == {result.key for result in (*model, *again)}
    assert "alpha" not in made["i2i-cnn"].cell.labels
    of_oracle = made["oracle"].work()["alpha-efficiency"]
    assert isinstance(of_oracle, Value)
    assert of_oracle.score is None


def test_trained_encoders_are_compared_with_the_oracle() -> None:
    def at(model: str, alpha: float, **more: Any) -> Result:
        result = _result(model, alpha, 1.0)
        labels = {**result.cell.labels, **more}
        return result.model_copy(update={"cell": result.cell.model_copy(update={"labels": labels})})

    results = [at("oracle", alpha) for alpha in (0.2, 0.6)]
    results += [at("ae", alpha, encoder_saw="all combinations") for alpha in (0.2, 0.6)]
    (job,) = [job for job in alpha_jobs(results) if job.cell.labels["model"] == "ae"]
    found = job.work()["alpha-efficiency"]
    assert isinstance(found, Value)
    assert found.score == 0.2


def test_alpha_efficiency_needs_an_oracle() -> None:
    (job,) = alpha_jobs([_result("pixels", 0.2, 2.0), _result("pixels", 0.6, 1.0)])
    found = job.work()["alpha-efficiency"]
    assert isinstance(found, Value)
    assert "Oracle" in str(found.reason)
    assert alpha_jobs([_result("pixels", 0.6, 1.0)]) == []
