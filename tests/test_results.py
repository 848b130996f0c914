"""What is stored: files whole or not at all, JSON that any reader takes, intervals that cover what they claim."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from alebrije.errors import InputError
from alebrije.metrics.uncertainty import resample_cases, resample_rows
from alebrije.results import SCHEMA_VERSION, MetricResult, Scores, plain, write_atomically
from alebrije.results.scores import LONGEST, InputDescription, IntervalResult, details


def strictly(text: str) -> Any:
    """The content of `text`, which must not hold NaN or infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


class TestWriteAtomically:
    def test_writes_everything(self, tmp_path: Path) -> None:
        text = "größe\n" * 100_000
        write_atomically(tmp_path / "x.json", text)
        assert (tmp_path / "x.json").read_bytes() == text.encode("utf-8")
        assert os.listdir(tmp_path) == ["x.json"]

    def test_replaces_what_was_there(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        for text in ("a long first text", "short", ""):
            write_atomically(str(path), text)
            assert path.read_text() == text
        assert os.listdir(tmp_path) == ["x.json"]

    def test_a_relative_path_without_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        write_atomically("x.json", "new")
        assert (tmp_path / "x.json").read_text() == "new"

    @pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
    def test_a_failure_leaves_the_old_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
    ) -> None:
        def fail(*_: Any) -> None:
            raise error

        path = tmp_path / "x.json"
        path.write_text("old")
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(type(error)):
            write_atomically(path, "new")
        monkeypatch.undo()
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x.json"]

    def test_text_that_has_no_encoding_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_text("old")
        with pytest.raises(UnicodeEncodeError):
            write_atomically(path, "new \udcff")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x.json"]

    def test_a_disk_that_is_really_full_leaves_the_old_file(self, tmp_path: Path) -> None:
        """The system refuses to let any file grow past 1,000 bytes."""
        path = tmp_path / "x.json"
        path.write_text("old")
        code = (
            "import resource, signal, sys\n"
            "from alebrije.results import write_atomically\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
            "try: write_atomically(sys.argv[1], 'x' * 100_000)\n"
            "except OSError as error: print(type(error).__name__)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout == "OSError\n"
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x.json"]

    def test_killed_before_the_rename_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_text("old")
        code = (
            "import os, sys, time\n"
            "from alebrije.results import write_atomically\n"
            "os.fsync = lambda _: (print('written', flush=True), time.sleep(60))\n"
            "write_atomically(sys.argv[1], 'new' * 100_000)\n"
        )
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "written\n"
            assert path.read_text() == "old"
            child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
        assert path.read_text() == "old"
        write_atomically(path, "new")
        assert path.read_text() == "new"

    def test_killed_at_any_moment_leaves_one_whole_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        texts = {letter * 300_000 for letter in "ab"}
        code = (
            "import sys\n"
            "from alebrije.results import write_atomically\n"
            "write_atomically(sys.argv[1], 'a' * 300_000)\n"
            "print('started', flush=True)\n"
            "while True:\n"
            "    for letter in 'ba': write_atomically(sys.argv[1], letter * 300_000)\n"
        )
        for wait in (0.0, 0.013, 0.1):
            with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                assert child.stdout.readline() == "started\n"
                end = time.monotonic() + wait
                while time.monotonic() < end:
                    assert path.read_text() in texts  # a reader never sees half a file
                child.kill()
            assert path.read_text() in texts

    @pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
    def test_the_mode_is_that_of_any_new_file(self, tmp_path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            write_atomically(tmp_path / "x.json", "new")
            assert os.umask(umask) == umask, "the umask was changed"
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == 0o666 & ~umask

    def test_refuses_a_folder_and_a_missing_one(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        with pytest.raises(InputError, match="is a folder"):
            write_atomically(tmp_path / "folder", "new")
        with pytest.raises(InputError, match="does not exist"):
            write_atomically(tmp_path / "missing" / "x.json", "new")
        assert os.listdir(tmp_path) == ["folder"]
        assert os.listdir(tmp_path / "folder") == []


@dataclass(frozen=True)
class Inner:
    values: Any


@dataclass(frozen=True)
class Outer:
    inner: Inner
    by_name: Any
    passed: bool


class TestPlain:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (np.float32(0.5), 0.5),
            (np.int64(3), 3),
            (np.bool_(True), True),
            (np.array(2.0), 2.0),
            (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
            (np.array(["a", "b"]), ["a", "b"]),
            (np.array([1.0, np.nan, np.inf, -np.inf]), [1.0, None, None, None]),
            (torch.tensor([[1.0, math.nan]]), [[1.0, None]]),
            (torch.tensor(True), True),
            (torch.tensor([1, 2], dtype=torch.int32), [1, 2]),
            (torch.tensor([0.5], dtype=torch.bfloat16), [0.5]),
            (torch.ones(2, requires_grad=True), [1.0, 1.0]),
            (math.nan, None),
            (-math.inf, None),
            (np.float64("nan"), None),
            ((1, (2.5, "x", None)), [1, [2.5, "x", None]]),
            ({3: np.arange(2), "x": {"y": math.inf}}, {"3": [0, 1], "x": {"y": None}}),
            (MappingProxyType({"a": np.float64(1)}), {"a": 1.0}),
            ([], []),
            (True, True),
            (10**30, 10**30),
        ],
    )
    def test_known(self, value: Any, expected: Any) -> None:
        found = plain(value)
        assert found == expected
        assert type(found) is type(expected)
        assert strictly(json.dumps(found)) == expected

    def test_dataclasses(self) -> None:
        value = Outer(Inner(np.array([np.nan, 1])), {"drop": Inner(torch.tensor(2))}, np.bool_(False))
        assert plain(value) == {
            "inner": {"values": [None, 1.0]},
            "by_name": {"drop": {"values": 2}},
            "passed": False,
        }

    def test_does_not_change_its_input(self) -> None:
        value = {"x": np.array([np.nan, 1.0])}
        plain(value)
        assert np.isnan(value["x"][0])


@dataclass(frozen=True)
class Answer:
    score: float
    reason: str | None
    settings: dict[str, Any]
    short: Any
    long: Any
    tests: dict[str, Any]


def test_details_keep_what_is_short_and_name_what_is_not() -> None:
    answer = Answer(1.0, None, {"bins": 20}, np.zeros((LONGEST // 2, 2)), np.zeros(LONGEST + 1), {"drop": Inner(1.0)})
    kept, left_out = details(answer)
    assert set(kept) == {"short", "tests"}
    assert np.shape(kept["short"]) == (LONGEST // 2, 2)
    assert kept["tests"] == {"drop": {"values": 1.0}}
    assert left_out == ["long"]


def example_scores(**changes: Any) -> Scores:
    result = MetricResult(
        metric="mig",
        title="Mutual information gap",
        version=1,
        instrument="neurons",
        range=(0.0, None),
        direction="higher",
        cites="Chen et al. 2018",
        score=0.25,
        interval=IntervalResult(low=0.2, high=0.3, method="percentiles", resamples=1000, seed=0),
        settings={"bins": 20, "ignore": None},
        details={"per_factor": {"größe": 0.25, "color": None}, "information": [[0.1, 0.2]]},
        left_out=["drops"],
        seconds=0.125,
    )
    described = InputDescription(file="x.npz", sha256="0" * 64, arrays={"codes": "float64 [3, 2]"})
    return Scores(library_version="0.1.0", input=described, results=[result.model_copy(update=changes)])


class TestScores:
    def test_round_trip(self) -> None:
        scores = example_scores()
        assert Scores.model_validate_json(scores.to_json()) == scores
        assert Scores.model_validate_json(scores.to_json()).to_json() == scores.to_json()

    def test_says_which_schema(self) -> None:
        content = strictly(example_scores().to_json())
        assert content["schema_version"] == SCHEMA_VERSION
        assert list(content) == ["schema_version", "library_version", "input", "results"]
        assert example_scores().to_json().endswith("}\n")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_is_strict_json_even_if_a_number_slipped_through(self, value: float) -> None:
        endless = IntervalResult(low=value, high=value, method="m", resamples=2, seed=0)
        scores = example_scores(score=value, interval=endless, settings={"x": value}, details={"y": [[value]]})
        result = strictly(scores.to_json())["results"][0]
        assert result["score"] is None
        assert result["interval"]["low"] is None
        assert result["settings"] == {"x": None}
        assert result["details"] == {"y": [[None]]}

    @pytest.mark.parametrize(
        "place",
        [(), ("input",), ("results", 0), ("results", 0, "interval")],
        ids=["top", "input", "result", "interval"],
    )
    def test_extra_keys_are_refused(self, place: tuple[str | int, ...]) -> None:
        content = strictly(example_scores().to_json())
        part = content
        for step in place:
            part = part[step]
        part["surprise"] = 1
        with pytest.raises(ValidationError, match="surprise"):
            Scores.model_validate_json(json.dumps(content))

    @pytest.mark.parametrize("place", ["input", "results", "library_version"])
    def test_missing_keys_are_refused(self, place: str) -> None:
        content = strictly(example_scores().to_json())
        del content[place]
        with pytest.raises(ValidationError, match=place):
            Scores.model_validate_json(json.dumps(content))

    def test_cannot_be_changed(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            example_scores().results[0].score = 1.0


class TestIntervals:
    def test_cases_cover_the_mean_95_times_in_100(self) -> None:
        """300 trials: the share has a standard deviation of 1.3 %, and percentiles of 60 cases fall 1 % short."""
        draw = np.random.default_rng(0)
        hits = []
        for trial in range(300):
            interval = resample_cases(draw.normal(3.0, 2.0, size=60), 200, seed=trial)
            hits.append(interval.low <= 3.0 <= interval.high)
        assert 0.90 <= np.mean(hits) <= 0.98

    def test_rows_cover_the_mean_95_times_in_100(self) -> None:
        draw = np.random.default_rng(0)
        hits = []
        for trial in range(300):
            values = draw.normal(3.0, 2.0, size=60)
            interval = resample_rows(lambda rows, v=values: float(v[rows].mean()), 60, values.mean(), 50, seed=trial)
            hits.append(interval.low <= 3.0 <= interval.high)
        assert 0.90 <= np.mean(hits) <= 0.98

    def test_both_find_the_standard_error_of_a_mean(self) -> None:
        values = np.random.default_rng(1).normal(size=400)
        reach = 1.96 * values.std(ddof=1) / math.sqrt(400)
        cases = resample_cases(values, 2000, seed=0)
        rows = resample_rows(lambda rows: float(values[rows].mean()), 400, float(values.mean()), 2000, seed=0)
        for interval in (cases, rows):
            assert interval.resamples == 2000
            assert (interval.high - interval.low) / 2 == pytest.approx(reach, rel=0.08)
            assert (interval.high + interval.low) / 2 == pytest.approx(values.mean(), abs=0.1 * reach)
        assert cases.method != rows.method

    def test_the_estimate_is_the_middle_even_if_resampling_is_biased(self) -> None:
        interval = resample_rows(lambda rows: float(len(set(rows))), 100, 100.0, 50, seed=0)
        assert (interval.low + interval.high) / 2 == pytest.approx(100.0)
        assert interval.low < 100.0

    def test_seeds(self) -> None:
        values = np.random.default_rng(2).normal(size=30)
        assert resample_cases(values, 100, 5) == resample_cases(values, 100, 5)
        assert resample_cases(values, 100, 5) != resample_cases(values, 100, 6)

        def on_rows(seed: int) -> Any:
            return resample_rows(lambda rows: float(values[rows].mean()), 30, 0.0, 10, seed)

        assert on_rows(5) == on_rows(5)
        assert on_rows(5) != on_rows(6)

    def test_leave_the_global_generator_alone(self) -> None:
        np.random.seed(0)  # noqa: NPY002
        before = np.random.get_state()[1].tolist()  # noqa: NPY002
        resample_cases(np.arange(5.0), 10, 0)
        resample_rows(lambda rows: float(rows[0]), 5, 0.0, 10, 0)
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002

    def test_equal_cases_have_no_spread(self) -> None:
        interval = resample_cases(np.full(10, 0.5), 100, 0)
        assert (interval.low, interval.high) == (0.5, 0.5)

    def test_rows_are_drawn_with_replacement_from_all(self) -> None:
        seen: list[list[int]] = []
        resample_rows(lambda rows: float(bool(seen.append(list(rows)))), 20, 0.0, 50, 0)
        assert all(len(rows) == 20 and len(set(rows)) < 20 for rows in seen)
        assert {row for rows in seen for row in rows} == set(range(20))

    @pytest.mark.parametrize("resamples", [1, 0, -1])
    def test_too_few_resamples_are_refused(self, resamples: int) -> None:
        with pytest.raises(InputError, match="at least 2"):
            resample_rows(lambda rows: 0.0, 10, 0.0, resamples, 0)
