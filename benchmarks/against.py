"""Rendering on a CPU against another checkout of the library, in turn; adds ratios to `worlds.json`.

    python benchmarks/against.py FOLDER [NAME]

FOLDER is the checkout, NAME what to call it. Two processes per world, one for each version, render the same scenes at
128 px when they are asked to. Ratios are of the least CPU time of all threads, and of the wall time, of the rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROUNDS, SIZE = 5, 128
SCENES = {"clevr": 32, "coat": 32, "clevrtex": 16}
CHILD = """
import json, sys, time
from alebrije import worlds
world, count = worlds.get(sys.argv[1]), int(sys.argv[2])
scenes = world.sample(count)
world.render(scenes, int(sys.argv[3]))
print(flush=True)
for _ in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    world.render(scenes, int(sys.argv[3]))
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), flush=True)
"""


def start(root: Path, name: str, threads: int) -> subprocess.Popen[str]:
    """A process that renders with the version at `root` whenever it reads a line."""
    paths = os.pathsep.join([str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", CHILD, name, str(SCENES[name]), str(SIZE)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def ask(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Wall and CPU time of rendering all scenes once."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    wall, cpu = json.loads(process.stdout.readline())
    return wall, cpu


def compare(folder: Path, name: str, threads: int) -> dict[str, Any]:
    """How many times as fast this version renders a world."""
    processes = [start(root, name, threads) for root in (folder, Path(__file__).parents[1])]
    times = [[ask(process) for process in processes] for _ in range(ROUNDS)]
    for process in processes:
        process.communicate()
    (wall, cpu), (our_wall, our_cpu) = (
        [min(side) for side in zip(*run, strict=True)] for run in zip(*times, strict=True)
    )
    row = {"world": name, "threads": threads, "cpu": cpu / our_cpu, "wall": wall / our_wall}
    row["ms"] = our_cpu / SCENES[name] * 1000
    print(f"{name}, {threads} threads: {row['cpu']:.2f} x CPU time, {row['wall']:.2f} x wall time", flush=True)
    return row


def main() -> None:
    """Compare all worlds, with one thread and with two."""
    folder, path = Path(sys.argv[1]), Path(__file__).with_name("worlds.json")
    rows = [compare(folder, name, threads) for name in SCENES for threads in (1, 2)]
    found = json.loads(path.read_text())
    found["cpu"]["against"] = {"version": sys.argv[2] if len(sys.argv) > 2 else folder.name, "worlds": rows}
    path.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
