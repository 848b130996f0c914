"""The command `alebrije`: parses, calls, prints. Heavy imports wait until a subcommand needs them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import tyro

from alebrije import __version__
from alebrije.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alebrije.results.scores import MetricResult, Scores

T = TypeVar("T")

_SECONDS_A_LINE = 5.0  # between two lines of progress where there is no terminal
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
        from alebrije.results import write_atomically
        from alebrije.studies.battery import score_file

        scores = score_file(read_arrays(self.file), self.metrics, self.bootstrap, self.seed, _watched)
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
        from alebrije.studies.datasets import datasets, refuse_parts_in_a_cache, write_dataset

        sets = datasets(self.what, rule=self.rule, alpha=self.alpha, split=self.split, size=self.size, seed=self.seed)
        refuse_parts_in_a_cache(self.out, sets)
        if self.device != "cpu" and self.workers > 1:
            print(f"alebrije: {self.device} draws by itself, so --workers is left aside", file=sys.stderr)
        begun, made, images = time.perf_counter(), 0, 0
        for part, dataset in sets.items():
            with _counted(part or self.what) as progress:
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
        from alebrije.report.demo import run_demo

        page = run_demo(self.out, self.rows, _watched)
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
    except OSError as error:
        print(f"alebrije: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("alebrije: stopped", file=sys.stderr)
        sys.exit(130)


def _watched(work: Iterable[T]) -> Iterator[T]:
    """Each piece of `work`, with a progress bar on a terminal and plain lines elsewhere, both on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    todo = list(work)
    if not sys.stderr.isatty():
        for place, piece in enumerate(todo, 1):
            print(f"[{place}/{len(todo)}] {piece}", file=sys.stderr, flush=True)
            yield piece
        return
    columns = TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(todo))
        for piece in todo:
            progress.update(task, description=str(piece))
            yield piece
            progress.advance(task)


@contextmanager
def _counted(name: str) -> Iterator[Callable[[int, int, int], None]]:
    """Takes images done, in all, and made now: a bar on a terminal, a line every few seconds elsewhere."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    begun = time.perf_counter()
    if not sys.stderr.isatty():
        last = [0, begun]

        def line(done: int, total: int, made: int) -> None:
            now = time.perf_counter()
            if done > last[0] and (now - last[1] >= _SECONDS_A_LINE or done == total):
                last[:] = done, now
                print(f"[{done}/{total}] {made / (now - begun):.1f} images/s", file=sys.stderr, flush=True)

        yield line
        return
    speed = TextColumn("{task.fields[speed]:>7.1f} images/s")
    columns = TextColumn("{task.description:<16}"), BarColumn(), MofNCompleteColumn(), speed, TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(name), total=None, speed=0.0)
        yield lambda done, total, made: progress.update(
            task, completed=done, total=total, speed=made / (time.perf_counter() - begun)
        )


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
