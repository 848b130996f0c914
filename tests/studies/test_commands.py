"""The commands that filled a result folder."""

from __future__ import annotations

import json
import logging
import os
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
    first = json.loads((folder.path / NAME).read_text())[0]
    assert (first["study"], first["command"]) == ("analogy", "one")


@pytest.mark.parametrize("content", ["", "{", "[1, null]", '{"study": 3}', '[{"study": "x"}]', "\x00", "[" * 200_000])
def test_a_damaged_file_counts_as_empty(tmp_path: Path, content: str) -> None:
    folder = ResultFolder(tmp_path)
    (tmp_path / NAME).write_text(content)
    assert noted_commands(folder) == {}
    note_command(folder, "analogy", "one")
    assert noted_commands(folder) == {"analogy": ("one",)}


def test_a_changed_command_is_not_listed(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    note_command(folder, "analogy", "alebrije eval pixels")
    note_command(folder, "analogy", "alebrije eval oracle")
    path = tmp_path / NAME
    path.write_text(path.read_text().replace("pixels", "pixelz"))
    assert noted_commands(folder) == {"analogy": ("alebrije eval oracle",)}


def test_commands_of_older_versions_are_listed(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('[{"study": "analogy", "command": "\\u001b[31mone"}]')
    assert noted_commands(ResultFolder(tmp_path)) == {"analogy": ("one",)}


def test_a_pipe_in_its_place_warns_and_the_evaluation_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("alebrije"), "propagate", True)
    os.mkfifo(tmp_path / NAME)
    folder = ResultFolder(tmp_path)
    assert noted_commands(folder) == {}
    note_command(folder, "analogy", "one")
    assert "commands.json: is not a regular file, so this command is not listed" in caplog.text
