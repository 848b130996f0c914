"""Logs for TensorBoard and Weights & Biases: what they get, and what happens without the packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from alebrije.errors import InputError
from alebrije.train.history import History
from alebrije.train.logs import open_log


class Recorder:
    """Stands for a SummaryWriter, and for a run of Weights & Biases."""

    made: list[Recorder]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments, self.options, self.calls = arguments, options, list[Any]()
        type(self).made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.calls.append((step, {name: value}))

    def log(self, values: dict[str, float], step: int) -> None:
        self.calls.append((step, values))

    def flush(self) -> None:
        pass


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    Recorder.made = []
    for name, maker in (("torch.utils.tensorboard", "SummaryWriter"), ("wandb", "init")):
        module = ModuleType(name)
        setattr(module, maker, Recorder)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("packages")
def test_a_log_gets_what_the_history_gets(tmp_path: Path) -> None:
    for name in ("tensorboard", "wandb"):
        log = open_log(name, tmp_path / "run", {"model": "vae"})  # type: ignore[arg-type]
        history = History(tmp_path / f"{name}.jsonl", 0, enabled=True, log=log)
        history.add(1, {"loss": 2.0})
        history.add(2, {"loss": 1.0})
        lines = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        assert Recorder.made[-1].calls == [(line.pop("step"), line) for line in lines]
    board, wandb = Recorder.made
    assert board.arguments == (str(tmp_path / "run" / "tensorboard"),)
    assert wandb.options["config"] == {"model": "vae"}


def test_other_processes_do_not_log(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl", 0, enabled=False, log=lambda step, values: pytest.fail("logged"))
    history.add(1, {"loss": 2.0})
    assert not (tmp_path / "history.jsonl").exists()


def test_a_missing_package_and_one_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match="log=wandb needs wandb, which is not installed: pip install wandb"):
        open_log("wandb", tmp_path, {})

    def refuse(**_: Any) -> None:
        raise RuntimeError("api_key not configured")

    broken = ModuleType("wandb")
    broken.__dict__["init"] = refuse
    monkeypatch.setitem(sys.modules, "wandb", broken)
    with pytest.raises(InputError, match="log=wandb could not be started: RuntimeError: api_key not configured"):
        open_log("wandb", tmp_path, {})
    with pytest.raises(InputError, match="log must be tensorboard or wandb, not 'mlflow'"):
        open_log("mlflow", tmp_path, {})  # type: ignore[arg-type]
