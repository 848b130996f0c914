"""Stopping between two steps: what was learned until then can be kept."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stopping:
    """Within this context Ctrl-C and SIGTERM wait until `obey` is called; a second one does not wait.

    Of several processes that work together each waits for the others, and is `patient`: there the second is often the
    first, passed on by `torchrun`, which also ends who takes too long.
    Where signals do not arrive, outside the main thread, nothing changes; and what was ignored before, as Ctrl-C is by
    what a script starts in the background, stays so.
    """

    def __init__(self, patient: bool = False) -> None:
        self.used = threading.current_thread() is threading.main_thread()
        self.patient = patient
        self.asked = False
        self._number = int(signal.SIGTERM)  # for who was not asked, but another of them
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

    def obey(self, anyway: bool = False) -> None:
        """Do what was asked for, if anything was; or `anyway`, where it was asked of another."""
        if self.asked or anyway:
            self.asked = False  # whoever hears of it may decide to go on
            self._pass_on(self._number, None)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked and not self.patient:
            self.asked = False
            self._pass_on(number, frame)
        elif not self.asked:
            self.asked, self._number = True, number

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        handler = self._before.get(number)
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        else:
            raise KeyboardInterrupt  # it is not for this process, and yet it cannot go on without the others
