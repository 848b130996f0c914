"""Merge results that differ only in the requested metrics, and choose the latest of those with the same labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from alebrije.results.canonical_json import digest
from alebrije.results.cells import Result, Value

METRICS = "metrics"  # the input that lists a cell's metrics with their versions


def merge_results(results: Iterable[Result]) -> list[Result]:
    """Merge results whose labels and inputs differ only in the metrics.

    Of two values of a metric the higher version wins, then the later result.

    >>> from alebrije.results import Cell, Result
    >>> def result(**values: float) -> Result:
    ...     cell = Cell(study="neurons", labels={"model": "ae"}, inputs={"metrics": dict.fromkeys(values, 1)})
    ...     return Result.done(cell, values, seconds=1)
    >>> sorted(merge_results([result(SNC=0.5, NK=0.4), result(SNC=0.5)])[0].values)
    ['NK', 'SNC']
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(_same_but_metrics(result), []).append(result)
    return [group[0] if len(group) == 1 else _merge(group) for group in groups.values()]


def latest_results(results: Iterable[Result]) -> tuple[list[Result], int]:
    """The latest of the results with the same labels, and how many older ones were left out.

    Results with the same labels but different inputs come from other weights or settings of a model with that name.
    """
    latest: dict[str, Result] = {}
    merged = merge_results(without_superseded_failures(list(results)))
    for result in sorted(merged, key=lambda result: result.created):
        latest[digest([_labels_key(result), result.status])] = result
    kept = {result.key for result in latest.values()}
    return [result for result in merged if result.key in kept], len(merged) - len(latest)


def without_superseded_failures(results: Sequence[Result]) -> list[Result]:
    """The results without failures that were followed by a computed result with the same labels."""
    done: dict[str, datetime] = {}
    for result in results:
        if result.status == "done":
            key = _labels_key(result)
            done[key] = max(result.created, done.get(key, result.created))
    return [r for r in results if r.status == "done" or done.get(_labels_key(r), r.created) <= r.created]


def _labels_key(result: Result) -> str:
    return digest({"study": result.cell.study, "labels": result.cell.labels})


def _same_but_metrics(result: Result) -> str:
    inputs = {name: value for name, value in result.cell.inputs.items() if name != METRICS}
    return digest({"study": result.cell.study, "labels": result.cell.labels, "inputs": inputs, "is": result.status})


def _merge(results: list[Result]) -> Result:
    by_time = sorted(results, key=lambda result: result.created)
    values: dict[str, tuple[float, Value]] = {}
    for result in by_time:
        for name, value in result.values.items():
            version = _version(result.cell.inputs.get(METRICS), name)
            if name not in values or version >= values[name][0]:
                values[name] = version, value
    return by_time[-1].model_copy(update={"values": {name: value for name, (_, value) in values.items()}})


def _version(versions: Any, name: str) -> float:
    version = versions.get(name) if isinstance(versions, dict) else None
    return float(version) if isinstance(version, (int, float)) else 0.0
