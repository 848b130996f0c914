"""Checkpoints: complete or not there, and only of the same model."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from alebrije.errors import InputError
from alebrije.train import Recipe, RunOptions, checkpoints, load_weights, train
from alebrije.train.checkpoint import load_checkpoint, save_checkpoint
from tests.train.small_model import RECIPE, same, small, source


def test_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(save_every=3))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000009", "step-000000012"]
    again = small(seed=8)
    load_weights(checkpoints(tmp_path)[-1], again)
    assert float(again.count) == 12 * 8


def test_a_half_written_checkpoint_is_never_read(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(save_every=4, until=8))
    half = tmp_path / "checkpoints" / ".step-000000012.abc.part"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    train(small(), source(), RECIPE, tmp_path, RunOptions(save_every=4))
    assert not half.exists()
    assert checkpoints(tmp_path)[-1].name == "step-000000012"


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=5))
    path = checkpoints(tmp_path)[-1] / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=r"weights\.safetensors cannot be read"):
        train(small(), source(), RECIPE, tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=5))
    with pytest.raises(InputError, match="holds the weights of another model: weight is missing"):
        load_weights(checkpoints(tmp_path)[-1], nn.Linear(2, 2))


def test_a_killed_removal_is_completed_by_the_next_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = shutil.rmtree

    def killed(path: Path, **how: Any) -> None:
        if path.name.startswith(".step-000000002"):
            raise MemoryError
        remove(path, **how)

    monkeypatch.setattr("alebrije.atomic.shutil.rmtree", killed)
    with pytest.raises(MemoryError):
        train(small(), source(), RECIPE, tmp_path, RunOptions(save_every=2))
    monkeypatch.undo()
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000004", "step-000000006"]
    train(small(), source(), RECIPE, tmp_path, RunOptions(save_every=2))
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["step-000000010", "step-000000012"]


def test_other_files_beside_checkpoints_stay(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=6))
    shutil.copytree(checkpoints(tmp_path)[-1], tmp_path / "checkpoints" / "step-best")
    train(small(), source(), RECIPE, tmp_path)
    assert (tmp_path / "checkpoints" / "step-best" / "step.json").is_file()


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(sys.modules["alebrije.train.checkpoint"], "save_file", full)
    with pytest.raises(InputError, match="the disk is full"):
        train(small(), source(), RECIPE, tmp_path)


def test_a_damaged_checkpoint_does_not_block_the_next(tmp_path: Path) -> None:
    whole = train(small(), source(), RECIPE, tmp_path / "whole")
    train(small(), source(), RECIPE, tmp_path / "run", RunOptions(save_every=6))
    last = checkpoints(tmp_path / "run")[-1]
    (last / "step.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        train(small(), source(), RECIPE, tmp_path / "run")
    (last / "step.json").unlink()
    assert same(whole, train(small(), source(), RECIPE, tmp_path / "run"))
    assert checkpoints(tmp_path / "run")[-1] == last


def test_weights_of_other_shapes_are_refused(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=1))
    other = small()
    other.down = nn.Linear(48, 5)
    with pytest.raises(InputError, match="other shapes"):
        load_weights(checkpoints(tmp_path)[-1], other)


def test_moments_have_the_memory_order_of_their_weights(tmp_path: Path) -> None:
    """Fused Adam walks through both in memory order, and convolutions may be channels-last."""
    model = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 8, 8)
    optimiser = Recipe(steps=1, batch=1, lr=1e-3).make_optimizer(model)
    model(images).square().sum().backward()
    optimiser.gather_gradients()
    optimiser.step()
    path = save_checkpoint(tmp_path, 1, model, optimiser, torch.zeros(1, 8, dtype=torch.uint8))
    again = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    resumed = Recipe(steps=1, batch=1, lr=1e-3).make_optimizer(again)
    load_checkpoint(path, again, resumed)
    for first, second in ((model, optimiser), (again, resumed)):
        second.zero_grad()
        first(images).square().sum().backward()
        second.gather_gradients()
        second.step()
    assert not model.weight.is_contiguous()
    assert torch.equal(model.weight, again.weight)


@pytest.mark.parametrize("name", ["weights.safetensors", "progress.safetensors", "../../run.json"])
def test_a_changed_byte_is_noticed(tmp_path: Path, name: str) -> None:
    (tmp_path / "run.json").write_text('{"size": 64}')
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=5))
    path = checkpoints(tmp_path)[-1] / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1  # still a valid file, with another number
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="has changed since it was written"):
        train(small(), source(), RECIPE, tmp_path)


def test_a_checkpoint_of_an_older_version_has_no_checksums(tmp_path: Path) -> None:
    whole = train(small(), source(), RECIPE, tmp_path / "whole")
    train(small(), source(), RECIPE, tmp_path / "run", RunOptions(until=6))
    (checkpoints(tmp_path / "run")[-1] / "step.json").write_text('{"step": 6}\n')
    assert same(whole, train(small(), source(), RECIPE, tmp_path / "run"))


@pytest.mark.parametrize("name", ["weights.safetensors", "progress.safetensors"])
def test_a_pipe_in_a_checkpoint_is_refused(tmp_path: Path, name: str) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=5))
    path = checkpoints(tmp_path)[-1] / name
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=rf"{name} cannot be read: is not a regular file; remove its folder"):
        train(small(), source(), RECIPE, tmp_path)
