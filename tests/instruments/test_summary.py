"""The summary: one row per model, with the scores and verdicts that the report shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import alebrije
from alebrije.cli import main
from alebrije.instruments.summary import summary_text
from tests.cli.running import check_mistake, csv_rows
from tests.test_evaluate import Colour


@pytest.mark.yardsticks
def test_the_summary_agrees_with_the_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = alebrije.evaluate(
        Colour(), tests=["snc", "fg-ari"], size="tiny", out=tmp_path, name="<b>mine</b>", beside=["oracle", "pixels"]
    )
    table = report.summary_table()
    assert [row["model"] for row in table.rows] == ["<b>mine</b>", "pixels", "oracle"]
    mine, _, oracle = table.rows
    assert mine["neurons: SNC"].value == report.score("snc")
    assert mine["grouping: fg-ari"] is None
    for study in ("neurons", "grouping"):
        assert mine[f"{study}: verdict"] == report.verdicts["<b>mine</b>"][study].word
    assert oracle["grouping: fg-ari"].value == 1.0
    text = summary_text(report.findings)
    assert "● 1.00" in text
    assert "● good" in text.splitlines()[-1], "a legend"
    main(["results", str(tmp_path), "--summary", "--format", "csv"])
    rows = csv_rows(capsys)
    assert float(rows[0]["neurons: SNC"]) == report.score("snc")
    check_mistake(["results", str(tmp_path), "--summary", "--query", "model=x"], "--summary shows every model", capsys)

    notebook = report._repr_html_()
    assert "&lt;b&gt;mine" in notebook
    assert "<b>mine" not in notebook
    figures = report.figures("neurons")
    assert figures
    assert all(name.startswith("neurons") for name in figures)
    assert set(report.figures()) >= set(figures)
