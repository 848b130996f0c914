"""The grid of training by test slots: a model with another number of slots, and correlations over the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from alebrije.adapters import Adapted
from alebrije.encoding import Encoding
from alebrije.results import Cell, Result, Value
from alebrije.results.cells import Label
from alebrije.studies.cells import Job
from alebrije.studies.subjects import Model, Trained, View
from alebrije.train.plan import Plan

CORRELATIONS: Mapping[str, tuple[str, str]] = {  # of Section 4.1 of Zimmermann et al.
    "pearson(PSNR, FG-ARI)": ("psnr", "fg-ari"),
    "pearson(PSNR, FG-ARP)": ("psnr", "fg-arp"),
    "pearson(PSNR, its transpose)": ("psnr", "psnr"),
}
TRANSPOSED = "pearson(PSNR, its transpose)"
VERSION = 1  # of the correlations
FEWEST = 3  # cells, for a correlation
_DEPENDENT = "the cells of a grid share their models, so they are no independent cases"
_OF_A_GRID = ("size", "world", "pixels", "model", "initial")  # labels that the cells of one grid share

Scores = Mapping[str, float | None]
Entry = tuple[int, int, Scores]  # training slots, test slots, scores by metric


@dataclass(frozen=True)
class AtSlots:
    """A model with slots that was trained here, looked at with another number of them."""

    subject: Trained | Model
    plan: Plan
    slots: int

    @property
    def labels(self) -> Mapping[str, Label]:
        """Those of the model, and its place in the grid."""
        settings = self.plan.settings
        place: dict[str, Label] = {"initial": settings["initial"], "train_slots": settings["slots"]}
        return {**self.subject.labels, **place, "test_slots": self.slots}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model and the number of slots."""
        return {**self.subject.identity, "test_slots": self.slots}

    def adapted(self) -> Adapted:
        """The model as an encoder with so many slots."""
        inner = self.subject.adapted() if isinstance(self.subject, Trained) else self.subject.adapted
        model = partial(inner.model, slots=self.slots)
        return Adapted(
            model, name=inner.name, preprocessing=inner.preprocessing, device=inner.device, batch=inner.batch
        )

    def encode(self, view: View) -> Encoding:
        """What the model makes of the images with so many slots."""
        return self.adapted()(view.images)

    def group(self, view: View) -> Tensor | None:
        """The slot that claims each pixel."""
        return Model(self.adapted()).group(view)

    def decode(self, codes: Tensor) -> Tensor | None:
        """What the model draws of slots."""
        return self.subject.decode(codes)


def rows(subject: Trained | Model, numbers: Sequence[int]) -> list[AtSlots]:
    """A model with each number of test slots, its own among them; learned initial slots have no other."""
    plan = subject.plan if isinstance(subject, Trained) else subject.adapted.plan
    assert plan is not None
    own = int(plan.settings["slots"])
    free = plan.settings["initial"] == "random"
    return [AtSlots(subject, plan, each) for each in (sorted({*numbers, own}) if free else (own,))]


def has_number_of_slots(plan: Plan | None) -> bool:
    """Whether a model trained here has slots whose number can be told."""
    return plan is not None and {"slots", "initial"} <= set(plan.settings)


def after(results: Sequence[Result]) -> list[Job]:
    """Correlations over each grid of models whose number of slots is free, the mean over seeds in each place."""
    grids: dict[tuple[Label, ...], list[Result]] = {}
    for result in results:
        labels = result.cell.labels
        if labels.get("initial") == "random" and "test_slots" in labels:
            grids.setdefault(tuple(labels.get(name) for name in _OF_A_GRID), []).append(result)
    return [_job(dict(zip(_OF_A_GRID, shared, strict=True)), cells) for shared, cells in grids.items()]


def _job(labels: Mapping[str, Label], results: Sequence[Result]) -> Job:
    inputs = {"cells": sorted(result.key for result in results), "correlations": VERSION}
    cell = Cell(study="grouping", labels=dict(labels), inputs=inputs)
    return Job(cell, partial(correlations, tuple(map(_entry, results))))


def _entry(result: Result) -> Entry:
    labels = result.cell.labels
    scores = {name: value.score for name, value in result.values.items()}
    return int(labels["train_slots"] or 0), int(labels["test_slots"] or 0), scores


def correlations(entries: Sequence[Entry]) -> dict[str, Value]:
    """Pearson's correlations over the places of a grid that have both scores.

    >>> grid = [(k, j, {"psnr": float(k + j), "fg-ari": float(k + j) ** 2}) for k in (1, 2, 3) for j in (1, 2, 3)]
    >>> found = correlations(grid)
    >>> round(found["pearson(PSNR, its transpose)"].score, 6), found["pearson(PSNR, FG-ARP)"].reason
    (1.0, 'fewer than 3 places of the grid have both fg-arp and psnr: 0')
    """
    found = {}
    for name, (left, right) in CORRELATIONS.items():
        first, second = _means(entries, left), _means(entries, right)
        if name == TRANSPOSED:
            second = {(test, train): score for (train, test), score in second.items()}
        places = sorted(first.keys() & second.keys())
        pairs = np.array([(first[place], second[place]) for place in places]).reshape(-1, 2)
        reason = _why_none(name, places, pairs)
        score = None if reason else float(np.corrcoef(pairs.T)[0, 1])
        found[name] = Value(
            score=score,
            reason=reason,
            spread_reason=_DEPENDENT,
            direction=None,
            range=(-1.0, 1.0),
            details={"n": len(places), "places": places},
        )
    return found


def _why_none(name: str, places: Sequence[tuple[int, int]], pairs: np.ndarray[Any, Any]) -> str | None:
    """Why a correlation is not defined, if it is not."""
    names = " and ".join(sorted(set(CORRELATIONS[name])))
    if len(places) < FEWEST:
        return (
            f"fewer than {FEWEST} places of the grid have {'both ' if ' and ' in names else ''}{names}: {len(places)}"
        )
    if name == TRANSPOSED and all(train == test for train, test in places):
        return "no two numbers of slots were tried both ways around"
    if (pairs == pairs[:1]).all(0).any():
        return "a score is the same in every place of the grid"
    return None


def _means(entries: Sequence[Entry], metric: str) -> dict[tuple[int, int], float]:
    """The mean over seeds of a metric in each place of the grid; places without a score are left out."""
    seen: dict[tuple[int, int], list[float]] = {}
    for train, test, scores in entries:
        score = scores.get(metric)
        if score is not None:
            seen.setdefault((train, test), []).append(score)
    return {place: float(np.mean(each)) for place, each in seen.items()}
