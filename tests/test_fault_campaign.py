"""A sample of the fault campaign: whatever happens to files and processes, no value is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import fault_campaign  # noqa: E402


def test_a_sample_of_the_campaign_finds_nothing_wrong() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "fault_campaign.py", "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    total = re.search(r"\| all \| (\d+) \| (\d+) \| (\d+) \| 0 \|", done.stdout)
    assert total is not None
    attempts, repaired, refused = map(int, total.groups())
    assert attempts == repaired + refused >= 10
    assert repaired >= 3
    assert refused >= 1


@pytest.mark.parametrize(
    ("outcome", "found", "verdict"),
    [
        ((0, "done"), {"a": 1, "b": 2}, "repaired"),
        ((0, "done"), {"a": 1, "b": 3}, "wrong"),  # another value
        ((2, "alebrije: a: is not a regular file"), {"a": 1}, "refused"),
        ((2, "alebrije: a: is not a regular file"), {"a": 2}, "wrong"),
        ((0, ""), {"a": 1}, "wrong"),  # values are missing without a word
        ((0, "done"), {"a": 1}, "wrong"),  # the output of a command that succeeded explains nothing
        ((1, "Traceback (most recent call last):"), {}, "wrong"),
        ((-9, ""), {}, "wrong"),
        ((None, ""), {"a": 1, "b": 2}, "wrong"),  # no end
    ],
)
def test_verdicts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outcome: tuple[int | None, str],
    found: dict[str, int],
    verdict: str,
) -> None:
    monkeypatch.setitem(fault_campaign.READERS, "eval", lambda folder: found)
    ended = fault_campaign.Outcome(*outcome, seconds=1.0)
    assert fault_campaign.judge(("eval",), [ended], tmp_path, {"a": 1, "b": 2})[0] == verdict
