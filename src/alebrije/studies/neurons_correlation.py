"""Whether a metric tells who will generalise: its correlation with the accuracy on combinations that were held out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.results import Cell, Result, Value
from alebrije.results.canonical import digest
from alebrije.results.cells import ScoreInterval
from alebrije.studies.cells import Job
from alebrije.studies.neurons_generalisation import ACCURACY
from alebrije.studies.neurons_metrics import NAMES
from alebrije.studies.subjects import REFERENCES

CORRELATION = "correlation with generalisation"
ALL = "all"
LEAST = 4  # points; three have no interval
_RESTRICTED = ("SNC", "NK")  # which the paper multiplied over shape and size before it correlated them
_SIZE_AND_SHAPE = ("shape", "scale", "size")

Key = tuple[Any, ...]  # world, model, seed, and what tells it from others that are called so


def correlations(study: str, results: Sequence[Result]) -> list[Job]:
    """A cell for each metric in each world and in all: Pearson's r with the accuracy of both features in setting CG.

    A point is a model with the seed of its training in a world; if generalisation was measured for other seeds than
    the metrics, it is the mean of a model over its seeds. References take no part: that the truth beats noise would
    make any metric look good. SNC and NK are multiplied over shape and size, as published; their means over all
    factors are correlated as `SNC of all factors` and `NK of all factors`.
    """
    examined = [each for each in results if not _is_reference(each)]
    metrics = {_key(each): each for each in examined if set(each.values) & set(NAMES)}
    accuracy = {_key(each): each for each in examined if _is_accuracy(each)}
    if not accuracy:
        return []
    worlds = list(dict.fromkeys(world for world, *_ in accuracy))
    size = next(iter(accuracy.values())).cell.labels.get("size")
    jobs = []
    for name, score in _predictors(list(metrics.values())):
        for scope in [*worlds, ALL] if len(worlds) > 1 else worlds:
            inside = [key for key in accuracy if scope in (key[0], ALL)]
            used = [each.key for found in (metrics, accuracy) for key, each in found.items() if key in set(inside)]
            points = _points(metrics, accuracy, inside, score)
            cell = Cell(
                study=study,
                labels={"size": size, "predictor": name, "scope": scope},
                inputs={"correlation": name, "scope": scope, "cells": sorted(used), "version": 1},
            )
            jobs.append(Job(cell, partial(correlation, points)))
    return jobs


def correlation(points: Sequence[Mapping[str, Any]]) -> dict[str, Value]:
    """Pearson's r of points with "metric" and "accuracy", and its interval by Fisher's z.

    >>> points = [{"metric": x, "accuracy": y} for x, y in ((0, 0), (1, 1), (2, 1), (3, 3), (4, 3))]
    >>> value = correlation(points)["correlation with generalisation"]
    >>> round(value.score, 3), round(value.interval.low, 3), round(value.interval.high, 3)
    (0.943, 0.36, 0.996)
    """
    x, y = (np.array([point[name] for point in points], dtype=np.float64) for name in ("metric", "accuracy"))
    fixed: dict[str, Any] = {"range": (-1, 1), "details": {"points": list(points)}}
    if len(points) < LEAST:
        reason = f"a correlation needs at least {LEAST} points, models with their seeds, and there are {len(points)}"
        return {CORRELATION: Value(score=None, reason=reason, **fixed)}
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        what = "metric" if np.ptp(x) == 0 else "accuracy"
        return {CORRELATION: Value(score=None, reason=f"the {what} is the same at all points", **fixed)}
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    reach = 1.959963984540054 / math.sqrt(len(points) - 3)
    z = math.atanh(r) if abs(r) < 1 else math.copysign(math.inf, r)
    interval = ScoreInterval(low=math.tanh(z - reach), high=math.tanh(z + reach), method="Fisher's z")
    return {CORRELATION: Value(score=r, interval=interval, **fixed)}


class _Score:
    """How a predictor is read from a result; None where it has no value."""

    def __init__(self, name: str, multiplied: bool) -> None:
        self.name, self.multiplied = name, multiplied

    def __call__(self, result: Result) -> float | None:
        value = result.values.get(self.name)
        if value is None or value.score is None:
            return None
        if not self.multiplied:
            return value.score
        per_factor = value.details.get("per_factor")
        if not isinstance(per_factor, dict):
            return None
        parts = [per_factor[name] for name in _SIZE_AND_SHAPE if name in per_factor]
        return None if len(parts) < 2 or None in parts else math.prod(max(0.0, part) for part in parts)


def _predictors(results: Sequence[Result]) -> Iterator[tuple[str, _Score]]:
    found = {name for each in results for name in each.values}
    for name in NAMES:
        if name in found:
            yield name, _Score(name, name in _RESTRICTED)
            if name in _RESTRICTED:
                yield f"{name} of all factors", _Score(name, multiplied=False)


def _points(
    metrics: Mapping[Key, Result], accuracy: Mapping[Key, Result], inside: Sequence[Key], score: _Score
) -> list[dict[str, Any]]:
    """What is correlated, with the names of the points."""
    by_seed = {key for key in metrics if key[:2] in {each[:2] for each in inside}} == set(inside)
    groups: dict[Key, list[Key]] = {}
    for key in inside:
        groups.setdefault(key if by_seed else key[:2], []).append(key)
    points = []
    for group, keys in groups.items():
        own = keys if by_seed else [key for key in metrics if key[:2] == group]
        x = [found for key in own if key in metrics and (found := score(metrics[key])) is not None]
        y = [found for key in keys if (found := accuracy[key].values[ACCURACY].score) is not None]
        if x and y:
            named = dict(zip(("world", "model", "seed"), group, strict=False))
            points.append({**named, "metric": float(np.mean(x)), "accuracy": float(np.mean(y))})
    return points


def _key(result: Result) -> Key:
    labels = result.cell.labels
    return labels.get("world"), labels.get("model"), labels.get("seed"), digest(result.cell.inputs.get("subject"))


def _is_accuracy(result: Result) -> bool:
    labels = result.cell.labels
    return ACCURACY in result.values and (labels.get("setting"), labels.get("feature")) == ("CG", "both")


def _is_reference(result: Result) -> bool:
    """References by what they are: a model may be called like one."""
    subject = result.cell.inputs.get("subject")
    return isinstance(subject, dict) and subject.get("reference") is not None and _key(result)[1] in REFERENCES
