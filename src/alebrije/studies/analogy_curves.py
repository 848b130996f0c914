"""Curves over training: the checkpoints of a run, each as a subject of its own."""

from __future__ import annotations

from pathlib import Path

from alebrije import adapters
from alebrije.errors import InputError
from alebrije.studies.subjects import Model, Subject
from alebrije.train.checkpoints import checkpoints, step_of
from alebrije.train.plan import read_plan


def checkpoint_subjects(run: str | Path, device: str | None = None) -> list[Subject]:
    """The model of a run at every checkpoint that is kept of it, the oldest first, told apart by the label `step`."""
    folder = Path(run)
    there = checkpoints(folder)
    if not there:
        raise InputError(f"{folder}: there is no run with checkpoints here; `alebrije train` makes one")
    plan = read_plan(folder)
    found: list[Subject] = []
    for path in there:
        adapted = adapters.load(f"checkpoint:{path}", device=device)
        step = step_of(path)
        found.append(Model(adapted, plan.model, {"seed": plan.seed, "step": step}))
    return found
