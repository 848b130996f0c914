"""The corpora of analogy."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alebrije import worlds
from alebrije.instruments.analogy.images import CORPORA, ROLES, WHITE, Corpus
from alebrije.studies.folder import ResultFolder


@pytest.mark.parametrize("name", [*CORPORA, WHITE])
def test_a_corpus_shows_the_analogies_of_worlds(name: str, tmp_path: Path) -> None:
    views = Corpus(name, 3, 16).views(ResultFolder(tmp_path))
    cases = worlds.analogies("clevr", 3, occluded=name != "unoccluded", white=name == WHITE)
    assert tuple(views) == ROLES
    for role, scenes in {"a": cases.a, "b": cases.b, "c": cases.c, "d": cases.d, **cases.negatives}.items():
        shown = views[role].scenes
        assert shown is not None
        assert shown.equals(scenes)
        assert torch.equal(views[role].images, worlds.get("coat").render(scenes, 16).images)
    assert views["pixel"].scenes is None
    pixel = cases.pixel_negative(views["a"].images, views["b"].images, views["c"].images)
    assert torch.equal(views["pixel"].images, pixel)
