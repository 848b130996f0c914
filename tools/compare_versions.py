"""Whether another version of alebrije gives the same scores on a CPU.

    python tools/compare_versions.py CHECKOUT [--size small] [--jobs N] [--models SPEC ...] [--out FILE]

Both versions evaluate the references and two models that CHECKOUT trains (a beta-VAE and Slot Attention, preset tiny)
with all four instruments, each in a fresh process with an empty cache of images. Yardsticks are left out, because they
do not change the scores of a model. Print every score that differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REFERENCES = ("pixels", "oracle", "projection", "noise")
TRAINED = {"beta-vae": (), "slot-attention": ("--world", "clevr6")}
# Evaluates without yardsticks; versions before there were any have no module of that name.
COMMAND = """
import sys
try:
    from alebrije.studies import run
    run._yardstick_jobs = lambda *given, **more: []
except ImportError:
    pass
from alebrije.cli import main
sys.exit(main())
"""
SAME = 1e-6
Scores = dict[str, float | None]


def run(source: Path, folder: Path, words: Sequence[str]) -> str:
    """What a command of a version prints."""
    path = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    around = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "ALEBRIJE_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", COMMAND, *words]
    done = subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr}")
    return done.stdout


def scores(source: Path, spec: str, size: str) -> Scores:
    """The scores of a model by study, world, setting and metric."""
    with tempfile.TemporaryDirectory() as path:
        run(source, Path(path), ("eval", spec, "--size", size, "--device", "cpu", "--out", "found"))
        table = json.loads(run(source, Path(path), ("results", "found", "--seeds", "--format", "json")))
    found = {key_of(row): row["value"]["value"] for row in table["rows"]}
    print(f"{spec}: {len(found)} scores of {source}", flush=True)
    return found


def key_of(row: dict[str, Any]) -> str:
    """A row without its value and without what differs between versions although the score is the same."""
    labels = {name: row[name] for name in sorted(row) if name not in ("value", "model", "trained_on")}
    return ", ".join(f"{name} {value}" for name, value in labels.items() if value is not None)


def main() -> None:
    """Compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--size", default="small")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--models", nargs="*", default=REFERENCES)
    parser.add_argument("--trained", nargs="*", default=tuple(TRAINED))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    versions = [(given.checkout / "src").resolve(), ROOT / "src"]
    with tempfile.TemporaryDirectory() as path, ThreadPoolExecutor(given.jobs) as pool:
        for name in given.trained:
            words = ("train", name, "--preset", "tiny", "--device", "cpu", *TRAINED[name], "--out", f"{path}/{name}")
            run(versions[0], Path(path), words)
        specs = [*given.models, *(f"checkpoint:{path}/{name}" for name in given.trained)]
        jobs = [(version, spec) for spec in specs for version in versions]
        found = list(pool.map(lambda job: scores(*job, given.size), jobs))
    report, count, same = {}, 0, 0
    for spec, old, new in zip(specs, found[::2], found[1::2], strict=True):
        model = spec.rpartition("/")[2]
        report[model] = {key: [score, new.get(key)] for key, score in old.items()}
        for key, (before, now) in report[model].items():
            equal = before == now or (before is not None and now is not None and abs(before - now) <= SAME)
            count, same = count + 1, same + equal
            if not equal:
                print(f"{model}: {key}: {before} before, {now} now")
    print(f"{same} of {count} scores are within {SAME:g}")
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
