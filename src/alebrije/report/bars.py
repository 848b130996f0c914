"""Progress of long work: bars on a terminal, plain lines elsewhere, both on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
Drawn = Callable[[int, int], object]
Stepped = Callable[[int, int, float, dict[str, float]], object]

SECONDS_A_LINE = 5.0  # between two lines where there is no terminal


def watched(work: Iterable[T]) -> Iterator[T]:
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
def counted(name: str) -> Iterator[Callable[[int, int, int], None]]:
    """Takes images done, in all, and made now: a bar on a terminal, a line every few seconds elsewhere."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    begun = time.perf_counter()
    if not sys.stderr.isatty():
        last = [0, begun]

        def line(done: int, total: int, made: int) -> None:
            now = time.perf_counter()
            if done > last[0] and (now - last[1] >= SECONDS_A_LINE or done == total):
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


@contextmanager
def trained(steps: int, batch: int, silent: bool = False) -> Iterator[tuple[Drawn, Stepped]]:
    """Two listeners, for images that are made beforehand and for steps: bars on a terminal, lines elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if silent:
        yield lambda done, total: None, lambda step, of, speed, losses: None
        return
    if not sys.stderr.isatty():
        last = [time.perf_counter()]

        def due(done: int, total: int) -> bool:
            if time.perf_counter() - last[0] < SECONDS_A_LINE and done < total:
                return False
            last[0] = time.perf_counter()
            return True

        def drawn(done: int, total: int) -> None:
            if due(done, total):
                print(f"[{done}/{total}] images drawn", file=sys.stderr, flush=True)

        def stepped(step: int, of: int, speed: float, losses: dict[str, float]) -> None:
            if due(step, of):
                left = f"{(of - step) * batch / speed / 60:.1f} minutes left"
                print(
                    f"[{step}/{of}] loss {losses['loss']:.4g}, {speed:,.0f} images/s, {left}",
                    file=sys.stderr,
                    flush=True,
                )

        yield drawn, stepped
        return
    note = TextColumn("{task.fields[note]}")
    columns = TextColumn("{task.description:<8}"), BarColumn(), MofNCompleteColumn(), note, TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        images = bars.add_task("images", total=None, note="", visible=False)
        bar = bars.add_task("steps", total=steps, note="")
        yield (
            lambda done, total: bars.update(images, completed=done, total=total, visible=done < total),
            lambda step, of, speed, losses: bars.update(
                bar, completed=step, total=of, note=f"loss {losses['loss']:.4g}  {speed:,.0f} images/s"
            ),
        )


@contextmanager
def cells_counted() -> Iterator[Callable[[int, int, object, float], None]]:
    """Takes cells done, in all, the last one, and seconds left: a bar on a terminal, a line for each elsewhere."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    if not sys.stderr.isatty():
        yield lambda done, total, cell, left: print(
            f"[{done}/{total}] {cell}, {left / 60:.1f} minutes left", file=sys.stderr, flush=True
        )
        return
    note = TextColumn("{task.fields[note]}")
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), note
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("the first cell", total=None, note="")
        yield lambda done, total, cell, left: progress.update(
            task, completed=done, total=total, description=escape(str(cell)), note=f"{left / 60:.1f} minutes left"
        )
