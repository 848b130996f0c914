"""The commands that filled a result folder, stored beside the results so that the report can show them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alebrije.atomic import write_atomically
from alebrije.studies.folder import ResultFolder

NAME = "commands.json"
_MOST = 1_000  # commands that are stored; the oldest are dropped


def note_command(folder: ResultFolder, study: str, command: str) -> None:
    """Store the command that computed cells of a study, once."""
    with folder.locked("commands"):
        kept = _entries(folder.path / NAME)
        entry = {"study": study, "command": command}
        if entry in kept:
            return
        folder.path.mkdir(parents=True, exist_ok=True)
        text = json.dumps([*kept, entry][-_MOST:], indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder.path / NAME, text)


def noted_commands(folder: ResultFolder) -> dict[str, tuple[str, ...]]:
    """The commands of each study, oldest first; none if the file is damaged."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in _entries(folder.path / NAME):
        found[entry["study"]] = (*found.get(entry["study"], ()), entry["command"])
    return found


def derived_command(study: str, size: str | None, folder: Path) -> str:
    """The command that computes a study into a folder.

    >>> derived_command("grouping", "tiny", Path("my results"))
    "alebrije study grouping --size tiny --out 'my results'"
    """
    words = ["alebrije", "study", study, *(["--size", size] if size else []), "--out", str(folder)]
    return shlex.join(words)


def _entries(path: Path) -> list[Mapping[str, str]]:
    try:
        read: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return [
        {"study": one["study"], "command": one["command"]}
        for one in (read if isinstance(read, list) else [])
        if isinstance(one, dict) and isinstance(one.get("study"), str) and isinstance(one.get("command"), str)
    ]
