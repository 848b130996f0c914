"""Verdicts: chance, means over settings, and words that all instruments share."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije.report.findings import read_findings
from alebrije.report.page import in_words
from alebrije.report.verdict import (
    CHANCE_RULE,
    MARGIN,
    SIGNS,
    Verdict,
    at_chance,
    listed,
    means_over,
    no_better_than_chance,
    no_verdict,
    over_settings,
)
from alebrije.results import Estimate
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import put


def sure(value: float, half: float = 0.01) -> Estimate:
    """An estimate with a narrow interval."""
    return Estimate(value, low=value - half, high=value + half)


def test_chance_is_an_interval_that_contains_it_or_a_score_close_above_it() -> None:
    assert at_chance(Estimate(0.3, low=-0.01, high=0.6))
    assert not at_chance(Estimate(0.3, low=0.01, high=0.6))
    assert at_chance(sure(0.05)), "at most the margin above chance"
    assert not at_chance(sure(0.06))
    assert at_chance(Estimate(-0.4, low=-0.5, high=-0.3)), "worse than chance is no better"
    assert at_chance(Estimate(None))
    assert at_chance(sure(0.24), chance=0.2)
    assert not at_chance(sure(0.26), chance=0.2)


def test_sentences_about_chance() -> None:
    def sentence(score: Estimate) -> str:
        verdict = no_better_than_chance("No", "Unclear", score, "score", " And more.")
        assert verdict.mark == ("unclear" if verdict.text.startswith("Unclear") else "chance")
        return verdict.text.removesuffix(". And more.")

    assert sentence(sure(0.0)) == "No: no better than chance (score, 95 % interval -0.01 to 0.01)"
    assert sentence(sure(0.04)) == "No: at most 0.05 better than chance (score, 95 % interval 0.03 to 0.05)"
    wide = Estimate(0.53, low=-0.05, high=1.1)
    assert sentence(wide) == "Unclear: not significantly better than chance (score, 95 % interval -0.05 to 1.10)"
    assert sentence(Estimate(0.0)) == "No: no better than chance (score)"


def test_a_verdict_that_is_missing_says_why() -> None:
    assert no_verdict("SNC", about=" on it").text == "No verdict on it: it needs SNC, which was not requested."
    assert no_verdict("SNC", "the model has no neurons") == Verdict("none", "No verdict: the model has no neurons.")


def test_the_mean_over_settings_has_an_interval_if_each_has_one() -> None:
    assert over_settings([sure(0.5), Estimate(None)]) == sure(0.5)
    several = over_settings([sure(0.5), Estimate(0.7)])
    assert several is not None
    assert (several.value, several.low, several.n) == (0.6, None, None)  # n would count seeds
    both = over_settings([Estimate(0.4, low=0.1, high=0.7), Estimate(0.6, low=0.2, high=1.0)])
    assert both is not None
    assert (both.value, both.low, both.high) == pytest.approx((0.5, 0.25, 0.75))
    assert over_settings([]) is None
    assert (means_over(1), means_over(3, "; more")) == ("", " Means over 3 settings; more.")


def test_marks_do_not_depend_on_colour() -> None:
    signs = [sign for sign, _ in SIGNS.values()]
    assert len(set(signs)) == len(signs)


def test_the_rule_names_the_margin() -> None:
    assert f"{MARGIN:g}" in CHANCE_RULE


def test_lists_in_words() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_no_line_break_before_a_percent_sign(tmp_path: Path) -> None:
    verdict = Verdict("good", "word " * 12 + "and 79 % of all, " * 30)
    put(ResultFolder(tmp_path), "neurons", {"model": "model"}, {"SNC": 0.5})
    text = in_words(read_findings(ResultFolder(tmp_path)), {"model": {"neurons": verdict}})
    assert " 79 %" in text
    assert not any(line.strip().startswith("%") for line in text.splitlines())
    assert "79 %" not in verdict.unbroken
    assert verdict.unbroken.split() == verdict.text.split()  # split() treats a no-break space as a space
