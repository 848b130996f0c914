"""Commands that cannot be parsed: one sentence and exit code 2, instead of messages of tyro."""

from __future__ import annotations

import sys

import pytest

from alebrije.cli import main

OUT = ["--out", "x"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["eval", "m", *OUT, "--batch", "x"], "--batch needs a whole number, not 'x'"),
        (["eval", "m", *OUT, "--batch=1.5"], "--batch needs a whole number, not '1.5'"),
        (["eval", "m", *OUT, "--pixels", "many"], "--pixels needs a whole number, not 'many'"),
        (["eval", "m", *OUT, "--mean", "0"], "--mean needs three numbers, not '0'"),
        (["eval", "m", *OUT, "--std", "a", "b", "c"], "--std needs three numbers, not 'a b c'"),
        (["study", "neurons", *OUT, "--alphas", "x"], "--alphas needs numbers, not 'x'"),
        (["train", "ae", *OUT, "--save_every", "x"], "--save-every needs a whole number, not 'x'"),
        (["eval", "m", *OUT, "--batch"], "--batch needs a whole number"),
        (["eval", "m", "--out"], "--out needs a file or folder"),
        (["eval", "m", *OUT, "--size", "huge"], "--size must be one of tiny, small, paper, not 'huge'"),
        (["eval"], "eval needs SPEC and --out; `alebrije eval --help` explains them"),
        (
            ["eval", "m", "--ot", "x"],
            "eval needs --out, and does not know '--ot'; `alebrije eval --help` explains it",
        ),
        (["evl"], "there is no command 'evl'; did you mean 'eval'?"),
        (["zzz"], "there is no command 'zzz'; see `alebrije --help`"),
        (["eval", "m", *OUT, "--zzz"], "eval has no option '--zzz'; see `alebrije eval --help`"),
        (["eval", "m", *OUT, "--bach", "3"], "eval has no option '--bach'; did you mean '--batch'?"),
        (["study", "neurons", *OUT, "--dry-rn"], "study has no option '--dry-rn'; did you mean '--dry-run'?"),
        (["eval", "m", *OUT, "more"], "eval takes no 'more'; see `alebrije eval --help`"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr() == ("", f"alebrije: {sentence}\n")


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("alebrije: name a command: score, metrics, ")


def test_another_version_of_tyro_prints_its_own_messages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tyro._errors", None)
    with pytest.raises(SystemExit) as stopped:
        main(["eval", "m", *OUT, "--batch"])
    assert stopped.value.code == 2
    assert "--batch" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["eval", "--help"]])
def test_help_is_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert not stopped.value.code
    assert "usage: alebrije" in capsys.readouterr().out
