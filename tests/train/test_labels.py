"""Labels: which factors a model learns from, and their bins."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.train.labels import LabelledImages, Labels
from alebrije.train.scene_sets import Images

NAMES, COUNTS = ("color", "shape", "position x"), (1, 3, 32)


def test_factors_are_chosen_and_divided_into_bins() -> None:
    labels = Labels.parse("position x/3, shape", NAMES, COUNTS)
    factors = torch.stack((torch.zeros(32), torch.arange(32) % 3, torch.arange(32)), 1).long()
    found = labels.of(factors)
    assert labels.counts == (3, 3)
    assert torch.equal(found[:, 1], factors[:, 1])
    assert found[:, 0].bincount().tolist() == [11, 11, 10]
    assert (found[:, 0].diff() >= 0).all()


def test_all_are_the_factors_that_vary() -> None:
    labels = Labels.parse("all", NAMES, COUNTS)
    assert (labels.columns, labels.counts) == ((1, 2), (3, 32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shap", "labels has no factor 'shap'; did you mean 'shape'?"),
        ("shape,shape", "names a factor twice"),
        ("shape/4", "divide the 3 values of shape into 2 to 3 bins, not '4'"),
        ("shape/x", "bins, not 'x'"),
        ("", "has no factor ''"),
    ],
)
def test_other_labels_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        Labels.parse(text, NAMES, COUNTS)


def test_images_come_with_their_labels() -> None:
    world = worlds.get("rooms")
    labels = Labels.parse("shape,scale/2", world.vocabulary.names, world.vocabulary.counts)
    labelled = LabelledImages(Images(world, 16, seed=0), labels)
    scenes = labelled.scenes(3, 4)
    batch = labelled.render(scenes, torch.device("cpu"))
    assert batch["images"].shape == (4, 3, 16, 16)
    columns = [world.vocabulary.names.index(name) for name in ("shape", "scale")]
    expected = scenes.factors[:, 0, columns] // torch.tensor([1, 4])
    assert torch.equal(batch["labels"], expected)
