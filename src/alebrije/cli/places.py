"""Files and folders that commands write to: what can be no name at all is refused before any work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro

_LONGEST = 255  # bytes of a name, on all file systems in common use


def place(text: str) -> Path:
    """The path that was typed.

    >>> place("found/report.html").name
    'report.html'
    >>> place("")
    Traceback (most recent call last):
        ...
    ValueError: wants the name of a file or folder, and got none; the current folder is .
    """
    if not text.strip():
        raise ValueError("wants the name of a file or folder, and got none; the current folder is .")
    for part in Path(text).parts:
        if (length := len(os.fsencode(part))) > _LONGEST:
            raise ValueError(f"has a name of {length} bytes, {part[:20]!r}...; a name can have {_LONGEST}")
    return Path(text)


Place = Annotated[
    Path,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=lambda words: place(words[0]),
        is_instance=lambda found: isinstance(found, Path),
        str_from_instance=lambda path: [str(path)],
    ),
]
