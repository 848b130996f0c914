"""Run commands: exit codes, and tables that they print."""

from __future__ import annotations

import csv
import io

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
