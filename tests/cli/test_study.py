"""`alebrije study`: shards, dry runs, killed runs, mistakes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alebrije.cli import main
from alebrije.results import Store
from tests.cli.running import check_mistake, csv_rows

COMMAND = ["study", "neurons", "--size", "tiny", "--models", "oracle", "noise", "--metrics", "SNC", "MIG", "--out", "s"]


def test_a_study_in_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    main([*COMMAND, "--dry-run"])
    listed = capsys.readouterr().out
    assert "2 cells, 2 missing; time: unknown until one of them is done" in listed
    assert not (tmp_path / "s").exists()
    main([*COMMAND, "--shard", "1/2"])
    main([*COMMAND, "--dry-run"])
    assert "2 cells, 1 missing; time: about" in capsys.readouterr().out
    main([*COMMAND, "--shard", "2/2"])
    main(COMMAND)
    assert "0 computed, 4 already done" in capsys.readouterr().out  # with a summary of each model
    main(["compare", "s", "--published", "--format", "csv"])
    assert {row["model"] for row in csv_rows(capsys)} >= {"oracle", "noise"}
    main(["report", "s", "--out", "page.html", "--figures", "figures"])
    assert list((tmp_path / "figures").glob("*.svg"))
    assert list((tmp_path / "figures").glob("*.pdf"))


def done(folder: Path) -> int:
    """The number of stored cells."""
    return len(list((folder / "cells").rglob("*.json")))


@pytest.mark.yardsticks
def test_a_killed_study_ends_with_the_same_results(tmp_path: Path) -> None:
    """The same as without interruption, and as with one process."""
    arguments = ["study", "neurons", "--size", "tiny", "--models", "oracle", "noise"]
    arguments += ["--metrics", "SNC", "MIG", "IRS", "CG accuracy"]
    main([*arguments, "--jobs", "1", "--out", str(tmp_path / "undisturbed")])
    command = [sys.executable, "-m", "alebrije", *arguments, "--jobs", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    random_times, counts = random.Random(4), []  # cells done when it was killed
    for _ in range(2):
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "killed")],
            env=environment,
            start_new_session=True,
            **quiet,  # type: ignore[call-overload]
        )
        before = done(tmp_path / "killed")
        while process.poll() is None and done(tmp_path / "killed") == before:
            time.sleep(0.05)
        time.sleep(random_times.uniform(0, 1))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            counts.append(done(tmp_path / "killed"))
        process.wait()
    assert any(0 < count < done(tmp_path / "undisturbed") for count in counts)
    subprocess.run([*command, "--out", str(tmp_path / "killed")], check=True, env=environment, **quiet)  # type: ignore[call-overload]
    undisturbed, killed = (
        {result.key: {name: value.score for name, value in result.values.items()} for result in Store(path).all()}
        for path in (tmp_path / "undisturbed" / "cells", tmp_path / "killed" / "cells")
    )
    assert undisturbed == killed
    assert len(undisturbed) > 2
    assert not Store(tmp_path / "killed" / "cells").problems()


@pytest.mark.usefixtures("two_files")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["study", "neurons", "--out="], "--out needs the name of a file or folder and is empty"),
        (["study", "neuron", "--out", "x"], "there is no instrument 'neuron'; did you mean 'neurons'?"),
        (["study", "neurons", "--out", "x", "--shard", "3/2"], "--shard must be i/n"),
        (["study", "neurons", "--out", "x", "--shard", "one"], "--shard must be i/n"),
        (["study", "neurons", "--out", "x", "--seeds", "0"], "--seeds must be at least 1"),
        (["study", "neurons", "--out", "x", "--models", "beta-vaes"], "did you mean 'beta-vae'?"),
        (
            ["study", "analogy", "--out", "x", "--models", "pixl"],
            "did you mean 'pixels'? (a spec is one of",
        ),
        (["study", "imagination", "--out", "x", "--models", "svib-oracl"], "did you mean 'svib-oracle'?"),
        (["study", "neurons", "--out", "x", "--worlds", "dsprite"], "dsprites"),
        (["study", "neurons", "--out", "x", "--metrics", "bogus"], "neurons has no value 'bogus'"),
        (["study", "neurons", "--out", "x", "--rules", "S-A"], "neurons has no rules"),
        (["study", "grouping", "--out", "x", "--betas", "1"], "grouping has no betas"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_mistake(arguments, sentence, capsys)
