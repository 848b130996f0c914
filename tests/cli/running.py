"""Run commands: exit codes, error messages, and tables that they print."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from alebrije.cli import main


def exit_code(arguments: list[str]) -> int:
    """The exit code of a command that does not return."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


def csv_rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """The rows of the CSV that was printed."""
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def check_mistake(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with exit code 2 and one sentence, and leaves the current folder with its two files."""
    before = sorted(Path().iterdir())
    assert exit_code(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
    assert sorted(Path().iterdir()) == before
