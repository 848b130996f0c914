"""The battery: every metric that a set of named arrays can answer, each with its uncertainty."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije import __version__
from alebrije.data import ArrayFile
from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics import Record, Score, catalog, find, labels_from_masks
from alebrije.metrics.arrays import to_numpy
from alebrije.metrics.uncertainty import Interval, resample_cases, resample_rows
from alebrije.results.scores import InputDescription, IntervalResult, MetricResult, Scores, details, plain

Arrays = Mapping[str, npt.NDArray[Any]]
CASE_RESAMPLES, ROW_RESAMPLES = 1000, 20
_ALTERNATIVES = "codes and factors; or true and pred (or masks); or a, b, c and d; or target and predicted"


@dataclass(frozen=True)
class Call:
    """One metric and the arrays it will be called with."""

    record: Record
    arguments: dict[str, Any]


def score_file(
    file: ArrayFile,
    names: Sequence[str] = (),
    resamples: int | None = None,
    seed: int = 0,
    watch: Callable[[Iterable[Call]], Iterable[Call]] = lambda calls: calls,
) -> Scores:
    """Every metric that the arrays of `file` can answer, or those in `names`, as the JSON to be stored."""
    try:
        calls = plan(file.arrays, names)
        results = [run(call, resamples, seed) for call in watch(calls)]
    except InputError as error:
        raise InputError(f"{file.path.name}: {error}") from error
    described = {name: f"{array.dtype} {list(array.shape)}" for name, array in file.arrays.items()}
    return Scores(
        library_version=__version__,
        input=InputDescription(file=file.path.name, sha256=file.sha256, arrays=described),
        results=_name_factors(results, file.arrays.get("factor_names")),
    )


def plan(arrays: Arrays, names: Sequence[str] = ()) -> list[Call]:
    """The metrics that `arrays` have all inputs for; names that are unknown or lack an input are refused."""
    inputs = _inputs(arrays)
    wanted = [find(name) for name in names] or [r for r in catalog().values() if set(r.inputs) <= set(inputs)]
    for record in wanted:
        missing = [name for name in record.inputs if name not in inputs]
        if missing:
            raise InputError(f"{record.name} needs {', '.join(record.inputs)}: {', '.join(missing)} missing")
    if not wanted:
        raise InputError(f"nothing to score: the arrays must be {_ALTERNATIVES}, got {', '.join(sorted(arrays))}")
    return [Call(record, {name: inputs[name] for name in record.inputs}) for record in wanted]


def _inputs(arrays: Arrays) -> dict[str, Any]:
    """The arrays by the names metrics give their arguments."""
    inputs: dict[str, Any] = {k: v for k, v in arrays.items() if k != "factor_names" and not k.startswith("negatives.")}
    if "true" in inputs and "pred" not in inputs and "masks" in inputs:
        inputs["pred"] = labels_from_masks(inputs["masks"])
    if "a" in inputs:
        inputs["negatives"] = {k.removeprefix("negatives."): v for k, v in arrays.items() if k.startswith("negatives.")}
    names = arrays.get("factor_names")
    if names is not None and "factors" in arrays and names.shape != arrays["factors"].shape[-1:]:
        raise InputError(f"factor_names must name each factor: {names.size} names for {arrays['factors'].shape[-1:]}")
    return inputs


def run(call: Call, resamples: int | None = None, seed: int = 0) -> MetricResult:
    """Scores one metric and finds its interval; a value that is not a number keeps its reason."""
    record, started = call.record, time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UndefinedMetricWarning)
        answer = record(**call.arguments)
    if isinstance(answer, Score):
        score, reason, settings = answer.score, answer.reason, dict(answer.settings)
        (kept, left_out), cases = details(answer), answer.cases
    else:
        values = to_numpy(answer)
        cases = values[~np.isnan(values)]
        score, settings = float(cases.mean()) if cases.size else math.nan, dict(record.settings)
        reason = next((str(w.message) for w in caught if w.category is UndefinedMetricWarning), None)
        kept, left_out = {"per_image": plain(values)}, []
    interval, interval_reason = _interval(call, score, cases, resamples, seed)
    return MetricResult(
        metric=record.name,
        title=record.title,
        version=record.version,
        instrument=record.instrument,
        range=tuple(plain(record.range)),
        direction=record.direction,
        cites=record.cites,
        score=plain(score),
        reason=reason if reason or math.isfinite(score) else "the score is infinite",
        interval=None if interval is None else IntervalResult(**plain(interval)),
        interval_reason=interval_reason,
        settings=plain(settings),
        details=kept,
        left_out=left_out,
        seconds=round(time.perf_counter() - started, 3),
    )


def _interval(
    call: Call, score: float, cases: Any | None, resamples: int | None, seed: int
) -> tuple[Interval | None, str | None]:
    """The interval of a score, or why there is none."""
    if not math.isfinite(score):
        return None, "the score is not a finite number"
    if resamples == 0:
        return None, "no resampling was asked for"
    if cases is not None:
        values = to_numpy(cases).astype(np.float64)
        if len(values) < 2:
            return None, "there is a single case"
        return resample_cases(values, resamples or CASE_RESAMPLES, seed), None
    if call.record.costly and resamples is None:
        return None, "it is fitted anew on every resample: ask for it with --bootstrap 20"
    if len(call.arguments["codes"]) < 10:
        return None, "fewer than 10 rows cannot be resampled"

    def on_rows(rows: Sequence[int]) -> float:
        return float(call.record(**{name: array[rows] for name, array in call.arguments.items()}).score)

    found = resample_rows(on_rows, len(call.arguments["codes"]), score, resamples or ROW_RESAMPLES, seed)
    low, high = call.record.range
    return Interval(max(found.low, low), min(found.high, high), found.method, found.resamples), None


def _name_factors(results: list[MetricResult], names: npt.NDArray[Any] | None) -> list[MetricResult]:
    """The same results with per-factor values as a mapping from factor names."""
    if names is None:
        return results
    labels = [str(name) for name in names]

    def named(key: str, value: Any) -> Any:
        one_each = isinstance(value, list) and len(value) == len(labels)
        return dict(zip(labels, value, strict=True)) if key in _PER_FACTOR and one_each else value

    return [r.model_copy(update={"details": {k: named(k, v) for k, v in r.details.items()}}) for r in results]


_PER_FACTOR = {"per_factor", "accuracy", "chance", "alignment", "full_accuracy", "knockout_accuracy"}
