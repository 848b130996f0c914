"""Signals wait until a step has ended."""

from __future__ import annotations

import signal
import threading

import pytest

from alebrije.train.stopping import GracefulStop

pytestmark = pytest.mark.usefixtures("default_handlers")


def test_a_signal_waits() -> None:
    with GracefulStop() as stop:
        stop.stop_if_requested()
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            stop.stop_if_requested()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_does_not_wait() -> None:
    with GracefulStop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_several_processes_ignore_repeats() -> None:
    with GracefulStop(ignore_repeats=True) as stop:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop.stop_if_requested()
        assert not stop.requested


def test_a_process_stops_with_the_others() -> None:
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    with GracefulStop(ignore_repeats=True) as stop:
        stop.stop_if_requested()
        assert received == []
        stop.stop_if_requested(force=True)
    assert received == [signal.SIGTERM]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with GracefulStop(ignore_repeats=True) as stop, pytest.raises(KeyboardInterrupt):
        stop.stop_if_requested(force=True)


def test_an_ignored_signal_stays_ignored() -> None:
    """In a background job of a script Ctrl-C is ignored, and the training continues."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with GracefulStop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert not stop.requested
        stop.stop_if_requested()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_handler_may_continue() -> None:
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    with GracefulStop() as stop:
        signal.raise_signal(signal.SIGTERM)
        stop.stop_if_requested()
        assert received == [signal.SIGTERM]
        assert not stop.requested


def test_a_late_signal_is_handled_at_the_end() -> None:
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    with GracefulStop():
        signal.raise_signal(signal.SIGTERM)
        assert not received
    assert received == [signal.SIGTERM]


def test_other_threads_are_not_affected() -> None:
    found = []

    def enter() -> None:
        with GracefulStop() as stop:
            found.append((stop.active, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]
    enter()
    assert found[-1][0]
    assert found[-1][1] != signal.default_int_handler
