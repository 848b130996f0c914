"""The verdict on grouping at its thresholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije.instruments.grouping.verdict import APART, ARI_FAIR, ARI_GOOD, RULE, judge
from alebrije.report.findings import Finding, read_findings
from alebrije.report.verdict import Verdict
from alebrije.results import Value
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import groupings, put, value


def findings(path: Path, model: str = "mine") -> list[Finding]:
    return read_findings(ResultFolder(path)).of("grouping", model)


def store(path: Path, ari: float, precision: float, recall: float, half: float = 0.01, **labels: object) -> None:
    scores = {"fg-ari": ari, "fg-arp": precision, "fg-arr": recall}
    values = {name: value(score, half) for name, score in scores.items()}
    put(ResultFolder(path), "grouping", {"model": "mine", **labels}, values)


@pytest.mark.parametrize(
    ("ari", "precision", "recall", "mark", "words"),
    [
        (0.8, 0.82, 0.78, "good", "It groups pixels into objects (FG-ARI 0.80). Neither too fine nor too coarse"),
        (0.79, 0.97, 0.6, "partly", "Too fine: objects are split (precision 0.97, recall 0.60)"),
        (0.6, 0.5, 0.9, "partly", "Too coarse: objects are merged (precision 0.50, recall 0.90)"),
        (0.09, 0.11, 0.11, "partly", "It partly groups pixels into objects (FG-ARI 0.09)."),
        (0.01, 0.5, 0.0, "chance", "Its groups are unrelated to objects: no better than chance (FG-ARI 0.01"),
    ],
)
def test_groups_are_too_fine_or_too_coarse(
    tmp_path: Path, ari: float, precision: float, recall: float, mark: str, words: str
) -> None:
    store(tmp_path, ari, precision, recall)
    verdict = judge(findings(tmp_path))
    assert verdict.mark == mark
    assert words in verdict.text
    assert ari >= ARI_FAIR or "Neither" not in verdict.text


def test_a_wide_interval_is_unclear(tmp_path: Path) -> None:
    store(tmp_path, 0.4, 0.4, 0.4, half=0.6)
    verdict = judge(findings(tmp_path))
    assert verdict.mark == "unclear"
    assert "It is unclear whether its groups are objects: not significantly better than chance" in verdict.text


def test_a_model_without_masks_has_no_verdict(tmp_path: Path) -> None:
    put(ResultFolder(tmp_path), "grouping", {"model": "mine"}, {"fg-ari": Value(score=None, reason="it has no masks")})
    assert judge(findings(tmp_path)) == Verdict("none", "No verdict: it has no masks.")


def test_the_best_of_several_settings_is_named(tmp_path: Path) -> None:
    for slots, ari in ((3, 0.3), (5, 0.8), (7, 0.4)):
        store(tmp_path, ari, ari, ari, train_slots=slots, test_slots=slots)
    text = judge(findings(tmp_path)).text
    assert "Means over 3 settings; the best is train slots 5 with FG-ARI 0.80." in text


def test_only_cells_tested_as_trained_count(tmp_path: Path) -> None:
    groupings(ResultFolder(tmp_path), {"slot-attention": 0.8, "noise": 0.5}, 32)
    assert "Test slots: 3, 5 and 7, as in training." in judge(findings(tmp_path, "slot-attention")).text
    assert "slots" not in judge(findings(tmp_path, "noise")).text


def test_the_rule_names_the_thresholds() -> None:
    assert all(f"{threshold:g}" in RULE for threshold in (ARI_GOOD, ARI_FAIR, APART))
