"""The training loop: repeatable, and continued after any stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alebrije.models import Batch
from alebrije.models.learner import Losses
from alebrije.train import PreloadedSource, Recipe, RunOptions, checkpoints, train
from tests.train.small_model import RECIPE, ROOT, Small, history, same, small, source


def test_training_twice_gives_equal_weights(tmp_path: Path) -> None:
    runs = [train(small(), source(), RECIPE, tmp_path / str(run), seed=5) for run in range(2)]
    assert same(*runs)
    assert not same(runs[0], train(small(), source(), RECIPE, tmp_path / "seed", seed=6))
    assert not same(runs[0], train(small(), source(1), RECIPE, tmp_path / "order", seed=5))
    assert not same(runs[0], small())


def test_the_random_state_of_the_caller_does_not_change(tmp_path: Path) -> None:
    model = small()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train(model, source(), RECIPE, tmp_path)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("stop", [1, 5, 11])
def test_a_run_in_two_parts_ends_bit_identical(tmp_path: Path, stop: int) -> None:
    whole = train(small(), source(), RECIPE, tmp_path / "whole", RunOptions(log_every=1))
    train(small(), source(), RECIPE, tmp_path / "parts", RunOptions(log_every=1, until=stop))
    parts = train(small(seed=77), source(), RECIPE, tmp_path / "parts", RunOptions(log_every=1))
    assert same(whole, parts)
    for first, second in zip(history(tmp_path / "whole"), history(tmp_path / "parts"), strict=True):
        assert {k: v for k, v in first.items() if "second" not in k} == {
            k: v for k, v in second.items() if "second" not in k
        }


def test_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    done = train(small(), source(), RECIPE, tmp_path)
    before = (tmp_path / "history.jsonl").read_text()
    assert same(done, train(small(seed=4), source(), RECIPE, tmp_path))
    assert (tmp_path / "history.jsonl").read_text() == before


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.train.small_model import RECIPE, ROOT, small, source
from alebrije.train import RunOptions, train

class Slow:
    def batch(self, first, count):
        time.sleep(0.05)
        return source().batch(first, count)

    def close(self):
        pass

train(small(), Slow(), RECIPE, Path({folder!r}), RunOptions(save_every=2, log_every=1))
"""


def test_a_killed_run_continues_and_ends_bit_identical(tmp_path: Path) -> None:
    code = textwrap.dedent(KILLED).format(root=ROOT, folder=str(tmp_path / "killed"))
    process = subprocess.Popen([sys.executable, "-c", code])
    while not checkpoints(tmp_path / "killed"):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(checkpoints(tmp_path / "killed"))
    assert done >= 1
    parts = train(small(seed=50), source(), RECIPE, tmp_path / "killed", RunOptions(save_every=2))
    assert same(train(small(), source(), RECIPE, tmp_path / "whole"), parts)


def test_checks_are_in_the_history_and_do_not_affect_training(tmp_path: Path) -> None:
    def check(model: nn.Module) -> dict[str, float]:
        assert not model.training
        return {"noise": float(torch.rand(())), "norm": float(model.down.weight.norm())}  # type: ignore[union-attr]

    watched = train(small(), source(), RECIPE, tmp_path / "watched", RunOptions(check_every=3), check=check)
    found = [line for line in history(tmp_path / "watched") if "norm" in line]
    assert [line["step"] for line in found] == [3, 6, 9, 12]
    assert found[-1]["norm"] == pytest.approx(float(watched.down.weight.detach().norm()))  # type: ignore[union-attr]
    assert same(watched, train(small(), source(), RECIPE, tmp_path / "unwatched"))


def test_a_check_may_move_the_model_and_bring_it_back(tmp_path: Path) -> None:
    def moving(model: nn.Module) -> dict[str, float]:
        model.double().float()
        return {}

    checks = (None, moving)
    runs = [
        train(small(), source(), RECIPE, tmp_path / str(i), RunOptions(check_every=3), check=checks[i])
        for i in range(2)
    ]
    assert same(*runs)


def test_progress_is_reported(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    train(
        small(),
        source(),
        RECIPE,
        tmp_path,
        RunOptions(log_every=5, step_progress=lambda step, of, speed, losses: reported.append((step, of))),
    )
    assert reported == [(5, 12), (10, 12), (12, 12)]


def test_sgd_with_momentum_continues_too(tmp_path: Path) -> None:
    recipe = Recipe(steps=8, batch=8, lr=0.1, optimiser="sgd", weight_decay=1e-4, precision="float32")
    whole = train(small(), source(), recipe, tmp_path / "whole")
    train(small(), source(), recipe, tmp_path / "parts", RunOptions(until=3))
    assert same(whole, train(small(), source(), recipe, tmp_path / "parts"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_first(tmp_path: Path, number: signal.Signals) -> None:
    """The signal arrives during the fifth step, which is completed and saved; the continued run ends the same."""
    whole = train(small(), source(), RECIPE, tmp_path / "whole")

    class Stops(Small):
        def training_loss(self, batch: Batch, step: Tensor) -> Losses:
            losses = super().training_loss(batch, step)
            if step == 4.0:
                os.kill(os.getpid(), number)
            return losses

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(small(kind=Stops), source(), RECIPE, tmp_path / "parts")
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)
    assert [path.name for path in checkpoints(tmp_path / "parts")] == ["step-000000005"]
    assert same(whole, train(small(), source(), RECIPE, tmp_path / "parts"))


def test_until_zero_takes_no_step(tmp_path: Path) -> None:
    assert same(train(small(), source(), RECIPE, tmp_path, RunOptions(until=0)), small())


@pytest.mark.usefixtures("default_handlers")
def test_a_signal_while_images_are_rendered_is_not_waited_for(tmp_path: Path) -> None:
    class Rendering(PreloadedSource):
        def batch(self, first: int, count: int) -> Batch:
            if first >= 3 * RECIPE.batch:
                os.kill(os.getpid(), signal.SIGINT)
                raise AssertionError("the signal was not handled here")
            return super().batch(first, count)

    with pytest.raises(KeyboardInterrupt):
        train(small(), Rendering(source().items, 0), RECIPE, tmp_path)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000003"]
    assert same(train(small(), source(), RECIPE, tmp_path), train(small(), source(), RECIPE, tmp_path / "whole"))


@pytest.mark.usefixtures("default_handlers")
def test_a_signal_during_the_first_step_saves_nothing(tmp_path: Path) -> None:
    class Stops(Small):
        def training_loss(self, batch: Batch, step: Tensor) -> Losses:
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("the signal was not handled here")

    with pytest.raises(KeyboardInterrupt):
        train(small(kind=Stops), source(), RECIPE, tmp_path)
    assert checkpoints(tmp_path) == []


def test_slow_steps_are_shown_before_they_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alebrije.train.loop.SHOWN_EVERY", 0.0)
    shown: list[tuple[int, float]] = []
    options = RunOptions(log_every=4, step_progress=lambda step, total, speed, losses: shown.append((step, speed)))
    watched = train(small(), source(), RECIPE, tmp_path / "watched", options)
    assert [step for step, _ in shown] == list(range(1, RECIPE.steps + 1))
    assert all(speed > 0 for _, speed in shown)
    assert same(watched, train(small(), source(), RECIPE, tmp_path / "alone", RunOptions(log_every=4)))
    losses = [[line["loss"] for line in history(tmp_path / name)] for name in ("watched", "alone")]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 3
