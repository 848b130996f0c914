"""Stopping between two steps: what was learned until then can be kept."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stopping:
    """Within this context Ctrl-C and SIGTERM wait until `obey` is called; a second one does not wait.

    Where signals do not arrive, outside the main thread, and where it is not to be `used`, nothing changes; and what
    was ignored before, as Ctrl-C is by what a script starts in the background, stays so.
    """

    def __init__(self, used: bool = True) -> None:
        self.used = used and threading.current_thread() is threading.main_thread()
        self.asked = False
        self._number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if self.used:
            known = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
            self._before = {each: old for each, old in known.items() if old not in (signal.SIG_IGN, None)}
            for each in self._before:
                signal.signal(each, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        if kind is None:
            self.obey()

    def obey(self) -> None:
        """Do what was asked for, if anything was."""
        if self.asked:
            self.asked = False  # whoever hears of it may decide to go on
            self._pass_on(self._number, None)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self.asked = False
            self._pass_on(number, frame)
        else:
            self.asked, self._number = True, number

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        handler = self._before[number]
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
