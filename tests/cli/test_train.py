"""`alebrije train`: what it refuses, continues and prints."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.exc import TorchDynamoException

from alebrije.atomic import folder_lock
from alebrije.cli.train import _last_check
from alebrije.train import RunOptions, checkpoints, preloading
from alebrije.train.plan import Plan, plan
from alebrije.train.run_folder import read_plan
from alebrije.train.scene_sets import TaskSources
from tests.cli import command
from tests.cli.command import Outcome

PROGRESS = re.compile(r"\[\d+/\d+\] .*|.* on \S+, (cpu|cuda|mps)(, from step \d+)?")


call = partial(command.call, progress_line=PROGRESS)


def train(model: str, folder: Path, *arguments: Any) -> Outcome:
    return call("train", model, "--preset", "tiny", "--device", "cpu", "--out", folder, *arguments)


def refusal(model: str, folder: Path, *arguments: Any) -> str:
    """Return the one sentence with which the command refuses."""
    outcome = train(model, folder, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    (sentence,) = outcome.complaints
    assert sentence.startswith("alebrije: ")
    return sentence


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoints(folder)[-1] / "weights.safetensors")


def same(first: Path, second: Path) -> bool:
    mine, theirs = weights_of(first), weights_of(second)
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def history(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums over several threads may differ in the last bit from those of the subprocesses here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom alebrije.cli import main\n"
        "try: main(['train', '--help'])\n"
        "except SystemExit: print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False False\n")
    assert {"--preset", "--set", "--save-every", "paper", "tiny"} <= set(re.findall(r"[\w-]+", done.stdout))


class TestRefusals:
    @pytest.mark.parametrize(
        ("model", "arguments", "words"),
        [
            ("i2i-vti", (), "there is no model 'i2i-vti'; did you mean 'i2i-vit'?"),
            ("beta-vae", ("--set", "latnets=3"), "no setting 'latnets'; did you mean 'latents'?"),
            ("beta-vae", ("--world", "dsprite"), "there is no world 'dsprite'; did you mean 'dsprites'"),
            ("i2i-vit", ("--task", "sprites/S-B"), "there is no rule 'S-B'; did you mean 'S-A'"),
            ("i2i-vit", ("--task", "sprites"), "--task must be a world and a rule, such as sprites/S-A, not 'sprites'"),
            ("i2i-vit", ("--task", "rooms/S-A"), "rules need two objects in every scene"),
            ("i2i-vit", ("--world", "sprites", "--task", "sprites/S-A"), "give only one of --world, --data and --task"),
            ("i2i-vit", ("--alpha", "1.5"), "alpha must be a number from 0 to 1"),
            ("beta-vae", ("--task", "dsprites/S-A"), "rules need two objects in every scene"),
            ("beta-vae", ("--alpha", "0.2"), "alpha has no meaning"),
            ("beta-vae", ("--set", "steps"), "--set takes name=value, such as steps=20000, not 'steps'"),
            ("beta-vae", ("--set", "steps="), "--set takes name=value"),
            ("beta-vae", ("--set",), "--set takes name=value, such as steps=20000, not ''"),
            ("beta-vae", ("--set", "steps=3", "lr=1", "--set", "steps=4"), "--set gives steps twice"),
            ("beta-vae", ("--set", "=3"), "--set takes name=value"),
            ("beta-vae", ("--set", "steps=1e3"), "steps must be a whole number, not '1e3'"),
            ("beta-vae", ("--set", "lr=fast"), "lr must be a number, not 'fast'"),
            ("beta-vae", ("--set", "accumulate=3"), "a batch of 32 cannot be split into 3 equal parts"),
            ("beta-vae", ("--set", "size=32"), "takes images"),
            ("beta-vae", ("--set", "decay=linear"), "decay must be constant or halving"),
            ("beta-vae", ("--set", "weight_decay=-1"), "Invalid weight_decay"),
            ("i2i-vit", ("--set", "heads=3"), "width must be divisible by heads"),
            ("moco", ("--set", "queue=100"), "not a multiple of the batch"),
            ("slot-attention", ("--set", "channels=-2"), "cannot train with these settings"),
            ("svib-oracle", ("--set", "factors=5"), "factors must have the shape"),
            ("mtd", ("--set", "labels=shap"), "labels has no factor 'shap'; did you mean 'shape'?"),
            (
                "mtd",
                ("--world", "clevr6"),
                "MTD (idea only) learns from labels of one object, as in dsprites, rooms and arm",
            ),
            (
                "parted-vae-ss",
                ("--set", "labels=shape,scale"),
                "labels must name one factor, whose values are the classes",
            ),
            ("weakde", ("--set", "statistics=200"), "statistics must be at most warmup, 150 steps, not 200"),
            ("iodine", ("--set", "variant=genesis"), "variant must be deepmind or coat, not 'genesis'"),
            ("ae", ("--data", "nowhere"), "there is no such folder"),
            (
                "ae",
                ("--data", "mpi3d:nowhere.npz"),
                "there is no file nowhere.npz; mpi3d:FILE needs the released .npz file",
            ),
            ("beta-vae", ("--images", "-1"), "images must be at least 0, not -1"),
            ("beta-vae", ("--seed", "-1"), "--seed must be at least 0, not -1"),
            ("beta-vae", ("--seed", "99999999999999999999999"), "seed must be less than"),
            ("beta-vae", ("--workers", "0"), "--workers must be at least 1, not 0"),
            ("beta-vae", ("--save-every", "0"), "--save-every must be at least 1, not 0"),
            ("beta-vae", ("--check-every", "-1"), "--check-every must be at least 1, not -1"),
        ],
        ids=str,
    )
    def test_one_sentence_and_nothing_written(
        self, tmp_path: Path, model: str, arguments: tuple[str, ...], words: str
    ) -> None:
        assert words in refusal(model, tmp_path / "run", *arguments)
        assert not (tmp_path / "run").exists()

    def test_an_unknown_preset(self, tmp_path: Path) -> None:
        assert call("train", "beta-vae", "--preset", "papper", "--out", tmp_path / "run").code == 2
        assert not (tmp_path / "run").exists()

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
    def test_a_missing_device(self, tmp_path: Path) -> None:
        sentence = refusal("beta-vae", tmp_path / "run", "--device", "cuda")
        assert sentence == "alebrije: --device cuda: torch cannot use the device 'cuda' on this machine"
        assert not (tmp_path / "run").exists()

    def test_a_folder_with_other_files(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("mine")
        assert "contains other files and no run" in refusal("i2i-cnn", tmp_path)
        assert files_of(tmp_path) == {"thesis.tex": b"mine"}

    def test_a_file_at_the_path_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("mine")
        assert "run: cannot be written" in refusal("i2i-cnn", tmp_path / "run")
        assert (tmp_path / "run").read_text() == "mine"


QUICK = ("--set", "steps=6", "batch=8", "--save-every", 2, "--check-every", 3)


class TestRuns:
    def test_files_and_output(self, tmp_path: Path) -> None:
        outcome = train("i2i-cnn", tmp_path / "new" / "run", *QUICK, "--seed", 3)
        assert (outcome.code, outcome.complaints) == (0, [])
        folder = tmp_path / "new" / "run"
        assert sorted(os.listdir(folder)) == ["checkpoints", "history.jsonl", "run.json"]
        assert [path.name for path in checkpoints(folder)] == ["step-000000004", "step-000000006"]
        assert read_plan(folder) == plan("i2i-cnn", preset_name="tiny", seed=3, settings={"steps": 6, "batch": 8})
        assert outcome.progress[0] == "I2I-CNN on sprites/S-A, cpu"
        assert re.fullmatch(r"\[6/6\] loss [\d.]+, [\d,]+ images/s, 0.0 minutes left", outcome.progress[-1])
        last = history(folder)[-1]
        assert outcome.out == (
            f"trained for 6 steps; in-distribution error {last['in-distribution error']:.4g}, "
            f"out-of-distribution error {last['out-of-distribution error']:.4g}, gap {last['gap']:.4g}; "
            f"written to {folder}\n"
        )

    def test_the_history(self, tmp_path: Path) -> None:
        assert train("ssm-vae", tmp_path, *QUICK).code == 0
        losses = [line for line in history(tmp_path) if "lr" in line]
        checks = [line for line in history(tmp_path) if "lr" not in line]
        assert [line["step"] for line in losses] == [2, 4, 6]
        assert set(losses[0]) == {
            "step",
            "loss",
            "nll",
            "kl",
            "dynamics",
            "probe",
            "lr",
            "images per second",
            "seconds",
        }
        assert {line["lr"] for line in losses} == {3e-3}
        assert [line["step"] for line in checks] == [3, 6]
        assert set(checks[0]) == {"step", "in-distribution error", "out-of-distribution error", "gap"}

    def test_a_world_and_a_task_may_be_chosen(self, tmp_path: Path) -> None:
        assert train("i2i-cnn", tmp_path / "task", *QUICK, "--task", "sprites/M-NA", "--alpha", 0.2).code == 0
        made = read_plan(tmp_path / "task")
        assert (made.world, made.rule, made.alpha) == ("sprites", "M-NA", 0.2)
        images = ("--set", "steps=1", "--set", "warmup=0", "--task", "sprites/S-A", "--alpha", 0.2, "--images", 32)
        outcome = train("slot-attention", tmp_path / "images", *images)
        assert outcome.code == 0
        assert outcome.progress[0] == "Slot Attention on sprites/S-A, cpu"
        assert "reconstruction error" in outcome.out
        made = read_plan(tmp_path / "images")
        assert (made.model, made.world, made.rule, made.alpha) == ("slot-attention", "sprites", "S-A", 0.2)
        assert train("moco", tmp_path / "world", "--set", "steps=1", "--world", "dsprites", "--images", 32).code == 0
        assert (read_plan(tmp_path / "world").world, read_plan(tmp_path / "world").images) == ("dsprites", 32)

    def test_the_same_command_after_the_end_changes_nothing(self, tmp_path: Path) -> None:
        first = train("i2i-cnn", tmp_path, *QUICK)
        before = files_of(tmp_path)
        again = train("i2i-cnn", tmp_path, *QUICK)
        assert (again.code, again.complaints) == (0, [])
        assert files_of(tmp_path) == before
        assert again.progress == []  # nothing is rendered
        reached = first.out.partition("; ")[2].partition("; ")[0]
        assert "error" in reached
        assert again.out == f"already trained for all 6 steps; {reached}; see {tmp_path}\n"
        with (tmp_path / "history.jsonl").open("a") as history:
            history.write('{"step": 6, "gap": null}\n')  # as written for NaN and infinity
        assert "already trained for all 6 steps; gap not finite; see" in train("i2i-cnn", tmp_path, *QUICK).out

    def test_a_setting_given_twice_is_refused(self, tmp_path: Path) -> None:
        assert "--set gives steps twice" in refusal("i2i-cnn", tmp_path / "run", *QUICK, "--set", "steps=7")

        assert "lr twice" in refusal("beta-vae", tmp_path, "--set", "lr=0.1", "--set", "recipe.lr=0.2")

    def test_two_at_once_are_refused(self, tmp_path: Path) -> None:
        with folder_lock(tmp_path):
            assert "another process is using it" in refusal("i2i-cnn", tmp_path, *QUICK)
        assert train("i2i-cnn", tmp_path, *QUICK).code == 0

    def test_out_of_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object, **__: object) -> None:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate a lot")

        monkeypatch.setattr("alebrije.train.run.run_plan", full)
        outcome = train("i2i-cnn", tmp_path, *QUICK)
        assert outcome.code == 2
        assert "does not fit into the memory of cpu; use --set batch=" in outcome.complaints[0]

    def test_a_machine_without_a_compiler(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def run_plan(plan: Plan, folder: Path, options: RunOptions) -> None:
            if options.fast:
                raise TorchDynamoException("backend='inductor' raised:\nRuntimeError: Failed to find C compiler")

        monkeypatch.setattr("alebrije.train.run.run_plan", run_plan)
        outcome = train("i2i-cnn", tmp_path, *QUICK)
        assert outcome.code == 2
        fault = "backend='inductor' raised: RuntimeError: Failed to find C compiler"
        assert f"torch cannot compile the step here ({fault}); use --plain" in outcome.complaints[0]
        assert train("i2i-cnn", tmp_path, *QUICK, "--plain").code == 0

    def test_a_damaged_history_of_a_finished_run(self, tmp_path: Path) -> None:
        assert train("i2i-cnn", tmp_path, *QUICK).code == 0
        with (tmp_path / "history.jsonl").open("a") as file:
            file.write('{"step": 60, "rec')
        assert train("i2i-cnn", tmp_path, *QUICK).code == 0
        (tmp_path / "history.jsonl").unlink()
        assert "already trained" in train("i2i-cnn", tmp_path, *QUICK).out

    def test_seeds_differ_and_the_same_seed_does_not(self, tmp_path: Path) -> None:
        for name, seed in (("a", 0), ("b", 1), ("c", 0)):
            assert train("i2i-cnn", tmp_path / name, *QUICK, "--seed", seed).code == 0
        assert same(tmp_path / "a", tmp_path / "c")
        assert not same(tmp_path / "a", tmp_path / "b")

    def test_workers_make_no_difference(self, tmp_path: Path) -> None:
        for workers in (1, 2):
            settings = ("--set", "steps=1", "--images", 300, "--workers", workers)
            assert train("i2i-cnn", tmp_path / str(workers), *settings).code == 0
        assert same(tmp_path / "1", tmp_path / "2")


class TestFoldersInUse:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (("--set", "lr=0.5"), "lr 0.003, not 0.5"),
            (("--set", "warmup=5"), "warmup 0, not 5"),
            (("--set", "code=16"), "code 32, not 16"),
            (("--set", "dropout=0.2"), "dropout 0.0, not 0.2"),
            (("--seed", 1), "seed 0, not 1"),
            (("--alpha", 0.2), "alpha 0.6, not 0.2"),
            (("--images", 32), "images 64, not 32"),
        ],
        ids=str,
    )
    def test_other_settings_are_refused(self, tmp_path: Path, change: tuple[Any, ...], words: str) -> None:
        assert train("i2i-cnn", tmp_path, *QUICK).code == 0
        before = files_of(tmp_path)
        assert f"{tmp_path} holds a run with {words}" in refusal("i2i-cnn", tmp_path, *QUICK, *change)
        assert files_of(tmp_path) == before

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"model": "i2i-cnn"}'])
    def test_a_damaged_plan(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "run.json").write_text(text)
        assert str(tmp_path) in refusal("i2i-cnn", tmp_path, *QUICK)
        assert files_of(tmp_path) == {"run.json": text.encode()}

    @pytest.mark.parametrize("file", ["weights.safetensors", "progress.safetensors"])
    def test_a_damaged_checkpoint_is_named_and_may_be_removed(self, tmp_path: Path, file: str) -> None:
        assert train("i2i-cnn", tmp_path / "whole", *QUICK).code == 0
        assert train("i2i-cnn", tmp_path / "run", *QUICK).code == 0
        last, before = reversed(checkpoints(tmp_path / "run"))
        for path in last.iterdir():
            path.unlink()
        last.rmdir()
        damaged = before / file
        damaged.write_bytes(damaged.read_bytes()[:100])
        sentence = refusal("i2i-cnn", tmp_path / "run", *QUICK)
        assert f"{damaged} cannot be read" in sentence
        assert "remove its folder to continue from the previous checkpoint" in sentence
        for path in before.iterdir():
            path.unlink()
        before.rmdir()
        assert train("i2i-cnn", tmp_path / "run", *QUICK).code == 0
        assert same(tmp_path / "whole", tmp_path / "run")


LONG = ("--set", "steps=120", "--set", "batch=8", "--set", "dropout=0.1", "--save-every", 4, "--check-every", 1000)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long run that was not stopped."""
    folder = tmp_path_factory.mktemp("whole")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert train("i2i-cnn", folder, *LONG).code == 0
    torch.set_num_threads(before)
    return folder


class TestInterruptions:
    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
    def test_the_same_command_continues_to_the_same_weights(
        self, tmp_path: Path, whole: Path, how: signal.Signals
    ) -> None:
        arguments = ("i2i-cnn", "--preset", "tiny", "--device", "cpu", "--out", tmp_path / "run", *LONG)
        # a background job ignores SIGINT, and its children inherit that
        process = subprocess.Popen(
            [sys.executable, "-m", "alebrije", "train", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        limit = time.monotonic() + 60
        while not checkpoints(tmp_path / "run"):
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.002)
        process.send_signal(how)
        out, complaints = process.communicate(timeout=30)
        assert out == ""
        if how == signal.SIGINT:
            assert process.returncode == 130
            lines = [line for line in complaints.splitlines() if not PROGRESS.fullmatch(line)]
            assert lines == ["alebrije: stopped; run the same command to continue"]
        else:
            assert process.returncode == -signal.SIGKILL
        stopped = checkpoints(tmp_path / "run")[-1].name
        assert stopped < "step-000000120"
        assert train("i2i-cnn", tmp_path / "run", *LONG).code == 0
        assert same(tmp_path / "run", whole)
        steps = [line["step"] for line in history(tmp_path / "run")]
        assert steps == [line["step"] for line in history(whole)]
        assert not list((tmp_path / "run" / "checkpoints").glob(".*"))

    def test_stopped_before_the_first_step(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stopped(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("alebrije.train.run.train", stopped)
        outcome = train("i2i-cnn", tmp_path, *QUICK)
        assert outcome.code == 130
        kept = "; the rendered images are kept, so run the same command to continue"
        assert outcome.complaints == [f"alebrije: stopped before the first step{kept}"]
        streamed = train("i2i-cnn", tmp_path / "streamed", *QUICK, "--images", 0)
        assert streamed.complaints == ["alebrije: stopped before the first step"]

    def test_images_are_kept_when_rendering_is_stopped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes: list[int] = []

        def stopped(renderer: Any, scenes: Any, *_: Any) -> Any:
            sizes.append(len(scenes))
            if sum(sizes) > 130:
                raise KeyboardInterrupt
            return render(renderer, scenes, *_)

        render, many = TaskSources.render, ("--task", "sprites/S-A", "--images", 200, "--set", "steps=1", "warmup=0")
        monkeypatch.setattr(preloading, "_MOST", 64)
        monkeypatch.setattr(TaskSources, "render", stopped)
        outcome = train("slot-attention", tmp_path, *many)
        assert outcome.complaints == [
            "alebrije: stopped before the first step; the rendered images are kept, so run the same command to continue"
        ]
        sizes.clear()
        sizes.append(-200)
        assert train("slot-attention", tmp_path, *many).code == 0
        assert sum(sizes) == -200 + 200 - 128 + 1
        assert not (tmp_path / "images").exists()

    def test_torchrun_receives_sigterm(self, tmp_path: Path) -> None:
        """As from the scheduler of a cluster: both processes save one checkpoint and stop."""
        run = tmp_path / "run"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        command += ["-m", "alebrije", "train", "ae", "--preset", "tiny", "--device", "cpu", "--out", str(run)]
        command += ["--set", "steps=100000", "--save-every", "100000", "--check-every", "100000"]
        home = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=home)
        limit = time.monotonic() + 120
        while not (run / "history.jsonl").is_file() or not (run / "history.jsonl").stat().st_size:
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, complaints = process.communicate(timeout=60)
        assert complaints.count("alebrije: stopped; run the same command to continue") == 2
        (saved,) = checkpoints(run)
        assert history(run)[-1]["step"] == int(saved.name.removeprefix("step-"))


class TestSlowRuns:
    def test_days_on_a_cpu_are_announced(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Plan, "seconds_per_step", lambda plan: 14.0)
        monkeypatch.setattr("alebrije.train.run.run_plan", lambda *_: None)
        arguments = ("--preset", "small", "--device", "cpu", "--out", tmp_path / "a", "--set", "steps=50000")
        assert call("train", "slot-attention", *arguments).complaints == [
            "alebrije: 50,000 steps at 14 s each take about 8 days on this CPU; "
            "--preset tiny takes seconds or a few minutes",
        ]
        (sentence,) = train("i2i-cnn", tmp_path / "b", "--set", "steps=50000").complaints
        assert sentence.endswith("8 days on this CPU; fewer steps: --set steps=...")
        assert train("i2i-cnn", tmp_path / "c", "--set", "steps=5000").complaints == []

    @pytest.mark.parametrize("model", ["i2i-cnn", "slot-attention", "beta-vae", "moco"])
    def test_a_step_is_timed_and_changes_nothing(self, model: str) -> None:
        made, state = plan(model, preset_name="tiny"), torch.random.get_rng_state()
        assert 0 < made.seconds_per_step() < 60
        assert torch.equal(state, torch.random.get_rng_state())


class TestDivergence:
    def test_one_sentence_names_step_rate_and_checkpoint(self, tmp_path: Path) -> None:
        outcome = train("i2i-cnn", tmp_path, "--set", "lr=1e30", "--set", "steps=20", "--save-every", 20)
        assert outcome.code not in (0, 2)
        assert outcome.out == ""
        (sentence,) = outcome.complaints
        assert re.fullmatch(
            r"alebrije: the loss of step 2 is NaN or infinite, at a learning rate of 1e\+30; there is no checkpoint.*",
            sentence,
        )


def test_a_history_of_something_else_does_not_stop_the_command(tmp_path: Path) -> None:
    lines = ['{"step": 8, "files": {"size": 3}}', "[" * 100_000, '{"step": 8, "score": 0.5, "other": null}', "3"]
    (tmp_path / "history.jsonl").write_text("\n".join(lines))
    assert _last_check(tmp_path) == "score 0.5, other not finite; "
