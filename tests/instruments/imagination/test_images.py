"""The episodes of a corpus."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from alebrije.errors import InputError
from alebrije.studies.folder import ResultFolder
from tests.instruments.imagination.running import TINY


def test_training_shows_no_test_combination(folder: ResultFolder) -> None:
    split = TINY.task.split
    subsets = {"train": split.train, "validation": split.train, "known": split.train, "test": split.test}
    sources = []
    for subset, allowed in subsets.items():
        shown = TINY.episodes(folder, subset, 64)  # type: ignore[arg-type]
        assert {tuple(one) for one in shown.source.factors.flatten(0, 1).tolist()} <= set(allowed)
        assert not torch.equal(shown.source_images, shown.target_images)
        sources.append(shown.source_images)
    assert not any(torch.equal(left, right) for left, right in combinations(sources, 2))
    with pytest.raises(InputError, match="at least 1"):
        TINY.episodes(folder, "test", 0)
