"""Runs: every tiny preset from plan to numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije.train import RunOptions, checkpoints, load_weights
from alebrije.train.plan import Plan, plan
from alebrije.train.run import run_plan
from alebrije.train.run_folder import read_plan


def tiny(model: str, steps: int = 3, **changes: Any) -> Plan:
    return plan(model, preset_name="tiny", settings={"steps": steps, "warmup": 0, **changes})


def history(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def weights(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


class TestRuns:
    @pytest.mark.parametrize("model", ["i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "svib-oracle"])
    def test_every_model_of_episodes_ends_in_numbers(self, tmp_path: Path, model: str) -> None:
        made = tiny(model, steps=4)
        trained = run_plan(made, tmp_path, RunOptions(check_size=16, check_every=2, save_every=4, log_every=2))
        assert not trained.training
        assert not torch.equal(weights(trained), weights(made.new_model()))
        lines = history(tmp_path)
        assert [(line["step"], "gap" in line) for line in lines] == [(2, False), (2, True), (4, False), (4, True)]
        for line in lines:
            assert all(math.isfinite(value) for value in line.values())
        assert 0 < lines[-1]["in-distribution error"] < 3 * 16 * 16

    @pytest.mark.parametrize(
        "model",
        ["ae", "beta-vae", "beta-tcvae", "factor-vae", "parted-vae", "slot-attention", "bo-qsa", "iodine", "moco"],
    )
    def test_every_model_of_images_ends_in_numbers(self, tmp_path: Path, model: str) -> None:
        made = plan(model, preset_name="tiny", images=32, settings={"steps": 2, "batch": 8, "warmup": 0})
        run_plan(made, tmp_path, RunOptions(check_size=8, save_every=2))
        lines = history(tmp_path)
        for line in lines:
            assert all(math.isfinite(value) for value in line.values())
        assert ("reconstruction error" in lines[-1]) == (model != "moco")
        assert ("FG-ARI" in lines[-1]) == (model in ("slot-attention", "bo-qsa", "iodine"))

    def test_a_tiny_preset_learns(self, tmp_path: Path) -> None:
        made = tiny("svib-oracle", steps=60)
        run_plan(made, tmp_path, RunOptions(check_size=32, check_every=60, save_every=60, log_every=10))
        lines = history(tmp_path)
        assert lines[5]["loss"] < 0.5 * lines[0]["loss"]

    def test_a_run_in_two_parts_equals_one_run(self, tmp_path: Path) -> None:
        made = tiny("ssm-slot", steps=6)
        whole = run_plan(made, tmp_path / "whole", RunOptions(check_size=4))
        run_plan(made, tmp_path / "parts", RunOptions(check_size=4, until=2))
        assert checkpoints(tmp_path / "parts")[-1].name == "step-000000002"
        parts = run_plan(read_plan(tmp_path / "parts"), tmp_path / "parts", RunOptions(check_size=4))
        assert torch.equal(weights(whole), weights(parts))

    def test_a_finished_run_changes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = tiny("i2i-cnn")
        done = run_plan(made, tmp_path, RunOptions(check_size=4))
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        monkeypatch.setattr(Plan, "scene_set", None)  # it renders nothing
        again = run_plan(made, tmp_path, RunOptions(check_size=4))
        assert torch.equal(weights(done), weights(again))
        assert not again.training
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before

    def test_the_checkpoint_is_the_model(self, tmp_path: Path) -> None:
        made = tiny("ssm-vae")
        done = run_plan(made, tmp_path, RunOptions(check_size=4))
        model = read_plan(tmp_path).new_model()
        load_weights(checkpoints(tmp_path)[-1], model)
        assert torch.equal(weights(done), weights(model))

    def test_seeds_differ(self, tmp_path: Path) -> None:
        runs = [
            run_plan(
                plan("i2i-cnn", preset_name="tiny", seed=seed, settings={"steps": 1}),
                tmp_path / str(run),
                RunOptions(check_size=4),
            )
            for run, seed in enumerate((0, 1, 0))
        ]
        assert not torch.equal(weights(runs[0]), weights(runs[1]))
        assert torch.equal(weights(runs[0]), weights(runs[2]))
