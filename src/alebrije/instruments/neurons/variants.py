"""Metrics over shape and size alone: their product and their mean (Mahon et al. 2024, Tables 6 and 8).

Held-out combinations are of a shape and a size, so the paper also asks whether metrics predict generalisation better if
they are restricted to these two factors. Everything here comes from values that are already stored: MIG, SAP and
informativeness have a score for each factor, and the completeness of a factor is 1 - the entropy of its column of
importances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.results import Cell, Result, Value
from alebrije.results.merge import METRICS
from alebrije.results.published_runs import OVER_TWO
from alebrije.studies.jobs import Job
from alebrije.studies.untrained import kind_of_twin

OVER = "over"  # the label of these cells
VERSION = 1  # raised when the same values give others
PRODUCT, MEAN = OVER_TWO
# the paper has the product alone of its own metrics
VARIANTS: Mapping[str, tuple[str, str]] = {
    f"{metric} {over}": (metric, over)
    for metric in ("SNC", "NK", "MIG", "SAP", "DCI-C", "DCI-I")
    for over in (OVER_TWO if metric not in ("SNC", "NK") else (PRODUCT,))
}
_SIZES = ("size", "scale")  # names of the same factor


def variant_jobs(results: Sequence[Result]) -> list[Job]:
    """A cell for each cell of metrics from which a variant can be computed; none for untrained twins."""
    jobs = []
    for result in results:
        known = [name for name in VARIANTS if variant(result.values, name) is not None]
        if known and kind_of_twin(result.cell) is None:
            inputs = {name: value for name, value in result.cell.inputs.items() if name != METRICS}
            versions = result.cell.inputs.get(METRICS)
            used = versions if isinstance(versions, dict) else {}
            inputs |= {OVER: VERSION, METRICS: {name: used.get(VARIANTS[name][0], 0) for name in known}}
            labels = {**result.cell.labels, OVER: "shape and size"}
            cell = Cell(study=result.cell.study, labels=labels, inputs=inputs)
            jobs.append(Job(cell, partial(variant_values, result.values, known)))
    return jobs


def variant_values(values: Mapping[str, Value], names: Sequence[str]) -> dict[str, Value]:
    """The values of a cell: these variants of stored values."""
    return {
        name: Value(score=variant(values, name), direction="higher", range=(0, 1), details=_parts(values, name))
        for name in names
    }


def variant(values: Mapping[str, Value], name: str) -> float | None:
    """The product or the mean of a metric over shape and size; None if one of the two is not known.

    As in the paper, a negative part counts as 0.

    >>> value = Value(score=0.3, details={"per_factor": {"shape": 0.5, "scale": 0.2, "orientation": 0.2}})
    >>> variant({"SNC": value}, "SNC product of 2"), variant({"SNC": value}, "MIG mean of 2")
    (0.1, None)
    """
    parts = [max(0.0, part) for part in _parts(values, name).values()]
    combine: Callable[[Sequence[float]], float] = math.prod if VARIANTS[name][1] == PRODUCT else np.mean
    return float(combine(parts)) if parts else None


def _parts(values: Mapping[str, Value], name: str) -> dict[str, float]:
    """The metric for shape and for size; empty if one is not known."""
    metric = VARIANTS[name][0]
    value = values.get(metric)
    if value is None or value.score is None:
        return {}
    per_factor = value.details.get("per_factor")
    if not isinstance(per_factor, Mapping):
        return {}
    if metric == "DCI-C":
        per_factor = _completeness(value.details.get("importance"), list(per_factor))
    size = next((each for each in _SIZES if each in per_factor), None)
    parts = {"size": per_factor.get(size or ""), "shape": per_factor.get("shape")}
    known = {name: float(part) for name, part in parts.items() if isinstance(part, (int, float))}
    return known if len(known) == len(parts) else {}


def _completeness(importance: Any, names: Sequence[str]) -> dict[str, float]:
    """1 - the entropy of each factor's importance [L, F] over neurons, to the base L; empty if it was not stored."""
    try:
        shares = np.asarray(importance, dtype=np.float64) + 1e-11  # as the released code, so that nothing is 0 / 0
    except (TypeError, ValueError):
        return {}
    if shares.ndim != 2 or shares.shape[1] != len(names) or len(shares) < 2:
        return {}
    shares = shares / shares.sum(0)
    found = 1 + (shares * np.log(shares)).sum(0) / math.log(len(shares))
    return dict(zip(names, found.tolist(), strict=True))
