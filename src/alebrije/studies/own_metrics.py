"""Metrics of a user, `package.module:function`, as values of a study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from alebrije.fingerprint import Contents
from alebrije.metrics import find
from alebrije.results import Value
from alebrije.results.cells import ScoreInterval
from alebrije.results.scores import MetricResult
from alebrije.scoring import MetricCall, run_metric


def own_names(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that are metrics of the user.

    >>> own_names(["snc", "my_metrics:spread"])
    ('my_metrics:spread',)
    """
    return tuple(dict.fromkeys(name for name in names if ":" in name))


def own_versions(names: Iterable[str]) -> dict[str, Any]:
    """What decides the values of the user's metrics among the names: their version, and their code."""
    return {name: {"version": find(name).version, "contents": _contents(name)} for name in own_names(names)}


def own_value(name: str, arrays: Mapping[str, Any]) -> Value:
    """The value of a user's metric on the arrays that it takes, with an interval. Null if it refuses them."""
    record = find(name)
    lacking = [each for each in record.inputs if each not in arrays]
    if lacking:
        known = ", ".join(arrays)
        return Value(score=None, reason=f"{name} needs {', '.join(lacking)}, and {record.instrument} has {known}")
    call = MetricCall(record, {each: arrays[each] for each in record.inputs})
    return value_of_result(run_metric(call, forgive=True))


def value_of_result(result: MetricResult) -> Value:
    """A scored metric as the value of a cell."""
    found = result.interval
    return Value(
        score=result.score,
        reason=result.reason,
        interval=None if found is None else ScoreInterval(low=found.low, high=found.high, method=found.method),
        spread_reason=result.interval_reason,
        direction="higher" if result.direction == "higher" else "lower",
        range=result.range,
        details={**result.details, "settings": result.settings},
        left_out=tuple(result.left_out),
    )


@cache  # a module that was imported does not change
def _contents(name: str) -> str:
    return Contents.of(find(name).function).fingerprint(name=name)
