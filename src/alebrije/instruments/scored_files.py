"""Files of arrays as models: their scores as cells of a result folder, which tables and reports open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.data import ArrayFile, printable, read_arrays
from alebrije.errors import InputError
from alebrije.instruments.grouping.values import SAMPLES
from alebrije.instruments.neurons.snc import hinton_details
from alebrije.metrics import Record, labels_from_masks
from alebrije.results import Cell, Value
from alebrije.results.scores import ARRAYS, MetricResult
from alebrije.scoring import MetricCall, metric_calls, score_file
from alebrije.sheets.sheet import colored_mask
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job, RunSummary, run_jobs
from alebrije.studies.own_metrics import own_versions, value_of_result

Track = Callable[[Iterable[MetricCall]], Iterable[MetricCall]]


@dataclass(frozen=True)
class Options:
    """How files are scored: names of metrics, resamples of intervals and their seed."""

    metrics: tuple[str, ...] = ()
    resamples: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class ScoredFiles:
    """What became of several files."""

    cells: tuple[Cell, ...]
    summary: RunSummary

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all cells of the files."""
        return frozenset(cell.key for cell in self.cells)

    @property
    def studies(self) -> tuple[str, ...]:
        """The instruments that the files have arrays for."""
        return tuple(dict.fromkeys(cell.study for cell in self.cells))


def score_files(
    files: Sequence[Path], folder: ResultFolder, options: Options, track: Track = lambda calls: calls
) -> ScoredFiles:
    """Score each file as a model named after it, with a cell for each instrument. What is stored is kept.

    An InputError about any file comes before anything is written.
    """
    opened = [read_arrays(path) for path in files]
    planned = [(file, _cells(file, name, options)) for file, name in zip(opened, _names(opened), strict=True)]
    cells = [cell for _, own in planned for cell in own.values()]
    missing = {cell.key for cell in folder.store.missing(cells)} if folder.path.is_dir() else {c.key for c in cells}
    jobs = []
    for file, own in planned:
        if not any(cell.key in missing for cell in own.values()):
            continue
        results = score_file(file, options.metrics, options.resamples, options.seed, track).results
        for instrument, cell in own.items():
            jobs.append(Job(cell, partial(_values, folder, cell, instrument, file, results)))
    folder.ready()
    summary = run_jobs(jobs, folder.store)
    summary.kept += len(cells) - len(missing)
    return ScoredFiles(tuple(cells), summary)


def _names(files: Sequence[ArrayFile]) -> list[str]:
    """The name of each file without its ending, or its path if several have this name."""
    stems = Counter(Path(file.path).stem for file in files)
    names = [path.stem if stems[path.stem] == 1 else str(path) for path in (Path(file.path) for file in files)]
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(f"{printable(twice)}: is named twice")
    return [printable(name) for name in names]


def _cells(file: ArrayFile, name: str, options: Options) -> dict[str, Cell]:
    """The cell of each instrument that the arrays of a file are for."""
    try:
        calls = metric_calls(file.arrays, options.metrics)
    except InputError as error:
        raise InputError(f"{printable(file.path)}: {error}") from error
    records = [call.record for call in calls]
    found = {}
    for instrument in dict.fromkeys(map(_instrument, records)):
        versions: dict[str, Any] = {each.name: each.version for each in records if _instrument(each) == instrument}
        inputs = {
            "subject": {ARRAYS: name},
            "sha256": file.sha256,
            "metrics": versions | own_versions(options.metrics),
            "resamples": options.resamples,
            "seed": options.seed,
        }
        found[instrument] = Cell(study=instrument, labels={"model": name}, inputs=inputs)
    return found


def _instrument(record: Record) -> str:
    """The instrument that shows a metric: all metrics of codes and factors are beside each other."""
    return "neurons" if record.inputs == ("codes", "factors") else record.instrument


def _values(
    folder: ResultFolder, cell: Cell, instrument: str, file: ArrayFile, results: Sequence[MetricResult]
) -> dict[str, Value]:
    """The values of a cell. Keeps samples for its pictures."""
    values = {one.metric: value_of_result(one) for one in results if one.metric in cell.inputs["metrics"]}
    if "snc" in values and values["snc"].score is not None:
        values["snc"] = _with_hinton(values["snc"], file.arrays)
    pictures = {"grouping": _segmentations, "imagination": _predictions}.get(instrument)
    samples = {} if pictures is None else pictures(file.arrays)
    if samples:
        folder.keep_samples(cell, **samples)
    return values


def _with_hinton(value: Value, arrays: dict[str, Array]) -> Value:
    """SNC with what its Hinton diagram shows: the information of each neuron about each factor."""
    alignment, factors = value.details.get("alignment"), arrays["factors"]
    order = list(alignment.values()) if isinstance(alignment, dict) else alignment
    names = arrays.get("factor_names", np.array([f"factor {at + 1}" for at in range(factors.shape[1])]))
    if not isinstance(order, list) or len(order) != factors.shape[1]:
        return value
    shown = hinton_details(np.asarray(arrays["codes"], dtype=np.float64), factors, order)
    details = {**value.details, **shown, "factor_names": [str(name) for name in names]}
    return value.model_copy(update={"details": details})


def _segmentations(arrays: dict[str, Array]) -> dict[str, Array]:
    """The first label maps of a file, over its `images` if it has some."""
    true, pred = arrays.get("true"), arrays.get("pred")
    if true is None or true.ndim != 3 or (pred is None and "masks" not in arrays):
        return {}
    pred = labels_from_masks(arrays["masks"][:SAMPLES]) if pred is None else pred
    shown = [_small_labels(each[:SAMPLES]) for each in (true, pred)]
    images = arrays.get("images")
    if images is None or images.dtype != np.uint8 or images.shape != (len(true), 3, *true.shape[1:]):
        images = np.stack([colored_mask(labels).transpose(2, 0, 1) for labels in shown[0]])
    return {"images": images[:SAMPLES], "true": shown[0], "groups": shown[1]}


def _small_labels(labels: Array) -> Array:
    """Labels as bytes; 0 stays."""
    found = np.union1d(labels, [0])
    return np.asarray((np.searchsorted(found, labels) - np.searchsorted(found, 0)) % 256, dtype=np.uint8)


def _predictions(arrays: dict[str, Array]) -> dict[str, Array]:
    """The first true and predicted images of a file, with `source` if it has those."""
    if "target" not in arrays or "predicted" not in arrays:
        return {}
    found: dict[str, Array] = {
        name: arrays[name][:SAMPLES] for name in ("source", "target", "predicted") if name in arrays
    }
    found = {name: images for name, images in found.items() if images.ndim == 4 and images.shape[1] == 3}
    as_bytes: dict[str, Array] = {
        name: images if images.dtype == np.uint8 else np.round(np.clip(images, 0, 1) * 255).astype(np.uint8)
        for name, images in found.items()
    }
    return as_bytes if {"target", "predicted"} <= set(as_bytes) else {}
