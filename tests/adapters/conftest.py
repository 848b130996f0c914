"""Images, and a folder as a stranger has it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor


@pytest.fixture
def images() -> Tensor:
    return torch.randint(0, 256, (7, 3, 20, 20), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory, which Python has not been told of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
