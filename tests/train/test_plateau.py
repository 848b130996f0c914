"""Reduce on plateau: the same decisions as torch, on the device, and a resumed run equals an uninterrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alebrije.errors import InputError
from alebrije.train import Recipe, RunOptions, checkpoints, train
from alebrije.train.plateau import Plateau, PlateauRule
from tests.train.small_model import history, same, small, source

CPU = torch.device("cpu")
RECIPE = Recipe(
    steps=24,
    batch=8,
    lr=1e-2,
    warmup=3,
    decay="plateau",
    window=3,
    patience=0,
    threshold=0.2,
    drop=0.5,
    precision="float32",
)


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize(("patience", "threshold", "cooldown"), [(0, 0.0, 0), (1, 0.01, 4), (2, 0.1, 3), (3, 0.01, 0)])
def test_decisions_agree_with_torch(window: int, patience: int, threshold: float, cooldown: int) -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([weight], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=0.5, patience=patience, threshold=threshold, cooldown=cooldown, eps=0.0
    )
    ours = Plateau(PlateauRule(window, patience, threshold, cooldown, 0.5), CPU)
    generator = torch.Generator().manual_seed(1)
    falling = 3.0 * 0.97 ** torch.arange(60.0) + 0.2 * torch.rand(60, generator=generator)  # then about constant
    factors = []
    for mean in falling.tolist():
        for _ in range(window):
            ours.update(torch.tensor(mean))
        theirs.step(mean)
        assert float(ours.factor) == pytest.approx(optimiser.param_groups[0]["lr"])
        factors.append(float(ours.factor))
    assert factors[0] == 1.0
    assert factors[-1] <= 0.25


def test_nothing_is_decided_within_a_window() -> None:
    plateau = Plateau(PlateauRule(window=4, patience=0, threshold=0.0, cooldown=0, drop=0.5), CPU)
    factors = []
    for loss in [1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0]:
        plateau.update(torch.tensor(loss))
        factors.append(float(plateau.factor))
    assert factors == [1.0] * 7 + [0.5] * 2


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = train(small(), source(), RECIPE, tmp_path / "whole", RunOptions(log_every=1))
    rates = [line["lr"] for line in history(tmp_path / "whole")]
    assert rates[:3] == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2])  # the warm-up
    assert rates[3] == pytest.approx(1e-2)
    assert 0 < rates[-1] < 6e-3
    for until in (4, 10, 17):  # within and at the end of a window
        train(small(), source(), RECIPE, tmp_path / "parts", RunOptions(log_every=1, until=until))
    assert same(whole, train(small(), source(), RECIPE, tmp_path / "parts", RunOptions(log_every=1)))
    assert [line["lr"] for line in history(tmp_path / "parts")] == rates


def test_a_checkpoint_of_another_decay_is_refused(tmp_path: Path) -> None:
    constant = Recipe(steps=24, batch=8, lr=1e-2, precision="float32")
    train(small(), source(), constant, tmp_path, RunOptions(until=4))
    assert checkpoints(tmp_path)
    with pytest.raises(InputError, match="has no state of the decay `plateau`"):
        train(small(), source(), RECIPE, tmp_path)
