"""What the harness costs: a thousand trivial cells, and the share of a study that is neither model nor metric.

    python benchmarks/studies.py [FILE]
    python benchmarks/studies.py FILE STUDY MODEL DEVICE [WORLD]

The second measures a study that trains a model for its cells, and adds it to the file.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial, wraps
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch._dynamo  # which training loads in any case, so it is no cost of the harness

from alebrije import __version__
from alebrije.results import Cell, Store
from alebrije.studies import subjects
from alebrije.studies.cells import Job, run_jobs
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import Ask, get, run_study
from alebrije.studies.subjects import Noise, Oracle
from alebrije.worlds import World

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


class Clock:
    """Seconds that are spent within some functions, less those of others that they call; all of it for training."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.stack: list[float] = []
        self.training = False

    def watch(self, owner: Any, name: str, counted_as: str) -> None:
        """From now on the calls of a method are timed."""
        method = getattr(owner, name)

        @wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self.training:
                return method(*args, **kwargs)
            started = time.perf_counter()
            self.training = counted_as == "training"
            self.stack.append(0.0)
            try:
                return method(*args, **kwargs)
            finally:
                self.training = False
                spent = time.perf_counter() - started
                inner = self.stack.pop()
                self.seconds[counted_as] = self.seconds.get(counted_as, 0.0) + spent - inner
                if self.stack:
                    self.stack[-1] += spent

        setattr(owner, name, timed)


REFERENCES = Ask(size="small", subjects=(Oracle(), Noise()), only_subjects=True)


def overhead(study: str, ask: Ask = REFERENCES) -> dict[str, Any]:
    """What a study at its small size spends on the harness, and on drawing, with the references oracle and noise.

    The harness is all that happens outside of cells, and what the folder does within them: looking for arrays, keeping
    them, locking; not what is made there. What is drawn to train on is part of training.
    """
    clock, made = Clock(), Folder.made

    def made_apart(folder: Folder, settings: Any, make: Any) -> Any:
        """As `made`, but what makes the arrays does not count."""
        clock.watch(box := SimpleNamespace(make=make), "make", "making")
        return made(folder, settings, lambda: box.make())

    Folder.made = made_apart  # type: ignore[method-assign]
    clock.watch(Folder, "made", "folder")
    clock.watch(Folder, "keep", "folder")
    clock.watch(subjects, "carry_out", "training")
    for method in ("sample", "render"):
        clock.watch(World, method, "drawing")
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        tally = run_study(get(study), Folder(place), ask)
        wall = time.perf_counter() - started
    harness = wall - tally.seconds + clock.seconds.get("folder", 0.0)
    drawing = clock.seconds.get("drawing", 0.0)
    return {
        "study": study,
        "models": ask.models or [type(subject).__name__.lower() for subject in ask.subjects],
        "device": torch.cuda.get_device_name() if ask.device == "cuda" else ask.device,
        "cells": tally.done,
        "seconds": wall,
        "harness": harness,
        "drawing": drawing,
        "training": clock.seconds.get("training", 0.0),
        "share of the harness": harness / wall,
        "share of the harness and of drawing": (harness + drawing) / wall,
    }


def alone(study: str) -> dict[str, Any]:
    """The same in a process of its own, whose methods are the only ones that are changed."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(overhead, study).result()


def trained(out: Path, study: str, model: str, device: str, *worlds: str) -> None:
    """Measure a study with trainings inside and add what was found to the file."""
    row = overhead(study, Ask(size="small", models=(model,), worlds=worlds, device=device))
    row |= {"torch": torch.__version__, "worlds": worlds}
    print(row)
    found = json.loads(out.read_text()) if out.exists() else {}
    found.setdefault("with trainings", []).append(row)
    out.write_text(json.dumps(found, indent=2) + "\n")


def main() -> None:
    """Measure, print, write."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".json"))
    if len(sys.argv) > 2:
        trained(out, *sys.argv[2:])
        return
    found = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "alebrije": __version__,
        "a thousand cells": [thousand(workers) for workers in (1, 2)],
        "overhead": [alone(study) for study in ("grouping", "neurons")],
    }
    for row in (*found["a thousand cells"], *found["overhead"]):  # type: ignore[misc]
        print(row)
    out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
