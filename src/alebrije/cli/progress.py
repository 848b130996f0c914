"""Progress of long work: a bar on a terminal, plain lines elsewhere, both on standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
ImagesDone = Callable[[int, int], object]  # images done, images in total
StepDone = Callable[[int, int, float, dict[str, float]], object]  # step, steps in total, images per second, losses

SECONDS_A_LINE = 5.0  # between two lines if there is no terminal


def track(work: Iterable[T]) -> Iterator[T]:
    """Yield each item of `work` and show how many are done."""
    items = list(work)
    if not sys.stderr.isatty():
        for number, item in enumerate(items, 1):
            _line(f"[{number}/{len(items)}] {item}")
            yield item
        return
    with _bars("{task.description:<16}", "bar", "count", "elapsed") as bars:
        task = bars.add_task("", total=len(items))
        for item in items:
            bars.update(task, description=str(item))
            yield item
            bars.advance(task)


@contextmanager
def image_progress(name: str) -> Iterator[Callable[[int, int, int], None]]:
    """A function that takes images done, images in total, and images made by this process."""
    from rich.markup import escape

    start = time.perf_counter()
    if not sys.stderr.isatty():
        last_done, due = 0, _Due()

        def show(done: int, total: int, made: int) -> None:
            nonlocal last_done
            if done > last_done and due(done, total):
                last_done = done
                _line(f"[{done}/{total}] {made / (time.perf_counter() - start):.1f} images/s")

        yield show
        return
    with _bars("{task.description:<16}", "bar", "count", "{task.fields[speed]:>7.1f} images/s", "elapsed") as bars:
        task = bars.add_task(escape(name), total=None, speed=0.0)
        yield lambda done, total, made: bars.update(
            task, completed=done, total=total, speed=made / (time.perf_counter() - start)
        )


@contextmanager
def training_progress(steps: int, batch: int, silent: bool = False) -> Iterator[tuple[ImagesDone, StepDone]]:
    """Two functions: one for the images rendered before training, one for the training steps."""
    if silent:
        yield lambda done, total: None, lambda step, total, speed, losses: None
        return
    pace = _ImagePace()
    if not sys.stderr.isatty():
        due = _Due()

        def show_images(done: int, total: int) -> None:
            words = pace(done, total)
            if due(done, total):
                _line(f"[{done}/{total}] images rendered, {words}")

        def show_step(step: int, total: int, speed: float, losses: dict[str, float]) -> None:
            if due(step, total):
                left = time_left((total - step) * batch / speed)
                _line(f"[{step}/{total}] loss {losses['loss']:.4g}, {_rate(speed)}, {left}")

        yield show_images, show_step
        return
    with _bars("{task.description:<8}", "bar", "count", "{task.fields[note]}") as bars:
        images = bars.add_task("images", total=None, note="", visible=False)
        task = bars.add_task("steps", total=steps, note="")
        yield (
            lambda done, total: bars.update(
                images, completed=done, total=total, visible=done < total, note=pace(done, total)
            ),
            lambda step, total, speed, losses: bars.update(
                task,
                completed=step,
                total=total,
                note=f"loss {losses['loss']:.4g}  {_rate(speed)}  {time_left((total - step) * batch / speed)}",
            ),
        )


def time_left(seconds: float) -> str:
    """A remaining time in words.

    >>> time_left(90), time_left(3 * 3600), time_left(8 * 86400)
    ('1.5 minutes left', '3.0 hours left', '8.0 days left')
    """
    for size, unit in ((86400, "days"), (3600, "hours")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit} left"
    return f"{seconds / 60:.1f} minutes left"


def _rate(speed: float) -> str:
    return f"{speed:,.0f} images/s" if speed >= 10 else f"{speed:.2g} images/s"


class _ImagePace:
    """The speed of rendering and the time left, in words; images of an earlier run do not count."""

    def __init__(self) -> None:
        self.start, self.first, self.total = 0.0, 0, 0

    def __call__(self, done: int, total: int) -> str:
        now = time.perf_counter()
        if total != self.total:  # the images of the training check are rendered before those of training
            self.start, self.first, self.total = now, done, total
        speed = (done - self.first) / max(now - self.start, 1e-9)
        return f"{_rate(speed)}, {time_left((total - done) / speed)}" if speed else "..."


@dataclass(frozen=True)
class CellProgress:
    """What a study reports while it runs: finished cells, and what is being done."""

    cells: Callable[[int, int, object, float], None]  # cells done, cells in total, the last cell, seconds left
    activity: Callable[[str], None]


@contextmanager
def cell_progress() -> Iterator[CellProgress]:
    """The progress of the cells of a study. Without a terminal, only what takes seconds gets a line of its own."""
    from rich.markup import escape

    if not sys.stderr.isatty():
        with _long_activities() as activity:
            yield CellProgress(
                lambda done, total, cell, left: _line(f"[{done}/{total}] {cell}, {left / 60:.1f} minutes left"),
                activity,
            )
        return
    with _bars("bar", "count", "{task.description}", "{task.fields[note]}", "{task.fields[activity]}") as bars:
        task = bars.add_task("the first cell", total=None, note="", activity="")
        yield CellProgress(
            lambda done, total, cell, left: bars.update(
                task, completed=done, total=total, description=escape(str(cell)), note=f"{left / 60:.1f} minutes left"
            ),
            lambda activity: bars.update(task, activity=escape(activity)),
        )


@contextmanager
def _long_activities() -> Iterator[Callable[[str], None]]:
    """A function that takes what is being done, such as "rendering a; encoding". What lasts gets a line, once."""
    since: dict[str, float] = {}
    printed, over = set[str](), threading.Event()

    def update(text: str) -> None:
        now = {each for each in text.split("; ") if each}
        for each in since.keys() - now:
            since.pop(each, None)
        for each in now:
            since.setdefault(each, time.perf_counter())

    def watch() -> None:
        while not over.wait(1.0):
            for each, begun in list(since.items()):
                if each not in printed and time.perf_counter() - begun >= SECONDS_A_LINE:
                    printed.add(each)
                    _line(f"{each} ...")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield update
    finally:
        over.set()
        thread.join()


class _Due:
    """Whether it is time for the next line: every few seconds, and at the end."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self, done: int, total: int) -> bool:
        if time.perf_counter() - self.last < SECONDS_A_LINE and done < total:
            return False
        self.last = time.perf_counter()
        return True


def _line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _bars(*columns: str) -> Progress:
    """Progress bars on standard error that disappear at the end; a column is a kind or a text template."""
    from rich import progress
    from rich.console import Console

    kinds: dict[str, Callable[[], progress.ProgressColumn]] = {
        "bar": progress.BarColumn,
        "count": progress.MofNCompleteColumn,
        "elapsed": progress.TimeElapsedColumn,
        "remaining": progress.TimeRemainingColumn,
    }
    made = [kinds[column]() if column in kinds else progress.TextColumn(column) for column in columns]
    return progress.Progress(*made, console=Console(stderr=True), transient=True)
