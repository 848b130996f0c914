"""The commands that filled a result folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alebrije.studies.commands import NAME, note_command, noted_commands
from alebrije.studies.folder import ResultFolder


def test_commands_are_stored_once_and_in_order(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "study")
    assert noted_commands(folder) == {}
    for command in ("one", "two", "one"):
        note_command(folder, "analogy", command)
    note_command(folder, "neurons", "three")
    assert noted_commands(folder) == {"analogy": ("one", "two"), "neurons": ("three",)}
    assert json.loads((folder.path / NAME).read_text())[0] == {"study": "analogy", "command": "one"}


@pytest.mark.parametrize("content", ["", "{", "[1, null]", '{"study": 3}', '[{"study": "x"}]', "\x00"])
def test_a_damaged_file_counts_as_empty(tmp_path: Path, content: str) -> None:
    folder = ResultFolder(tmp_path)
    (tmp_path / NAME).write_text(content)
    assert noted_commands(folder) == {}
    note_command(folder, "analogy", "one")
    assert noted_commands(folder) == {"analogy": ("one",)}
