"""Hinton diagrams, correlations and the paper's tables in the section of neurons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from alebrije.instruments import sections_of
from alebrije.instruments.neurons import summary_jobs
from alebrije.instruments.neurons.correlation import CORRELATION
from alebrije.instruments.neurons.correlation_charts import points_of
from alebrije.instruments.neurons.generalisation import ACCURACY
from alebrije.instruments.neurons.snc import hinton_details
from alebrije.instruments.neurons.variants import variant_jobs
from alebrije.metrics import align_neurons
from alebrije.report.findings import Findings, read_findings
from alebrije.report.parts import ReportTable, Section
from alebrije.results import Cell, Result, Value
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import run_jobs

MODELS = ("beta-vae", "beta-tcvae", "factor-vae", "parted-vae", "weakde")
FACTORS = ("shape", "scale", "position x")


def put(folder: ResultFolder, model: str, values: Mapping[str, Value], **labels: str) -> None:
    inputs = {"subject": {"plan": model}, **labels}
    cell = Cell(study="neurons", labels={"size": "paper", "world": "dsprites", "model": model, **labels}, inputs=inputs)
    folder.store.put(Result.done(cell, values, seconds=1))


def with_collision() -> dict[str, Value]:
    """The second neuron knows most about both factors; the first knows less, and about the second factor alone."""
    first, second = np.random.default_rng(0).integers(0, 4, (2, 4000))
    codes = np.stack((second + 1.5 * np.random.default_rng(1).normal(size=4000), 4.0 * first + second), 1)
    factors = np.stack((first, second), 1)
    alignment = align_neurons(codes, factors)
    details = hinton_details(codes, factors, alignment)
    assert details["strongest"] == [1, 1]
    parts = {"shape": 0.4, "scale": 0.2, "position x": 0.3}
    snc = Value(score=0.3, details={**details, "factor_names": ["shape", "scale"], "per_factor": parts})
    return {"SNC": snc, "NK": Value(score=0.2, details={"per_factor": parts}), "MIG": Value(score=0.1)}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder = ResultFolder(tmp_path_factory.mktemp("section")).ready()
    draw = np.random.default_rng(0)
    for model in MODELS:
        values = with_collision()
        put(folder, model, values | {name: Value(score=draw.random()) for name in ("MIG", "MED", "MLP accuracy")})
        for setting, feature in (("CG", "both"), ("CG", "size"), ("linear CG", "both")):
            put(folder, model, {ACCURACY: Value(score=draw.random())}, setting=setting, feature=feature)
        for test_set, count in (("one split", 1), ("5 splits", 5), ("size 0, shape 0", 1)):
            each = draw.random((count, len(FACTORS)))
            details = {"per_factor": dict(zip(FACTORS, each.mean(0), strict=True)), "per test set": each.tolist()}
            accuracies = {"MLP mean": Value(score=each.mean(), details=details), "MLP both": Value(score=0.25)}
            put(folder, model, accuracies, test_set=test_set)
    run_jobs(summary_jobs(list(folder.store.all())), folder.store)
    return read_findings(folder)


@pytest.fixture(scope="module")
def section(findings: Findings) -> Section:
    (found,) = sections_of(findings)
    return found


def table(section: Section, name: str) -> ReportTable:
    (found,) = [grid for grid in section.grids if grid.name == f"neurons-{name}"]
    return found


def row(grid: ReportTable, *labels: str) -> dict[str, tuple[str, ...]]:
    """The row with these first cells: the text and the small print by column."""
    (found,) = [each for each in grid.rows if tuple(cell.text for cell in each[: len(labels)]) == labels]
    return {name: (cell.text, *cell.small) for name, cell in zip(grid.columns, found, strict=True)}


def test_collisions_are_marked(section: Section) -> None:
    charts = [chart for chart in section.charts if "hinton" in chart.name]
    assert len(charts) == len(MODELS)
    assert "an argmax would give shape and scale the same neuron, z1" in charts[0].words
    assert "shape z1 and scale z0" in charts[0].words
    boxes = [patch for patch in charts[0].figure().axes[0].patches if not patch.get_fill()]
    dashed = [patch for patch in boxes if patch.get_linestyle() not in ("-", "solid")]
    assert (len(boxes), len(dashed)) == (3, 1)
    assert (dashed[0].get_x() + 0.47, dashed[0].get_y() + 0.47) == pytest.approx((1, 1))  # type: ignore[attr-defined]


def test_no_marks_where_an_argmax_is_right(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path).ready()
    factors = np.random.default_rng(0).integers(0, 4, (500, 2))
    details = hinton_details(factors.astype(float), factors, [0, 1]) | {"factor_names": ["shape", "scale"]}
    put(folder, "ae", {"SNC": Value(score=1.0, details=details)})
    (found,) = sections_of(read_findings(folder))
    (chart,) = [chart for chart in found.charts if "hinton" in chart.name]
    assert "argmax" not in chart.words
    assert sum(not patch.get_fill() for patch in chart.figure().axes[0].patches) == 2


def test_the_argmax_neurons_are_kept() -> None:
    """Of many neurons, those with little information in all can still be the best for some factor."""
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 8, (2000, 2))
    codes = factors[:, :1] + 0.1 * draw.normal(size=(2000, 60))
    codes[:, 50] = factors[:, 1] + 4 * draw.normal(size=2000)
    details = hinton_details(codes, factors, [0, 1])
    assert details["neurons"][details["strongest"][1]] == 50


def test_tables_2_and_3_beside_the_published_numbers(section: Section) -> None:
    found = row(table(section, "tables-2-and-5"), "dsprites", "beta-vae")
    assert found["SNC"][0] == "0.300"
    assert found["SNC"][-1] == "published 0.248 ± 0.014 (n=5)"
    assert row(table(section, "table-3"), "dsprites", "beta-vae", "CG")["size"][-1] == "published 0.616"
    assert row(table(section, "table-3"), "dsprites", "beta-vae", "linear CG")["size"] == ("",)


def test_variants_and_correlations(section: Section) -> None:
    found = row(table(section, "tables-7-and-8"), "dsprites", "beta-vae")
    assert found["SNC product of 2"] == ("0.0800", "published 0.0695")
    correlations = table(section, "tables-4-and-6")
    assert correlations.columns == ("metric", "dsprites", "p, dsprites")
    assert row(correlations, "MIG")["p, dsprites"][1].endswith("5 points")


def test_tables_of_single_factors(section: Section) -> None:
    random = table(section, "tables-9-to-26-dsprites")
    assert {each[1].text for each in random.rows} == {"5 splits"}
    found = row(random, "beta-vae", "5 splits", "MLP")
    assert found["position x"][-1] == "published 0.9105 ± 0.0080 (n=5)"  # 89.63 91.22 90.43 94.07 89.92
    assert found["position x"][1].endswith("over 5 splits")
    pairs = row(table(section, "tables-27-to-44-dsprites"), "beta-vae", "size 0, shape 0", "MLP")
    assert len(pairs["shape"]) == 2
    assert pairs["both"][0] == "0.250"


def test_points_are_shared_by_all_metrics(findings: Findings) -> None:
    (points,) = points_of(findings.of("neurons"))
    assert points.metrics == ("MIG", "MED")  # SNC and NK are the same at all points
    assert points.scores.shape == (5, 2)
    assert points.correlations == pytest.approx(
        [np.corrcoef(points.scores[:, at], points.accuracy)[0, 1] for at in range(2)]
    )
    p = points.p_values("paper")
    assert np.isnan(p.diagonal()).all()
    assert p[0, 1] + p[1, 0] == pytest.approx(1)


def test_charts_of_correlations(section: Section) -> None:
    names = [chart.name for chart in section.charts]
    for name in ("metrics-dsprites", "significance-dsprites-paper", "significance-dsprites-dependent"):
        (chart,) = [chart for chart in section.charts if chart.name == f"neurons-{name}"]
        assert chart.figure().axes
    assert len(names) == len(set(names))


@pytest.mark.parametrize("stored", [[1.0], "text", 3.0, {"shape": "much"}, {"shape": None}, []])
def test_details_of_another_form_are_left_out(tmp_path: Path, stored: object) -> None:
    """Files may come from elsewhere; the report never fails because of one."""
    folder = ResultFolder(tmp_path).ready()
    details = {"per_factor": stored, "per test set": [stored, stored], "information": stored, "strongest": stored}
    details |= {"alignment": stored, "factor_names": stored, "neurons": stored, "importance": stored}
    values = {name: Value(score=0.5, details=details) for name in ("SNC", "NK", "MIG", "DCI-C")}
    for model in MODELS:
        put(folder, model, values)
        put(folder, model, {"MLP mean": Value(score=0.5, details=details)}, test_set="2 splits")
        put(folder, model, {CORRELATION: Value(score=0.5, details={"points": stored})}, predictor="MIG", scope="all")
    assert variant_jobs(list(folder.store.all())) == []
    (found,) = sections_of(read_findings(folder))
    for chart in found.charts:
        assert chart.figure().axes
