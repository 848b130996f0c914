"""The models of a report beside those of the zoo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alebrije import zoo
from alebrije.instruments import sections_of
from alebrije.report.findings import read_findings
from alebrije.report.parts import ReportTable
from alebrije.report.zoo_table import zoo_findings
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import put, value

SHARED = {"world": "clevr6", "size": "small"}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResultFolder]:
    """Results in the place of those that come with alebrije."""
    folder = ResultFolder(tmp_path / "zoo")
    put(folder, "grouping", {"model": "zoo:slots", "trained_on": "clevr6", **SHARED}, {"fg-ari": value(0.95, 0.01)})
    put(folder, "grouping", {"model": "noise", **SHARED}, {"fg-ari": value(0.0, 0.01)})
    put(folder, "grouping", {"model": "zoo:tiny", "world": "clevr6", "size": "tiny"}, {"fg-ari": value(0.5, 0.01)})
    monkeypatch.setattr(zoo, "RESULTS", folder.path)
    zoo_findings.cache_clear()
    yield folder
    zoo_findings.cache_clear()


def tables(folder: ResultFolder) -> list[ReportTable]:
    (section,) = sections_of(read_findings(folder))
    return [table for table in section.front if table.title == "Beside the zoo"]


def test_a_model_stands_beside_the_zoo(tmp_path: Path, shipped: ResultFolder) -> None:
    mine = ResultFolder(tmp_path / "mine")
    put(mine, "grouping", {"model": "mine", **SHARED}, {"fg-ari": value(0.7, 0.02)})
    put(mine, "grouping", {"model": "oracle", **SHARED}, {"fg-ari": value(1.0, 0.0)})
    (table,) = tables(mine)
    assert [(row[0].text, row[1].text, row[2].text) for row in table.rows] == [
        ("mine", "", "0.700"),
        ("zoo:slots", "clevr6", "0.950"),
        ("noise", "", "0"),
    ]
    assert table.numeric == (False, False, True, False)


def test_no_table_for_settings_that_the_zoo_was_not_examined_in(tmp_path: Path, shipped: ResultFolder) -> None:
    mine = ResultFolder(tmp_path / "mine")
    put(mine, "grouping", {"model": "mine", "world": "coat", "size": "small"}, {"fg-ari": value(0.7, 0.02)})
    assert tables(mine) == []


def test_fresh_results_of_a_model_of_the_zoo_replace_the_shipped_ones(tmp_path: Path, shipped: ResultFolder) -> None:
    mine = ResultFolder(tmp_path / "mine")
    put(mine, "grouping", {"model": "zoo:slots", **SHARED}, {"fg-ari": value(0.94, 0.01)})
    (table,) = tables(mine)
    assert [(row[0].text, row[2].text) for row in table.rows] == [("zoo:slots", "0.940"), ("noise", "0")]
