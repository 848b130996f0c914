"""Several processes train like one."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from alebrije.errors import InputError
from alebrije.train import RunOptions, checkpoints, load_weights, train
from alebrije.train.plan import plan
from alebrije.train.process_group import ProcessGroup
from tests.programs import Program, Programs
from tests.train.small_model import RECIPE, ROOT, Small, history, same, small, source

TOGETHER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
import os
import signal
from tests.train.small_model import RECIPE, ROOT, Small, small, source
from alebrije.train import RunOptions, train
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of scripts inherit SIG_IGN
seed = 0 if os.environ["RANK"] == "0" else {other_seed}
class Stops(Small):
    def training_loss(self, batch, step):
        if step == {stop} and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGINT)
        return super().training_loss(batch, step)
model = small(kind=Stops, dropout={dropout}, seed=seed)
train(model, source(), RECIPE, Path({folder!r}), RunOptions(save_every=6, until={until}, log_every=1))
threads = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
assert not any("gloo" in name for name in threads), "threads left over would crash the interpreter at exit"
"""


def script(folder: Path, dropout: float = 0.0, until: int = 12, other_seed: int = 0, stop: int = -1) -> str:
    """Return the code of both processes; the second sends itself SIGINT in step `stop`."""
    values = {"folder": str(folder), "dropout": dropout, "until": until, "other_seed": other_seed, "stop": stop}
    return TOGETHER.format(root=ROOT, **values)


def learned(folder: Path) -> Small:
    """The model of the last checkpoint."""
    model = small(seed=9)
    load_weights(checkpoints(folder)[-1], model)
    return model


def together(programs: Programs, folder: Path, *codes: int, **more: float) -> str:
    """Train with two processes in a folder, in the environment that `torchrun` sets; return what they print."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = ["python", "-c", script(folder, **more)]  # type: ignore[arg-type]
    said = [folder.with_name(f"said-{rank}") for rank in "01"]
    both = [shared | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    found = programs.run(*(Program(command, folder.parent, *each) for each in zip(both, said, strict=True)))
    words = "".join(file.read_text() for file in said)
    assert found == list(codes or (0, 0)), words
    return words


def test_two_processes_learn_what_one_does(tmp_path: Path, programs: Programs) -> None:
    """Also if the second process built another model; the losses are means over both shares."""
    alone = train(small(dropout=0.0), source(), RECIPE, tmp_path / "alone", RunOptions(log_every=1))
    together(programs, tmp_path / "group", other_seed=5)
    both = learned(tmp_path / "group")
    for weight, expected in zip(both.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-6)
    theirs, ours = ([line["loss"] for line in history(tmp_path / name)] for name in ("group", "alone"))
    assert theirs == pytest.approx(ours, rel=1e-4)


def test_two_processes_continue_their_run(tmp_path: Path, programs: Programs) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    together(programs, whole, dropout=0.3)
    together(programs, parts, dropout=0.3, until=6)
    assert checkpoints(parts)[-1].name == "step-000000006"
    # the second receives Ctrl-C in its ninth step; both save that step and stop, the first as by SIGTERM
    words = together(programs, parts, -signal.SIGTERM, -signal.SIGINT, dropout=0.3, stop=8)
    assert words.count("KeyboardInterrupt") == 1
    assert checkpoints(parts)[-1].name == "step-000000009"
    together(programs, parts, dropout=0.3)
    assert same(learned(whole), learned(parts))


def test_a_batch_must_be_shared_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alebrije.train.loop.ProcessGroup.join", lambda device: ProcessGroup(device, 0, 3))
    with pytest.raises(InputError, match="cannot be shared by 3 devices"):
        train(small(), source(), RECIPE, tmp_path / "three")


def test_a_run_of_one_process_is_not_continued_by_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=5))
    monkeypatch.setattr("alebrije.train.loop.ProcessGroup.join", lambda device: ProcessGroup(device, 0, 2))
    with pytest.raises(InputError, match="needs 1 processes to continue, not 2"):
        train(small(), source(), RECIPE, tmp_path)


def test_a_run_continues_on_another_kind_of_device(tmp_path: Path) -> None:
    """The random state of a GPU cannot be used on a CPU, so the generator gets a new seed."""
    train(small(), source(), RECIPE, tmp_path, RunOptions(until=5))
    path = checkpoints(tmp_path)[-1] / "progress.safetensors"
    save_file(load_file(path) | {"random": torch.zeros(1, 16, dtype=torch.uint8)}, path)
    (path.parent / "step.json").write_text('{"step": 5}')  # without the checksum of the file that was replaced
    train(small(), source(), RECIPE, tmp_path)
    assert checkpoints(tmp_path)[-1].name == "step-000000012"


def test_a_model_with_a_memory_needs_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alebrije.train.loop.ProcessGroup.join", lambda device: ProcessGroup(device, 0, 2))
    model = small()
    model.whole_batch_reason = "remembers"  # type: ignore[assignment]
    with pytest.raises(InputError, match="Small remembers: train it in one process"):
        train(model, source(), RECIPE, tmp_path)


@pytest.mark.parametrize("name", ["moco", "beta-tcvae", "factor-vae"])
def test_models_that_compare_images_need_whole_batches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan(name, preset_name="tiny")
    with pytest.raises(InputError, match=r"of its batch.*: train it in one process, with accumulate 1"):
        plan(name, preset_name="tiny", settings={"accumulate": 2})
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"of its batch.*: train it in one process, with accumulate 1"):
        plan(name, preset_name="tiny")
    assert plan("beta-vae", preset_name="tiny", settings={"accumulate": 2})
