"""What every reader and writer refuses in the same words."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import SupportsIndex

from alebrije.errors import InputError


def whole_number(name: str, value: SupportsIndex, least: int) -> int:
    """A number of Python or numpy, refused if it is not whole or less than `least`.

    >>> whole_number("limit", 3, 1)
    3
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, not {value!r}") from error
    if number < least:
        raise InputError(f"{name} must be at least {least}, not {number}")
    return number


@contextmanager
def reading_trouble_named(path: Path) -> Iterator[None]:
    """A missing right or a failing device becomes one sentence, which names the file where the system tells it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename or path}: cannot be read: {error.strerror or error}") from error
