"""Does a metric predict generalisation? Its correlation with the accuracy on held-out combinations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from alebrije.instruments.neurons.generalisation import ACCURACY
from alebrije.instruments.neurons.values import METRICS
from alebrije.instruments.neurons.variants import PRODUCT, VARIANTS, variant
from alebrije.results import Cell, Result, Value
from alebrije.results.canonical_json import digest
from alebrije.results.cells import ScoreInterval
from alebrije.studies.jobs import Job
from alebrije.studies.references import REFERENCES

CORRELATION = "correlation with generalisation"
FEWEST = 4  # points; three have no interval
_VERSION = 1
_ALL_WORLDS = "all"
_PRODUCTS = ("SNC", "NK")  # the paper multiplies these over shape and size before it correlates them

Key = tuple[Any, ...]  # world, model, seed, and a digest of the model, since models may share a name
Point = Mapping[str, Any]


def correlation_jobs(results: Sequence[Result]) -> list[Job]:
    """A cell for each metric in each world and in all: Pearson's r with the accuracy on both features in setting CG.

    A point is a model with a training seed in a world. If metrics and generalisation have different seeds, it is a
    model averaged over its seeds. References are left out: any metric looks good if the truth only has to beat noise.
    SNC and NK are multiplied over shape and size, as in the paper; their means over all factors are correlated as
    `SNC of all factors` and `NK of all factors`. Metrics with a score for each factor are also correlated as their
    product and their mean over shape and size (the paper's Table 6).
    """
    own = [result for result in results if not _is_reference(result)]
    metrics = {_key(result): result for result in own if set(result.values) & set(METRICS)}
    accuracy = {_key(result): result for result in own if _is_accuracy(result)}
    if not accuracy:
        return []
    worlds = list(dict.fromkeys(world for world, *_ in accuracy))
    size = next(iter(accuracy.values())).cell.labels.get("size")
    jobs = []
    for predictor in _predictors(list(metrics.values())):
        for scope in [*worlds, _ALL_WORLDS] if len(worlds) > 1 else worlds:
            inside = [key for key in accuracy if scope in (key[0], _ALL_WORLDS)]
            used = [found[key].key for found in (metrics, accuracy) for key in found if key in set(inside)]
            labels = {"size": size, "predictor": predictor.name, "scope": scope}
            inputs = {"correlation": predictor.name, "scope": scope, "cells": sorted(used), "version": _VERSION}
            points = _points(metrics, accuracy, inside, predictor)
            jobs.append(Job(Cell(study="neurons", labels=labels, inputs=inputs), partial(correlation, points)))
    return jobs


def correlation(points: Sequence[Point]) -> dict[str, Value]:
    """Pearson's r between "metric" and "accuracy" of points, with an interval by Fisher's z.

    >>> points = [{"metric": x, "accuracy": y} for x, y in ((0, 0), (1, 1), (2, 1), (3, 3), (4, 3))]
    >>> value = correlation(points)["correlation with generalisation"]
    >>> round(value.score, 3), round(value.interval.low, 3), round(value.interval.high, 3)
    (0.943, 0.36, 0.996)
    """
    x, y = (np.array([point[name] for point in points], dtype=np.float64) for name in ("metric", "accuracy"))
    fields: dict[str, Any] = {"range": (-1, 1), "details": {"points": list(points)}}
    if len(points) < FEWEST:
        reason = f"a correlation needs at least {FEWEST} points (models times seeds), not {len(points)}"
        return {CORRELATION: Value(score=None, reason=reason, **fields)}
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        constant = "metric" if np.ptp(x) == 0 else "accuracy"
        return {CORRELATION: Value(score=None, reason=f"the {constant} is the same at all points", **fields)}
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    reach = 1.959963984540054 / math.sqrt(len(points) - 3)
    z = math.atanh(r) if abs(r) < 1 else math.copysign(math.inf, r)
    interval = ScoreInterval(low=math.tanh(z - reach), high=math.tanh(z + reach), method="Fisher's z")
    return {CORRELATION: Value(score=r, interval=interval, **fields)}


@dataclass(frozen=True)
class _Predictor:
    """A metric that may predict generalisation, or a variant of it over shape and size alone."""

    name: str
    metric: str
    variant: str | None = None

    def score(self, result: Result) -> float | None:
        """Its score in a result; None if there is none."""
        if self.variant is not None:
            return variant(result.values, self.variant)
        value = result.values.get(self.metric)
        return None if value is None else value.score


def _predictors(results: Sequence[Result]) -> Iterator[_Predictor]:
    names = {name for result in results for name in result.values}
    for name in METRICS:
        if name not in names:
            continue
        if name in _PRODUCTS:
            yield _Predictor(name, name, f"{name} {PRODUCT}")
            yield _Predictor(f"{name} of all factors", name)
        else:
            yield _Predictor(name, name)
            over_two = [each for each, (metric, _) in VARIANTS.items() if metric == name]
            known = [each for each in over_two if any(variant(result.values, each) is not None for result in results)]
            yield from (_Predictor(each, name, each) for each in known)


def _points(
    metrics: Mapping[Key, Result], accuracy: Mapping[Key, Result], inside: Sequence[Key], predictor: _Predictor
) -> list[Point]:
    """The points to correlate, with the world, model and seed of each."""
    same_seeds = {key for key in metrics if key[:2] in {each[:2] for each in inside}} == set(inside)
    by_point: dict[Key, list[Key]] = {}
    for key in inside:
        by_point.setdefault(key if same_seeds else key[:2], []).append(key)
    points: list[Point] = []
    for name, keys in by_point.items():
        own = keys if same_seeds else [key for key in metrics if key[:2] == name]
        x = [score for key in own if key in metrics and (score := predictor.score(metrics[key])) is not None]
        y = [score for key in keys if (score := accuracy[key].values[ACCURACY].score) is not None]
        if x and y:
            labels = dict(zip(("world", "model", "seed"), name, strict=False))
            points.append({**labels, "metric": float(np.mean(x)), "accuracy": float(np.mean(y))})
    return points


def _key(result: Result) -> Key:
    labels = result.cell.labels
    return labels.get("world"), labels.get("model"), labels.get("seed"), digest(result.cell.inputs.get("subject"))


def _is_accuracy(result: Result) -> bool:
    labels = result.cell.labels
    return ACCURACY in result.values and (labels.get("setting"), labels.get("feature")) == ("CG", "both")


def _is_reference(result: Result) -> bool:
    """Whether the model is a reference, and not a model with the name of one."""
    model = result.cell.inputs.get("subject")
    return isinstance(model, dict) and model.get("reference") is not None and _key(result)[1] in REFERENCES
