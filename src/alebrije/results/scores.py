"""The JSON that `alebrije score` writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from alebrije.results.canonical_json import json_value

SCHEMA_VERSION = 1
ARRAYS = "arrays"  # in the identity of a model that is a file of arrays
LONGEST = 2_000  # numbers kept of one field; `left_out` lists longer fields


class IntervalResult(BaseModel):
    """A 95 % interval and how it was computed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float
    high: float
    method: str
    resamples: int
    seed: int


class MetricResult(BaseModel):
    """One metric on one input. A score that is NaN or infinite is null, and `reason` says why."""

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
    refused: str | None = None  # the metric's error message, if it refused the input
    interval: IntervalResult | None = None
    interval_reason: str | None = None
    settings: dict[str, Any] = {}
    details: dict[str, Any] = {}
    left_out: list[str] = []
    seconds: float


class InputDescription(BaseModel):
    """The scored file: its name, checksum and arrays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    arrays: dict[str, str]


class Scores(BaseModel):
    """Everything that one call of `alebrije score` computed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    library_version: str
    input: InputDescription
    results: list[MetricResult]

    def to_json(self) -> str:
        """Return strict JSON, without NaN or infinity."""
        return self.model_dump_json(indent=1) + "\n"


def details(score: Any) -> tuple[dict[str, Any], list[str]]:
    """The fields of a metric's answer besides its score, and the names of the fields too long to keep."""
    kept, left_out = {}, []
    for field in fields(score):
        if field.name in ("score", "reason", "settings"):
            continue
        value = getattr(score, field.name)
        if not isinstance(value, Mapping) and np.size(value) > LONGEST:
            left_out.append(field.name)
        else:
            kept[field.name] = json_value(value)
    return kept, left_out
