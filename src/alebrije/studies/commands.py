"""The commands that filled a result folder, stored beside the results so that the report can show them."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alebrije.atomic import explain_write_errors, write_atomically
from alebrije.errors import InputError, plain
from alebrije.files import read_json
from alebrije.results.canonical_json import digest
from alebrije.studies.folder import ResultFolder

NAME = "commands.json"
_LOG = logging.getLogger("alebrije")
_MOST = 1_000  # commands that are stored; the oldest are dropped


def note_command(folder: ResultFolder, study: str, command: str) -> None:
    """Store the command that computed cells of a study, once. Without it the results are as good, so a fault warns."""
    try:
        with folder.locked("commands"):
            kept = _entries(folder.path / NAME)
            entry = {"study": study, "command": plain(command).encode(errors="backslashreplace").decode()}
            if entry in kept:
                return
            entries = [each | {"checksum": _checksum(each)} for each in [*kept, entry][-_MOST:]]
            with explain_write_errors(folder.path):
                folder.path.mkdir(parents=True, exist_ok=True)
                write_atomically(folder.path / NAME, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    except InputError as error:
        _LOG.warning("%s, so this command is not listed in the report", error)


def noted_commands(folder: ResultFolder) -> dict[str, tuple[str, ...]]:
    """The commands of each study, oldest first; none if the file is damaged, and none that were changed."""
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


def _entries(path: Path) -> list[dict[str, str]]:
    try:
        read: Any = read_json(path)
    except (OSError, ValueError):
        return []
    entries = []
    for one in read if isinstance(read, list) else []:
        if isinstance(one, dict) and isinstance(one.get("study"), str) and isinstance(one.get("command"), str):
            entry = {"study": one["study"], "command": plain(one["command"])}
            if one.get("checksum") in (None, _checksum(entry)):  # older entries lack it
                entries.append(entry)
    return entries


def _checksum(entry: Mapping[str, str]) -> str:
    return digest({"study": entry["study"], "command": entry["command"]})[:16]
