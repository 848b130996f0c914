"""The command `alebrije`: parses, calls, prints. Heavy imports wait until a subcommand needs them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije import __version__
from alebrije.errors import DivergedError, InputError

if TYPE_CHECKING:
    from alebrije.results.scores import MetricResult, Scores

_MOST_SHOWN = 200  # rows of a contact sheet, which is to be looked at


@dataclass(frozen=True)
class Score:
    """Score the codes, segmentations, analogies or predictions in a file with every metric that fits."""

    file: tyro.conf.Positional[Path]
    """An .npz or .safetensors file with codes and factors (and factor_names); or true and pred (or masks);
    or a, b, c, d and negatives.<name>; or target and predicted."""
    metrics: list[str] = field(default_factory=list)
    """Names from `alebrije metrics`; all that fit if none is given."""
    out: Path | None = None
    """Where to write the result as JSON."""
    bootstrap: int | None = None
    """Resamples for the 95 % intervals; 0 for none. Unless given, 1000 where cases are averaged and 10 where the metric
    is computed anew."""
    seed: int = 0
    """Seed of the resampling."""

    def run(self) -> None:
        """Reads, scores, writes, prints."""
        if self.bootstrap is not None and (self.bootstrap < 0 or self.bootstrap == 1):
            raise InputError(f"--bootstrap must be 0 or at least 2, got {self.bootstrap}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, got {self.seed}")
        if self.out is not None:
            self._check_out(self.out)
        from alebrije.data import read_arrays
        from alebrije.report.bars import watched
        from alebrije.results import write_atomically
        from alebrije.studies.battery import score_file

        scores = score_file(read_arrays(self.file), self.metrics, self.bootstrap, self.seed, watched)
        _print_scores(scores)
        if self.out is not None:
            write_atomically(self.out, scores.to_json())
            print(f"written to {self.out}")

    def _check_out(self, out: Path) -> None:
        """What would fail at the end is refused before the work."""
        if not out.parent.is_dir():
            raise InputError(f"--out {out}: the folder {out.parent} does not exist")
        if out.exists() and not out.is_file():
            raise InputError(f"--out {out}: is {'a folder' if out.is_dir() else 'not a regular file'}")
        if out.exists() and self.file.exists() and out.samefile(self.file):
            raise InputError(f"--out {out}: is the file to be scored")


@dataclass(frozen=True)
class Metrics:
    """List every metric: what it needs, its range and direction, its source."""

    def run(self) -> None:
        """Prints the catalog."""
        from rich.table import Table

        from alebrije.metrics import catalog

        table = Table("name", "metric", "needs", "range", "better", "source", title="Metrics", box=None, pad_edge=False)
        for record in catalog().values():
            low, high = (f"{end:g}" for end in record.range)
            table.add_row(
                record.name, record.title, ", ".join(record.inputs), f"{low}..{high}", record.direction, record.cites
            )
        _print(table)


Split = Literal["train", "test", "omni", "all"]


@dataclass(frozen=True)
class Make:
    """Make the images of a world, or the episodes of a task, into a folder; the same command continues."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|WORLD/RULE")]
    """A world: sprites, clevr, clevrtex, dsprites, rooms, clevr6, clevr10, coat, coat-correlated. Or a task, such as
    clevr/M-NA: one of the first three and S-A, S-NA, M-A, M-NA or one of the sixteen rules of SVIB's analysis."""
    n: int
    """How many scenes or episodes; those of a smaller number are the first of a larger one."""
    out: Path
    """The folder to write to. One that holds anything else is refused."""
    seed: int = 0
    """What the scenes depend on, besides their number."""
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    """Where pictures are drawn."""
    format: Literal["cache", "svib"] = "cache"
    """An image cache (data.open_cache), or PNG and JSON files as SVIB released them (data.read_svib)."""
    workers: int = 1
    """Processes that share the work on the CPU; the files are the same for any number."""
    size: int = 128
    """Pixels a side."""
    alpha: float | None = None
    """For tasks: the part of the non-core combinations that training shows, 0 to 1; 0.6 unless given. Those of the test
    are always left out, so from 0.8 on training shows all the others."""
    rule: str | None = None
    """Makes a task of a world: `clevr --rule M-NA` is clevr/M-NA."""
    split: Split | None = None
    """For tasks: the combinations of training (the default), of the test, all of them (omni), or each of these in a
    folder of its name."""
    compile: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Draw the solid worlds with compiled kernels: minutes to begin, then faster, above all on a GPU."""

    def run(self) -> None:
        """Makes what is missing and says how fast."""
        for name, value, least in (("n", self.n, 1), ("workers", self.workers, 1), ("size", self.size, 8)):
            if value < least:
                raise InputError(f"--{name} must be at least {least}, got {value}")
        from alebrije.report.bars import counted
        from alebrije.studies.datasets import datasets, refuse_parts_in_a_cache, write_dataset

        sets = datasets(self.what, rule=self.rule, alpha=self.alpha, split=self.split, size=self.size, seed=self.seed)
        refuse_parts_in_a_cache(self.out, sets)
        if self.device != "cpu" and self.workers > 1:
            print(f"alebrije: {self.device} draws by itself, so --workers is left aside", file=sys.stderr)
        begun, made, images = time.perf_counter(), 0, 0
        for part, dataset in sets.items():
            with counted(part or self.what) as progress:
                made += write_dataset(
                    dataset,
                    self.n,
                    self.out / part,
                    format=self.format,
                    device=self.device,
                    workers=self.workers,
                    compiled=self.compile,
                    progress=progress,
                )
            images += self.n * len(dataset.sides)
        seconds = time.perf_counter() - begun
        speed = f"{made:,} made now, {made / seconds:,.1f} images/s" if made else "all were there already"
        print(f"{images:,} image{'s' if images > 1 else ''} in {self.out} ({speed})")


@dataclass(frozen=True)
class Show:
    """Draw a contact sheet, as a PNG and as a web page: images, masks, and what they show in words."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WORLD|WORLD/RULE|analogies|DIR")]
    """A world, a task such as clevr/M-NA, `analogies`, or a folder: an image cache or SVIB's episodes. A folder that is
    called like a world is meant by ./name or name/."""
    n: int = 8
    """How many scenes, episodes or analogies; at most 200."""
    seed: int | None = None
    """Of the scenes, 0 unless given; a folder has its own."""
    out: Path = Path("sheet")
    """The sheet is written to OUT.png and OUT.html."""
    size: int | None = None
    """Pixels a side, 128 unless given; a folder has its own."""
    rule: str | None = None
    """Makes a task of a world, as in `make`."""
    alpha: float | None = None
    """For tasks, as in `make`."""
    split: Split | None = None
    """For tasks, as in `make`."""

    def run(self) -> None:
        """Draws, writes both files and says where they are."""
        if self.n < 1:
            raise InputError(f"--n must be at least 1, got {self.n}")
        if self.n > _MOST_SHOWN:
            raise InputError(f"--n must be at most {_MOST_SHOWN}, got {self.n}; more do not fit on a sheet")
        from alebrije.report.contents import sheet_of
        from alebrije.report.sheets import sheet_paths, write_sheet

        sheet_paths(self.out)  # what would fail at the end is refused before the work
        sheet = sheet_of(
            self.what, self.n, rule=self.rule, alpha=self.alpha, split=self.split, size=self.size, seed=self.seed
        )
        picture, page = write_sheet(sheet, self.out)
        print(f"written to {picture} and {page}")


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
            paper = plan(record.name, preset_name="paper")
            steps = [f"{one[0].recipe.steps:,} x {one[0].recipe.batch}" for one in PRESETS[record.name].values()]
            count = f"{record.parameters(**paper.settings):,}"
            table.add_row(record.name, record.title, record.learns_from, count, *steps, record.cites)
        _print(table)
        print("\nPresets are steps x batch. `alebrije train NAME --preset ... --out DIR` trains one of them.")


@dataclass(frozen=True)
class Train:
    """Train a model; the same command continues a run that was stopped. Several GPUs: start it with torchrun."""

    model: tyro.conf.Positional[str]
    """A name from `alebrije models`."""
    out: Path
    """The folder of the run: its plan, history and checkpoints."""
    world: str | None = None
    """What images are drawn from, such as dsprites or clevr6; that of the preset unless given."""
    task: str | None = None
    """For models that predict: a world and a rule, such as sprites/S-A."""
    alpha: float | None = None
    """For tasks: the part of the non-core combinations that training shows, 0.6 unless given."""
    preset: Literal["paper", "small", "tiny"] = "small"
    """`paper` is what was published; `small` takes minutes on a GPU and `tiny` seconds on a CPU, and neither reproduces
    a published number."""
    set: tyro.conf.UseAppendAction[list[str]] = field(default_factory=list)
    """What differs from the preset, as name=value: a setting of the model or of the recipe, such as steps=20000,
    lr=3e-4 or slots=11. May be repeated."""
    images: int | None = None
    """How many images are drawn beforehand and held on the device; 0 to draw new ones all the time."""
    seed: int = 0
    """Of the weights, the data and the noise."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train; `auto` takes a GPU if there is one."""
    workers: int = 1
    """Processes that sample the scenes of held images."""
    save_every: int = 1000
    """Steps between checkpoints."""
    check_every: int = 1000
    """Steps between looks at what was learned."""

    def run(self) -> None:
        """Plans, trains and says what was reached."""
        for name in ("workers", "save_every", "check_every"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, got {self.seed}")
        if self.world and self.task:
            raise InputError("a run has a --world or a --task, not both")
        from alebrije.report.bars import trained
        from alebrije.studies.training import carry_out
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
        device = _device(self.device)
        made.settle(self.out)
        speaks = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts, one
        place = made.world + (f"/{made.rule}" if made.rule else "")
        before = _last_step(self.out)
        if before >= made.recipe.steps:
            print(f"was trained for all {before:,} steps already; {_last_look(self.out)}see {self.out}")
            return
        if speaks:
            begun = f" from step {before:,} on" if before else ""
            print(f"{made.record.title} on {place}, {device}{begun}", file=sys.stderr)
        with trained(made.recipe.steps, made.recipe.batch, silent=not speaks) as (drawn, progress):
            carry_out(
                made,
                self.out,
                device=device,
                workers=self.workers,
                save_every=self.save_every,
                check_every=self.check_every,
                drawn=drawn,
                progress=progress,
            )
        if speaks:
            print(f"trained for {made.recipe.steps:,} steps; {_last_look(self.out)}written to {self.out}")

    def _settings(self) -> dict[str, str]:
        pairs = [one.partition("=") for one in self.set]
        for name, sign, value in pairs:
            if not (name and sign and value):
                raise InputError(f"--set takes name=value, such as steps=20000, not {name + sign + value!r}")
        names = [name.strip() for name, _, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"--set gives {twice[0]} twice")
        return {name.strip(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True)
class Check:
    """Tell in plain words whether a model can be evaluated, and how to mend what is in the way."""

    spec: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SPEC")]
    """package.module:object, timm:NAME, hf:NAME, checkpoint:DIR (a model trained here) or embeddings:FILE."""
    size: int | None = None
    """Pixels a side that the model wants; the model's own, or as images come, unless given."""
    mean: tuple[float, float, float] | None = None
    """What to take off each channel of images in 0..1."""
    std: tuple[float, float, float] | None = None
    """What to divide it by then."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where the model runs; `auto` takes a GPU if there is one."""

    def run(self) -> None:
        """Prints the findings; ends with 1 if there is a problem."""
        from alebrije.adapters import check

        report = check(self.spec, size=self.size, mean=self.mean, std=self.std, device=_device(self.device))
        print(report)
        if not report.passed:
            sys.exit(1)


@dataclass(frozen=True)
class Demo:
    """Score made-up representations and segmentations with everything and draw every world, on one web page."""

    out: Path = Path("out/demo")
    """The folder to write to."""
    rows: int = 3000
    """How many scenes to draw."""

    def run(self) -> None:
        """Draws, scores, writes the page and says where it is."""
        if self.rows < 1:
            raise InputError(f"--rows must be at least 1, got {self.rows}")
        from alebrije.report.bars import watched
        from alebrije.report.demo import run_demo

        page = run_demo(self.out, self.rows, watched)
        print(f"\nOpen {page} in a browser; the numbers are in {page.parent / 'scores.json'}.")


@dataclass(frozen=True)
class Version:
    """Print the version."""

    def run(self) -> None:
        """Prints it."""
        print(f"alebrije {__version__}")


_COMMANDS = (
    Annotated[Score, tyro.conf.subcommand("score")]
    | Annotated[Metrics, tyro.conf.subcommand("metrics")]
    | Annotated[Make, tyro.conf.subcommand("make")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Models, tyro.conf.subcommand("models")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Version, tyro.conf.subcommand("version")]
)


def main(arguments: list[str] | None = None) -> None:
    """Runs one subcommand; input that cannot be used ends in one sentence and exit code 2."""
    command = tyro.cli(
        _COMMANDS,
        prog="alebrije",
        description="Tells whether a vision model understands a scene as parts that recombine.",
        args=arguments,
    )
    try:
        command.run()
    except InputError as error:
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(2)
    except (OSError, DivergedError) as error:
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("alebrije: stopped", file=sys.stderr)
        sys.exit(130)


def _device(name: str) -> str:
    """The device that is meant, if it can be used here."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if there[device])
    if not there[name]:
        raise InputError(f"--device {name}: torch finds none here")
    return name


def _last_step(folder: Path) -> int:
    """How far the run in a folder has come."""
    from alebrije.train import checkpoints

    there = checkpoints(folder)
    return int(there[-1].name.removeprefix("step-")) if there else 0


def _last_look(folder: Path) -> str:
    """What the last check of a run said, in words."""
    import json

    found = ""
    for line in (folder / "history.jsonl").read_text().splitlines():
        values = json.loads(line)
        if "lr" not in values:
            found = ", ".join(f"{name} {value:.4g}" for name, value in values.items() if name != "step") + "; "
    return found


def _print(table: object) -> None:
    from rich.console import Console

    console = Console()
    Console(width=None if console.is_terminal else 160).print(table)


def _print_scores(scores: Scores) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("metric", "score", "95 % interval", "better", "notes", box=None, pad_edge=False)
    table.title = Text(f"{scores.input.file}  (sha256 {scores.input.sha256[:12]})")
    for result in scores.results:
        table.add_row(result.metric, *_cells(result), result.direction, Text("; ".join(_notes(result))))
    _print(table)


def _cells(result: MetricResult) -> tuple[str, str]:
    interval = result.interval
    span = "-" if interval is None else f"{interval.low:.4g} .. {interval.high:.4g}"
    return ("null" if result.score is None else f"{result.score:.4f}"), span


def _notes(result: MetricResult) -> list[str]:
    notes = [result.reason] if result.reason else []
    tests = result.details.get("tests")
    if tests is not None:
        failed = [name for name, test in tests.items() if not test["passed"]]
        verdict = "passes every hard negative" if tests and not failed else f"fails {', '.join(failed)}"
        notes.append(verdict if tests else "no hard negatives given, so the score may rest on a shortcut")
    if "disentanglement" in result.details:
        parts = {name[0].upper(): result.details[name] for name in _DCI}
        notes.append(" ".join(f"{k} {'null' if v is None else format(v, '.3f')}" for k, v in parts.items()))
    return notes


_DCI = ("disentanglement", "completeness", "informativeness")
