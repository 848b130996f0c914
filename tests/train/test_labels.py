"""Labels: which factors a model learns from, and their bins."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.train.labels import LabelledImages, Labels, balanced_rows
from alebrije.train.plan import plan
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


BALANCE = "shape,scale,orientation/2,position x/2,position y/2"  # of PartedVAE's release


def test_balanced_rows_have_every_combination_equally_often() -> None:
    world = worlds.get("dsprites")
    strata = Labels.parse(BALANCE, world.vocabulary.names, world.vocabulary.counts, "balance")
    scenes = world.sample(12_000, seed=0)
    rows = balanced_rows(strata, scenes, 300, seed=1)
    frequencies = strata.of(scenes.factors[rows, 0]).unique(dim=0, return_counts=True)[1]
    assert len(rows.unique()) == 300
    assert sorted(frequencies.tolist()) == [2] * 132 + [3] * 12  # 144 combinations
    assert torch.equal(rows, balanced_rows(strata, scenes, 300, seed=1))
    assert not torch.equal(rows, balanced_rows(strata, scenes, 300, seed=2))


def test_rare_combinations_are_all_chosen() -> None:
    world = worlds.get("dsprites")
    strata = Labels.parse("shape", world.vocabulary.names, world.vocabulary.counts)
    shapes = torch.tensor([0] * 50 + [1] * 3 + [2] * 20)
    factors = torch.zeros(73, 1, len(world.vocabulary.names), dtype=torch.int64)
    factors[:, 0, world.vocabulary.names.index("shape")] = shapes
    scenes = replace(world.sample(73, seed=0), factors=factors)
    assert shapes[balanced_rows(strata, scenes, 23, seed=0)].bincount().tolist() == [10, 3, 10]


@pytest.mark.parametrize("images", [400, 0])
def test_a_plan_draws_balanced_labelled_images(images: int) -> None:
    settings = {"balance": "shape,position x/2", "labelled": 12}
    made = plan("parted-vae-ss", preset_name="tiny", world="dsprites", images=images, settings=settings, dry_run=False)
    cpu = torch.device("cpu")
    labelled = made.labelled_set(made.source(cpu), cpu)
    assert labelled is not None
    assert labelled.items["labels"][:, 0].bincount().tolist() == [4, 4, 4]


@pytest.mark.parametrize("text", ["shap", "shape/9"])
def test_a_plan_refuses_other_strata(text: str) -> None:
    with pytest.raises(InputError, match="balance"):
        plan("parted-vae-ss", preset_name="tiny", world="dsprites", settings={"balance": text})
