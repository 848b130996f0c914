"""From predicted images to the values of a cell: squared errors, LPIPS, and the factors that a reader reads."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Bytes, Floats, to_numpy
from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.files import WEIGHTS, open_regular, sha256_of
from alebrije.instruments.imagination.examination import TESTED, Examination, StartedExamination, start_together
from alebrije.instruments.imagination.images import ShownEpisodes
from alebrije.instruments.imagination.reader import FactorReader, read_correctly
from alebrije.metrics import find
from alebrije.metrics.lpips import weight_files
from alebrije.results import Cell, Value
from alebrije.studies.encode import NotExaminedError
from alebrije.studies.folder import ResultFolder
from alebrije.studies.own_metrics import own_names, own_value, own_versions
from alebrije.studies.values import mean_value, null_value

IN_ERROR, OUT_ERROR = "in-distribution error", "out-of-distribution error"
UNCHANGED, CONSTANT = "error of an unchanged image", "error of the best constant image"
GAP, SKILL, LPIPS = "gap", "skill", "lpips"
ACCURACY, IN_ACCURACY = "factor accuracy", "in-distribution factor accuracy"
TRUE_ACCURACY = "factor accuracy of true images"
FACTORS = ("shape", "color", "size", "material")
ERRORS = (IN_ERROR, OUT_ERROR, GAP, UNCHANGED, CONSTANT, SKILL)
ACCURACIES = (ACCURACY, IN_ACCURACY, TRUE_ACCURACY, *(f"{name} accuracy" for name in FACTORS))
BASELINES = (UNCHANGED, CONSTANT, TRUE_ACCURACY)  # values that say nothing about the model
METRICS = (*ERRORS, LPIPS, *ACCURACIES)
SAMPLES = 8  # episodes kept for pictures
_CATALOGUED = {"mse-sum": ERRORS, "gap": (GAP,), LPIPS: (LPIPS,)}  # metric -> the values that it computes


def compute_values(
    folder: ResultFolder, cell: Cell, examination: Examination, started: StartedExamination | None = None
) -> dict[str, Value]:
    """The values of a cell; `started` has a fitted head. Keeps samples for its pictures."""
    wanted = set(examination.wanted)
    tested = {subset: examination.episodes(folder, subset) for subset in TESTED}
    try:
        images = examination.predict(folder, tested) if started is None else started.predict()
    except NotExaminedError as error:
        return {name: Value(score=None, reason=str(error)) for name in examination.wanted}
    known, new = (Predictions(tested[subset], images[subset]) for subset in TESTED)
    values = error_values(known, new) if wanted & set(ERRORS) else {}
    if LPIPS in wanted:
        values[LPIPS] = lpips_value(new)
    if examination.reader is not None:
        values |= accuracy_values(examination.reader.trained(folder, examination.device), known, new)
    arrays = {"target": new.target, "predicted": new.images}
    values |= {name: own_value(name, arrays) for name in own_names(examination.wanted)}
    _keep_samples(folder, cell, known, new)
    return {name: value for name, value in values.items() if name in wanted}


def start_values(
    folder: ResultFolder, cells: Sequence[tuple[Cell, Examination]]
) -> list[Callable[[], dict[str, Value]] | None]:
    """What is left to compute the values of several cells, once their heads have been fitted at once."""
    started = start_together(folder, cells)
    return [
        None if each is None else partial(compute_values, folder, *cell, each)
        for cell, each in zip(cells, started, strict=True)
    ]


def metric_inputs(examination: Examination) -> dict[str, Any]:
    """The part of a cell's inputs that depends on the wanted values alone."""
    wanted = examination.wanted
    return {
        **{metric: find(metric).version for metric, names in _CATALOGUED.items() if set(names) & set(wanted)},
        "values": list(wanted),
        **own_versions(wanted),
        "reader": None if examination.reader is None else examination.reader.settings,
        **({"lpips weights": lpips_weights()} if LPIPS in wanted else {}),
    }


@dataclass(frozen=True, eq=False)
class Predictions:
    """Episodes, and the predictions of their target images: floats in 0..1 [B, 3, H, W]."""

    episodes: ShownEpisodes
    images: Tensor

    def __post_init__(self) -> None:
        expected, shape = list(self.episodes.target_images.shape), list(self.images.shape)
        if shape != expected:
            raise InputError(f"predicted images must have the shape {expected}, not {shape}")

    @property
    def target(self) -> Tensor:
        """The true images in 0..1."""
        return self.episodes.target_images.to(self.images.device).float() / 255

    @property
    def source(self) -> Tensor:
        """The images of the sources in 0..1."""
        return self.episodes.source_images.to(self.images.device).float() / 255


def _squared_errors(target: Tensor, predicted: Tensor) -> Floats:
    """Squared errors, summed over each image. [B]"""
    return np.asarray(to_numpy(find("mse-sum")(target, predicted)), dtype=np.float64)


def error_values(known: Predictions, new: Predictions) -> dict[str, Value]:
    """The errors of predictions for known and for new combinations, with two baselines."""
    record = find("mse-sum")
    inside, outside = (_squared_errors(each.target, each.images) for each in (known, new))
    unchanged = _squared_errors(new.target, new.source)
    constant_inside, constant = (
        _squared_errors(each.target, each.target.mean(0, keepdim=True).expand_as(each.target)) for each in (known, new)
    )
    cases = {IN_ERROR: inside, OUT_ERROR: outside, UNCHANGED: unchanged, CONSTANT: constant}
    values = {name: mean_value(record, each, noun="episodes") for name, each in cases.items()}
    best_inside = float(constant_inside.mean())
    details = {  # skill alone does not say whether the unchanged source is a better prediction
        "in-distribution skill": 1 - float(inside.mean()) / best_inside if best_inside > 0 else None,
        OUT_ERROR: float(outside.mean()),
        UNCHANGED: float(unchanged.mean()),
    }
    values[GAP] = _gap(inside, outside, (constant_inside, constant))
    values[SKILL] = _skill(outside, float(constant.mean()), details)
    return {name: values[name] for name in ERRORS}


def _gap(inside: Floats, outside: Floats, constants: Sequence[Floats]) -> Value:
    """The gap. The gap of the best constant images shows how much of it is due to larger new objects."""
    record = find("gap")
    answer, of_constants = record(inside, outside), record(*constants)
    details = {
        "in-distribution": answer.in_distribution,
        "out-of-distribution": answer.out_of_distribution,
        "of the best constant images": of_constants.score,
    }
    return Value.of(record, answer, details=details)


def _skill(errors: Floats, constant: float, details: Mapping[str, Any]) -> Value:
    """1 - error / error of the best constant image: 1 for the true images, 0 for the best constant image."""
    if constant <= 0:
        reason = "all true images are the same"
        return Value(score=None, reason=reason, direction="higher", range=(None, 1.0))
    return _mean_score(1 - errors / constant, -math.inf, {**details, "episodes": len(errors)})


def _mean_score(cases: Floats, least: float, details: Mapping[str, Any]) -> Value:
    """The mean of a score whose best value is 1 and that the catalog of metrics does not have."""
    record = replace(find("mse-sum"), direction="higher", range=(least, 1.0))
    return mean_value(record, cases, noun="episodes", details=dict(details))


def lpips_value(new: Predictions) -> Value:
    """LPIPS of predictions for new combinations; null if its weights are not on this machine."""
    record = find(LPIPS)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UndefinedMetricWarning)
            each = np.asarray(to_numpy(record(new.target, new.images)), dtype=np.float64)
    except InputError as error:  # the images are too small, or a file does not hold the weights
        return null_value(record, str(error))
    if np.isnan(each).any():
        reasons = [str(one.message) for one in caught if issubclass(one.category, UndefinedMetricWarning)]
        return null_value(record, reasons[0] if reasons else "LPIPS is NaN")
    return mean_value(record, each, noun="episodes")


def lpips_weights() -> str | None:
    """The SHA-256 of the weights of LPIPS on this machine; None if there are none."""
    files = weight_files()
    if files is None:
        return None
    stamps = [(file, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256("".join(_sha256(*stamp) for stamp in stamps).encode()).hexdigest()


@cache
def _sha256(file: Path, size: int, changed: int) -> str:
    """The digest of a file, computed again only if its size or time changes."""
    with open_regular(file, WEIGHTS) as opened:
        return sha256_of(opened)


def accuracy_values(reader: FactorReader, known: Predictions, new: Predictions) -> dict[str, Value]:
    """The share of factors that are read correctly from predicted images, and from true ones."""
    vocabulary, target = new.episodes.target.vocabulary, new.episodes.target
    correct = {  # bool [B, N, F] each
        "new": read_correctly(reader, new.images, target),
        "in-distribution": read_correctly(reader, known.images, known.episodes.target),
        "of true images": read_correctly(reader, new.target, target),
        "of unchanged images": read_correctly(reader, new.source, target),
    }
    shares = {name: each.double().mean((1, 2)).numpy() for name, each in correct.items()}  # [B] each
    chance = {"chance": float(np.mean([1 / count for count in vocabulary.counts]))}
    values = {
        ACCURACY: _mean_score(shares["new"], 0.0, {**_other_means(shares), **chance}),
        IN_ACCURACY: _mean_score(shares["in-distribution"], 0.0, chance),
        TRUE_ACCURACY: _mean_score(shares["of true images"], 0.0, chance),
    }
    for axis, factor in enumerate(vocabulary):
        shares = {name: each[..., axis].double().mean(1).numpy() for name, each in correct.items()}
        details = {**_other_means(shares), "chance": 1 / len(factor)}
        values[f"{factor.name} accuracy"] = _mean_score(shares["new"], 0.0, details)
    return values


def _other_means(shares: Mapping[str, Floats]) -> dict[str, float]:
    return {name: float(each.mean()) for name, each in shares.items() if name != "new"}


def _keep_samples(folder: ResultFolder, cell: Cell, known: Predictions, new: Predictions) -> None:
    arrays: dict[str, Bytes] = {}
    for ending, each in (("", new), ("_in", known)):
        arrays[f"source{ending}"] = each.episodes.source_images[:SAMPLES].numpy()
        arrays[f"target{ending}"] = each.episodes.target_images[:SAMPLES].numpy()
        arrays[f"predicted{ending}"] = (each.images[:SAMPLES] * 255).round().to(torch.uint8).cpu().numpy()
    folder.keep_samples(cell, **arrays)
