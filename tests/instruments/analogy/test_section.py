"""The section of analogy in the report."""

from __future__ import annotations

import pytest

from alebrije.instruments.analogy.section import section
from alebrije.report.findings import read_findings
from alebrije.report.parts import Section
from alebrije.studies.folder import ResultFolder
from alebrije.studies.references import REFERENCES
from tests.instruments.analogy.running import Results


@pytest.fixture(scope="module")
def shown(references: Results, folder: ResultFolder) -> Section:
    keys = {result.key for result in references.values()}
    return section(read_findings(folder).only(keys))


def test_charts_are_drawn(shown: Section) -> None:
    assert [chart.name for chart in shown.charts] == [
        "analogy-coat",
        "analogy-coat-acos",
        "analogy-cases-coat",
        "analogy-cases-coat-acos",
    ]
    for chart in shown.charts:
        assert chart.figure().axes


def test_hard_negatives_are_marked(shown: Section) -> None:
    grid, _ = shown.front
    marks = {tuple(entry.text for entry in row[:3]): [entry.mark for entry in row[4:]] for row in grid.rows}
    verdicts = {tuple(entry.text for entry in row[:3]): row[3].text for row in grid.rows}
    assert grid.columns[:4] == ("model", "corpus", "loss", "all")
    for loss in ("squared distance", "angle"):
        assert marks["oracle", "occluded", loss] == [*["good"] * 6, "null"]
        assert marks["pixels", "occluded", loss][-1] == "bad"
        assert verdicts["oracle", "occluded", loss] == "pass"
        assert verdicts["pixels", "occluded", loss] == "fail"


def test_the_white_ground_stands_beside_the_coloured_one(shown: Section) -> None:
    _, grid = shown.front
    assert grid.columns[:5] == ("model", "loss", "coloured", "white", "white - coloured")
    rows = {(row[0].text, row[1].text): row[2:] for row in grid.rows}
    assert set(rows) == {(model, loss) for model in REFERENCES for loss in ("squared distance", "angle")}
    for before, after, apart, *failed in rows.values():
        assert isinstance(before.by, float)
        assert isinstance(after.by, float)
        assert apart.by == pytest.approx(after.by - before.by)
        assert len(failed) == 2
    assert [entry.text for entry in rows["oracle", "angle"][-2:]] == ["none", "none"]
    assert rows["pixels", "angle"][-1].text.endswith("pixel")


def test_scores_by_number_of_cases_end_at_the_score(references: Results) -> None:
    for result in references.values():
        for metric in ("coat", "coat-acos"):
            value = result.values[metric]
            found = value.details["first cases"]
            assert found["cases"] == [8, 16, 32]
            assert found["score"][-1] == pytest.approx(value.score)
            for name, shares in found["p_hat"].items():
                assert shares[-1] == value.details["tests"][name]["p_hat"]


def test_scores_say_whether_hard_negatives_are_passed(shown: Section) -> None:
    small = {line for grid in shown.grids for row in grid.rows for entry in row for line in entry.small}
    assert {"passes the hard negatives", "fails hard negatives"} <= small


def test_cases_are_shown_for_each_model_and_corpus(shown: Section) -> None:
    assert len(shown.galleries) == 8
    (pixels,) = [gallery for gallery in shown.galleries if gallery.title == "pixels: occluded"]
    assert [strip.title for strip in pixels.strips] == ["smallest loss", "median loss", "largest loss"]
    for strip in pixels.strips:
        assert [picture.label for picture in strip.pictures[:5]] == ["A", "B", "C", "D", "B - A + C"]
        assert strip.pictures[-1].mark == "wrong"
        assert strip.note.startswith("Nearer than the true D: ")
