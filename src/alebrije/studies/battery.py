"""The battery: every metric that a set of named arrays can answer, each with its uncertainty."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije import __version__
from alebrije.data import ArrayFile, shown
from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics import Record, Score, catalog, find, labels_from_masks
from alebrije.metrics.arrays import to_numpy
from alebrije.metrics.uncertainty import Interval, resample_cases, resample_rows
from alebrije.results.scores import InputDescription, IntervalResult, MetricResult, Scores, details, plain

Arrays = Mapping[str, npt.NDArray[Any]]
CASE_RESAMPLES, ROW_RESAMPLES = 1000, 10
_ALTERNATIVES = "codes and factors; or true and pred (or masks); or a, b, c and d; or target and predicted"


@dataclass(frozen=True)
class Call:
    """One metric and the arrays it will be called with."""

    record: Record
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return self.record.name


def score_file(
    file: ArrayFile,
    names: Sequence[str] = (),
    resamples: int | None = None,
    seed: int = 0,
    watch: Callable[[Iterable[Call]], Iterable[Call]] = lambda calls: calls,
) -> Scores:
    """Every metric that the arrays of `file` can answer, or those in `names`, as the JSON to be stored.

    A metric that was not asked for by name and does not fit (discrete factors wanted, images too small) is null with
    its reason, as long as another metric can use the same arrays.
    """
    try:
        calls = plan(file.arrays, names)
        results = [run(call, resamples, seed, forgive=not names) for call in watch(calls)]
        _refuse_arrays_of_no_use(calls, results)
    except InputError as error:
        raise InputError(f"{shown(file.path)}: {error}") from error
    described = {name: f"{array.dtype} {list(array.shape)}" for name, array in file.arrays.items()}
    return Scores(
        library_version=__version__,
        input=InputDescription(file=shown(file.path), sha256=file.sha256, arrays=described),
        results=_name_factors(results, file.arrays.get("factor_names")),
    )


def _refuse_arrays_of_no_use(calls: list[Call], results: list[MetricResult]) -> None:
    for inputs in dict.fromkeys(call.record.inputs for call in calls):
        refused = [r.refused for call, r in zip(calls, results, strict=True) if call.record.inputs == inputs]
        if all(refused):
            raise InputError(refused[0] or "")


def plan(arrays: Arrays, names: Sequence[str] = ()) -> list[Call]:
    """The metrics that `arrays` have all inputs for; names that are unknown or lack an input are refused."""
    inputs = _inputs(arrays)
    wanted = list({find(name).name: find(name) for name in names}.values()) or [
        r for r in catalog().values() if set(r.inputs) <= set(inputs)
    ]
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
    if names is not None and "factors" in arrays:
        count = arrays["factors"].shape[-1] if arrays["factors"].ndim else 0
        if names.shape != (count,) or len(set(names.tolist())) < count:
            raise InputError(f"factor_names must name each of the {count} factors once, got {names.tolist()}")
    return inputs


def run(call: Call, resamples: int | None = None, seed: int = 0, forgive: bool = False) -> MetricResult:
    """Scores one metric and finds its interval; a value that is not a number keeps its reason.

    With `forgive`, input that the metric refuses gives a null score and the sentence it refused it with.
    """
    record, started = call.record, time.perf_counter()
    found: dict[str, Any]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = _found(call, resamples, seed)
        except (ValueError, TypeError, ArithmeticError, MemoryError, RuntimeError) as error:
            sentence = str(error) if isinstance(error, InputError) else _unforeseen(record, error)
            if not forgive:
                raise InputError(sentence) from error
            found = {"score": None, "reason": sentence, "refused": sentence, "settings": plain(record.all_settings)}
    undefined = [str(w.message) for w in caught if issubclass(w.category, UndefinedMetricWarning)]
    if undefined and not found["reason"]:
        found["reason"] = undefined[0]
    return MetricResult(
        metric=record.name,
        title=record.title,
        version=record.version,
        instrument=record.instrument,
        range=tuple(plain(record.range)),
        direction=record.direction,
        cites=record.cites,
        seconds=round(time.perf_counter() - started, 3),
        **found,
    )


def _unforeseen(record: Record, error: Exception) -> str:
    """One sentence for what no check foresaw, so that one metric does not take the others down."""
    return f"{record.name} cannot be computed on this input ({type(error).__name__}: {' '.join(str(error).split())})"


def _found(call: Call, resamples: int | None, seed: int) -> dict[str, Any]:
    """The part of the result that the data decide."""
    answer = call.record(**call.arguments)
    if isinstance(answer, Score):
        score, reason, settings, cases = answer.score, answer.reason, answer.settings, answer.cases
        kept, left_out = details(answer)
    else:
        values = to_numpy(answer)
        cases = values[~np.isnan(values)]
        score, reason, settings = float(cases.mean()) if cases.size else math.nan, None, call.record.all_settings
        kept, left_out = {"per_image": plain(values)}, []
    interval, interval_reason = _interval(call, score, cases, resamples, seed)
    return {
        "score": plain(score),
        "reason": reason or _infinite(cases, score),
        "interval": None if interval is None else IntervalResult(**plain(interval)),
        "interval_reason": interval_reason,
        "settings": plain(settings),
        "details": kept,
        "left_out": left_out,
    }


def _infinite(cases: Any | None, score: float) -> str | None:
    if not math.isinf(score):
        return None
    return "the score is infinite" if cases is None else f"{int(np.isinf(cases).sum())} of {len(cases)} are infinite"


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
    if "codes" not in call.arguments:
        return None, "it compares summaries, which cannot be resampled"
    if call.record.costly and resamples is None:
        return None, "it is fitted anew on every resample: ask for it with --bootstrap 20"
    if len(call.arguments["codes"]) < 10:
        return None, "fewer than 10 rows cannot be resampled"

    def on_rows(rows: npt.NDArray[np.int64]) -> float:
        return float(call.record(**{name: array[rows] for name, array in call.arguments.items()}).score)

    found = resample_rows(on_rows, len(call.arguments["codes"]), score, resamples or ROW_RESAMPLES, seed)
    if found is None:
        return None, "the score is not defined on resampled rows"
    low, high = call.record.range
    return replace(found, low=max(found.low, low), high=min(found.high, high)), None


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
