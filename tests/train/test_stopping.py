"""Signals that wait until a step has ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from alebrije.train.stopping import Stopping


@pytest.fixture(autouse=True)
def handlers_come_back() -> Iterator[None]:
    """Whatever they are: in the background of a script Ctrl-C is ignored."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_signal_waits_until_it_is_obeyed() -> None:
    with Stopping() as stopping:
        stopping.obey()
        signal.raise_signal(signal.SIGINT)
        assert stopping.asked
        with pytest.raises(KeyboardInterrupt):
            stopping.obey()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_does_not_wait() -> None:
    with Stopping() as stopping:
        signal.raise_signal(signal.SIGINT)
        assert stopping.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_of_several_processes_none_is_hasty() -> None:
    with Stopping(patient=True) as stopping:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stopping.obey()
        assert not stopping.asked


def test_who_was_not_asked_stops_with_the_others() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    with Stopping(patient=True) as stopping:
        stopping.obey()
        assert heard == []
        stopping.obey(anyway=True)
    assert heard == [signal.SIGTERM]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Stopping(patient=True) as stopping, pytest.raises(KeyboardInterrupt):
        stopping.obey(anyway=True)


def test_what_was_ignored_stays_so() -> None:
    """In the background of a script Ctrl-C is ignored, and a training goes on as it was."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Stopping() as stopping:
        signal.raise_signal(signal.SIGINT)
        assert not stopping.asked
        stopping.obey()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_whoever_hears_of_it_may_go_on() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    with Stopping() as stopping:
        signal.raise_signal(signal.SIGTERM)
        stopping.obey()
        assert heard == [signal.SIGTERM]
        assert not stopping.asked


def test_what_comes_too_late_to_be_obeyed_is_not_lost() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    with Stopping():
        signal.raise_signal(signal.SIGTERM)
        assert not heard
    assert heard == [signal.SIGTERM]


def test_elsewhere_nothing_changes() -> None:
    found = []

    def look() -> None:
        with Stopping() as stopping:
            found.append((stopping.used, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]
    look()
    assert found[-1][0]
    assert found[-1][1] != signal.default_int_handler
