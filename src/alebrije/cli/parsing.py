"""Parse the command line with tyro. A mistake becomes one sentence, like any other bad input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, get_args

import tyro

from alebrije.cli.paths import parse_path
from alebrije.errors import InputError
from alebrije.suggest import closest

_KINDS = {"INT": "a whole number", "FLOAT": "a number", "STR": "a text", "PATH": "a file or folder"}
_COUNTS = {2: "two", 3: "three"}


def parse_command(commands: Any, description: str, arguments: Sequence[str] | None) -> Any:
    """The command that was typed: one of a union of dataclasses named like their subcommands."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    read = partial(tyro.cli, commands, prog="alebrije", description=description, args=typed)
    try:
        from tyro._errors import on_parse_error
    except ImportError:  # another version of tyro prints its own messages
        return read()
    known = {kind.__name__.lower(): kind for kind in (get_args(one)[0] for one in get_args(commands))}
    with on_parse_error(lambda event: _refuse(event, typed, known)):
        return read()


def _refuse(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> None:
    """Raise an InputError for what tyro could not parse; unknown events are left to tyro."""
    try:
        sentence = _SENTENCES[type(event).__name__](event, typed, known)
    except (KeyError, AttributeError, IndexError, TypeError):
        return  # events differ between versions of tyro
    raise InputError(sentence) from None


def _bad_value(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """A value of the wrong kind."""
    flag, wanted = event.argument.lowered.name_or_flags[-1], _kind(event.argument)
    words = _after(flag, typed)
    if wanted == _KINDS["PATH"]:
        try:
            parse_path(" ".join(words))
        except ValueError as error:
            return f"{flag} {error}"
    return f"{flag} needs {wanted}, not {' '.join(words)!r}"


def _no_value(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """An option without its value."""
    flag = event.argument.lowered.name_or_flags[-1]
    words = " ".join(map(repr, _after(flag, typed)))
    return f"{flag} needs {_kind(event.argument)}{f', not {words}' if words else ''}"


def _bad_choice(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """A value that is not among the choices."""
    choices = ", ".join(event.choices)
    return f"{event.argument.lowered.name_or_flags[-1]} must be one of {choices}, not {event.value!r}"


def _missing_options(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """Required options that are missing."""
    missing = [one.arg for one in event.missing_arguments]
    needed = " and ".join(
        str(one.lowered.metavar) if one.is_positional() else one.lowered.name_or_flags[-1] for one in missing
    )
    also = f", and does not know {event.unrecognized_tokens[0]!r}" if event.unrecognized_tokens else ""
    return (
        f"{typed[0]} needs {needed}{also}; `alebrije {typed[0]} --help` explains {'them' if len(missing) > 1 else 'it'}"
    )


def _unknown(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """An unknown command or option."""
    token, command = event.tokens[0], typed[0]
    if command not in known:
        return f"there is no command {command!r}; {_near(command, list(known), 'alebrije')}"
    if not token.startswith("--"):
        return f"{command} takes no {token!r}; see `alebrije {command} --help`"
    options = [one.name.replace("_", "-") for one in fields(known[command])]
    near = _near(token.lstrip("-").partition("=")[0], options, f"alebrije {command}", before="--")
    return f"{command} has no option {token!r}; {near}"


def _no_command(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """No command at all."""
    return f"name a command: {', '.join(known)}; `alebrije --help` explains them"


_SENTENCES: dict[str, Callable[[Any, Sequence[str], Mapping[str, type]], str]] = {
    "InstantiationFailure": _bad_value,
    "BadValue": _no_value,
    "InvalidChoice": _bad_choice,
    "MissingArgs": _missing_options,
    "UnrecognizedArgs": _unknown,
    "MissingSubcommand": _no_command,
}


def _near(wrong: str, known: Sequence[str], command: str, before: str = "") -> str:
    """The end of a sentence about a wrong name."""
    near = closest(wrong, known)
    return f"did you mean {before + near!r}?" if near else f"see `{command} --help`"


def _kind(argument: Any) -> str:
    """What an argument needs, in words, from tyro's metavar: INT, {None}|{FLOAT FLOAT}, [STR [STR ...]]."""
    metavar = str(argument.lowered.metavar).removeprefix("{None}|")
    names = metavar.strip("{}[]").replace("[", "").split()
    one = _KINDS[names[0]]
    if len(names) == 1:
        return one
    several = one.partition(" ")[2] + "s"
    return several if metavar.startswith("[") else f"{_COUNTS[len(names)]} {several}"


def _after(flag: str, typed: Sequence[str]) -> list[str]:
    """The words typed after the last use of an option."""
    for number in range(len(typed) - 1, -1, -1):
        name, sign, value = typed[number].partition("=")
        if name.replace("_", "-") != flag:
            continue
        if sign:
            return [value]
        rest = list(typed[number + 1 :])
        return rest[: next((at for at, word in enumerate(rest) if word.startswith("--")), len(rest))]
    return []
