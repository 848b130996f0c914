"""Passes over labelled images: when they are due, that they are plain Adam, and that runs continue with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.models import Batch
from alebrije.train import Recipe, RunOptions, labelled_pass, train
from alebrije.train.labelled_pass import LabelledPass, LabelledSet, _laid_out_as
from tests.train.small_model import RECIPE, Small, same, source


class Labelled(Small):
    """The small model with two classes; `up` is not reached by the labels."""

    def __init__(self) -> None:
        super().__init__(dropout=0.0)
        self.head = nn.Linear(4, 2)

    def labelled_loss(self, batch: Batch) -> Tensor:
        return F.cross_entropy(self.head(self.down(batch["images"].flatten(1))), batch["labels"][:, 0])


def labelled_set(every: int = 1, updates: int = 1) -> LabelledSet:
    images = source().items["images"]
    items = {"images": images, "labels": (images[:, 0, 0, :1] > 127).long()}
    return LabelledSet(items, batch=4, every=every, updates=updates)


def model() -> Labelled:
    torch.manual_seed(0)
    return Labelled()


def test_updates_are_those_of_adam_on_the_labels_alone() -> None:
    ours, theirs, labelled = model(), model(), labelled_set()
    passes = LabelledPass(ours, labelled, 1e-2, "float32", fast=True)
    assert passes.names == ["down.weight", "down.bias", "head.weight", "head.bias"]
    optimiser = torch.optim.Adam(theirs.parameters(), 1e-2)
    for step in range(3):
        passes.before(step)
        batch = passes.source.batch(4 * step, 4)
        optimiser.zero_grad()
        theirs.labelled_loss({"images": batch["images"] / 255, "labels": batch["labels"]}).backward()
        optimiser.step()
    for weight, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-6)
        assert weight.grad is None


def test_a_pass_is_due_before_every_epoch() -> None:
    passes, updates = LabelledPass(model(), labelled_set(every=5, updates=3), 1e-3, "float32", fast=False), []
    passes._update = lambda batch: updates.append(len(batch["labels"]))  # type: ignore[method-assign]
    counts = []
    for step in range(11):
        passes.before(step)
        counts.append(len(updates))
    assert counts == [3, 3, 3, 3, 3, 6, 6, 6, 6, 6, 9]


def test_the_rate_falls_when_the_labels_are_no_longer_learned() -> None:
    items = {"images": source().items["images"], "labels": torch.randint(2, (20, 1))}
    passes = LabelledPass(model(), LabelledSet(items, 4, 1, 1), 1e-9, "float32", fast=False)
    for step in range(30):
        passes.before(step)
    assert float(passes.plateau.factor) < 1
    assert float(passes.adam.param_groups[0]["lr"]) == pytest.approx(1e-9 * float(passes.plateau.factor), rel=1)


@pytest.mark.parametrize("every", [1, 5])
def test_a_run_in_two_parts_equals_one(tmp_path: Path, every: int) -> None:
    def run(folder: str, until: int | None = None) -> nn.Module:
        options = RunOptions(until=until, save_every=3, log_every=3)
        return train(model(), source(), RECIPE, tmp_path / folder, options, labelled=labelled_set(every, 2))

    whole = run("whole")
    run("parts", until=6)
    assert same(whole, run("parts"))
    assert not same(whole, train(model(), source(), RECIPE, tmp_path / "without"))


def test_labels_are_learned_beside_a_loss_that_ignores_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled_pass, "_PATIENCE", 1000)  # passes are too short here for its plateau
    recipe = Recipe(steps=300, batch=8, lr=1e-2, precision="float32")
    trained = train(model(), source(), recipe, tmp_path, labelled=labelled_set())
    items = labelled_set().items
    with torch.no_grad():
        error = trained.labelled_loss({"images": items["images"] / 255, "labels": items["labels"]})
    assert float(error) < 0.3


def test_moments_are_laid_out_as_their_weights() -> None:
    """Fused Adam on a GPU needs it, where weights of convolutions have their channels last."""
    weight = torch.zeros(8, 6, 4, 4).to(memory_format=torch.channels_last)
    stored = torch.rand(8, 6, 4, 4)
    loaded = _laid_out_as(weight, stored)
    assert loaded.stride() == weight.stride() != stored.stride()
    assert torch.equal(loaded, stored)
    assert _laid_out_as(weight, torch.tensor(3.0)) == 3
