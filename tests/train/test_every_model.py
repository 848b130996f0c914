"""Every model of the catalog goes through the loop: the same seed gives the same weights, in one sitting or in two."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from alebrije import models
from alebrije.studies.training import carry_out
from alebrije.train.plan import Plan, plan


def short(name: str, seed: int = 0) -> Plan:
    """Four steps of a tiny model, in the precision that is usual on a GPU."""
    settings: dict[str, object] = {"steps": 4, "batch": 8, "precision": "bfloat16"}
    if name in ("slot-attention", "bo-qsa"):
        settings |= {"warmup": 0, "size": 16, "decoder_layers": 1, "channels": 8}
    return plan(name, preset_name="tiny", images=16, seed=seed, settings=settings)


def trained(made: Plan, folder: Path, until: int | None = None) -> nn.Module:
    return carry_out(made, folder, looks=4, until=until, save_every=2)


def same(first: nn.Module, second: nn.Module) -> bool:
    other = second.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in first.state_dict().items())


@pytest.mark.parametrize("name", list(models.catalog()))
def test_the_seed_decides_and_nothing_else(name: str, tmp_path: Path) -> None:
    first = trained(short(name), tmp_path / "first")
    assert same(first, trained(short(name), tmp_path / "again"))
    assert not same(first, trained(short(name, seed=1), tmp_path / "other"))
    trained(short(name), tmp_path / "parts", until=2)
    assert same(first, trained(short(name), tmp_path / "parts"))


@pytest.mark.parametrize("name", list(models.catalog()))
def test_every_weight_that_is_trained_moves(name: str, tmp_path: Path) -> None:
    start = dict(short(name).new_model().named_parameters())
    model = trained(short(name), tmp_path)
    weights = {key: weight for key, weight in model.named_parameters() if weight.requires_grad}
    assert [key for key, weight in weights.items() if torch.equal(weight, start[key])] == []
