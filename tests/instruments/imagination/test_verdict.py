"""The verdict at and beside its thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alebrije.instruments.imagination import INSTRUMENT
from alebrije.instruments.imagination.section import section
from alebrije.instruments.imagination.verdict import (
    FACTOR_RIGHT,
    RULE,
    FactorAccuracy,
    ImaginationScores,
    judge,
    verdict_on,
)
from alebrije.report.findings import Findings, read_findings
from alebrije.results import Cell, Estimate, Result, Value
from alebrije.results.cells import Label
from alebrije.studies.folder import ResultFolder


def sure(value: float) -> Estimate:
    return Estimate(value, low=value - 0.01, high=value + 0.01)


def findings_of(path: Path, *cells: tuple[dict[str, Label], dict[str, Value | float]]) -> Findings:
    """Findings of cells with these labels and values."""
    folder = ResultFolder(path)
    for labels, values in cells:
        cell = Cell(study="imagination", labels=labels, inputs={"labels": labels})
        folder.store.put(Result.done(cell, values, seconds=0))
    return read_findings(folder)


def test_right_and_wrong_factors_are_named() -> None:
    factors = {
        "color": FactorAccuracy(sure(0.98), sure(0.99)),
        "size": FactorAccuracy(sure(0.97)),
        "shape": FactorAccuracy(sure(0.41), sure(0.95)),
        "material": FactorAccuracy(sure(0.7), sure(0.96)),
    }
    verdict = verdict_on(ImaginationScores(sure(0.6), factors, FactorAccuracy(sure(0.76), sure(0.97))))
    assert verdict.mark == "partly"
    assert verdict.text == (
        "It partly imagines new combinations (skill 0.60; 76 % of the factors are right on new combinations, 97 % on "
        "seen ones). Color and size are right (97 to 98 %), material is partly right (70 % on new, 96 % on seen), "
        "shape is wrong on new combinations (41 % on new, 95 % on seen)."
    )


@pytest.mark.parametrize(
    ("skill", "accuracy", "mark"),
    [
        (0.9, 0.9, "good"),
        (0.9, 0.89, "partly"),
        (0.0, 0.95, "chance"),
        (0.5, None, "good"),
        (0.49, None, "partly"),
        (-3.0, None, "chance"),
    ],
)
def test_marks_at_the_thresholds(skill: float, accuracy: float | None, mark: str) -> None:
    overall = None if accuracy is None else FactorAccuracy(sure(accuracy))
    verdict = verdict_on(ImaginationScores(sure(skill), overall=overall))
    assert verdict.mark == mark
    if mark == "chance":
        assert "no better than the best constant image" in verdict.text


def test_an_uncertain_skill_is_called_unclear() -> None:
    verdict = verdict_on(ImaginationScores(Estimate(0.53, low=-0.05, high=1.1)))
    assert verdict.word == "unclear", "skill 0.53 is not chance"
    assert "unclear whether it imagines new combinations: not significantly better than the best" in verdict.text


def test_novelty_is_not_the_cause_of_factors_wrong_on_seen_combinations() -> None:
    factors = {
        "shape": FactorAccuracy(sure(0.27), sure(0.3)),
        "size": FactorAccuracy(sure(0.4), sure(0.9)),
    }
    text = verdict_on(ImaginationScores(sure(0.5), factors)).text
    assert "Size is wrong on new combinations (40 % on new, 90 % on seen)." in text
    also = "Shape is also wrong on seen combinations, so novelty is not the cause (27 % on new, 30 % on seen)."
    assert also in text


def test_a_model_wrong_on_seen_combinations_does_not_partly_imagine() -> None:
    factors = {name: FactorAccuracy(sure(0.3), sure(0.4)) for name in ("shape", "size")}
    verdict = verdict_on(ImaginationScores(sure(0.5), factors))
    assert verdict.mark == "partly"
    assert verdict.text.startswith("It predicts part of the image but not the factors, on new and on seen")


def test_accuracies_are_relative_to_true_images() -> None:
    overall = FactorAccuracy(sure(0.75), sure(0.78), sure(0.8))
    verdict = verdict_on(ImaginationScores(sure(0.9), {"shape": FactorAccuracy(sure(0.55), None, sure(0.6))}, overall))
    assert verdict.mark == "good"
    assert "; 80 % can be read from true images" in verdict.text
    assert "Shape is right (55 %)" in verdict.text


def test_without_scores_there_is_no_verdict(tmp_path: Path) -> None:
    assert verdict_on(ImaginationScores()).text == "No verdict: it needs skill, which was not requested."
    null = Value(score=None, reason="the codes are NaN")
    findings = findings_of(tmp_path, ({"model": "a"}, {"skill": null, "out-of-distribution error": null}))
    verdict = judge(findings.of("imagination"))
    assert (verdict.mark, verdict.text) == ("none", "No verdict: the codes are NaN.")


def test_factor_accuracy_alone_is_enough(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, ({"model": "a"}, {"factor accuracy": 0.95}))
    verdict = judge(findings.of("imagination"))
    assert (verdict.mark, verdict.text) == ("good", "It imagines new combinations (95 % of the factors are right).")


def test_a_model_may_be_no_better_than_the_unchanged_source(tmp_path: Path) -> None:
    values: dict[str, Any] = {"out-of-distribution error": 86.6, "error of an unchanged image": 55.4, "skill": 0.64}
    verdict = judge(findings_of(tmp_path, ({"model": "a"}, values)).of("imagination"))
    assert verdict.word == "no better than the unchanged source image", "skill 0.64 is not chance"
    assert "Its error is larger than that of the unchanged source image: 86.6 against 55.4." in verdict.text


def test_the_training_of_encoders_is_named(tmp_path: Path) -> None:
    saw = {"all": "all combinations", "other": "training combinations of alpha 0.2", "own": "training combinations"}
    cells = []
    for model in (*saw, "user", "pixels"):
        labels: dict[str, Label] = {"model": model, "alpha": 0.6, "drawn_by": "head"}
        labels |= {"encoder_saw": saw[model]} if model in saw else {}
        cells.append((labels, {"out-of-distribution error": Value(score=3.0), "skill": Value(score=0.9)}))
    findings = findings_of(tmp_path, *cells)  # type: ignore[arg-type]
    texts = {model: judge(findings.of("imagination", model)).text for model in findings.models}
    assert "The encoder was trained on these combinations; only the head was not." in texts["all"]
    assert "The encoder was trained at another alpha than the test (0.2)." in texts["other"]
    assert all("ncoder" not in texts[model] for model in ("own", "user", "pixels"))
    remark = section(findings).remarks[1]
    listed = "all combinations (all); training combinations of alpha 0.2 (other); training combinations (own)"
    assert f"{listed}; unknown (user)." in remark


def test_the_rule_names_its_thresholds() -> None:
    assert f"{FACTOR_RIGHT:.0%}" in RULE
    assert "unchanged source image" in RULE
    assert INSTRUMENT.rule == RULE
