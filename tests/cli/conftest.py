"""Fixtures of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder with a file and a Python module."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "mine.py").write_text("")
