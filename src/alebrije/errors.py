"""Errors and warnings that a user can do something about."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, other strings
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # all but tab and new line


def plain(text: str) -> str:
    r"""A text without terminal escapes, control characters and changes of direction.

    Messages of other people's code are printed and stored, and a terminal would obey them.

    >>> plain("\x1b[31mred\x1b[0m\x07, \x1b]0;title\x07one\r\ntwo")
    'red, one\ntwo'
    """
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


class InputError(ValueError):
    """Bad input. The message says in one sentence what is wrong and what is expected."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(plain(each) if isinstance(each, str) else each for each in args))


class DivergedError(RuntimeError):
    """Training diverged: a loss or a weight is NaN or infinite. The message says where and what is left."""


class UndefinedMetricWarning(UserWarning):
    """A score is NaN because the metric is undefined for this input. The message says why."""
