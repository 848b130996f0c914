"""`alebrije cache`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from alebrije.data.machine_cache import FOLDER, MachineCache
from tests.cli.command import call


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MachineCache:
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    return MachineCache(tmp_path / "cache")


def fill(cache: MachineCache, count: int) -> None:
    for seed in range(count):
        settings = {"name": "grouping-sprites", "images": 8, "seed": seed}
        cache.get(settings, lambda: {"images": np.zeros(2000, np.uint8)})


def test_an_empty_cache(cache: MachineCache) -> None:
    assert call("cache").out == f"{cache.path}: 0 entries, 0 bytes of 10.0 GB at most\n"
    assert not cache.path.exists()


def test_entries_are_listed(cache: MachineCache) -> None:
    fill(cache, 2)
    outcome = call("cache")
    assert outcome.code == 0
    assert outcome.out.count("grouping-sprites") == 2
    assert "images 8, seed 1, device cpu" in outcome.out
    assert "2 entries, " in outcome.out.splitlines()[-1]


def test_damaged_entries_are_removed(cache: MachineCache) -> None:
    fill(cache, 2)
    assert call("cache", "--check").out.endswith("0 damaged\n")
    path = sorted(cache.path.glob("world-images/*/images.npy"))[0]
    os.truncate(path, 7)
    outcome = call("cache", "--check")
    assert outcome.complaints == [f"damaged, removed: {path.parent.name}"]
    assert len(cache.entries()) == 1


def test_clearing(cache: MachineCache) -> None:
    fill(cache, 1)
    assert call("cache", "--clear").out.startswith("Removed 1 entry, 2.")
    assert cache.entries() == []


def test_a_cache_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "off")
    assert "switched off" in call("cache").out


def test_a_bad_limit_is_one_sentence(cache: MachineCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALEBRIJE_CACHE_LIMIT", "plenty")
    outcome = call("cache")
    assert outcome.code == 2
    assert outcome.complaints == ["alebrije: ALEBRIJE_CACHE_LIMIT must be a number of gigabytes, not 'plenty'"]
