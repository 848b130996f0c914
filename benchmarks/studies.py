"""The cost of the harness: a thousand trivial cells, and the share of a study that is neither model nor metric.

    python benchmarks/studies.py [FILE]
    python benchmarks/studies.py FILE STUDY MODEL DEVICE [WORLD]

The second command measures a study that trains a model, and adds it to the file.
"""

from __future__ import annotations

import json
import os
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
import torch._dynamo  # training loads it anyway, so it is no cost of the harness

from alebrije import __version__, instruments
from alebrije.results import Cell, Store
from alebrije.studies import model as studied_model
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job, Workers, run_jobs
from alebrije.studies.references import Noise, Oracle
from alebrije.studies.request import Request
from alebrije.studies.run import plan_study, run_study
from alebrije.worlds import World

CELLS = 1000
os.environ["ALEBRIJE_CACHE"] = "off"  # rendering is measured, too


def trivial(number: int) -> dict[str, float]:
    """The work of a trivial cell."""
    return {"number": float(number)}


def thousand(workers: int) -> dict[str, Any]:
    """Seconds to compute a thousand cells, and to find that all are done."""
    jobs = [
        Job(Cell(study="nothing", labels={"number": n}, inputs={"number": n}), partial(trivial, n))
        for n in range(CELLS)
    ]
    with tempfile.TemporaryDirectory() as path:
        started = time.perf_counter()
        run_jobs(jobs, Store(path), Workers(workers))
        computed = time.perf_counter() - started
        again = run_jobs(jobs, Store(path), Workers(workers))
        assert again.kept == CELLS
        return {"workers": workers, "seconds": computed, "seconds again": time.perf_counter() - started - computed}


class Clock:
    """Seconds spent in some functions, without other timed functions that they call, except in training."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.stack: list[float] = []
        self.training = False

    def watch(self, owner: Any, name: str, counted_as: str) -> None:
        """Time all further calls of a method."""
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


REFERENCES = Request(size="small", loaded=(Oracle(), Noise()), only_loaded=True)


def overhead(study: str, request: Request = REFERENCES) -> dict[str, Any]:
    """The time of a study at the size small that goes to the harness and to rendering.

    The harness is everything outside cells, and what the folder does within them: finding arrays, storing them,
    locking. Rendering for training counts as training.
    """
    clock, cached = Clock(), ResultFolder.cached

    def cached_apart(folder: ResultFolder, settings: Any, compute: Any) -> Any:
        """As `cached`, without the time that computes the arrays."""
        clock.watch(box := SimpleNamespace(compute=compute), "compute", "computing")
        return cached(folder, settings, lambda: box.compute())

    ResultFolder.cached = cached_apart  # type: ignore[method-assign]
    clock.watch(ResultFolder, "cached", "folder")
    clock.watch(ResultFolder, "keep_samples", "folder")
    clock.watch(studied_model, "run_plan", "training")
    for method in ("sample", "render"):
        clock.watch(World, method, "drawing")
    with tempfile.TemporaryDirectory() as path:
        started = time.perf_counter()
        folder = ResultFolder(path)
        summary = run_study(plan_study(instruments.get(study), folder, request), folder)
        wall = time.perf_counter() - started
    harness = wall - summary.seconds + clock.seconds.get("folder", 0.0)
    drawing = clock.seconds.get("drawing", 0.0)
    return {
        "study": study,
        "models": request.models or [type(model).__name__.lower() for model in request.loaded],
        "device": torch.cuda.get_device_name() if request.device == "cuda" else request.device,
        "cells": summary.done,
        "seconds": wall,
        "harness": harness,
        "drawing": drawing,
        "training": clock.seconds.get("training", 0.0),
        "share of the harness": harness / wall,
        "share of the harness and of drawing": (harness + drawing) / wall,
    }


def alone(study: str) -> dict[str, Any]:
    """The same in its own process, because methods are replaced."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(overhead, study).result()


def trained(out: Path, study: str, model: str, device: str, *worlds: str) -> None:
    """Measure a study that trains models, and add the result to the file."""
    row = overhead(study, Request(size="small", models=(model,), worlds=worlds, device=device))
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
