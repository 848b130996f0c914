"""What predicted images are worth: their errors, and the factors that can be read from them."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics import find
from alebrije.metrics.arrays import to_numpy
from alebrije.metrics.perceptual import weight_files
from alebrije.metrics.uncertainty import resample_cases
from alebrije.results import Value
from alebrije.studies.imagination_episodes import Shown
from alebrije.studies.imagination_factors import Reader, read_rightly

ERRORS = (
    "in-distribution error",
    "out-of-distribution error",
    "gap",
    "error of an unchanged image",
    "error of the best constant image",
    "skill",
)
LPIPS = "lpips"
FACTORS = ("shape", "color", "size", "material")
READ = (
    "factor accuracy",
    "in-distribution factor accuracy",
    "factor accuracy of true images",
    *(f"{name} accuracy" for name in FACTORS),
)
RESAMPLES = 1000
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Imagined:
    """Episodes and what was predicted of their targets: floats in 0..1 [B, 3, H, W]."""

    shown: Shown
    predicted: Tensor

    def __post_init__(self) -> None:
        if self.predicted.shape != self.shown.target.shape:
            wanted, found = list(self.shown.target.shape), list(self.predicted.shape)
            raise InputError(f"predicted images must have the shape {wanted}, not {found}")

    @property
    def target(self) -> Tensor:
        """The true images in 0..1."""
        return self.shown.target.float() / 255

    @property
    def source(self) -> Tensor:
        """The images before, in 0..1."""
        return self.shown.source.float() / 255

    def errors(self) -> Floats:
        """Squared errors, summed over each image. [B]"""
        return _squared(self.target, self.predicted)


def _squared(target: Tensor, predicted: Tensor) -> Floats:
    return np.asarray(to_numpy(find("mse-sum")(target, predicted)), dtype=np.float64)


def errors(known: Imagined, new: Imagined) -> dict[str, Value]:
    """How far predictions are from the truth, for combinations known from training and for new ones."""
    record, inside, outside = find("mse-sum"), known.errors(), new.errors()
    constants = [
        _squared(each.target, each.target.mean(0, keepdim=True).expand_as(each.target)) for each in (known, new)
    ]
    best_inside, best = (float(each.mean()) for each in constants)
    same = _squared(new.target, new.source)
    beside_skill = {  # which alone does not tell whether it would be better to change nothing
        "in-distribution skill": _part(inside.mean(), best_inside),
        "out-of-distribution error": float(outside.mean()),
        "error of an unchanged image": float(same.mean()),
    }
    return {
        "in-distribution error": Value.of(record, inside.mean(), **_spread(inside)),
        "out-of-distribution error": Value.of(record, outside.mean(), **_spread(outside)),
        "gap": _gap(inside, outside, constants),
        "error of an unchanged image": Value.of(record, same.mean(), **_spread(same)),
        "error of the best constant image": Value.of(record, best, **_spread(constants[1])),
        "skill": _skill(outside, best, beside_skill),
    }


def _gap(inside: Floats, outside: Floats, constants: Sequence[Floats]) -> Value:
    """With that of the best constant images, which tells how much larger the new objects are."""
    record = find("gap")
    answer, of_constants = record(inside, outside), record(*constants)
    details = {
        "in-distribution": answer.in_distribution,
        "out-of-distribution": answer.out_of_distribution,
        "of the best constant images": of_constants.score,
    }
    return Value.of(record, answer, details=details)


def _part(error: float, yardstick: float) -> float | None:
    return 1 - float(error) / yardstick if yardstick > 0 else None


def _skill(errors: Floats, yardstick: float, details: Mapping[str, Any]) -> Value:
    """1 for the true image, 0 for the best image that is always the same, and less for worse."""
    ends: dict[str, Any] = {"direction": "higher", "range": (None, 1.0)}
    if yardstick <= 0:
        return Value(score=None, reason="all true images are the same", **ends)
    each = 1 - errors / yardstick
    fields = {**_spread(each), **ends, "details": {**details, "episodes": len(each)}}
    interval = fields.pop("interval", None)
    if interval is not None:
        fields["interval"] = {"low": interval.low, "high": interval.high, "method": interval.method}
    return Value(score=float(each.mean()), **fields)


def _spread(cases: Floats) -> dict[str, Any]:
    """The standard error and interval of a mean over episodes."""
    if len(cases) < 2:
        return {"spread_reason": "there is but one episode"}
    error = float(cases.std(ddof=1) / len(cases) ** 0.5)
    return {"interval": resample_cases(cases, RESAMPLES), "standard_error": error}


def perceptual(new: Imagined) -> Value:
    """LPIPS of predictions of new combinations; null where its weights are not at hand."""
    record = find(LPIPS)
    ends: dict[str, Any] = {"direction": record.direction, "range": record.range}
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UndefinedMetricWarning)
            each = np.asarray(to_numpy(record(new.target, new.predicted)), dtype=np.float64)
    except InputError as error:  # images too small, or a file that is no such weights
        return Value(score=None, reason=str(error), **ends)
    if np.isnan(each).any():
        reasons = [str(one.message) for one in said if issubclass(one.category, UndefinedMetricWarning)]
        return Value(score=None, reason=reasons[0] if reasons else "LPIPS is not a number", **ends)
    return Value.of(record, each.mean(), **_spread(each))


def perceptual_weights() -> str | None:
    """The SHA-256 of the weights that LPIPS finds here; None where it finds none."""
    files = weight_files()
    if files is None:
        return None
    stamps = [(file, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256("".join(_sha256(*stamp) for stamp in stamps).encode()).hexdigest()


@cache
def _sha256(file: Path, size: int, changed: int) -> str:
    """That of a file; read once, unless it has changed."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def factors_read(reader: Reader, known: Imagined, new: Imagined) -> dict[str, Value]:
    """The share of factors that are read from predicted images as they ought to be, and from true ones."""
    vocabulary, after = new.shown.after.vocabulary, new.shown.after
    rightly = {
        "new": read_rightly(reader, new.predicted, after),
        "in-distribution": read_rightly(reader, known.predicted, known.shown.after),
        "of true images": read_rightly(reader, new.target, after),
        "of unchanged images": read_rightly(reader, new.source, after),
    }
    share = {name: each.double().mean((1, 2)).numpy() for name, each in rightly.items()}  # [B] each
    chance = float(np.mean([1 / count for count in vocabulary.counts]))
    others = {name: float(each.mean()) for name, each in share.items() if name != "new"}
    values = {
        "factor accuracy": _accuracy(share["new"], {**others, "chance": chance}),
        "in-distribution factor accuracy": _accuracy(share["in-distribution"], {"chance": chance}),
        "factor accuracy of true images": _accuracy(share["of true images"], {"chance": chance}),
    }
    for axis, factor in enumerate(vocabulary):
        each = {name: right[..., axis].double().mean(1).numpy() for name, right in rightly.items()}
        others = {name: float(cases.mean()) for name, cases in each.items() if name != "new"}
        details = {**others, "chance": 1 / len(factor)}
        values[f"{factor.name} accuracy"] = _accuracy(each["new"], details)
    return values


def _accuracy(cases: Floats, details: Mapping[str, Any]) -> Value:
    fields = _spread(cases)
    interval = fields.pop("interval", None)
    if interval is not None:
        fields["interval"] = {"low": interval.low, "high": interval.high, "method": interval.method}
    return Value(score=float(cases.mean()), direction="higher", range=(0.0, 1.0), details=dict(details), **fields)


def samples(known: Imagined, new: Imagined, count: int) -> dict[str, npt.NDArray[np.uint8]]:
    """The first episodes for pictures."""
    kept: dict[str, npt.NDArray[np.uint8]] = {}
    for ending, each in (("", new), ("_in", known)):
        kept[f"source{ending}"] = each.shown.source[:count].numpy()
        kept[f"target{ending}"] = each.shown.target[:count].numpy()
        drawn = (each.predicted[:count] * 255).round().to(torch.uint8)
        kept[f"predicted{ending}"] = drawn.cpu().numpy()
    return kept
