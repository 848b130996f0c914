"""Encoding images: batches, codes that cannot be used, and models that cannot be examined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from alebrije import worlds
from alebrije.adapters import Encoder
from alebrije.adapters.embeddings import Embeddings
from alebrije.errors import InputError
from alebrije.studies.encode import (
    READS_SCENES,
    NotExaminedError,
    batches,
    check_codes_finite,
    examining,
    join_codes,
)
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, TrainedModel, View
from alebrije.studies.references import Noise
from alebrije.train.plan import plan


def test_batches_split_images_scenes_and_masks_alike() -> None:
    world = worlds.get("sprites")
    scenes = world.sample(5)
    frames = world.render(scenes, 16)
    parts = list(batches(View(frames.images, scenes, frames.masks), 2))
    assert [len(part) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part.images for part in parts]), frames.images)
    assert torch.equal(torch.cat([part.masks for part in parts if part.masks is not None]), frames.masks)
    assert all(part.scenes is not None and len(part.scenes) == len(part) for part in parts)
    assert next(batches(View(frames.images), 8)).scenes is None


def test_codes_of_different_shapes_cannot_be_joined() -> None:
    with pytest.raises(InputError, match=r"the same shape, not \[2, 4\] and \[3, 4\]; give the model a fixed number"):
        join_codes([torch.zeros(1, 3, 4), torch.zeros(1, 2, 4)])


def test_codes_that_are_not_finite_are_not_examined() -> None:
    check_codes_finite(torch.zeros(3))
    for bad in (float("nan"), float("inf")):
        with pytest.raises(NotExaminedError, match="NaN or infinite"):
            check_codes_finite(np.array([0.0, bad]))


def test_embeddings_of_other_images_are_not_examined() -> None:
    arrays = {"codes": np.zeros((2, 5), "f4"), "images": np.zeros((2, 3, 4, 4), "u1")}
    model = LoadedModel(Encoder(Embeddings("codes.npz", arrays), name="table"))
    with pytest.raises(NotExaminedError, match=r"codes\.npz.*; use these images"), examining(model, "use these images"):
        model.encode(View(torch.ones(1, 3, 4, 4, dtype=torch.uint8)))


def test_other_errors_stay_errors() -> None:
    with pytest.raises(InputError, match=r"^wrong$") as caught, examining(Noise()):
        raise InputError("wrong")
    assert not isinstance(caught.value, NotExaminedError)


def test_a_model_that_reads_scenes_is_not_examined(tmp_path: Path) -> None:
    made = plan("svib-oracle", preset_name="tiny", world="sprites", images=4)
    model = TrainedModel(made, ResultFolder(tmp_path))
    with pytest.raises(NotExaminedError, match=READS_SCENES), examining(model):
        pytest.fail("it must not be shown images")
