"""Curves, sheets and tables in the section of imagination."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from alebrije.instruments import sections_of
from alebrije.instruments.imagination.scene_reader import LABEL
from alebrije.instruments.imagination.values import GAP, IN_ERROR, LPIPS, OUT_ERROR
from alebrije.report.findings import read_findings
from alebrije.report.page import page_html
from alebrije.report.parts import ReportTable, Section
from alebrije.results import Cell, Result, Value
from alebrije.studies.folder import ResultFolder

MODELS, RULES, ALPHAS = ("i2i-vit", "svib-oracle"), ("S-A", "M-A", "S-NA", "MNMix2"), (0.2, 0.6)


def folder_with(path: Path, alphas: tuple[float, ...] = ALPHAS, rules: tuple[str, ...] = RULES) -> ResultFolder:
    folder, images = ResultFolder(path).ready(), np.zeros((1, 3, 8, 8), np.uint8)
    for number, rule in enumerate(rules):
        for model in MODELS:
            for alpha in alphas:
                labels = {"size": "paper", "world": "sprites", "rule": rule, "alpha": alpha, "pixels": 128}
                inputs = {"subject": {"plan": model}, "task": [rule, alpha]}
                cell = Cell(study="imagination", labels={**labels, "model": model, "drawn_by": "itself"}, inputs=inputs)
                kept = dict.fromkeys(("source", "target", "predicted"), images + number)
                folder.keep_samples(cell, **{**kept, **{f"{name}_in": array for name, array in kept.items()}})
                values = {IN_ERROR: Value(score=5.0), OUT_ERROR: Value(score=10.0 * (1 + number))}
                values |= {GAP: Value(score=math.log(2)), LPIPS: Value(score=0.1 * (1 + number))}
                folder.store.put(Result.done(cell, values, seconds=1))
    return folder


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> Section:
    folder = folder_with(tmp_path_factory.mktemp("section"))
    labels = {"size": "paper", "world": "clevrtex", "pixels": 128, "reader": LABEL}
    cell = Cell(study="imagination", labels=labels, inputs={"reader": "settings"})
    folder.store.put(Result.done(cell, {"size of object 2": Value(score=0.9)}, seconds=1))
    (found,) = sections_of(read_findings(folder))
    return found


def table(section: Section, name: str) -> ReportTable:
    (found,) = [grid for grid in section.grids if grid.name == f"imagination-{name}"]
    return found


def test_curves_over_alpha(section: Section) -> None:
    names = [chart.name for chart in section.charts]
    for value in ("error", "seen-error", "lpips", "gap"):
        assert f"imagination-{value}-sprites" in names
    (chart,) = [chart for chart in section.charts if chart.name == "imagination-lpips-sprites"]
    assert "Hollow marks are published numbers" in chart.words
    panels = [axes for axes in chart.figure().axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["S-A", "S-NA", "M-A", "MNMix2 (M-NA)"]
    hollow = [line for line in panels[3].lines if line.get_color() == "none"]
    assert sorted(float(line.get_ydata()[0]) for line in hollow) == [0.0009, 0.0010, 0.0191, 0.3243]  # type: ignore[index, arg-type]
    (rules,) = [chart for chart in section.charts if chart.name == "imagination-rules"]
    assert len([axes for axes in rules.figure().axes if axes.get_title()]) == 4


def test_means_over_the_rules(section: Section) -> None:
    grid = table(section, "means-lpips")
    assert grid.columns == ("model", "sprites, easy (0.6)", "sprites, hard (0.2)")
    (vit,) = [row for row in grid.rows if row[0].text == "i2i-vit"]
    assert vit[1].by == pytest.approx(0.25)
    assert "published 0.0084" in vit[1].small  # Table 1
    (error,) = [row for row in table(section, "means-out-of-distribution-error").rows if row[0].text == "i2i-vit"]
    assert "published 69.3" in error[1].small  # (24.72 + 20.64 + 13.55 + 218.48) / 4


def test_means_over_some_rules(tmp_path: Path) -> None:
    (found,) = sections_of(read_findings(folder_with(tmp_path, rules=("S-A", "M-A"))))
    (vit, _) = table(found, "means-lpips").rows
    assert vit[1].small[-1] == "S-A, M-A only" or vit[1].small[-1] == "M-A, S-A only"
    assert not any("published" in line for line in vit[1].small)


def test_one_alpha_has_no_curves(tmp_path: Path) -> None:
    (found,) = sections_of(read_findings(folder_with(tmp_path, alphas=(0.6,), rules=("S-A",))))
    assert [chart.name for chart in found.charts] == ["imagination-error-sprites-s-a", "imagination-rules"]
    assert not any(gallery.name.startswith("imagination-alphas") for gallery in found.galleries)
    assert not any(grid.name.startswith("imagination-means") for grid in found.grids)


def test_sheets_of_models_and_alphas(section: Section, tmp_path: Path) -> None:
    sheets = [gallery for gallery in section.galleries if gallery.name.startswith("imagination-alphas")]
    assert len(sheets) == len(RULES)
    assert [strip.title for strip in sheets[0].strips] == list(MODELS)
    for strip in sheets[0].strips:
        assert [picture.label for picture in strip.pictures] == ["source", "target", "alpha 0.2", "alpha 0.6"]
    findings = read_findings(folder_with(tmp_path, rules=("S-A",)))
    page = page_html(findings, sections_of(findings))
    assert page.count("what each model predicts after training at each") == 1
    assert page.count("their difference (darker is larger)") == len(MODELS)


def test_factors_read_from_true_images(section: Section) -> None:
    grid = table(section, "table-5")
    assert grid.columns == ("world", "pixels", "size of object 2")
    assert "published 0.935" in grid.rows[0][2].small
