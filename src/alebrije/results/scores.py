"""The JSON that `alebrije score` writes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1
LONGEST = 2_000  # numbers of one field; longer ones are named in `left_out`


class IntervalResult(BaseModel):
    """A 95 % interval and how it was found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float
    high: float
    method: str
    resamples: int
    seed: int


class MetricResult(BaseModel):
    """One metric on one input. A score that is not a number is null, and `reason` says why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    title: str
    version: int
    instrument: str
    range: tuple[float | None, float | None]
    direction: str
    cites: str
    score: float | None
    reason: str | None = None
    refused: str | None = None  # the sentence with which the metric refused the input, if it did
    interval: IntervalResult | None = None
    interval_reason: str | None = None
    settings: dict[str, Any] = {}
    details: dict[str, Any] = {}
    left_out: list[str] = []
    seconds: float


class InputDescription(BaseModel):
    """What was scored: the file's name, checksum and arrays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    arrays: dict[str, str]


class Scores(BaseModel):
    """Everything that one call of `alebrije score` found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    library_version: str
    input: InputDescription
    results: list[MetricResult]

    def to_json(self) -> str:
        """Valid JSON without NaN or infinity."""
        return self.model_dump_json(indent=1) + "\n"


def plain(value: Any) -> Any:
    """`value` as JSON knows it: arrays as lists, dataclasses as objects, what is not finite as None.

    >>> plain({"x": np.array([1.0, np.nan])})
    {'x': [1.0, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def details(score: Any) -> tuple[dict[str, Any], list[str]]:
    """The fields of a metric's answer beyond the headline, and the names of those too long to keep."""
    kept, left_out = {}, []
    for field in fields(score):
        if field.name in ("score", "reason", "settings"):
            continue
        value = getattr(score, field.name)
        if not isinstance(value, Mapping) and np.size(value) > LONGEST:
            left_out.append(field.name)
        else:
            kept[field.name] = plain(value)
    return kept, left_out
