"""`alebrije zoo`: the list of trained models, and mistakes in their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alebrije import zoo
from alebrije.cli import main
from tests.cli.running import check_mistake


def test_every_model_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["zoo"])
    printed = capsys.readouterr().out
    for card in zoo.cards():
        assert card.name in printed
        assert f"{card.training.steps:,}" in printed


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["zoo", "--format", "json"])
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(zoo.names())
    assert all(row["spec"] == f"zoo:{row['name']}" and row["training"]["command"] for row in rows)


def test_one_card(capsys: pytest.CaptureFixture[str]) -> None:
    name = zoo.names()[0]
    main(["zoo", name])
    assert json.loads(capsys.readouterr().out)["plan"] == zoo.card(name).plan


@pytest.mark.parametrize("command", [["zoo"], ["eval", "--out", "x", "--size", "tiny"]])
def test_an_unknown_name(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = zoo.names()[0] + "x"
    spec = wrong if command == ["zoo"] else f"zoo:{wrong}"
    check_mistake([command[0], spec, *command[1:]], f"the zoo has no model '{wrong}'; did you mean", capsys)
