"""Compiled functions: kept for other processes where that is possible, and right where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from alebrije.compiled import compiled

@compiled
def half(value):
    return value / 2.0
"""
FULL_DISK = """
import errno
from numba.core import caching

def fail(self, name, data):
    raise OSError(errno.ENOSPC, "No space left on device")

caching.IndexDataCacheFile._save_data = fail
"""
CALL = "import halves; print(halves.half(3.0), sum(halves.half.stats.cache_hits.values()))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "halves.py").write_text(MODULE)
    return tmp_path


def call(folder: Path, **variables: str) -> list[str]:
    """The value and the number of functions that were found on disk, from a process of its own."""
    paths = os.pathsep.join([str(folder), *sys.path])
    variables = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, check=True, env=variables)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
def test_machine_code_is_kept_and_damage_repaired(folder: Path) -> None:
    assert call(folder) == ["1.5", "0"]
    assert call(folder) == ["1.5", "1"]
    for pattern in ("*.nbi", "*.nbc"):
        for path in (folder / "__pycache__").glob(pattern):
            path.write_bytes(path.read_bytes()[:50])
        assert call(folder) == ["1.5", "0"]
        assert call(folder) == ["1.5", "1"]


@pytest.mark.slow
def test_read_only_package_and_home(folder: Path) -> None:
    (folder / "__pycache__").touch()  # no folder can be made here, not even by root
    home = folder / "home"
    assert call(folder, HOME=str(home), XDG_CACHE_HOME=str(home)) == ["1.5", "0"]
    assert call(folder, HOME=str(home), XDG_CACHE_HOME=str(home)) == ["1.5", "1"]
    nowhere = str(folder / "halves.py" / "home")
    for _ in range(2):
        assert call(folder, HOME=nowhere, XDG_CACHE_HOME=nowhere) == ["1.5", "0"]


@pytest.mark.slow
def test_disk_that_fills_up(folder: Path) -> None:
    (folder / "halves.py").write_text(FULL_DISK + MODULE)
    assert call(folder) == ["1.5", "0"]
