"""The command `alebrije`: its version, its help, and arguments that cannot be parsed."""

from __future__ import annotations

import importlib.metadata
import logging
import warnings
from collections.abc import Callable

import pytest

import alebrije
from alebrije.cli.models import Models
from alebrije.errors import InputError, UndefinedMetricWarning
from tests.cli.command import call


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version(word: str) -> None:
    outcome = call(word)
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


RED = "\x1b[31mred\x1b[0m\x07\x1b]0;title\x07"


def _warn(text: str) -> None:
    warnings.simplefilter("always")
    warnings.warn(text, UndefinedMetricWarning, stacklevel=1)


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("shout", "expected"),
    [
        (lambda: _raise(InputError(RED)), "alebrije: red"),
        (lambda: _raise(OSError(5, RED)), "alebrije: [Errno 5] red"),
        (lambda: logging.getLogger("alebrije").warning(RED), "red"),
        (lambda: _warn(RED), "alebrije: red"),
    ],
    ids=["input", "system", "log", "warning"],
)
def test_control_sequences_never_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, shout: Callable[[], None], expected: str
) -> None:
    monkeypatch.setattr(Models, "run", lambda self: shout())
    assert call("models").complaints == [expected]
