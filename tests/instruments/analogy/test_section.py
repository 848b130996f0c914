"""The section of analogy in the report."""

from __future__ import annotations

import pytest

from alebrije.instruments.analogy.section import section
from alebrije.report.findings import read_findings
from alebrije.report.parts import Section
from alebrije.studies.folder import ResultFolder
from tests.instruments.analogy.running import Results


@pytest.fixture(scope="module")
def shown(references: Results, folder: ResultFolder) -> Section:
    keys = {result.key for result in references.values()}
    return section(read_findings(folder).only(keys))


def test_charts_are_drawn(shown: Section) -> None:
    assert [chart.name for chart in shown.charts] == ["analogy-coat", "analogy-coat-acos"]
    for chart in shown.charts:
        assert chart.figure().axes


def test_hard_negatives_are_marked(shown: Section) -> None:
    (grid,) = shown.front
    marks = {(row[0].text, row[1].text): [entry.mark for entry in row[2:]] for row in grid.rows}
    assert grid.columns[:2] == ("model", "corpus")
    assert marks["oracle", "occluded"] == [*["good"] * 6, "null"]
    assert marks["pixels", "occluded"][-1] == "bad"


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
