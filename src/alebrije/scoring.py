"""Score a set of named arrays with every metric that can use them, with uncertainty."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alebrije import __version__
from alebrije.arrays import Array, Integers, to_numpy
from alebrije.checks import whole_number
from alebrije.data import ArrayFile, printable
from alebrije.errors import InputError, UndefinedMetricWarning, plain
from alebrije.metrics import Record, Score, catalog, find, labels_from_masks
from alebrije.metrics.uncertainty import Interval, resample_cases, resample_rows
from alebrije.results.canonical_json import json_value
from alebrije.results.scores import InputDescription, IntervalResult, MetricResult, Scores, details

Arrays = Mapping[str, Array]
CASE_RESAMPLES, ROW_RESAMPLES = 1000, 10
MOST_RESAMPLES = 100_000  # ends of intervals are then known to a hundredth of their width
_ALTERNATIVES = "codes and factors; or true and pred (or masks); or a, b, c and d; or target and predicted"


@dataclass(frozen=True)
class MetricCall:
    """A metric and the arrays to call it with."""

    record: Record
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return self.record.name


def score_file(
    file: ArrayFile,
    names: Sequence[str] = (),
    resamples: int | None = None,
    seed: int = 0,
    track: Callable[[Iterable[MetricCall]], Iterable[MetricCall]] = lambda calls: calls,
) -> Scores:
    """Score the arrays of `file` with the metrics in `names`, or with every metric that can use them.

    Without `names`, a metric that refuses the arrays (its factors must be discrete, the images are too small) has a
    null score with a reason, as long as another metric can use them. `track` can show progress.
    """
    if resamples is not None and whole_number("resamples", resamples) > MOST_RESAMPLES:
        raise InputError(f"resamples must be at most {MOST_RESAMPLES:,}, not {resamples:,}")
    try:
        calls = metric_calls(file.arrays, names)
        results = [run_metric(call, resamples, seed, forgive=not names) for call in track(calls)]
        _refuse_unusable_arrays(calls, results)
    except InputError as error:
        raise InputError(f"{printable(file.path)}: {error}") from error
    described = {name: f"{array.dtype} {list(array.shape)}" for name, array in file.arrays.items()}
    return Scores(
        library_version=__version__,
        input=InputDescription(file=printable(file.path), sha256=file.sha256, arrays=described),
        results=_name_factors(results, file.arrays.get("factor_names")),
    )


def _refuse_unusable_arrays(calls: list[MetricCall], results: list[MetricResult]) -> None:
    for inputs in dict.fromkeys(call.record.inputs for call in calls):
        refused = [r.refused for call, r in zip(calls, results, strict=True) if call.record.inputs == inputs]
        if all(refused):
            raise InputError(refused[0] or "")


def metric_calls(arrays: Arrays, names: Sequence[str] = ()) -> list[MetricCall]:
    """The metrics in `names`, or all whose inputs are in `arrays`; an InputError if a metric lacks an input."""
    inputs = _inputs(arrays)
    wanted = list({find(name).name: find(name) for name in names}.values()) or [
        r for r in catalog().values() if set(r.inputs) <= set(inputs)
    ]
    for record in wanted:
        missing = [name for name in record.inputs if name not in inputs]
        if missing:
            raise InputError(f"{record.name} needs {', '.join(record.inputs)}; missing: {', '.join(missing)}")
    if not wanted:
        raise InputError(f"nothing to score: the arrays must be {_ALTERNATIVES}, got {', '.join(sorted(arrays))}")
    return [MetricCall(record, {name: inputs[name] for name in record.inputs}) for record in wanted]


def _inputs(arrays: Arrays) -> dict[str, Any]:
    """The arrays under the names of the metrics' arguments."""
    inputs: dict[str, Any] = {k: v for k, v in arrays.items() if k != "factor_names" and not k.startswith("negatives.")}
    if "true" in inputs and "pred" not in inputs and "masks" in inputs:
        inputs["pred"] = labels_from_masks(inputs["masks"], video=inputs["true"].ndim == 4)
    if "a" in inputs:
        inputs["negatives"] = {k.removeprefix("negatives."): v for k, v in arrays.items() if k.startswith("negatives.")}
    names = arrays.get("factor_names")
    if names is not None and "factors" in arrays:
        count = arrays["factors"].shape[-1] if arrays["factors"].ndim else 0
        if names.shape != (count,) or len(set(names.tolist())) < count:
            raise InputError(f"factor_names must name each of the {count} factors once, got {names.tolist()}")
    return inputs


def run_metric(call: MetricCall, resamples: int | None = None, seed: int = 0, forgive: bool = False) -> MetricResult:
    """Compute one metric and its interval; a score that is NaN or infinite becomes null with a reason.

    With `forgive`, a metric that refuses the input gives a null score with its error message as the reason.
    """
    record, started = call.record, time.perf_counter()
    outcome: dict[str, Any]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = _score_and_interval(call, resamples, seed)
        except (ValueError, TypeError, ArithmeticError, MemoryError, RuntimeError) as error:
            sentence = str(error) if isinstance(error, InputError) else _unexpected(record, error)
            if not forgive:
                raise InputError(sentence) from error
            outcome = {"score": None, "reason": sentence, "refused": sentence}
            outcome["settings"] = json_value(record.all_settings)
    undefined = [plain(str(w.message)) for w in caught if issubclass(w.category, UndefinedMetricWarning)]
    if undefined and not outcome["reason"]:
        outcome["reason"] = undefined[0]
    return MetricResult(
        metric=record.name,
        title=record.title,
        version=record.version,
        instrument=record.instrument,
        range=tuple(json_value(record.range)),
        direction=record.direction,
        cites=record.cites,
        seconds=round(time.perf_counter() - started, 3),
        **outcome,
    )


def _unexpected(record: Record, error: Exception) -> str:
    """One sentence for an unexpected error, so that one metric does not stop the others."""
    fault = " ".join(plain(str(error)).split())
    return f"{record.name} cannot be computed on this input ({type(error).__name__}: {fault})"


def _score_and_interval(call: MetricCall, resamples: int | None, seed: int) -> dict[str, Any]:
    """The fields of a result that depend on the data."""
    answer = call.record(**call.arguments)
    if isinstance(answer, Score):
        score, reason, settings, cases = answer.score, answer.reason, answer.settings, answer.cases
        kept, left_out = details(answer)
    elif np.ndim(to_numpy(answer)) == 0:
        score, reason, settings, cases = float(answer), None, call.record.all_settings, None
        kept, left_out = {}, []
    else:
        values = to_numpy(answer)
        cases = values[~np.isnan(values)]
        score, reason, settings = float(cases.mean()) if cases.size else math.nan, None, call.record.all_settings
        kept, left_out = {"per_image": json_value(values)}, []
    interval, interval_reason = _interval(call, score, cases, resamples, seed)
    return {
        "score": json_value(score),
        "reason": reason or _infinite_reason(cases, score),
        "interval": None if interval is None else IntervalResult(**json_value(interval)),
        "interval_reason": interval_reason,
        "settings": json_value(settings),
        "details": kept,
        "left_out": left_out,
    }


def _infinite_reason(cases: Any | None, score: float) -> str | None:
    if not math.isinf(score):
        return None
    return "the score is infinite" if cases is None else f"{np.isinf(cases).sum()} of {len(cases)} cases are infinite"


def _interval(
    call: MetricCall, score: float, cases: Any | None, resamples: int | None, seed: int
) -> tuple[Interval | None, str | None]:
    """The interval of a score, or the reason why there is none."""
    if not math.isfinite(score):
        return None, "the score is not finite"
    if resamples == 0:
        return None, "resampling is off"
    if cases is not None:
        values = to_numpy(cases).astype(np.float64)
        if len(values) < 2:
            return None, "there is only one case"
        return resample_cases(values, resamples or CASE_RESAMPLES, seed), None
    if "codes" not in call.arguments:
        return None, "the metric compares summaries, which cannot be resampled"
    if call.record.costly and resamples is None:
        return None, "every resample needs a new fit; request it with --bootstrap 20"
    if len(call.arguments["codes"]) < 10:
        return None, "fewer than 10 rows cannot be resampled"

    def on_rows(rows: Integers) -> float:
        answer = call.record(**{name: array[rows] for name, array in call.arguments.items()})
        return float(answer.score if isinstance(answer, Score) else answer)

    interval = resample_rows(on_rows, len(call.arguments["codes"]), score, resamples or ROW_RESAMPLES, seed)
    if interval is None:
        return None, "the score is undefined on resampled rows"
    low, high = call.record.range
    return replace(interval, low=max(interval.low, low), high=min(interval.high, high)), None


def _name_factors(results: list[MetricResult], names: Array | None) -> list[MetricResult]:
    """The same results, with per-factor values as a mapping from factor names."""
    if names is None:
        return results
    labels = [str(name) for name in names]

    def named(key: str, value: Any) -> Any:
        per_factor = key in _PER_FACTOR and isinstance(value, list) and len(value) == len(labels)
        return dict(zip(labels, value, strict=True)) if per_factor else value

    return [r.model_copy(update={"details": {k: named(k, v) for k, v in r.details.items()}}) for r in results]


_PER_FACTOR = {"per_factor", "accuracy", "chance", "alignment", "full_accuracy", "knockout_accuracy"}
