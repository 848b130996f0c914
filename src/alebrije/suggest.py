"""Suggestions for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_LISTED = 30


def closest(wrong: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name closest to a mistyped one, ignoring case; None if nothing is close.

    >>> closest("Sprite", ["clevr", "sprites"])
    'sprites'
    """
    by_lower = {name.lower(): name for name in reversed(list(known))}
    near = difflib.get_close_matches(str(wrong).lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(wrong: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """The end of an error message about a wrong name: the closest name, or all names if there are few.

    `otherwise` replaces the list of names.

    >>> did_you_mean("sprite", ["clevr", "sprites"])
    "; did you mean 'sprites'?"
    >>> did_you_mean("mnist", ["clevr", "sprites"])
    '; choose from clevr, sprites'
    """
    names = list(known)
    near = closest(wrong, names)
    if near is not None:
        return f"; did you mean {near!r}?"
    if otherwise is not None:
        return f"; {otherwise}"
    return f"; choose from {', '.join(names)}" if 0 < len(names) <= _MOST_LISTED else ""
