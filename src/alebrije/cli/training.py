"""Commands about models: list them, train one."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.atomic import alone_in
from alebrije.cli.devices import Device, device_of
from alebrije.cli.places import Place
from alebrije.cli.printing import show
from alebrije.errors import InputError

if TYPE_CHECKING:
    from alebrije.train.plan import Plan

_NO_ROOM = ("out of memory", "can't allocate memory", "not enough memory")  # how torch says it


@dataclass(frozen=True)
class Models:
    """List every model: what it learns from, how many parameters it has, its presets, its source."""

    def run(self) -> None:
        """Prints the catalog."""
        from rich.table import Table

        from alebrije.models import catalog
        from alebrije.train.plan import plan
        from alebrije.train.presets import PRESETS

        table = Table("name", "model", "learns from", "parameters", title="Models", box=None, pad_edge=False)
        for title in ("paper", "small", "tiny", "source"):
            table.add_column(title)
        for record in catalog().values():
            paper = plan(record.name, preset_name="paper", rehearse=False)
            steps = [f"{one[0].recipe.steps:,} x {one[0].recipe.batch}" for one in PRESETS[record.name].values()]
            count = f"{record.parameters(**paper.settings):,}"
            table.add_row(record.name, record.title, record.learns_from, count, *steps, record.cites)
        show(table)
        print("\nPresets are steps x batch. `alebrije train NAME --preset ... --out DIR` trains one of them.")


@dataclass(frozen=True)
class Train:
    """Train a model; the same command continues a run that was stopped. Several GPUs: start it with torchrun."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL")]
    """A name from `alebrije models`."""
    out: Place
    """The folder of the run: its plan, history and checkpoints."""
    world: str | None = None
    """What images are drawn from, such as dsprites or clevr6; that of the preset unless given."""
    task: str | None = None
    """A world and a rule, such as sprites/S-A: models that predict learn from its episodes, others from images of the
    combinations that these show in training."""
    alpha: float | None = None
    """For tasks: the part of the non-core combinations that training shows, 0.6 unless given."""
    preset: Literal["paper", "small", "tiny"] = "small"
    """`paper` is what was published; `small` takes minutes on a GPU and `tiny` seconds on a CPU, and neither reproduces
    a published number."""
    set: tyro.conf.UseAppendAction[list[tuple[str, ...]]] = field(default_factory=list)
    """What differs from the preset, as name=value: a setting of the model or of the recipe, such as steps=20000,
    lr=3e-4 or slots=11; several at once, or one after each --set."""
    images: int | None = None
    """How many images are drawn beforehand and held on the device; 0 to draw new ones all the time."""
    seed: int = 0
    """Of the weights, the data and the noise."""
    device: Device = "auto"
    """Where to train; `auto` takes a GPU if there is one."""
    workers: int = 1
    """Processes that sample the scenes of held images."""
    save_every: int = 1000
    """Steps between checkpoints."""
    keep_every: int = 0
    """Checkpoints at multiples of this step stay beside the last two, to see how a model learned; 0 for none."""
    check_every: int = 1000
    """Steps between looks at what was learned."""
    plain: tyro.conf.FlagCreatePairsOff[bool] = False
    """On a GPU, steps that are neither compiled nor captured: several times slower, for where a compiler is missing."""

    def run(self) -> None:
        """Plans, trains and says what was reached."""
        for name in ("workers", "save_every", "check_every"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, got {self.seed}")
        if self.keep_every < 0 or self.keep_every % self.save_every:
            raise InputError(
                f"--keep-every must be a multiple of --save-every {self.save_every}, got {self.keep_every}"
            )
        if self.world and self.task:
            raise InputError("a run has a --world or a --task, not both")
        from alebrije.train.plan import plan

        world, _, rule = (self.task or self.world or "").partition("/")
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
        speaks = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts, one
        device = device_of(self.device)
        with alone_in(self.out) if speaks else nullcontext():
            self._carry_out(made, device, speaks)

    def _carry_out(self, made: Plan, device: str, speaks: bool) -> None:
        from alebrije.report.bars import trained
        from alebrije.studies.training import carry_out, settle

        settle(made, self.out)
        place = made.world + (f"/{made.rule}" if made.rule else "")
        before = _last_step(self.out)
        if before >= made.recipe.steps:
            print(f"was trained for all {before:,} steps already; {_last_look(self.out)}see {self.out}")
            return
        if speaks:
            begun = f" from step {before:,} on" if before else ""
            print(f"{made.record.title} on {place}, {device}{begun}", file=sys.stderr)
        try:
            with trained(made.recipe.steps, made.recipe.batch, silent=not speaks) as (drawn, progress):
                carry_out(
                    made,
                    self.out,
                    device=device,
                    workers=self.workers,
                    save_every=self.save_every,
                    keep_every=self.keep_every,
                    check_every=self.check_every,
                    drawn=drawn,
                    progress=progress,
                    fast=not self.plain,
                )
        except RuntimeError as error:
            if any(words in str(error).lower() for words in _NO_ROOM):
                raise InputError(
                    f"{made.record.title} with a batch of {made.recipe.batch} does not fit into the memory of {device};"
                    " --set batch=... makes it smaller, --set accumulate=... cuts it into parts"
                ) from error
            from torch._dynamo.exc import TorchDynamoException

            if isinstance(error, TorchDynamoException):
                fault = " ".join(str(error).split("\n")[:2])
                raise InputError(f"torch cannot compile the step here ({fault}); --plain trains without") from error
            raise
        if speaks:
            print(f"trained for {made.recipe.steps:,} steps; {_last_look(self.out)}written to {self.out}")

    @property
    def begun(self) -> bool:
        """Whether there is anything to go on from."""
        return _last_step(self.out) > 0

    def _settings(self) -> dict[str, str]:
        pairs = [one.partition("=") for several in self.set for one in several or ("",)]
        for name, sign, value in pairs:
            if not (name and sign and value):
                raise InputError(f"--set takes name=value, such as steps=20000, not {name + sign + value!r}")
        names = [name.strip().removeprefix("recipe.") for name, _, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"--set gives {twice[0]} twice")
        return {name.strip(): value.strip() for name, _, value in pairs}


def _last_step(folder: Path) -> int:
    """How far the run in a folder has come."""
    from alebrije.train.checkpoints import checkpoints, step_of

    there = checkpoints(folder)
    return step_of(there[-1]) if there else 0


def _last_look(folder: Path) -> str:
    """What the last check of a run said, in words."""
    import json

    found, path = "", folder / "history.jsonl"
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            values = dict(json.loads(line))
        except (TypeError, ValueError):
            continue  # a line that was damaged
        if "lr" not in values:
            told = {name: "no number" if value is None else f"{value:.4g}" for name, value in values.items()}
            found = ", ".join(f"{name} {value}" for name, value in told.items() if name != "step") + "; "
    return found
