"""Options of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije.errors import InputError
from alebrije.train import RunOptions, train
from tests.train.small_model import RECIPE, small, source


def test_intervals_are_at_least_a_step(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be at least 1"):
        train(small(), source(), RECIPE, tmp_path, RunOptions(log_every=0))
