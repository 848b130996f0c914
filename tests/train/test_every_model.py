"""Every model of the catalog trains: the same seed gives the same weights, in one part or in two."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from alebrije import models
from alebrije.train.options import RunOptions
from alebrije.train.plan import Plan, plan
from alebrije.train.run import run_plan
from alebrije.train.view_presets import VIEW_PRESETS


def short(name: str, seed: int = 0) -> Plan:
    """Four steps of a tiny model, in bfloat16."""
    settings: dict[str, object] = {"steps": 4, "batch": 8, "precision": "bfloat16"}
    if name in ("slot-attention", "bo-qsa"):
        settings |= {"warmup": 0, "size": 16, "decoder_layers": 1, "channels": 8}
    if name == "weakde":
        settings |= {"warmup": 2, "statistics": 1}
    if name == "parted-vae-ss":
        settings |= {"labelled": 12, "passes": "epoch"}
    if name in VIEW_PRESETS:
        settings |= {"warmup": 0}
    if name == "iodine":
        settings |= {"warmup": 0, "channels": 8, "hidden": 16}
    images = 16
    if name.startswith("savi"):
        settings |= {"warmup": 0, "size": 16, "channels": 8, "slot_size": 16, "projections": 16}
        images = 2  # videos
    return plan(name, preset_name="tiny", images=images, seed=seed, settings=settings)


def trained(made: Plan, folder: Path, until: int | None = None) -> nn.Module:
    return run_plan(made, folder, RunOptions(check_size=4, until=until, save_every=2))


def same(first: nn.Module, second: nn.Module) -> bool:
    other = second.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in first.state_dict().items())


@pytest.mark.parametrize("name", list(models.catalog()))
def test_weights_depend_only_on_the_seed(name: str, tmp_path: Path) -> None:
    first = trained(short(name), tmp_path / "first")
    assert same(first, trained(short(name), tmp_path / "again"))
    assert not same(first, trained(short(name, seed=1), tmp_path / "other"))
    trained(short(name), tmp_path / "parts", until=2)
    assert same(first, trained(short(name), tmp_path / "parts"))


# attention over a single vector always gives that vector: what makes the queries has no gradient but rounding
WITHOUT_GRADIENT = {"i2i-cnn": (".cross_norm.", ".cross_attention.projections.")}


@pytest.mark.parametrize("name", list(models.catalog()))
def test_every_trainable_weight_changes(name: str, tmp_path: Path) -> None:
    start = dict(short(name).new_model().named_parameters())
    model = trained(short(name), tmp_path)
    without = WITHOUT_GRADIENT.get(name, ())
    weights = {
        key: weight
        for key, weight in model.named_parameters()
        if weight.requires_grad and not any(part in key for part in without)
    }
    assert [key for key, weight in weights.items() if torch.equal(weight, start[key])] == []
