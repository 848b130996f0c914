"""Stages: what the work on a cell does at a moment, and how long each stage took."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from alebrije.errors import InputError
from alebrije.files import KIB, read_text

StageName = Literal["rendering", "training", "encoding", "fitting heads", "scoring", "reading and waiting"]
Activity = Callable[[str], object]  # called with what is being done, when that changes

SCORING: StageName = "scoring"  # all that is in no other stage
_POLL_SECONDS = 0.3  # between looks at what other processes do


@dataclass
class _Clock(threading.local):
    """The stages of one thread, the inner ones last, and the seconds of each without those inside it."""

    stack: list[tuple[StageName, str]] = field(default_factory=list)
    seconds: dict[StageName, float] = field(default_factory=dict)
    since: float = 0.0

    def change(self) -> None:
        """Count the time since the last change for the innermost stage."""
        now = time.perf_counter()
        if self.stack:
            name = self.stack[-1][0]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self.since
        self.since = now


_CLOCK = _Clock()
_listener: Activity | None = None


@contextmanager
def in_stage(name: StageName, about: str = "") -> Iterator[None]:
    """A block that belongs to a stage; `about` says what is rendered or trained.

    >>> with seconds_of_stages() as seconds, in_stage("rendering", "clevr"):
    ...     pass
    >>> sorted(seconds)
    ['rendering', 'scoring']
    """
    _CLOCK.change()
    _CLOCK.stack.append((name, about))
    _notify()
    try:
        yield
    finally:
        _CLOCK.change()
        _CLOCK.stack.pop()
        _notify()


@contextmanager
def seconds_of_stages() -> Iterator[dict[StageName, float]]:
    """The seconds of each stage in this block, complete at its end. What belongs to no other stage is scoring."""
    before, _CLOCK.seconds = _CLOCK.seconds, {}
    seconds = _CLOCK.seconds
    try:
        with in_stage(SCORING):
            yield seconds
    finally:
        _CLOCK.seconds = before


@contextmanager
def listening(listener: Activity | None) -> Iterator[None]:
    """A block in which a function is called with every new stage of this process."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


@contextmanager
def watched_processes(activity: Activity | None) -> Iterator[Path | None]:
    """A folder in which other processes write their stages (`write_stages`), while a thread reports them here."""
    if activity is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="alebrije-stages-", ignore_cleanup_errors=True) as name:
        folder, over = Path(name), threading.Event()

        def watch() -> None:
            last = ""
            while not over.wait(_POLL_SECONDS):
                now = "; ".join(dict.fromkeys(filter(None, map(_read, sorted(folder.iterdir())))))
                if now != last:
                    activity(now)
                last = now

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield folder
        finally:
            over.set()
            thread.join()


def write_stages(folder: Path | None) -> Activity | None:
    """A listener that writes the stage of this process into a folder."""
    if folder is None:
        return None
    path = folder / str(os.getpid())

    def write(text: str) -> None:
        with suppress(OSError):  # a full disk, or the folder is gone: nobody reads it any more
            path.write_text(text)

    return write


def _notify() -> None:
    if _listener is not None and threading.current_thread() is threading.main_thread():
        name, about = _CLOCK.stack[-1] if _CLOCK.stack else ("", "")
        _listener(f"{name} {about}".strip())


def _read(path: Path) -> str:
    try:
        return read_text(path, KIB)
    except (OSError, InputError):
        return ""
