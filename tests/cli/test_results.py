"""`alebrije results`, `compare` and `report`: queries, comparisons, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

import alebrije
from alebrije.cli import main
from tests.cli.running import check_mistake, exit_code
from tests.test_evaluate import Colour


def test_queries_that_find_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alebrije.evaluate(Colour(), tests=["snc", "mig"], size="tiny", out=tmp_path, name="mine")
    for command in (["results"], ["compare", "--published"]):
        capsys.readouterr()
        assert exit_code([*command, str(tmp_path), "--query", "model=mien", "--format", "csv"]) == 2
        assert capsys.readouterr() == ("", "alebrije: no values match: no model is 'mien'; did you mean 'mine'?\n")
    main(["results", str(tmp_path), "--query", "metric=snk,mig"])
    printed = capsys.readouterr()
    assert printed.err == "no metric is 'snk'; did you mean 'SNC'?\n"
    assert "MIG" in printed.out
    main(["results", str(tmp_path), "--query", "value>3"])
    assert capsys.readouterr().err == "no values match 'value>3'\n"


def test_folders_with_nothing_to_compare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, test in (("first", "mig"), ("second", "fg-ari")):
        alebrije.evaluate(Colour(), tests=test, size="tiny", out=name, name="mine")
    main(["compare", "first", "--published"])
    beside = capsys.readouterr().out
    assert all(model in beside for model in ("mine", "beta-VAE", "FactorVAE")), "mine stays beside the papers' models"
    main(["compare", "second", "--published"])
    assert "The papers report no model on the same instrument, world and metric." in capsys.readouterr().err
    main(["compare", "first", "second"])
    assert "first and second have no value in common" in capsys.readouterr().err


@pytest.mark.usefixtures("two_files")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "x", "--figures", " "], "--figures needs the name of a file or folder and is empty"),
        (["results", 300 * "a"], "is too long for a file name"),
        (["results", "x"], "x: no results here"),
        (["results", ".", "--rows", "model"], "needs both --rows and --columns"),
        (["compare", "x", "y"], "x: no results here"),
        (["compare", "x"], "x cannot be compared alone; name another folder, or add --published"),
        (["report", "x"], "x: no results here"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_mistake(arguments, sentence, capsys)
