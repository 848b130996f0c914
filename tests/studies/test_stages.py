"""Stages: where the time of a cell goes, and what is being done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from alebrije.studies import stages
from alebrije.studies.stages import in_stage, listening, seconds_of_stages, watched_processes, write_stages


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stages.time, "perf_counter", clock)
    return clock


def test_a_stage_does_not_count_those_inside_it(clock: Clock) -> None:
    with seconds_of_stages() as seconds:
        clock.now += 1
        with in_stage("reading and waiting"):
            clock.now += 2
            with in_stage("rendering", "clevr"):
                clock.now += 4
            clock.now += 8
        clock.now += 16
        with in_stage("rendering", "sprites"):
            clock.now += 32
    assert seconds == {"scoring": 17, "reading and waiting": 10, "rendering": 36}


def test_time_before_and_after_the_block_does_not_count(clock: Clock) -> None:
    with in_stage("rendering"):
        clock.now += 1
    with seconds_of_stages() as seconds:
        clock.now += 2
    clock.now += 4
    with seconds_of_stages() as others:
        clock.now += 8
    assert seconds == {"scoring": 2}
    assert others == {"scoring": 8}


def test_a_stage_ends_with_an_exception(clock: Clock) -> None:
    def broken() -> None:
        with in_stage("encoding"):
            clock.now += 1
            raise ValueError("no")

    with seconds_of_stages() as seconds:
        with pytest.raises(ValueError, match="no"):
            broken()
        clock.now += 2
    assert seconds == {"encoding": 1, "scoring": 2}


def test_a_listener_hears_of_each_change() -> None:
    heard: list[str] = []
    with listening(heard.append), seconds_of_stages(), in_stage("rendering", "clevr"), in_stage("encoding"):
        pass
    assert heard == ["scoring", "rendering clevr", "encoding", "rendering clevr", "scoring", ""]
    with in_stage("encoding"):
        pass
    assert len(heard) == 6


WORKER = """
import sys
from pathlib import Path
from alebrije.studies.stages import in_stage, listening, write_stages

with listening(write_stages(Path(sys.argv[1]))), in_stage("rendering", sys.argv[2]):
    input()
"""


def test_stages_of_other_processes_are_reported() -> None:
    heard: list[str] = []
    both, over = threading.Event(), threading.Event()

    def hear(text: str) -> None:
        heard.append(text)
        if {"rendering a", "rendering b"} == set(text.split("; ")):
            both.set()
        if both.is_set() and not text:
            over.set()

    with watched_processes(hear) as folder:
        assert folder is not None
        programs = [
            subprocess.Popen([sys.executable, "-c", WORKER, str(folder), name], stdin=subprocess.PIPE) for name in "ab"
        ]
        assert both.wait(60)
        for program in programs:
            program.communicate(b"\n")
        assert over.wait(10)
    assert not folder.exists()


def test_nobody_is_told_about_other_processes_without_a_listener() -> None:
    with watched_processes(None) as folder:
        assert folder is None
    assert write_stages(None) is None


def test_a_folder_that_is_gone_does_not_stop_the_work(tmp_path: Path) -> None:
    write = write_stages(tmp_path / "gone")
    assert write is not None
    write("encoding")
    there = write_stages(tmp_path)
    assert there is not None
    there("encoding")
    assert (tmp_path / str(os.getpid())).read_text() == "encoding"
