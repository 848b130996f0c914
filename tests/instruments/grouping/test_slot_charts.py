"""Charts over the number of slots on results of known content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alebrije.instruments.grouping.section import section
from alebrije.instruments.grouping.slot_charts import LINES, object_charts, slot_charts, without_most_slots
from alebrije.report.bands import Band
from alebrije.report.findings import Finding, Findings, read_findings
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import put, value

SLOTS = (2, 4, 8, 16)
LABELS = np.kron([[1, 2], [0, 0]], np.ones((4, 4), int)).astype(np.uint8)


def score_of(train: int, test: int, seed: int) -> float:
    return 0.5 + train / 100 - abs(train - test) / 200 + seed / 10


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Two models, one of them with random and learned slots; two seeds."""
    folder = ResultFolder(tmp_path_factory.mktemp("slots"))
    samples = {"images": np.zeros((1, 3, 8, 8), np.uint8), "true": LABELS[None], "groups": LABELS[None]}
    for model, ways in (("slot-attention", ("random", "learned")), ("iodine", (None,))):
        cells = [(way, k, j) for way in ways for k in SLOTS for j in SLOTS if way != "learned" or k == j]
        for way, train, test in cells:
            for seed in (0, 1):
                score = score_of(train, test, seed) - (way == "learned") / 10
                by_objects = {str(count): score - count / 100 for count in (3, 5, 6)}
                values = {name: value(score, details={"by objects": by_objects}) for name in LINES}
                about: dict[str, Any] = {"model": model, "world": "clevr6", "train_slots": train, "test_slots": test}
                about |= {"initial": way} if way else {}
                put(folder, "grouping", {**about, "seed": seed}, values, samples)
    put(folder, "grouping", {"model": "pixels", "world": "clevr6"}, {"fg-ari": value(0.3)})
    return read_findings(folder)


def panels_of(found: Any) -> dict[str, list[Band]]:
    panels: dict[str, list[Band]] = found.draw.args[0]
    return panels


def test_scores_over_slots_are_those_of_the_diagonal(findings: Findings) -> None:
    over, beside, *maps = slot_charts(findings.of("grouping"))
    assert [chart.name for chart in (over, beside)] == ["grouping-over-slots", "grouping-models-over-slots-clevr6"]
    assert {chart.name.split("-")[1] for chart in maps} == {"fg"}
    panels = panels_of(over)
    assert set(panels) == {"slot-attention", "iodine"}
    assert {band.name for band in panels["slot-attention"]} == {
        f"{name}, {way}" for name in LINES.values() for way in ("random", "learned")
    }
    assert {band.name for band in panels["iodine"]} == set(LINES.values()), "it has no way to start its slots"
    random = next(band for band in panels["slot-attention"] if band.name == "FG-ARI, random")
    assert [point.x for point in random.points] == list(SLOTS)
    for point in random.points:
        seeds = [score_of(int(point.x), int(point.x), seed) for seed in (0, 1)]
        assert point.score.value == pytest.approx(np.mean(seeds))
        wide = np.std(seeds, ddof=1)  # Figures 5 to 13 have means and standard deviations
        assert (point.score.low, point.score.high) == pytest.approx((np.mean(seeds) - wide, np.mean(seeds) + wide))
    marks = over.draw.args[4]  # type: ignore[attr-defined]
    assert marks == {"slot-attention": 7, "iodine": 7}, "six objects and the background"


def test_models_of_a_world_are_beside_each_other(findings: Findings) -> None:
    beside = slot_charts(findings.of("grouping"))[1]
    panels = panels_of(beside)
    assert set(panels) == set(LINES.values())
    names = {"slot-attention: random", "slot-attention: learned", "iodine"}
    assert {band.name for band in panels["FG-ARR"]} == names
    assert len({band.color for band in panels["FG-ARR"]}) == 3


def test_fg_ari_by_objects_has_a_line_for_each_number_of_slots(findings: Findings) -> None:
    charts = {chart.title: chart for chart in object_charts(findings.of("grouping"))}
    (panel,) = panels_of(charts["By number of objects: slot-attention: random"]).values()
    assert [band.name for band in panel] == [f"{slots} slots" for slots in SLOTS]
    assert [point.x for point in panel[0].points] == [3, 5, 6]
    assert panel[0].points[1].score.value == pytest.approx(score_of(2, 2, 0) + 0.05 - 0.05)


def test_bars_show_the_number_that_the_scenes_need(findings: Findings) -> None:
    kept = without_most_slots(findings.of("grouping"))
    assert {finding.get("train_slots") for finding in kept if finding.model != "pixels"} == {8}
    assert any(finding.model == "pixels" for finding in kept)


def test_segmentations_on_and_off_the_diagonal(findings: Findings, tmp_path: Path) -> None:
    made = section(findings)
    galleries = {gallery.title: gallery for gallery in made.galleries}
    strips = galleries["slot-attention: random, by slots"].strips
    assert [strip.title for strip in strips] == ["", "trained with 2", "trained with 8", "trained with 16"]
    assert [picture.label for picture in strips[0].pictures] == ["image", "objects"]
    for strip in strips[1:]:
        assert [picture.label for picture in strip.pictures] == ["tested with 2", "tested with 8", "tested with 16"]
    for chart in made.charts:
        chart.figure()  # all of them can be drawn


def test_one_number_of_slots_has_no_lines(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    put(folder, "grouping", {"model": "a", "world": "clevr6", "train_slots": 3, "test_slots": 3}, {"fg-ari": value(1)})
    found: list[Finding] = read_findings(folder).of("grouping")
    assert slot_charts(found) == []
