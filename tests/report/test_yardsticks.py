"""A model beside its yardsticks: what is compared, and how a verdict is lowered."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije import instruments
from alebrije.report.findings import Findings, read_findings
from alebrije.report.thresholds import THRESHOLDS
from alebrije.report.verdict import Verdict
from alebrije.report.yardsticks import Comparison, Lacking, compare_with_yardsticks, judge_beside
from alebrije.results import Estimate, Value
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import put, put_twins, value

SHARED = {"world": "clevr6", "size": "small"}


def findings(
    path: Path, score: float, twins: tuple[float, ...] = (0.1, 0.12, 0.08), pixels: float | None = 0.3
) -> Findings:
    """A model with this FG-ARI, its twins and pixels."""
    folder = ResultFolder(path)
    put(folder, "grouping", {"model": "mine", **SHARED}, {"fg-ari": value(score, 0.01)})
    if twins:
        put_twins(folder, "grouping", {"model": "mine", **SHARED}, "fg-ari", twins)
    if pixels is not None:
        put(folder, "grouping", {"model": "pixels", **SHARED}, {"fg-ari": value(pixels, 0.01)})
    return read_findings(folder)


def word(path: Path, *arguments: object) -> str:
    return instruments.verdicts(findings(path, *arguments))["mine"]["grouping"].word  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("score", "twins", "pixels", "expected"),
    [
        (0.9, (0.1, 0.12, 0.08), 0.3, "good"),
        (0.5, (0.1, 0.12, 0.08), 0.3, "partly"),
        (0.5, (0.1, 0.12, 0.08), 0.47, "no better than pixels"),
        (0.15, (0.1, 0.12, 0.08), 0.3, "no better than its untrained twin"),
        (0.5, (0.5, 0.1, 0.1), 0.1, "no better than its untrained twin"),  # one of three twins is as good
        (0.9, (0.1, 0.12, 0.08), 0.82, "partly"),  # good, but not clearly better than pixels
        (0.99, (0.1, 0.12, 0.08), 0.97, "good"),  # two thirds of what pixels lack
        (0.03, (0.1, 0.12, 0.08), 0.3, "chance"),
    ],
)
def test_a_verdict_is_lowered_to_what_the_yardsticks_allow(
    tmp_path: Path, score: float, twins: tuple[float, ...], pixels: float, expected: str
) -> None:
    assert word(tmp_path, score, twins, pixels) == expected


def test_a_difference_that_is_sure_but_too_small_is_explained(tmp_path: Path) -> None:
    found = instruments.verdicts(findings(tmp_path, 0.33, (0.30, 0.30, 0.30), 0.1))["mine"]["grouping"]
    assert found.word == "no better than its untrained twin"
    assert "difference +0.03, 95 % interval +0.02 to +0.04" in found.text
    assert found.text.endswith("It is better than its untrained twin, but by too little to count.")


def test_every_verdict_at_tiny_is_a_try_out(tmp_path: Path) -> None:
    folder, labels = ResultFolder(tmp_path), {"world": "clevr6", "size": "tiny"}
    for model, score, half in (("good", 0.9, 0.01), ("chance", 0.0, 0.01), ("wide", 0.5, 0.6), ("pixels", 0.3, 0.01)):
        put(folder, "grouping", {"model": model, **labels}, {"fg-ari": value(score, half)})
        put_twins(folder, "grouping", {"model": model, **labels}, "fg-ari", (0.1, 0.12, 0.08))
    words = {model: each["grouping"].word for model, each in instruments.verdicts(read_findings(folder)).items()}
    assert words == {
        "good": "good (try-out)",
        "chance": "chance (try-out)",
        "wide": "unclear (try-out)",
        "pixels": "yardstick (try-out)",
    }


def test_the_interval_covers_cases_and_a_new_draw_of_the_weights(tmp_path: Path) -> None:
    found = findings(tmp_path, 0.5, (0.1, 0.2, 0.3), 0.3)
    twin, pixels = compare_with_yardsticks(found, found.of("grouping", "mine"), "fg-ari")
    assert isinstance(twin, Comparison)
    assert isinstance(pixels, Comparison)
    # t(2) = 4.303, standard deviation 0.1, one more draw: sqrt(1 + 1/3); half-widths over cases of 0.01 on both sides
    half = ((4.3027 * 0.1 * (4 / 3) ** 0.5) ** 2 + 2 * 0.01**2) ** 0.5
    assert (twin.score.value, twin.difference.value, twin.seeds) == (pytest.approx(0.2), pytest.approx(0.3), 3)
    assert twin.difference.low == pytest.approx(0.3 - half, abs=1e-3)
    assert pixels.difference.low == pytest.approx(0.2 - 0.01 * 2**0.5)


def test_twins_are_no_models_and_their_cells_are_no_results_of_the_model(tmp_path: Path) -> None:
    found = findings(tmp_path, 0.5)
    assert found.models == ("mine", "pixels")
    assert len(found.twins) == 1
    assert {result.cell.labels["seed"] for result in found.twins[0].results} == {0, 1, 2}


def test_the_twin_of_another_architecture_is_not_compared(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    put(folder, "grouping", {"model": "pixels", **SHARED}, {"fg-ari": value(0.1, 0.01)})
    put(folder, "grouping", {"model": "mine", **SHARED}, {"fg-ari": value(0.9, 0.01)})
    put_twins(folder, "grouping", {"model": "mine", **SHARED}, "fg-ari", of="another")
    verdict = instruments.verdicts(read_findings(folder))["mine"]["grouping"]
    assert verdict.mark == "none"
    assert "No verdict: its untrained twin was not computed; the same command computes it." in verdict.text


def test_settings_are_matched(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    for alpha, mine, pixels in ((0.2, 0.5, 0.1), (0.6, 0.9, 0.7)):
        labels = {"world": "sprites", "rule": "S-A", "alpha": alpha}
        put(folder, "imagination", {"model": "mine", **labels, "drawn_by": "itself"}, {"skill": value(mine, 0.01)})
        put(folder, "imagination", {"model": "pixels", **labels, "drawn_by": "head"}, {"skill": value(pixels, 0.01)})
    found = read_findings(folder)
    twin, beside = compare_with_yardsticks(found, found.of("imagination", "mine"), "skill")
    assert twin == Lacking("its untrained twin")
    assert isinstance(beside, Comparison)
    assert (beside.score.value, beside.difference.value) == (pytest.approx(0.4), pytest.approx(0.3))


def test_variants_of_a_model_have_twins_of_their_own(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    for inputs, score, twin in ((1, 0.5, 0.1), (2, 0.6, 0.4)):
        labels = {"model": "mine", "inputs": inputs, **SHARED}
        put(folder, "grouping", labels, {"fg-ari": value(score, 0.01)})
        put_twins(folder, "grouping", labels, "fg-ari", (twin, twin, twin))
    found = read_findings(folder)
    for own in found.of("grouping", "mine"):
        beside = compare_with_yardsticks(found, [own], "fg-ari")[0]
        assert isinstance(beside, Comparison)
        assert beside.score.value == pytest.approx({1: 0.1, 2: 0.4}[own.get("inputs")])


def test_a_yardstick_without_a_score_says_why(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    put(folder, "grouping", {"model": "mine", **SHARED}, {"fg-ari": value(0.9, 0.01)})
    put(folder, "grouping", {"model": "pixels", **SHARED}, {"fg-ari": value(0.1, 0.01)})
    subject = {"untrained": "a twin", "of": {"encoder": "mine"}, "seed": 0}
    null = {"fg-ari": Value(score=None, reason="some codes are NaN")}
    put(folder, "grouping", {"model": "untrained twin of mine", **SHARED}, null, subject=subject)
    verdict = instruments.verdicts(read_findings(folder))["mine"]["grouping"]
    assert verdict.mark == "good"
    assert "Its untrained twin has no score: some codes are NaN." in verdict.text


def test_references_have_no_twin_and_pixels_are_the_yardstick(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    for model, score in (("oracle", 1.0), ("pixels", 0.5), ("noise", 0.0)):
        put(folder, "grouping", {"model": model, **SHARED}, {"fg-ari": value(score, 0.01)})
    found = instruments.verdicts(read_findings(folder))
    assert {model: verdicts["grouping"].word for model, verdicts in found.items()} == {
        "oracle": "good",
        "pixels": "yardstick",
        "noise": "chance",
    }


def test_no_words_but_those_of_the_rules() -> None:
    below = [Comparison("pixels", Estimate(0.5), Estimate(0.0, low=-0.1, high=0.1))]
    for mark in ("chance", "none", "failed"):
        verdict = Verdict(mark, "text")  # type: ignore[arg-type]
        assert judge_beside(verdict, below, "mine") == verdict
    assert judge_beside(Verdict("good", "text"), below, "mine").word == "no better than pixels"


def test_the_table_of_the_report_shows_differences_with_intervals(tmp_path: Path) -> None:
    section = instruments.sections_of(findings(tmp_path, 0.5))[0]
    table = next(table for table in section.front if table.title == "Beside the yardsticks")
    rows = [[entry.text for entry in row] for row in table.rows]
    assert rows == [
        ["mine", "0.50", "its untrained twin", "0.10", "+0.40"],
        ["mine", "0.50", "pixels", "0.30", "+0.20"],
    ]
    assert table.rows[0][3].small[-2:] == ("same architecture, re-initialised weights", "3 seeds")
    assert table.rows[1][4].small == ("+0.19 to +0.21",)


def test_each_threshold_says_what_it_decides_and_why() -> None:
    assert all(one.decides.endswith(".") and one.why.endswith(".") for one in THRESHOLDS.values())
