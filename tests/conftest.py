"""The order of the tests, and genuine data for those that compare with it; they are skipped where it is absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import Programs

ROOT = Path(__file__).parents[1]
LONGEST = """
    pages slot_attention eval_command demo study_cells study_analogy study_imagination make records autoencoders loop
    toys_page imagination_models train_command state_space analogy cache worlds svib zoos fused study_neurons clevrtex
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: two processes share them, and neither is to wait for the other at the end."""
    place = {f"test_{name}.py": number for number, name in enumerate(LONGEST.split())}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """What starts programs that need torch at once."""
    found = Programs()
    yield found
    found.close()


def _genuine(name: str) -> Path:
    """`samples` or `combinations` of the folder of the released SVIB samples."""
    folder = Path(os.environ.get("ALEBRIJE_SVIB_SAMPLES") or ROOT / "../shared/svib")
    if not (folder / name).is_dir():
        pytest.skip(f"set ALEBRIJE_SVIB_SAMPLES to a folder of the released SVIB samples that has {name}/")
    return folder / name


@pytest.fixture(scope="session")
def svib_samples() -> Path:
    """Released episodes: {dSprites,CLEVR,CLEVRTex}/{Single,Multiple}_{Atomic,Non-Atomic}/..."""
    return _genuine("samples")


@pytest.fixture(scope="session")
def svib_combinations() -> Path:
    """Released lists of combinations: {clevr,clevrtex}_{core,test,train}_binds*.json"""
    return _genuine("combinations")
