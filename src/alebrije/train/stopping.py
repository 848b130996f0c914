"""Stopping between two steps, so that the run can be saved first."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_LOG = logging.getLogger("alebrije")
_PATIENCE = 2.0  # seconds after a signal until a message says what is waited for


class StopNow(KeyboardInterrupt):
    """A signal inside a block that may end at once."""


class GracefulStop:
    """A context in which Ctrl-C and SIGTERM only set `requested`, until `stop_if_requested` handles them.

    A second signal is handled at once, unless `ignore_repeats`: with several processes the second is often the first
    again, passed on by `torchrun`, which also kills processes that take too long.
    Outside the main thread nothing changes, because signals do not arrive there. A signal that was ignored before
    stays ignored, such as Ctrl-C in a background job of a script.
    """

    def __init__(self, ignore_repeats: bool = False) -> None:
        self.active = threading.current_thread() is threading.main_thread()
        self.ignore_repeats = ignore_repeats
        self.requested = False
        self._signal = int(signal.SIGTERM)  # the default where only another process received one
        self._handlers: dict[int, Any] = {}
        self._at_once = False
        self._waiting: threading.Timer | None = None

    @contextmanager
    def at_once(self, enabled: bool = True) -> Iterator[None]:
        """A block that a signal ends with `StopNow`, because nothing in it needs to be finished."""
        if enabled and self.requested:
            raise StopNow
        self._at_once = enabled
        try:
            yield
        finally:
            self._at_once = False

    def __enter__(self) -> GracefulStop:
        if self.active:
            handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
            self._handlers = {number: old for number, old in handlers.items() if old not in (signal.SIG_IGN, None)}
            for number in self._handlers:
                signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._stop_waiting()
        if kind is None:
            self.stop_if_requested()

    def stop_if_requested(self, force: bool = False) -> None:
        """Handle the signal that was received, if any; `force` if another process received it."""
        self._stop_waiting()
        if self.requested or force:
            self.requested = False  # the handler may decide to continue
            self._handle(self._signal, None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.requested and not self.ignore_repeats:
            self.requested = False
            self._handle(number, frame)
        elif not self.requested:
            self.requested, self._signal = True, number
            if self._at_once:
                raise StopNow
            again = "" if self.ignore_repeats else "; press Ctrl-C again to stop at once"
            self._waiting = threading.Timer(_PATIENCE, _LOG.info, (f"stopping after this step, to save it{again}",))
            self._waiting.daemon = True
            self._waiting.start()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers.get(number)
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        else:
            raise KeyboardInterrupt  # ignored here, but this process cannot continue without the others
