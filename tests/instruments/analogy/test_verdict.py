"""The verdict on analogy, at and beside its thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from alebrije.instruments.analogy.verdict import CorpusScore, judge, judge_scores
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.report.findings import Finding
from alebrije.results import Cell, Estimate, Result, Value

PASSED = dict.fromkeys(HARD_NEGATIVES, True)


def sure(value: float, half: float = 0.01) -> Estimate:
    return Estimate(value, low=value - half, high=value + half)


def finding(*scores: float | None, passed: Sequence[bool] = (), **labels: Any) -> Finding:
    """A finding with one score per seed, and whether each seed passes the negative `drop`."""
    results = []
    for seed, score in enumerate(scores):
        tests = {"drop": {"p_hat": 0.9, "passed": passed[seed]}} if passed else {}
        value = Value(score=score, reason="a reason" if score is None else None, details={"tests": tests})
        results.append(Result.done(Cell(study="analogy", inputs={"seed": seed}), {"coat": value}, seconds=0.0))
    return Finding("analogy", "model", labels, tuple(results))


@pytest.mark.parametrize(
    ("coat", "failed", "mark", "words"),
    [
        (0.77, (), "good", "Its codes add up under occlusion (COAT 0.77, passes all seven hard negatives)."),
        (0.5, (), "good", "COAT 0.50"),
        (0.49, (), "partly", "partly add up under occlusion (COAT 0.49, below 0.5, passes all seven hard negatives)"),
        (0.77, ("drop", "size"), "partly", "fails the hard negatives drop and size under occlusion, so its score"),
        (0.77, ("pixel",), "partly", "fails the hard negative pixel under occlusion"),
        (0.67, HARD_NEGATIVES, "below", "It fails all seven hard negatives under occlusion: whatever its score"),
        (0.0, HARD_NEGATIVES, "chance", "no better than chance (COAT 0.00, 95 % interval -0.01 to 0.01)"),
    ],
)
def test_marks_under_occlusion(coat: float, failed: Sequence[str], mark: str, words: str) -> None:
    verdict = judge_scores({"occluded": CorpusScore(sure(coat), PASSED | dict.fromkeys(failed, False))})
    assert verdict.mark == mark
    assert words in verdict.text


def test_an_interval_that_contains_chance_is_unclear() -> None:
    verdict = judge_scores({"occluded": CorpusScore(Estimate(0.3, low=-0.1, high=0.7), PASSED)})
    assert verdict.mark == "unclear"
    assert verdict.text.startswith("It is unclear whether its codes add up under occlusion: not significantly better")


def test_the_occluded_corpus_decides() -> None:
    easy, hard = CorpusScore(sure(0.97), PASSED), CorpusScore(sure(0.75), PASSED | {"pixel": False})
    verdict = judge_scores({"unoccluded": easy, "occluded": hard})
    assert verdict.mark == "partly"
    assert "Without occlusion: COAT 0.97; part of it is lost when objects occlude each other." in verdict.text
    assert judge_scores({"unoccluded": easy}).text.startswith("Its codes add up without occlusion (COAT 0.97")
    assert "lost" not in judge_scores({"occluded": easy, "unoccluded": easy}).text
    assert "fails pixel" in judge_scores({"occluded": easy, "unoccluded": hard}).text


def test_a_score_that_rounds_to_the_threshold_is_just_below_it() -> None:
    text = judge_scores({"occluded": CorpusScore(Estimate(0.498, low=0.49, high=0.51), PASSED)}).text
    assert "COAT 0.50, just below 0.5" in text


def test_without_tests_nothing_is_passed() -> None:
    assert "hard negatives" not in judge_scores({"occluded": CorpusScore(sure(0.9), {})}).text


def test_the_preferred_variant_training_set_and_checkpoint_decide() -> None:
    best, raw = "no-duplicates+no-invisible", "raw"
    labels: dict[str, Any] = {"corpus": "occluded", "train_set": "iid"}
    findings = [
        finding(0.2, variant=raw, step=1, **labels),
        finding(0.4, variant=raw, step=2, **labels),
        finding(0.6, variant=best, step=1, **labels),
        finding(0.8, variant=best, step=2, **labels),
        finding(0.9, variant=best, step=2, **{**labels, "train_set": "correlated"}),
    ]
    verdict = judge(findings)
    assert "(COAT 0.80 without duplicate and invisible slots, 0.40 with all slots)" in verdict.text
    assert "(COAT 0.40 with all slots, below 0.5)" in judge(findings[:2]).text


@pytest.mark.parametrize(("passed", "mark"), [((True, True, False), "good"), ((True, False), "below")])
def test_a_hard_negative_is_passed_if_most_seeds_pass(passed: Sequence[bool], mark: str) -> None:
    assert judge([finding(*(0.9 for _ in passed), passed=passed, corpus="occluded")]).mark == mark


def test_no_verdict_without_coat() -> None:
    assert judge([]).text == "No verdict: it needs COAT, which was not requested."
    assert judge([finding(None, corpus="occluded")]).text == "No verdict: a reason."
