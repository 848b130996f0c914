"""`alebrije train`: make a plan and carry it out in a folder."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.atomic import folder_lock
from alebrije.checks import whole_number
from alebrije.cli.options import Device, device_name
from alebrije.cli.paths import OutPath
from alebrije.errors import InputError

if TYPE_CHECKING:
    from alebrije.train.plan import Plan

_PATIENCE = 3.0  # seconds without a word
_QUICK_STEPS = 500  # fewer never take days, so they are not timed
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "too little memory")  # torch's words for it


@dataclass(frozen=True)
class Train:
    """Train a model; the same command continues a run that was stopped. For several GPUs, start it with torchrun."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A name from `alebrije models`."""
    out: OutPath
    """The folder of the run: its plan, history and checkpoints."""
    world: str | None = None
    """The world to render images of, such as dsprites or clevr6. Default: the world of the preset."""
    data: str | None = None
    """Images to learn from instead of a world: a folder, or a released file as dsprites:FILE.npz, shapes3d:FILE.h5 or
    mpi3d:FILE.npz."""
    task: str | None = None
    """A world and a rule, such as sprites/S-A. Models that predict learn from its episodes; other models learn from
    images of the combinations that training shows."""
    alpha: float | None = None
    """For tasks: the share of non-core combinations that training shows. Default: 0.6."""
    preset: Literal["paper", "small", "tiny"] = "small"
    """`paper` is what was published. `small` takes minutes on a GPU and `tiny` takes seconds on a CPU; neither
    reproduces a published number."""
    set: tyro.conf.UseAppendAction[list[tuple[str, ...]]] = field(default_factory=list)
    """Changes to the preset, as name=value: settings of the model or of the recipe, such as steps=20000, lr=3e-4 or
    slots=11. Give several at once, or repeat --set."""
    images: int | None = None
    """How many images to render beforehand and keep on the device; 0 renders new images throughout the training. With
    --data: how many of its images to use (default: all)."""
    seed: int = 0
    """Seed of the weights, the data and the noise."""
    device: Device = "auto"
    """The device to train on; `auto` uses a GPU if there is one."""
    workers: int = 1
    """Processes that sample the scenes of preloaded images."""
    save_every: int = 1000
    """Steps between checkpoints."""
    keep_every: int = 0
    """Keep checkpoints at multiples of this step beside the last two, to see how a model learned; 0 keeps none."""
    check_every: int = 1000
    """Steps between training checks."""
    log: Literal["tensorboard", "wandb"] | None = None
    """Also log losses and checks to TensorBoard (in OUT/tensorboard) or Weights & Biases, if it is installed."""
    plain: tyro.conf.FlagCreatePairsOff[bool] = False
    """On a GPU, neither compile nor capture the step. Several times slower; for machines without a compiler."""

    def run(self) -> None:
        """Make the plan, train, and print the last scores."""
        for name, least in (("workers", 1), ("save_every", 1), ("check_every", 1), ("seed", 0)):
            whole_number(f"--{name.replace('_', '-')}", getattr(self, name), least)
        if self.keep_every < 0 or self.keep_every % self.save_every:
            raise InputError(
                f"--keep-every must be a multiple of --save-every {self.save_every}, not {self.keep_every}"
            )
        if sum(map(bool, (self.world, self.data, self.task))) > 1:
            raise InputError("give only one of --world, --data and --task")
        from alebrije.train.image_files import data_name
        from alebrije.train.plan import plan

        world, _, rule = (self.task or self.world or "").partition("/")
        if self.data:
            world = data_name(self.data)
        if self.task and not (world and rule):
            raise InputError(f"--task must be a world and a rule, such as sprites/S-A, not {self.task!r}")
        made = plan(
            self.model,
            preset_name=self.preset,
            world=world or None,
            rule=rule or None,
            alpha=self.alpha,
            images=self.images,
            seed=self.seed,
            settings=self._settings(),
        )
        is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts; only it prints
        device = device_name(self.device)
        with folder_lock(self.out) if is_first else nullcontext():
            self._train(made, device, is_first)

    def _train(self, made: Plan, device: str, is_first: bool) -> None:
        from alebrije.cli.progress import training_progress
        from alebrije.train.options import RunOptions
        from alebrije.train.run import run_plan
        from alebrije.train.run_folder import claim_folder

        claim_folder(made, self.out)
        start, steps, batch = _last_step(self.out), made.recipe.steps, made.recipe.batch
        if start >= steps:
            print(f"already trained for all {start:,} steps; {_last_check(self.out)}see {self.out}")
            return
        if is_first:
            data = made.world + (f"/{made.rule}" if made.rule else "")
            continued = f", from step {start:,}" if start else ""
            print(f"{made.record.title} on {data}, {device}{continued}", file=sys.stderr)
            if device == "cpu" and (warning := slow_warning(made, steps - start)):
                print(f"alebrije: {warning}", file=sys.stderr)
        try:
            with training_progress(steps, batch, silent=not is_first) as (preload_progress, step_progress):
                options = RunOptions(
                    device=device,
                    workers=self.workers,
                    fast=not self.plain,
                    check_every=self.check_every,
                    save_every=self.save_every,
                    keep_every=self.keep_every,
                    log=self.log,
                    step_progress=step_progress,
                    preload_progress=preload_progress,
                )
                run_plan(made, self.out, options)
        except RuntimeError as error:
            if any(words in str(error).lower() for words in _OUT_OF_MEMORY):
                raise InputError(
                    f"{made.record.title} with a batch of {batch} does not fit into the memory of {device};"
                    " use --set batch=... for a smaller batch, or --set accumulate=... to split it into parts"
                ) from error
            from torch._dynamo.exc import TorchDynamoException

            if isinstance(error, TorchDynamoException):
                fault = " ".join(str(error).split("\n")[:2])
                raise InputError(f"torch cannot compile the step here ({fault}); use --plain") from error
            raise
        if is_first:
            print(f"trained for {steps:,} steps; {_last_check(self.out)}written to {self.out}")

    @property
    def has_checkpoint(self) -> bool:
        """Whether the same command would continue a run."""
        return _last_step(self.out) > 0

    @property
    def has_images(self) -> bool:
        """Whether the same command would find rendered images."""
        return any((self.out / "images").glob("[0-9]*/shard.json"))

    def _settings(self) -> dict[str, str]:
        pairs = [text.partition("=") for texts in self.set for text in texts or ("",)]
        for name, sign, value in pairs:
            if not (name and sign and value):
                raise InputError(f"--set takes name=value, such as steps=20000, not {name + sign + value!r}")
        names = [name.strip().removeprefix("recipe.") for name, _, _ in pairs]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise InputError(f"--set gives {repeated[0]} twice")
        return {name.strip(): value.strip() for name, _, value in pairs}


def slow_warning(made: Plan, steps: int) -> str:
    """The warning that the remaining steps would take days on this CPU; empty if they take less than one."""
    if steps < _QUICK_STEPS:
        return ""
    said = "alebrije: timing one step on this CPU, which may take a minute ..."
    patience = threading.Timer(_PATIENCE, print, (said,), {"file": sys.stderr})
    patience.start()
    try:
        seconds = made.seconds_per_step()
    finally:
        patience.cancel()
    days = steps * seconds / 86400
    if days < 1:
        return ""
    advice = "fewer steps: --set steps=..." if made.preset == "tiny" else "--preset tiny takes seconds or a few minutes"
    return f"{steps:,} steps at {seconds:.2g} s each take about {days:,.0f} days on this CPU; {advice}"


def _last_step(folder: Path) -> int:
    """Return the step of the last checkpoint, or 0."""
    from alebrije.train.checkpoint import checkpoints, step_of

    saved = checkpoints(folder)
    return step_of(saved[-1]) if saved else 0


def _last_check(folder: Path) -> str:
    """Return the scores of the last training check as text, or nothing."""
    from alebrije.train.history import read_lines

    text, path = "", folder / "history.jsonl"
    for line in read_lines(path) if path.is_file() else ():
        try:
            values = dict(json.loads(line))
        except (TypeError, ValueError, RecursionError):
            continue  # a damaged line
        if "lr" not in values:
            numbers = {
                name: value for name, value in values.items() if value is None or isinstance(value, (int, float))
            }
            scores = {name: "not finite" if value is None else f"{value:.4g}" for name, value in numbers.items()}
            text = ", ".join(f"{name} {score}" for name, score in scores.items() if name != "step") + "; "
    return text
