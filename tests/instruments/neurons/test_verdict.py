"""The verdict on neurons: marks by thresholds, and how much of an accuracy is left on new combinations."""

from __future__ import annotations

from typing import Any

import pytest

from alebrije.instruments.neurons.generalisation import ACCURACY
from alebrije.instruments.neurons.values import SHUFFLED
from alebrije.instruments.neurons.verdict import RULE, SNC_GOOD, judge
from alebrije.report.findings import Finding
from alebrije.results import Cell, Result, ScoreInterval, Value


def value(score: float, half: float = 0.01, **details: Any) -> Value:
    interval = ScoreInterval(low=score - half, high=score + half, method="bootstrap")
    return Value(score=score, interval=interval, details=details)


def finding(values: dict[str, Value], **labels: str) -> Finding:
    cell = Cell(study="neurons", labels=labels, inputs=dict(labels))
    return Finding("neurons", "model", labels, (Result.done(cell, values, seconds=1),))


def accuracies(new: float, normal: float | None, halves: tuple[float, float] = (0.01, 0.01)) -> list[Finding]:
    found = [finding({ACCURACY: value(new, halves[0])}, setting="CG", feature="both")]
    if normal is not None:
        found.append(finding({ACCURACY: value(normal, halves[1])}, setting="normal test set", feature="both"))
    return found


@pytest.mark.parametrize(
    ("snc", "nk", "chance", "mark", "words"),
    [
        (0.9, 0.8, 0.0, "good", "Each factor is held by one neuron and by no other (SNC 0.90, NK 0.80)."),
        (0.9, 0.1, 0.0, "good", "held by one neuron, but other neurons hold it too (SNC 0.90, NK 0.10)."),
        (0.3, 0.8, 0.0, "partly", "partly hold the factors, and other neurons hardly do (SNC 0.30, NK 0.80)."),
        (0.3, 0.1, 0.0, "partly", "partly hold the factors, but other neurons hold them too (SNC 0.30, NK 0.10)."),
        (0.3, None, 0.0, "partly", "Single neurons partly hold the factors (SNC 0.30)."),
        (0.3, None, 0.27, "chance", "SNC 0.30, shuffled codes 0.27"),
        (0.02, None, 0.0, "chance", "No neuron holds a factor: at most 0.05 better than chance"),
    ],
)
def test_marks_by_threshold(snc: float, nk: float | None, chance: float, mark: str, words: str) -> None:
    values = {"SNC": value(snc, **{SHUFFLED: chance})} | ({} if nk is None else {"NK": value(nk)})
    verdict = judge([finding(values)])
    assert verdict.mark == mark
    assert words in verdict.text


@pytest.mark.parametrize(
    ("new", "normal", "words"),
    [
        (0.9, 0.95, "nearly all is kept"),
        (0.6, 0.95, "score 60 % on held-out combinations and 95 % on the normal test set, adjusted for chance: part"),
        (0.1, 0.95, "most is lost"),
        (0.0, 0.01, "read nothing: 1 % on the normal test set"),
        (0.4, None, "score 40 % on held-out combinations, adjusted for chance."),
    ],
)
def test_generalisation(new: float, normal: float | None, words: str) -> None:
    verdict = judge([finding({"SNC": value(0.9)}), *accuracies(new, normal)])
    assert verdict.mark == "good"
    assert words in verdict.text


@pytest.mark.parametrize(
    ("new", "normal", "halves", "words"),
    [
        (0.06, 0.06, (0.1, 0.1), "unclear whether heads on its codes read anything: 6 %"),
        (0.3, 0.55, (0.01, 0.65), "unclear whether heads on its codes read anything: 55 %"),
        (0.5, 0.55, (0.6, 0.01), "how much is kept is unclear"),
        (0.3, 0.33, (0.25, 0.01), "how much is kept is unclear"),
        (0.3, 0.9, (0.25, 0.01), "most is lost"),
        (0.03, 0.9, (0.01, 0.01), "what they read is lost"),
    ],
)
def test_words_about_what_is_kept_agree_with_the_intervals(
    new: float, normal: float, halves: tuple[float, float], words: str
) -> None:
    assert words in judge([finding({"SNC": value(0.9)}), *accuracies(new, normal, halves)]).text


def test_a_wide_interval_is_unclear() -> None:
    verdict = judge([finding({"SNC": value(0.4, half=0.6)})])
    assert verdict.mark == "unclear"
    assert "It is unclear whether single neurons hold factors: not significantly better than chance" in verdict.text


def test_means_over_worlds() -> None:
    verdict = judge([finding({"SNC": value(score)}, world=world) for world, score in (("a", 1.0), ("b", 0.7))])
    assert verdict.text == "Each factor is held by one neuron (SNC 0.85). Means over 2 settings."


def test_no_verdict_without_snc() -> None:
    assert judge(accuracies(0.4, None)).text.startswith("No verdict on single neurons: it needs SNC")
    null = judge([finding({"SNC": Value(score=None, reason="too few neurons")})])
    assert (null.mark, null.text) == ("none", "No verdict on single neurons: too few neurons.")


def test_the_rule_names_its_threshold() -> None:
    assert f"{SNC_GOOD:g}" in RULE
