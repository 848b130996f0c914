"""The command `alebrije`: parses, calls, prints. Heavy imports wait until a subcommand needs them."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import tyro

from alebrije.cli.demo import Demo, Toys, Version
from alebrije.cli.examining import Check, Eval, Study
from alebrije.cli.making import Make, Show
from alebrije.cli.reading import Compare, Report, Results
from alebrije.cli.scoring import Metrics, Score
from alebrije.cli.training import Models, Train
from alebrije.errors import DivergedError, InputError

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
    command = tyro.cli(
        _COMMANDS,
        prog="alebrije",
        description="Tells whether a vision model understands a scene as parts that recombine.",
        args=arguments,
    )
    _speak()
    try:
        command.run()
    except InputError as error:
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(2)
    except (OSError, DivergedError) as error:
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("alebrije: stopped", file=sys.stderr)
        sys.exit(130)


def _speak() -> None:
    """What is logged goes to standard error, a plain line each."""
    log = logging.getLogger("alebrije")
    if not log.handlers:
        log.addHandler(logging.StreamHandler())
        log.setLevel(logging.INFO)
        log.propagate = False
