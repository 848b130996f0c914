"""The command `alebrije`: parse, call, print. Heavy imports wait until a subcommand needs them."""

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

from alebrije.cli.cache import Cache
from alebrije.cli.check import Check
from alebrije.cli.demo import Demo, Toys, Version
from alebrije.cli.eval import Eval
from alebrije.cli.make import Make
from alebrije.cli.models import Models
from alebrije.cli.parsing import parse_command
from alebrije.cli.results import Compare, Merge, Report, Results
from alebrije.cli.score import Metrics, Score
from alebrije.cli.show import Show
from alebrije.cli.study import Study
from alebrije.cli.train import Train
from alebrije.cli.zoo import Zoo
from alebrije.errors import DivergedError, InputError, plain

_RESUMABLE = ("Make", "Train", "Eval", "Study")
_DESCRIPTION = "Tells whether a vision model understands a scene as parts that recombine."
_COMMANDS = (
    Annotated[Score, tyro.conf.subcommand("score")]
    | Annotated[Metrics, tyro.conf.subcommand("metrics")]
    | Annotated[Make, tyro.conf.subcommand("make")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Models, tyro.conf.subcommand("models")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Zoo, tyro.conf.subcommand("zoo")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Eval, tyro.conf.subcommand("eval")]
    | Annotated[Study, tyro.conf.subcommand("study")]
    | Annotated[Results, tyro.conf.subcommand("results")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Merge, tyro.conf.subcommand("merge")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Cache, tyro.conf.subcommand("cache")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Toys, tyro.conf.subcommand("toys")]
    | Annotated[Version, tyro.conf.subcommand("version")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run one subcommand. Bad input ends in one sentence and exit code 2."""
    atexit.register(gc.freeze)  # no garbage collection at exit: it takes half as long as loading torch
    command = None
    try:
        typed = sys.argv[1:] if arguments is None else arguments
        command = parse_command(_COMMANDS, _DESCRIPTION, ["version"] if typed == ["--version"] else typed)
        _log_to_stderr()
        with _plain_warnings_once(), _sigterm_like_ctrl_c():
            command.run()
        sys.stdout.flush()  # here, where a closed pipe can be handled, and not at exit
    except InputError as error:
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard what is left in the buffer
        sys.exit(1)
    except (OSError, DivergedError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            print(f"alebrije: {str(error.filename)[:40]!r}... is too long for a file name", file=sys.stderr)
            sys.exit(2)
        print(f"alebrije: {plain(str(error))}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt as stop:
        hint = "; run the same command to continue" if type(command).__name__ in _RESUMABLE else ""
        if isinstance(command, Train) and not command.has_checkpoint:
            kept = "; the rendered images are kept, so run the same command to continue" if command.has_images else ""
            hint = f" before the first step{kept}"
        print(f"alebrije: stopped{hint}", file=sys.stderr)
        sys.exit(143 if isinstance(stop, _Terminated) else 130)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as from the scheduler of a cluster."""


@contextmanager
def _sigterm_like_ctrl_c() -> Iterator[None]:
    """Make SIGTERM end a command as Ctrl-C does: child processes end too, and finished work is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return

    def end(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Lines(logging.Handler):
    """Prints each log record as a plain line on the current standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        print(plain(self.format(record)), file=sys.stderr)


def _log_to_stderr() -> None:
    """Print log records as plain lines on standard error."""
    log = logging.getLogger("alebrije")
    if not log.handlers:
        log.addHandler(_Lines())
        log.setLevel(logging.INFO)
        log.propagate = False


@contextmanager
def _plain_warnings_once() -> Iterator[None]:
    """Print alebrije's own warnings as plain lines, each text once."""
    printed: set[str] = set()
    with warnings.catch_warnings():
        default = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
            if not category.__module__.startswith("alebrije."):
                default(plain(str(message)), category, *args, **kwargs)
            elif str(message) not in printed:
                printed.add(str(message))
                print(f"alebrije: {plain(str(message))}", file=sys.stderr)

        warnings.showwarning = show
        yield
