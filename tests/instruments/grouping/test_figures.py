"""Every figure of Zimmermann et al. 2023 is a command of the documentation that can be planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alebrije.instruments.grouping.study import jobs
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request

PAGE = Path(__file__).parents[3] / "docs/grouping.md"
COMMANDS = dict(
    re.findall(r"^\| ([\d][^|]*) \|[^|]*\| `--worlds ([^`]*)`", PAGE.read_text(), re.MULTILINE)
)  # by figure
PARTS = {figure: {name for name in words.split() if name != "--models"} for figure, words in COMMANDS.items()}
WIDEST = [figure for figure, own in PARTS.items() if not any(own < other for other in PARTS.values())]


def test_the_page_names_every_figure() -> None:
    rows = re.findall(r"^\| ([\d][^|]*) \|", PAGE.read_text(), re.MULTILINE)
    figures = {figure.strip() for row in rows for figure in row.split(",")}
    assert figures >= {"2", "4", "5A", "5B", "5C", "5D", "5E", "6", "7", "8", "9", "10", "11", "12", "13"}
    assert set(COMMANDS) == {"4", "5B", "5C", "5D, 5E", "6", "7", "8", "11", "12"}, "the others share one of these"


@pytest.mark.parametrize("figure", WIDEST)  # the other commands are parts of these
def test_a_figure_can_be_planned(figure: str, tmp_path: Path) -> None:
    worlds, _, models = COMMANDS[figure].partition(" --models ")
    request = Request(size="tiny", worlds=tuple(worlds.split()), models=tuple(models.split()))
    labels = [job.cell.labels for job in jobs(ResultFolder(tmp_path), request)]
    assert {label["world"] for label in labels} == set(request.worlds)
    assert {label["model"] for label in labels} == set(request.models)
    for model in request.models:
        assert len({label["train_slots"] for label in labels if label["model"] == model}) > 1, "a line over K"
