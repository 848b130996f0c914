"""Runs the command `alebrije` in a test and returns what it printed."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from alebrije.cli import main

PROGRESS = re.compile(r"\[\d+/\d+\] [\w-]+")  # a line of progress of `alebrije score`


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command; `complaints` are the lines on standard error that are not progress."""

    code: int
    out: str
    progress: list[str]
    complaints: list[str]

    @classmethod
    def of(cls, code: int, out: str, err: str, progress_line: re.Pattern[str] = PROGRESS) -> Outcome:
        lines = err.splitlines()
        progress = [line for line in lines if progress_line.fullmatch(line)]
        return cls(code, out, progress, [line for line in lines if line not in progress])


def call(*arguments: object, progress_line: re.Pattern[str] = PROGRESS) -> Outcome:
    """Run the command in this process; only SystemExit is caught."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Outcome.of(code, out.getvalue(), err.getvalue(), progress_line)


def call_for_real(*arguments: str | Path) -> Outcome:
    """Run the command in a new process, where warnings and tracebacks would show."""
    command = [sys.executable, "-m", "alebrije", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Outcome.of(done.returncode, done.stdout, done.stderr)
