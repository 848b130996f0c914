"""The grid of training slots by test slots: models with other numbers of slots, and correlations over the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from alebrije.adapters import Encoder
from alebrije.adapters.inputs import signature_of
from alebrije.encoding import Encoding
from alebrije.models import get as get_model
from alebrije.results import Cell, Result, Value
from alebrije.results.cells import Label
from alebrije.studies.jobs import Job
from alebrije.studies.model import LoadedModel, Model, TrainedModel, View, plan_of
from alebrije.studies.untrained import Untrained, untrained_twins
from alebrije.train.plan import Plan

CORRELATIONS: Mapping[str, tuple[str, str]] = {  # Zimmermann et al. 2023, Section 4.1
    "pearson(PSNR, FG-ARI)": ("psnr", "fg-ari"),
    "pearson(PSNR, FG-ARP)": ("psnr", "fg-arp"),
    "pearson(PSNR, its transpose)": ("psnr", "psnr"),
}
TRANSPOSED = "pearson(PSNR, its transpose)"
VERSION = 1  # of the correlations
FEWEST = 3  # cells for a correlation
_DEPENDENT = "the cells of a grid share models, so they are not independent"
VARIANTS = (
    "initial",
    "inputs",
)  # settings that tell variants of a model apart: how slots start, how many views it sees
_GRID_LABELS = ("size", "world", "pixels", "model", *VARIANTS)  # labels that the cells of one grid share

Scores = Mapping[str, float | None]
Entry = tuple[int, int, Scores]  # training slots, test slots, scores by metric


@dataclass(frozen=True)
class WithTestSlots:
    """A slot model trained by alebrije, examined with another number of slots."""

    model: TrainedModel | LoadedModel | Untrained
    plan: Plan
    slots: int

    @property
    def labels(self) -> Mapping[str, Label]:
        """The labels of the model and its position in the grid."""
        settings = self.plan.settings
        position: dict[str, Label] = {name: settings[name] for name in VARIANTS if name in settings}
        return {**self.model.labels, **position, "train_slots": settings["slots"], "test_slots": self.slots}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model and the number of slots."""
        return {**self.model.identity, "test_slots": self.slots}

    def encoder(self) -> Encoder:
        """The model as an encoder with this number of slots."""
        inner = self.model.encoder if isinstance(self.model, LoadedModel) else self.model.encoder()
        return Encoder(
            _WithSlots(inner, self.slots),
            name=inner.name,
            preprocessing=inner.preprocessing,
            device=inner.device,
            batch=inner.batch,
        )

    def encode(self, view: View) -> Encoding:
        """The encoding of the images."""
        return LoadedModel(self.encoder()).encode(view)

    def group(self, view: View) -> Tensor | None:
        """The slot with the largest mask at each pixel."""
        return LoadedModel(self.encoder()).group(view)

    def decode(self, codes: Tensor) -> Tensor | None:
        """The images decoded from slots."""
        return self.model.decode(codes)

    def untrained_twins(self, count: int) -> list[Model]:
        """The untrained twins of the model, if it is examined with as many slots as it was trained with."""
        if self.slots != self.plan.settings["slots"]:
            return []
        twins = untrained_twins(self.model, count)
        return [WithTestSlots(twin, self.plan, self.slots) for twin in twins if isinstance(twin, Untrained)]


class _WithSlots:
    """The model of an encoder, called with a number of slots."""

    def __init__(self, inner: Encoder, slots: int) -> None:
        self.model, self.slots, self.takes = inner.model, slots, inner.takes
        self.__signature__ = signature_of(inner.model)  # it is given the same boxes or cameras

    def __call__(self, images: Tensor, **given: Tensor) -> Any:
        return self.model(images, slots=self.slots, **given)


def with_test_slots(model: TrainedModel | LoadedModel, numbers: Sequence[int]) -> list[WithTestSlots]:
    """A model with each number of test slots and its own; a model with learned initial slots only with its own."""
    plan = plan_of(model)
    assert plan is not None
    own = int(plan.settings["slots"])
    free = plan.settings.get("initial") != "learned"
    return [WithTestSlots(model, plan, each) for each in (sorted({*numbers, own}) if free else (own,))]


def has_free_slots(plan: Plan | None) -> bool:
    """Whether the model of a plan accepts another number of slots than it was trained with."""
    return plan is not None and get_model(plan.model).free_slots


def correlation_jobs(results: Sequence[Result]) -> list[Job]:
    """Correlations over each grid of models whose initial slots are not learned, averaged over seeds."""
    grids: dict[tuple[Label, ...], list[Result]] = {}
    for result in results:
        labels = result.cell.labels
        if labels.get("initial") != "learned" and "test_slots" in labels:
            grids.setdefault(tuple(labels.get(name) for name in _GRID_LABELS), []).append(result)
    reconstructed = {shared: cells for shared, cells in grids.items() if any(_has_psnr(cell) for cell in cells)}
    return [_job(dict(zip(_GRID_LABELS, shared, strict=True)), cells) for shared, cells in reconstructed.items()]


def _has_psnr(result: Result) -> bool:
    """Whether the model reconstructs what it sees; one that learns from flow does not."""
    return "psnr" in result.values and result.values["psnr"].score is not None


def _job(shared: Mapping[str, Label], results: Sequence[Result]) -> Job:
    labels: dict[str, Label] = {name: label for name, label in shared.items() if label is not None}
    inputs = {"cells": sorted(result.key for result in results), "correlations": VERSION}
    cell = Cell(study="grouping", labels=labels, inputs=inputs)
    return Job(cell, partial(correlations, tuple(map(_entry, results))))


def _entry(result: Result) -> Entry:
    labels = result.cell.labels
    scores = {name: value.score for name, value in result.values.items()}
    return int(labels["train_slots"] or 0), int(labels["test_slots"] or 0), scores


def correlations(entries: Sequence[Entry]) -> dict[str, Value]:
    """Pearson correlations over the cells of a grid that have both scores.

    >>> grid = [(k, j, {"psnr": float(k + j), "fg-ari": float(k + j) ** 2}) for k in (1, 2, 3) for j in (1, 2, 3)]
    >>> found = correlations(grid)
    >>> round(found["pearson(PSNR, its transpose)"].score, 6), found["pearson(PSNR, FG-ARP)"].reason
    (1.0, 'fewer than 3 cells of the grid have both fg-arp and psnr: 0')
    """
    found = {}
    for name, (left, right) in CORRELATIONS.items():
        first, second = _means(entries, left), _means(entries, right)
        if name == TRANSPOSED:
            second = {(test, train): score for (train, test), score in second.items()}
        cells = sorted(first.keys() & second.keys())
        pairs = np.array([(first[cell], second[cell]) for cell in cells]).reshape(-1, 2)
        reason = _undefined(name, cells, pairs)
        score = None if reason else float(np.corrcoef(pairs.T)[0, 1])
        details = {"n": len(cells), "places": cells}
        found[name] = Value(score=score, reason=reason, spread_reason=_DEPENDENT, range=(-1, 1), details=details)
    return found


def _undefined(name: str, cells: Sequence[tuple[int, int]], pairs: np.ndarray[Any, Any]) -> str | None:
    """Why a correlation is undefined; None if it is defined."""
    names = " and ".join(sorted(set(CORRELATIONS[name])))
    if len(cells) < FEWEST:
        return f"fewer than {FEWEST} cells of the grid have {'both ' if ' and ' in names else ''}{names}: {len(cells)}"
    if name == TRANSPOSED and all(train == test for train, test in cells):
        return "no pair of training and test slots was also tried the other way round"
    if (pairs == pairs[:1]).all(0).any():
        return "a score is the same in every cell of the grid"
    return None


def _means(entries: Sequence[Entry], metric: str) -> dict[tuple[int, int], float]:
    """The mean over seeds of a metric in each cell of the grid that has a score."""
    by_cell: dict[tuple[int, int], list[float]] = {}
    for train, test, scores in entries:
        score = scores.get(metric)
        if score is not None:
            by_cell.setdefault((train, test), []).append(score)
    return {cell: float(np.mean(each)) for cell, each in by_cell.items()}
