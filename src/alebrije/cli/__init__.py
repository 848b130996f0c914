"""The command `alebrije`: parses, calls, prints. Heavy imports wait until a subcommand needs them."""

from __future__ import annotations

import atexit
import errno
import gc
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import tyro

from alebrije.cli.demo import Demo, Toys, Version
from alebrije.cli.examining import Check, Eval, Study
from alebrije.cli.making import Make, Show
from alebrije.cli.parsing import parsed
from alebrije.cli.reading import Compare, Report, Results
from alebrije.cli.scoring import Metrics, Score
from alebrije.cli.training import Models, Train
from alebrije.errors import DivergedError, InputError

_GO_ON = ("Make", "Train", "Eval", "Study")  # commands that keep what is finished
_DESCRIPTION = "Tells whether a vision model understands a scene as parts that recombine."
_COMMANDS = (
    Annotated[Score, tyro.conf.subcommand("score")]
    | Annotated[Metrics, tyro.conf.subcommand("metrics")]
    | Annotated[Make, tyro.conf.subcommand("make")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Models, tyro.conf.subcommand("models")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Eval, tyro.conf.subcommand("eval")]
    | Annotated[Study, tyro.conf.subcommand("study")]
    | Annotated[Results, tyro.conf.subcommand("results")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Toys, tyro.conf.subcommand("toys")]
    | Annotated[Version, tyro.conf.subcommand("version")]
)


def main(arguments: list[str] | None = None) -> None:
    """Runs one subcommand; input that cannot be used ends in one sentence and exit code 2."""
    atexit.register(gc.freeze)  # what ends is not searched for rubbish, which takes as long as half of loading torch
    command = None
    try:
        command = parsed(_COMMANDS, _DESCRIPTION, arguments)
        _speak()
        with _own_warnings_once(), _terminated_like_interrupted():
            command.run()
        sys.stdout.flush()  # here, where it is seen that nobody reads, and not at exit
    except InputError as error:
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # nobody reads on, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in it is thrown away at exit
        sys.exit(1)
    except (OSError, DivergedError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            print(f"alebrije: {str(error.filename)[:40]!r}... is too long for the name of a file", file=sys.stderr)
            sys.exit(2)
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt as stop:
        told = "; the same command goes on from here" if type(command).__name__ in _GO_ON else ""
        told = " before the first step" if isinstance(command, Train) and not command.begun else told
        print(f"alebrije: stopped{told}", file=sys.stderr)
        sys.exit(143 if isinstance(stop, _Terminated) else 130)


class _Terminated(KeyboardInterrupt):
    """Somebody has asked this process to end, as the scheduler of a cluster does."""


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Within this context SIGTERM ends a command as Ctrl-C does: other processes end too, and what was done is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread
        return

    def end(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Lines(logging.Handler):
    """A plain line on standard error, whatever that is by then, for each thing that is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


def _speak() -> None:
    """What is logged goes to standard error, a plain line each."""
    log = logging.getLogger("alebrije")
    if not log.handlers:
        log.addHandler(_Lines())
        log.setLevel(logging.INFO)
        log.propagate = False


@contextmanager
def _own_warnings_once() -> Iterator[None]:
    """What alebrije itself warns of is a plain line, and the same line only once, wherever it comes from."""
    told: set[str] = set()
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not category.__module__.startswith("alebrije."):
                others(message, category, *place, **more)
            elif str(message) not in told:
                told.add(str(message))
                print(f"alebrije: {message}", file=sys.stderr)

        warnings.showwarning = show
        yield
