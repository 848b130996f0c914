"""Charts and tables of analogy on results of known content: over training, over beta, and what is published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alebrije.instruments.analogy.charts import beta_charts, score_charts, training_charts
from alebrije.instruments.analogy.codes import VARIANTS
from alebrije.instruments.analogy.tables import negatives_table, white_table
from alebrije.instruments.analogy.trained import Checkpoint, earlier_checkpoints, keep_some
from alebrije.instruments.analogy.verdict import decisive, last_checkpoints
from alebrije.report.findings import Finding, read_findings
from alebrije.results import Cell, Result, Value
from alebrije.studies.encode import NotExaminedError
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import TrainedModel
from alebrije.train.plan import plan

TESTS = {"drop": {"p_hat": 0.9, "p_value": 0.0, "passed": True}, "pixel": {"p_hat": 0.2, "p_value": 1, "passed": False}}


def finding_of(folder: ResultFolder, scores: dict[str, float], **labels: Any) -> None:
    """Store a cell with these scores; `beta` and `step` are also in its plan and its identity."""
    settings = {"beta": labels.get("beta", 1.0)}
    plan = {"model": labels["model"], "settings": settings, "recipe": {"steps": 300}, "size": 64, "world": "coat"}
    subject = {"plan": plan, **({"step": labels["step"]} if "step" in labels else {})}
    inputs = {"subject": subject, "corpus": labels["corpus"], "variant": labels.get("variant")}
    inputs["train_set"] = labels["train_set"]
    values = {name: Value(score=score, details={"tests": TESTS}) for name, score in scores.items()}
    cell = Cell(study="analogy", labels=labels, inputs=inputs)
    folder.store.put(Result.done(cell, values, seconds=1.0))


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    folder = ResultFolder(tmp_path_factory.mktemp("charts")).ready()
    own = {"model": "beta-tcvae", "train_set": "iid", "size": "paper", "corpus": "occluded", "pixels": 128}
    for beta in (1.0, 2.0, 3.0):
        finding_of(folder, {"coat": 0.1 * beta, "coat-acos": 0.05 * beta, "tre": beta}, **own, beta=beta)
        for step in (100, 200):
            finding_of(folder, {"coat": step / 1000, "coat-acos": step / 2000}, **own, beta=beta, step=step)
    finding_of(folder, {"coat": 0.15, "coat-acos": 0.1}, **{**own, "corpus": "white"}, beta=1.0)
    finding_of(folder, {"coat": 0.4}, model="slot-attention", train_set="iid", size="paper", corpus="occluded")
    return read_findings(folder).of("analogy")


def test_a_curve_ends_at_the_finished_training(findings: list[Finding]) -> None:
    charts = training_charts(findings)
    assert [chart.name for chart in charts] == ["analogy-checkpoints", "analogy-checkpoints-coat-acos"]
    panels = charts[0].draw.args[0]  # type: ignore[attr-defined]
    assert set(panels) == {"COAT, squared distance", "drop", "pixel"}
    for title, panel in panels.items():
        assert set(panel) == {f"beta-tcvae: beta {beta}" for beta in (1, 2, 3)}, title
        assert sorted(point.x for point in panel["beta-tcvae: beta 2"]) == [100, 200, 300]
    by_step = {point.x: point.score.value for point in panels["COAT, squared distance"]["beta-tcvae: beta 2"]}
    assert by_step == {100: 0.1, 200: 0.2, 300: 0.2}
    assert {point.score.value for point in panels["drop"]["beta-tcvae: beta 1"]} == {0.9}
    for chart in charts:
        assert len(chart.figure().axes) == len(panels)


def test_each_model_with_slots_has_a_chart_of_its_own(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path).ready()
    for model in ("slot-attention", "iodine"):
        for train_set in ("iid", "correlated"):
            for variant in VARIANTS:
                for step in ({"step": 100}, {}):
                    labels = {"model": model, "train_set": train_set, "corpus": "occluded", "variant": variant, **step}
                    finding_of(folder, {"coat": 0.5}, **labels)
    charts = training_charts(read_findings(folder).of("analogy"))
    assert {chart.name for chart in charts} == {"analogy-checkpoints-iodine", "analogy-checkpoints-slot-attention"}
    for chart in charts:
        assert {len(panel) for panel in chart.draw.args[0].values()} == {6}  # type: ignore[attr-defined]


def test_the_sweep_shows_each_beta_once_and_the_published_tre(findings: list[Finding]) -> None:
    over, tre = beta_charts(findings)
    panels = over.draw.args[0]  # type: ignore[attr-defined]
    points = panels["COAT"]["squared distance"]
    assert [(point.x, pytest.approx(point.score.value)) for point in points] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    published = tre.draw.args[3]["beta-tcvae"]  # type: ignore[attr-defined]
    assert [(point.x, point.score.value) for point in published] == [(1, 2.25), (2, 2.75), (3, 2.15)]
    assert over.figure().axes
    assert tre.figure().axes


def test_earlier_checkpoints_are_in_no_other_table(findings: list[Finding]) -> None:
    assert {finding.get("step") for finding in last_checkpoints(findings)} == {None}
    (grid,) = negatives_table(findings)
    rows = [[entry.text for entry in row] for row in grid.rows]
    assert grid.columns == ("model", "corpus", "beta", "loss", "all", "published", "drop", "pixel")
    assert ["beta-tcvae", "occluded", "2", "angle", "fail", "fail", "✓ 90 %", "✕ 20 %"] in rows
    assert ["beta-tcvae", "white", "1", "squared distance", "fail", "", "✓ 90 %", "✕ 20 %"] in rows
    assert len(rows) == 2 * 4 + 1
    (white,) = white_table(findings)
    assert [[entry.text for entry in row[:4]] for row in white.rows] == [
        ["beta-tcvae", "squared distance", "0.100", "0.150"],
        ["beta-tcvae", "angle", "0.0500", "0.100"],
    ]


def test_the_verdict_is_about_the_beta_of_the_paper(findings: list[Finding]) -> None:
    (best,) = decisive([finding for finding in findings if finding.model == "beta-tcvae"])
    assert (best.get("beta"), best.get("step"), best.get("corpus")) == (1.0, None, "occluded")


def test_published_numbers_are_of_finished_trainings(findings: list[Finding]) -> None:
    for finding in findings:
        published = finding.published("tre")
        assert not published if finding.get("step") else True
    swept = [finding for finding in findings if finding.get("beta") == 3.0 and finding.get("step") is None]
    assert [one.value for one in swept[0].published("tre")] == [2.15]


def test_a_training_without_kept_checkpoints_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("ae", preset_name="tiny", world="coat", images=2, settings={"steps": 4, "batch": 2}, dry_run=False)
    model = TrainedModel(made, ResultFolder(tmp_path), kept=keep_some(4, 2))
    monkeypatch.setattr(TrainedModel, "module", lambda model: None)  # trained before, without keeping any
    assert [one.step for one in earlier_checkpoints(model)] == [2]
    with pytest.raises(NotExaminedError, match="did not keep step 2; remove ae-"):
        Checkpoint(model, 2).encoder()


def test_no_two_bars_share_a_name(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path).ready()
    for train_set in ("iid", "correlated"):
        for variant in VARIANTS:
            labels = {"model": "slot-attention", "train_set": train_set, "corpus": "occluded", "variant": variant}
            finding_of(folder, {"coat": 0.5}, **labels)
    (chart,) = score_charts(read_findings(folder).of("analogy"))
    names = [bar.name for bar in chart.draw.args[0]]  # type: ignore[attr-defined]
    assert len(set(names)) == len(names) == 6
