"""Results of one thing that was examined several times, each time for other metrics, taken together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from alebrije.results.canonical import digest
from alebrije.results.cells import Result, Value

METRICS = "metrics"  # the input of a cell that says which values are wanted of it, and what decides only those


def merged(results: Iterable[Result]) -> list[Result]:
    """One result for those whose labels and inputs are the same but for the metrics: all values, each the newest.

    Of two values of one metric that of the higher version counts, and of two of one version the later.

    >>> from alebrije.results import Cell, Result
    >>> def found(**values: float) -> Result:
    ...     cell = Cell(study="neurons", labels={"model": "ae"}, inputs={"metrics": dict.fromkeys(values, 1)})
    ...     return Result.done(cell, values, seconds=1)
    >>> sorted(merged([found(SNC=0.5, NK=0.4), found(SNC=0.5)])[0].values)
    ['NK', 'SNC']
    """
    alike: dict[str, list[Result]] = {}
    for result in results:
        alike.setdefault(_place(result), []).append(result)
    return [rows[0] if len(rows) == 1 else _together(rows) for rows in alike.values()]


def latest(results: Iterable[Result]) -> tuple[list[Result], int]:
    """Of results with the same labels but other inputs the last, and how many are left out.

    They are of one name with other weights or settings, say, of which people mean the last.
    """
    last: dict[str, Result] = {}
    whole = merged(without_outlived(list(results)))
    for result in sorted(whole, key=lambda result: result.created):
        last[digest([_name(result), result.status])] = result
    kept = {result.key for result in last.values()}
    return [result for result in whole if result.key in kept], len(whole) - len(last)


def without_outlived(results: Sequence[Result]) -> list[Result]:
    """The results but for failures of what has been done since, under the same labels."""
    done: dict[str, datetime] = {}
    for result in results:
        if result.status == "done":
            name = _name(result)
            done[name] = max(result.created, done.get(name, result.created))
    return [one for one in results if one.status == "done" or done.get(_name(one), one.created) <= one.created]


def _name(result: Result) -> str:
    return digest({"study": result.cell.study, "labels": result.cell.labels})


def _place(result: Result) -> str:
    inputs = {name: value for name, value in result.cell.inputs.items() if name != METRICS}
    return digest({"study": result.cell.study, "labels": result.cell.labels, "inputs": inputs, "is": result.status})


def _together(results: list[Result]) -> Result:
    order = sorted(results, key=lambda result: result.created)
    values: dict[str, tuple[float, Value]] = {}
    for result in order:
        for name, value in result.values.items():
            version = _version(result.cell.inputs.get(METRICS), name)
            if name not in values or version >= values[name][0]:
                values[name] = version, value
    return order[-1].model_copy(update={"values": {name: value for name, (_, value) in values.items()}})


def _version(versions: Any, name: str) -> float:
    found = versions.get(name) if isinstance(versions, dict) else None
    return float(found) if isinstance(found, (int, float)) else 0.0
