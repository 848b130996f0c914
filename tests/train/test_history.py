"""The history: one line of JSON per log or check."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alebrije.errors import InputError
from alebrije.train import RunOptions, checkpoints, train
from alebrije.train.history import History
from tests.train.small_model import RECIPE, history, small, source


def test_lines_after_the_checkpoint_are_rewritten(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(log_every=1, save_every=4, until=9))
    newest = checkpoints(tmp_path)[-1]
    assert newest.name == "step-000000009"
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write(
            '{"step": 10, "loss": -1.0}\n{"step": 11, "lo'
        )  # a killed run got further, and its last line is incomplete
    train(small(), source(), RECIPE, tmp_path, RunOptions(log_every=1))
    found = history(tmp_path)
    assert [line["step"] for line in found] == list(range(1, 13))
    assert all(line["loss"] > 0 for line in found)


def test_a_damaged_line_is_dropped(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(log_every=1, until=3))
    path = tmp_path / "history.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, "{nothing\n", *rest]))
    train(small(), source(), RECIPE, tmp_path, RunOptions(log_every=1))
    assert [line["step"] for line in history(tmp_path)] == list(range(1, 13))


def test_nan_becomes_null(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(check_every=6), check=lambda model: {"score": float("nan")})
    assert [line["score"] for line in history(tmp_path) if "score" in line] == [None, None]


def test_a_pipe_is_refused_and_damaged_text_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(b'{"step": 1}\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
    History(tmp_path / "history.jsonl", 5, enabled=True)
    assert (tmp_path / "history.jsonl").read_text() == '{"step": 1}\n'
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is not a regular file"):
        History(tmp_path / "pipe", 5, enabled=True)
