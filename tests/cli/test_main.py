"""The command `alebrije`: its version, its help, and arguments that cannot be parsed."""

from __future__ import annotations

import importlib.metadata

import pytest

import alebrije
from tests.cli.command import call


def test_version() -> None:
    outcome = call("version")
    assert outcome.code == 0
    assert outcome.out == f"alebrije {alebrije.__version__}\n"
    assert importlib.metadata.version("alebrije") == alebrije.__version__


@pytest.mark.parametrize("arguments", [(), ("scor",), ("score",), ("score", "x.npz", "--nonsense")])
def test_what_cannot_be_parsed(arguments: tuple[str, ...]) -> None:
    outcome = call(*arguments)
    assert outcome.code == 2
    (sentence,) = outcome.complaints
    assert "--help" in sentence or "did you mean 'score'?" in sentence


def test_no_arguments_name_the_commands() -> None:
    text = " ".join(call().complaints)
    for command in ("score", "metrics", "version"):
        assert command in text


@pytest.mark.parametrize("arguments", [("--help",), ("score", "--help")])
def test_help(arguments: tuple[str, ...]) -> None:
    outcome = call(*arguments)
    assert outcome.code == 0
    assert "score" in outcome.out
    assert outcome.complaints == []
