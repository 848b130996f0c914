"""What the harness costs: a thousand trivial cells, and the share of a study that is neither model nor metric.

python benchmarks/studies.py [FILE]
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from alebrije import __version__
from alebrije.results import Cell, Store
from alebrije.studies.cells import Job, run_jobs
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import Ask, get, run_study
from alebrije.studies.subjects import Noise, Oracle

CELLS = 1000


def trivial(number: int) -> dict[str, float]:
    """The work of a cell that has none."""
    return {"number": float(number)}


def thousand(workers: int) -> dict[str, Any]:
    """Seconds for a thousand cells that are computed, and for finding that all are there."""
    jobs = [
        Job(Cell(study="nothing", labels={"number": n}, inputs={"number": n}), partial(trivial, n))
        for n in range(CELLS)
    ]
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        run_jobs(jobs, Store(place), workers=workers)
        computed = time.perf_counter() - started
        again = run_jobs(jobs, Store(place), workers=workers)
        assert again.kept == CELLS
        return {"workers": workers, "seconds": computed, "seconds again": time.perf_counter() - started - computed}


def overhead(study: str) -> dict[str, Any]:
    """The share of a study at its small size that is not spent within its cells."""
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        ask = Ask(size="small", subjects=(Oracle(), Noise()), only_subjects=True)
        tally = run_study(get(study), Folder(place), ask)
        wall = time.perf_counter() - started
    return {
        "study": study,
        "cells": tally.done,
        "seconds": wall,
        "within cells": tally.seconds,
        "share": 1 - tally.seconds / wall,
    }


def main() -> None:
    """Measure, print, write."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".json"))
    found = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "alebrije": __version__,
        "a thousand cells": [thousand(workers) for workers in (1, 2)],
        "overhead": [overhead(study) for study in ("grouping", "neurons")],
    }
    for row in (*found["a thousand cells"], *found["overhead"]):  # type: ignore[misc]
        print(row)
    out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
