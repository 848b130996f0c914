"""Paths that commands write to. A path that no file system accepts is refused before any work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro

_LONGEST = 255  # bytes of a name on all common file systems


def parse_path(text: str) -> Path:
    """The path that was typed.

    >>> parse_path("found/report.html").name
    'report.html'
    >>> parse_path("")
    Traceback (most recent call last):
        ...
    ValueError: needs the name of a file or folder and is empty; the current folder is .
    """
    if not text.strip():
        raise ValueError("needs the name of a file or folder and is empty; the current folder is .")
    for part in Path(text).parts:
        if (length := len(os.fsencode(part))) > _LONGEST:
            raise ValueError(f"has a name of {length} bytes, {part[:20]!r}...; at most {_LONGEST} are allowed")
    return Path(text)


OutPath = Annotated[
    Path,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=lambda words: parse_path(words[0]),
        is_instance=lambda value: isinstance(value, Path),
        str_from_instance=lambda path: [str(path)],
    ),
]
