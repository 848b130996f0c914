"""What was typed, read by tyro; what cannot be read becomes one sentence, as for any input that cannot be used."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, get_args

import tyro

from alebrije.cli.places import place
from alebrije.errors import InputError

_KINDS = {"INT": "a whole number", "FLOAT": "a number", "STR": "a text", "PATH": "a file or folder"}
_COUNTS = {2: "two", 3: "three"}


def parsed(commands: Any, description: str, arguments: Sequence[str] | None) -> Any:
    """The command that was typed, one of a union of dataclasses that are called like their subcommands."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    read = partial(tyro.cli, commands, prog="alebrije", description=description, args=typed)
    try:
        from tyro._errors import on_parse_error
    except ImportError:  # another version of tyro says in its own way what is wrong
        return read()
    known = {kind.__name__.lower(): kind for kind in (get_args(one)[0] for one in get_args(commands))}
    with on_parse_error(lambda event: _refuse(event, typed, known)):
        return read()


def _refuse(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> None:
    """Raises the sentence about what tyro could not read; of what is not known here tyro tells by itself."""
    try:
        sentence = _SENTENCES[type(event).__name__](event, typed, known)
    except (KeyError, AttributeError, IndexError, TypeError):
        return  # tyro's events may change with its version
    raise InputError(sentence) from None


def _of_value(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """About words of which no value can be made."""
    flag, wanted = event.argument.lowered.name_or_flags[-1], _kind(event.argument)
    words = _after(flag, typed)
    if wanted == _KINDS["PATH"]:
        try:
            place(" ".join(words))
        except ValueError as error:
            return f"{flag} {error}"
    return f"{flag} wants {wanted}, not {' '.join(words)!r}"


def _of_nothing(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """About an option without its value."""
    flag = event.argument.lowered.name_or_flags[-1]
    return f"{flag} wants {_kind(event.argument)}, and got {' '.join(map(repr, _after(flag, typed))) or 'nothing'}"


def _of_choice(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """About a value that is not among those there are."""
    choices = ", ".join(event.choices)
    return f"{event.argument.lowered.name_or_flags[-1]} is one of {choices}, not {event.value!r}"


def _of_missing(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """About options that are required."""
    missing = [one.arg for one in event.missing_arguments]
    needed = " and ".join(
        str(one.lowered.metavar) if one.is_positional() else one.lowered.name_or_flags[-1] for one in missing
    )
    also = f", and does not know {event.unrecognized_tokens[0]!r}" if event.unrecognized_tokens else ""
    return (
        f"{typed[0]} needs {needed}{also}; `alebrije {typed[0]} --help` explains {'them' if len(missing) > 1 else 'it'}"
    )


def _of_strange(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """About a command or an option that there is not."""
    token, command = event.tokens[0], typed[0]
    if command not in known:
        return f"there is no command {command!r}; {_near(command, list(known), 'alebrije')}"
    if not token.startswith("--"):
        return f"{command} has no use for {token!r}; `alebrije {command} --help` tells what it takes"
    options = [one.name.replace("_", "-") for one in fields(known[command])]
    near = _near(token.lstrip("-").partition("=")[0], options, f"alebrije {command}", before="--")
    return f"{command} has no option {token!r}; {near}"


def _of_command(event: Any, typed: Sequence[str], known: Mapping[str, type]) -> str:
    """About nothing at all."""
    return f"name a command: {', '.join(known)}; `alebrije --help` explains them"


_SENTENCES: dict[str, Callable[[Any, Sequence[str], Mapping[str, type]], str]] = {
    "InstantiationFailure": _of_value,
    "BadValue": _of_nothing,
    "InvalidChoice": _of_choice,
    "MissingArgs": _of_missing,
    "UnrecognizedArgs": _of_strange,
    "MissingSubcommand": _of_command,
}


def _near(wrong: str, known: Sequence[str], command: str, before: str = "") -> str:
    """The end of a sentence about a wrong name."""
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    return f"did you mean {before + near[0]!r}?" if near else f"`{command} --help` lists what there is"


def _kind(argument: Any) -> str:
    """What an argument wants, in words, from how tyro writes it: INT, {None}|{FLOAT FLOAT}, [STR [STR ...]]."""
    metavar = str(argument.lowered.metavar).removeprefix("{None}|")
    names = metavar.strip("{}[]").replace("[", "").split()
    one = _KINDS[names[0]]
    if len(names) == 1:
        return one
    several = one.partition(" ")[2] + "s"
    return several if metavar.startswith("[") else f"{_COUNTS[len(names)]} {several}"


def _after(flag: str, typed: Sequence[str]) -> list[str]:
    """The words that were typed for an option, the last time it was named."""
    for number in range(len(typed) - 1, -1, -1):
        name, sign, value = typed[number].partition("=")
        if name.replace("_", "-") != flag:
            continue
        if sign:
            return [value]
        rest = list(typed[number + 1 :])
        return rest[: next((at for at, word in enumerate(rest) if word.startswith("--")), len(rest))]
    return []
