"""The loop: the same again, killed and continued, in parts and in company."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed, nn

from alebrije.errors import InputError
from alebrije.models.learner import Batch, Losses
from alebrije.train import DivergedError, Held, Recipe, checkpoints, load_weights, train
from alebrije.train.checkpoints import load, save
from alebrije.train.crew import Crew
from alebrije.train.loop import Stride
from alebrije.train.plan import plan
from programs import Program, Programs

TESTS = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
RECIPE = Recipe(steps=12, batch=8, lr=1e-2, warmup=4, decay="cosine", clip=0.5, precision="float32")


class Small(nn.Module):
    """A linear autoencoder with dropout and a counter, so that all kinds of state matter."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(48, 4), nn.Linear(4, 48)
        self.dropout = dropout
        self.register_buffer("seen", torch.zeros(()))

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        images = batch["images"].flatten(1)
        code = nn.functional.dropout(self.down(images), self.dropout, self.training)
        self.seen += len(images)
        error = (self.up(code) - images).square().mean()
        return {"loss": error * (1.0 + 0.01 * step), "error": error.detach()}


class Bad(Small):
    """Breaks in its sixth step."""

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        losses = super().training_loss(batch, step)
        return {"loss": torch.where(step == 5.0, torch.full_like(step, torch.nan), losses["loss"])}


def small(seed: int = 0, dropout: float = 0.3, kind: type[Small] = Small) -> Small:
    torch.manual_seed(seed)
    return kind(dropout)


def source(seed: int = 0) -> Held:
    images = torch.randint(0, 256, (20, 3, 4, 4), generator=torch.Generator().manual_seed(9), dtype=torch.uint8)
    return Held({"images": images}, seed)


def same(first: nn.Module, second: nn.Module) -> bool:
    other = second.state_dict()
    return all(torch.equal(tensor, other[name]) for name, tensor in first.state_dict().items())


def lines(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def test_training_twice_gives_equal_weights(tmp_path: Path) -> None:
    runs = [train(small(), source(), RECIPE, tmp_path / str(run), seed=5) for run in range(2)]
    assert same(*runs)
    assert not same(runs[0], train(small(), source(), RECIPE, tmp_path / "seed", seed=6))
    assert not same(runs[0], train(small(), source(1), RECIPE, tmp_path / "order", seed=5))
    assert not same(runs[0], small())


def test_the_loop_leaves_the_random_numbers_of_its_caller_alone(tmp_path: Path) -> None:
    model = small()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    train(model, source(), RECIPE, tmp_path)
    assert torch.equal(torch.rand(4), expected)


def test_the_step_is_that_of_plain_torch(tmp_path: Path) -> None:
    ours = train(small(dropout=0.0), source(), RECIPE, tmp_path)
    theirs, data = small(dropout=0.0).train(), source()
    optimiser = torch.optim.Adam(theirs.parameters(), 1e-2)
    for step in range(12):
        optimiser.param_groups[0]["lr"] = 1e-2 * RECIPE.rate(step)
        batch = {"images": data.batch(step * 8, 8)["images"].float() / 255}
        optimiser.zero_grad()
        theirs.training_loss(batch, torch.tensor(float(step)))["loss"].backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        optimiser.step()
    for weight, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stop", [1, 5, 11])
def test_a_run_in_two_sittings_ends_bit_identical(tmp_path: Path, stop: int) -> None:
    whole = train(small(), source(), RECIPE, tmp_path / "whole", log_every=1)
    train(small(), source(), RECIPE, tmp_path / "parts", log_every=1, until=stop)
    parts = train(small(seed=77), source(), RECIPE, tmp_path / "parts", log_every=1)
    assert same(whole, parts)
    for first, second in zip(lines(tmp_path / "whole"), lines(tmp_path / "parts"), strict=True):
        assert {k: v for k, v in first.items() if "second" not in k} == {
            k: v for k, v in second.items() if "second" not in k
        }


def test_lines_after_the_checkpoint_are_written_anew(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, log_every=1, save_every=4, until=9)
    newest = checkpoints(tmp_path)[-1]
    assert newest.name == "step-000000009"
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"step": 10, "loss": -1.0}\n{"step": 11, "lo')  # a killed run got further, and was cut short
    train(small(), source(), RECIPE, tmp_path, log_every=1)
    found = lines(tmp_path)
    assert [line["step"] for line in found] == list(range(1, 13))
    assert all(line["loss"] > 0 for line in found)


def test_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, save_every=3)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000009", "step-000000012"]
    again = small(seed=8)
    load_weights(checkpoints(tmp_path)[-1], again)
    assert float(again.seen) == 12 * 8


def test_a_finished_run_is_only_read(tmp_path: Path) -> None:
    done = train(small(), source(), RECIPE, tmp_path)
    before = (tmp_path / "history.jsonl").read_text()
    assert same(done, train(small(seed=4), source(), RECIPE, tmp_path))
    assert (tmp_path / "history.jsonl").read_text() == before


KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = {tests!r}
from test_loop import RECIPE, small, source
from alebrije.train import train

class Slow:
    def batch(self, first, count):
        time.sleep(0.05)
        return source().batch(first, count)

train(small(), Slow(), RECIPE, Path({folder!r}), save_every=2, log_every=1)
"""


def test_a_killed_run_goes_on_and_ends_bit_identical(tmp_path: Path) -> None:
    code = textwrap.dedent(KILLED).format(tests=TESTS, folder=str(tmp_path / "killed"))
    process = subprocess.Popen([sys.executable, "-c", code])
    while not checkpoints(tmp_path / "killed"):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(checkpoints(tmp_path / "killed"))
    assert done >= 1
    parts = train(small(seed=50), source(), RECIPE, tmp_path / "killed", save_every=2)
    assert same(train(small(), source(), RECIPE, tmp_path / "whole"), parts)


def test_a_half_written_checkpoint_is_never_read(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, save_every=4, until=8)
    half = tmp_path / "checkpoints" / ".step-000000012.abc.part"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    train(small(), source(), RECIPE, tmp_path, save_every=4)
    assert not half.exists()
    assert checkpoints(tmp_path)[-1].name == "step-000000012"


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, until=5)
    path = checkpoints(tmp_path)[-1] / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=r"weights\.safetensors cannot be read"):
        train(small(), source(), RECIPE, tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, until=5)
    with pytest.raises(InputError, match="holds other weights: weight is missing"):
        load_weights(checkpoints(tmp_path)[-1], nn.Linear(2, 2))


def test_parts_of_a_batch_add_up_to_the_batch(tmp_path: Path) -> None:
    whole = train(small(dropout=0.0), source(), RECIPE, tmp_path / "whole")
    recipe = Recipe(**{**vars(RECIPE), "accumulate": 4})
    parts = train(small(dropout=0.0), source(), recipe, tmp_path / "parts")
    for weight, expected in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-6)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"step 6 is no number, at a learning rate of \S+; the last good .*000004"):
        train(small(kind=Bad), source(), RECIPE, tmp_path, save_every=4)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000004"]
    rate = 1e-2 * RECIPE.rate(5)
    with pytest.raises(DivergedError, match=f"at a learning rate of {rate:.3g}; the last good"):
        train(small(kind=Bad), source(), RECIPE, tmp_path)


def test_checks_are_written_down_and_leave_no_trace(tmp_path: Path) -> None:
    def check(model: nn.Module) -> dict[str, float]:
        assert not model.training
        return {"noise": float(torch.rand(())), "norm": float(model.down.weight.norm())}  # type: ignore[union-attr]

    watched = train(small(), source(), RECIPE, tmp_path / "watched", check=check, check_every=3)
    found = [line for line in lines(tmp_path / "watched") if "norm" in line]
    assert [line["step"] for line in found] == [3, 6, 9, 12]
    assert found[-1]["norm"] == pytest.approx(float(watched.down.weight.detach().norm()))  # type: ignore[union-attr]
    assert same(watched, train(small(), source(), RECIPE, tmp_path / "unwatched"))


def test_a_check_may_move_the_model_and_bring_it_back(tmp_path: Path) -> None:
    def moving(model: nn.Module) -> dict[str, float]:
        model.double().float()
        return {}

    checks = (None, moving)
    runs = [train(small(), source(), RECIPE, tmp_path / str(i), check=checks[i], check_every=3) for i in range(2)]
    assert same(*runs)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    train(
        small(),
        source(),
        RECIPE,
        tmp_path,
        log_every=5,
        progress=lambda step, of, speed, losses: told.append((step, of)),
    )
    assert told == [(5, 12), (10, 12), (12, 12)]


def test_low_precision_trains_float32_weights(tmp_path: Path) -> None:
    recipe = Recipe(**{**vars(RECIPE), "precision": "bfloat16"})
    low = train(small(), source(), recipe, tmp_path / "low")
    assert {weight.dtype for weight in low.parameters()} == {torch.float32}
    assert not same(low, train(small(), source(), RECIPE, tmp_path / "full"))


def test_sgd_with_momentum_goes_on_too(tmp_path: Path) -> None:
    recipe = Recipe(steps=8, batch=8, lr=0.1, optimiser="sgd", weight_decay=1e-4, precision="float32")
    whole = train(small(), source(), recipe, tmp_path / "whole")
    train(small(), source(), recipe, tmp_path / "parts", until=3)
    assert same(whole, train(small(), source(), recipe, tmp_path / "parts"))


TOGETHER = """
import sys
from pathlib import Path
sys.path[:0] = {tests!r}
import os
import signal
from test_loop import RECIPE, Small, small, source
from alebrije.train import train
seed = 0 if os.environ["RANK"] == "0" else {other_seed}
class Stops(Small):
    def training_loss(self, batch, step):
        if step == {stop} and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGINT)
        return super().training_loss(batch, step)
model = small(kind=Stops, dropout={dropout}, seed=seed)
train(model, source(), RECIPE, Path({folder!r}), save_every=6, until={until}, log_every=1)
threads = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
assert not any("gloo" in name for name in threads), "they would die with the interpreter, and take it down"
"""


def script(folder: Path, dropout: float = 0.0, until: int = 12, other_seed: int = 0, stop: int = -1) -> str:
    """What each of two processes does; in the step `stop` the second is told to end."""
    told = {"folder": str(folder), "dropout": dropout, "until": until, "other_seed": other_seed, "stop": stop}
    return TOGETHER.format(tests=TESTS, **told)


def learned(folder: Path) -> Small:
    """The model of the last checkpoint."""
    model = small(seed=9)
    load_weights(checkpoints(folder)[-1], model)
    return model


def together(programs: Programs, folder: Path, *codes: int, **more: float) -> str:
    """What two processes say that train in a folder, with what `torchrun` tells each, but without waiting for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    told = os.environ | {"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = ["python", "-c", script(folder, **more)]  # type: ignore[arg-type]
    said = [folder.with_name(f"said-{rank}") for rank in "01"]
    both = [told | {"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    found = programs.run(*(Program(command, folder.parent, *each) for each in zip(both, said, strict=True)))
    words = "".join(file.read_text() for file in said)
    assert found == list(codes or (0, 0)), words
    return words


def test_two_processes_learn_what_one_does(tmp_path: Path, programs: Programs) -> None:
    """Also where the second built another model, and the losses are those of both shares."""
    alone = train(small(dropout=0.0), source(), RECIPE, tmp_path / "alone", log_every=1)
    together(programs, tmp_path / "crew", other_seed=5)
    crew = learned(tmp_path / "crew")
    for weight, expected in zip(crew.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-6)
    theirs, ours = ([line["loss"] for line in lines(tmp_path / name)] for name in ("crew", "alone"))
    assert theirs == pytest.approx(ours, rel=1e-4)


def test_a_bad_loss_of_one_process_stops_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had it, all hear of the first bad step."""
    told: list[tuple[str, float]] = []

    def all_reduce(tensor: Tensor, how: object = None) -> None:
        told.append((str(how), float(tensor.max())))
        tensor.copy_(tensor.clamp(max=6.0) if how == distributed.ReduceOp.MIN else tensor * 2)

    monkeypatch.setattr("alebrije.train.crew.distributed.all_reduce", all_reduce)
    crew, model = Crew(torch.device("cpu"), 0, 2), small()
    stride = Stride(model, RECIPE.optimiser_of(model), RECIPE, crew, False, 0)
    stride.take(source().batch(0, 8))
    with pytest.raises(DivergedError, match="the loss of step 7 is no number"):
        stride.losses_so_far(None)
    assert any("MIN" in how for how, _ in told)


def test_two_processes_go_on_where_they_were(tmp_path: Path, programs: Programs) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    together(programs, whole, dropout=0.3)
    together(programs, parts, dropout=0.3, until=6)
    assert checkpoints(parts)[-1].name == "step-000000006"
    # the second is told to end in its ninth step, and after it both do, together: by Ctrl-C, and by SIGTERM
    words = together(programs, parts, -signal.SIGTERM, -signal.SIGINT, dropout=0.3, stop=8)
    assert words.count("KeyboardInterrupt") == 1
    assert checkpoints(parts)[-1].name == "step-000000009"
    together(programs, parts, dropout=0.3)
    assert same(learned(whole), learned(parts))


def test_a_checkpoint_whose_removal_was_killed_is_gone_after_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def killed(path: Path, **how: Any) -> None:
        if path.name.startswith(".step-000000002"):
            raise MemoryError
        remove(path, **how)

    monkeypatch.setattr("alebrije.atomic.shutil.rmtree", killed)
    with pytest.raises(MemoryError):
        train(small(), source(), RECIPE, tmp_path, save_every=2)
    monkeypatch.undo()
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000004", "step-000000006"]
    train(small(), source(), RECIPE, tmp_path, save_every=2)
    left = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert left == ["step-000000010", "step-000000012"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_learned_until_a_signal_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    """It arrives in the middle of the fifth step, which is finished and saved; the run ends as if nothing had been."""
    whole = train(small(), source(), RECIPE, tmp_path / "whole")

    class Stops(Small):
        def training_loss(self, batch: Batch, step: Tensor) -> Losses:
            losses = super().training_loss(batch, step)
            if step == 4.0:
                os.kill(os.getpid(), number)
            return losses

    def told(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, told)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(small(kind=Stops), source(), RECIPE, tmp_path / "parts")
        assert signal.getsignal(number) is told
    finally:
        signal.signal(number, before)
    assert [path.name for path in checkpoints(tmp_path / "parts")] == ["step-000000005"]
    assert same(whole, train(small(), source(), RECIPE, tmp_path / "parts"))


def test_a_check_never_sees_what_diverged(tmp_path: Path) -> None:
    def check(model: nn.Module) -> dict[str, float]:
        assert all(weight.isfinite().all() for weight in model.parameters())
        return {"fine": 1.0}

    with pytest.raises(DivergedError, match="the loss of step 6 is no number"):
        train(small(kind=Bad), source(), RECIPE, tmp_path / "loss", check=check, check_every=1)
    recipe = Recipe(**{**vars(RECIPE), "clip": None})
    with pytest.raises(DivergedError, match="the update of step 4 is no number"):
        train(small(kind=Broken), source(), recipe, tmp_path / "weights", check=check, check_every=1)


def test_other_things_beside_checkpoints_are_left_alone(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, until=6)
    shutil.copytree(checkpoints(tmp_path)[-1], tmp_path / "checkpoints" / "step-best")
    train(small(), source(), RECIPE, tmp_path)
    assert (tmp_path / "checkpoints" / "step-best" / "step.json").is_file()


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(sys.modules["alebrije.train.checkpoints"], "save_file", full)
    with pytest.raises(InputError, match="the disk is full"):
        train(small(), source(), RECIPE, tmp_path)


def test_a_batch_must_be_shared_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alebrije.train.loop.Crew.of", lambda device: Crew(device, 0, 3))
    with pytest.raises(InputError, match="cannot be shared by 3 devices"):
        train(small(), source(), RECIPE, tmp_path / "three")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_graph_on_cuda_learns_what_the_plain_step_does(tmp_path: Path) -> None:
    models = []
    for fast in (True, False):
        held = Held({"images": source().items["images"].cuda()}, 0)
        models.append(train(small(dropout=0.0), held, RECIPE, tmp_path / str(fast), device="cuda", fast=fast))
    for weight, expected in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-3, atol=1e-5)


class Broken(Small):
    """Has a loss that is a number and a gradient that is none, in its fourth step."""

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        losses = super().training_loss(batch, step)
        losses["loss"].register_hook(lambda slope: torch.where(step == 3.0, torch.full_like(slope, torch.nan), slope))
        return losses


def test_broken_weights_are_never_saved(tmp_path: Path) -> None:
    recipe = Recipe(**{**vars(RECIPE), "clip": None})
    with pytest.raises(DivergedError, match=r"the update of step 4 is no number.*; the last good .*000003"):
        train(small(kind=Broken), source(), recipe, tmp_path, save_every=1)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000002", "step-000000003"]


def test_a_run_of_one_process_is_not_continued_by_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(small(), source(), RECIPE, tmp_path, until=5)
    monkeypatch.setattr("alebrije.train.loop.Crew.of", lambda device: Crew(device, 0, 2))
    with pytest.raises(InputError, match="was trained by 1 processes and cannot go on with 2"):
        train(small(), source(), RECIPE, tmp_path)


def test_a_damaged_step_is_named_and_its_remains_do_not_block(tmp_path: Path) -> None:
    whole = train(small(), source(), RECIPE, tmp_path / "whole")
    train(small(), source(), RECIPE, tmp_path / "run", save_every=6)
    last = checkpoints(tmp_path / "run")[-1]
    (last / "step.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        train(small(), source(), RECIPE, tmp_path / "run")
    (last / "step.json").unlink()
    assert same(whole, train(small(), source(), RECIPE, tmp_path / "run"))
    assert checkpoints(tmp_path / "run")[-1] == last


def test_weights_of_other_shapes_are_refused(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, until=1)
    other = small()
    other.down = nn.Linear(48, 5)
    with pytest.raises(InputError, match="other shapes"):
        load_weights(checkpoints(tmp_path)[-1], other)


def test_a_damaged_line_of_the_history_is_dropped(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, log_every=1, until=3)
    path = tmp_path / "history.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, "{nothing\n", *rest]))
    train(small(), source(), RECIPE, tmp_path, log_every=1)
    assert [line["step"] for line in lines(tmp_path)] == list(range(1, 13))


def test_a_sitting_of_no_steps_takes_none(tmp_path: Path) -> None:
    assert same(train(small(), source(), RECIPE, tmp_path, until=0), small())


def test_moments_are_laid_out_as_their_weights(tmp_path: Path) -> None:
    """Fused Adam walks through both in the order of memory, and convolutions may lie channels-last."""
    model = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 8, 8)
    optimiser = Recipe(steps=1, batch=1, lr=1e-3).optimiser_of(model)
    model(images).square().sum().backward()
    optimiser.gather()
    optimiser.step()
    path = save(tmp_path, 1, model, optimiser, torch.zeros(1, 8, dtype=torch.uint8))
    again = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    resumed = Recipe(steps=1, batch=1, lr=1e-3).optimiser_of(again)
    load(path, again, resumed)
    for first, second in ((model, optimiser), (again, resumed)):
        second.zero_grad()
        first(images).square().sum().backward()
        second.gather()
        second.step()
    assert not model.weight.is_contiguous()
    assert torch.equal(model.weight, again.weight)


def test_a_run_goes_on_on_another_kind_of_device(tmp_path: Path) -> None:
    """The random numbers of a GPU cannot be continued on a CPU: others take their place."""
    train(small(), source(), RECIPE, tmp_path, until=5)
    path = checkpoints(tmp_path)[-1] / "progress.safetensors"
    save_file(load_file(path) | {"random": torch.zeros(1, 16, dtype=torch.uint8)}, path)
    train(small(), source(), RECIPE, tmp_path)
    assert checkpoints(tmp_path)[-1].name == "step-000000012"


def test_a_model_with_a_memory_is_trained_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alebrije.train.loop.Crew.of", lambda device: Crew(device, 0, 2))
    model = small()
    model.alone = "remembers"  # type: ignore[assignment]
    with pytest.raises(InputError, match="Small remembers: one process has to train it"):
        train(model, source(), RECIPE, tmp_path)


@pytest.mark.parametrize("name", ["moco", "beta-tcvae", "factor-vae"])
def test_models_whose_loss_is_no_mean_over_images_see_batches_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan(name, preset_name="tiny")
    with pytest.raises(InputError, match=r"of its batch.*: one process has to train it, with accumulate 1"):
        plan(name, preset_name="tiny", settings={"accumulate": 2})
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"of its batch.*: one process has to train it, with accumulate 1"):
        plan(name, preset_name="tiny")
    assert plan("beta-vae", preset_name="tiny", settings={"accumulate": 2})


def test_what_is_not_a_number_is_null_in_the_history(tmp_path: Path) -> None:
    train(small(), source(), RECIPE, tmp_path, check=lambda model: {"score": float("nan")}, check_every=6)
    assert [line["score"] for line in lines(tmp_path) if "score" in line] == [None, None]


def test_intervals_are_at_least_a_step(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be at least 1"):
        train(small(), source(), RECIPE, tmp_path, log_every=0)
