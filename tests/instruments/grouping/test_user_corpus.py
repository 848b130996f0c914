"""Grouping on a user's own images: the same scores as the world they came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import alebrije
from alebrije.data.datasets import datasets_for, write_dataset
from alebrije.errors import InputError
from alebrije.instruments import grouping
from alebrije.instruments.grouping.images import object_counts
from alebrije.instruments.grouping.user_corpus import corpus_of
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request


class Slots(nn.Module):
    """Five random slots."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.masks = nn.Conv2d(3, 5, 3, padding=1)

    def forward(self, images: Tensor) -> alebrije.Encoding:
        masks = self.masks(images).softmax(1)
        return alebrije.Encoding(slots=torch.einsum("bkhw,bchw->bkc", masks, images), masks=masks)


def test_the_export_of_a_world_scores_like_the_world(tmp_path: Path) -> None:
    (dataset,) = datasets_for("sprites", size=32, seed=0).values()
    write_dataset(dataset, 100, tmp_path / "sprites")
    options = {"size": "tiny", "out": tmp_path / "out", "name": "mine"}
    world = alebrije.evaluate(Slots(), "grouping", worlds="sprites", **options)
    own = alebrije.evaluate(Slots(), worlds=f"data:{tmp_path / 'sprites'}", **options)
    assert {result.cell.study for result in own.results} == {"grouping"}, "the images have no attributes"
    for name in ("fg-ari", "fg-arp", "fg-arr", "ari"):
        assert own.value(name).score == world.value(name).score, name
        assert own.value(name).interval == world.value(name).interval, name
    assert own.value("fg-ari").details["images"] == 64, "as many as of the world"


def test_images_in_memory_of_any_shape(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (9, 3, 24, 40), dtype=np.uint8)
    masks = random.integers(0, 4, (9, 24, 40))
    report = alebrije.evaluate(Slots(), images=images, masks=masks, size="tiny", beside="oracle", out=tmp_path / "out")
    assert report.score("fg-ari", model="oracle") == 1.0
    assert abs(report.score("fg-ari") or 1.0) < 0.05, "the masks are noise"
    stored = next((tmp_path / "out/user-images").iterdir())
    view = corpus_of(f"data:{stored}", 9, 32).view(ResultFolder(tmp_path / "out"))
    assert object_counts(view).tolist() == [3] * 9
    request = Request("tiny", ("bo-qsa",), worlds=(f"data:{stored}",))
    with pytest.raises(InputError, match="cannot be trained on data:"):
        grouping.INSTRUMENT.jobs(ResultFolder(tmp_path), request)
