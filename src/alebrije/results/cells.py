"""Cells and results: what is to be computed, and what came of it."""

from __future__ import annotations

import math
import platform
import re
import sys
import traceback as tracebacks
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from alebrije import __version__
from alebrije.errors import InputError
from alebrije.results.canonical import digest, jsonable
from alebrije.results.scores import LONGEST, details, plain

if TYPE_CHECKING:
    from alebrije.metrics import Record
    from alebrije.metrics.uncertainty import Interval

RESULT_SCHEMA: Final = 2  # of the file; raised when its layout changes, and schema.py learns to read the old one
KEY_SCHEMA = 1  # of the key; raised only when every stored value must be computed again
RESERVED = ("study", "metric", "value", "standard_error", "low", "high", "n", "spread", "left_out", "reason", "key")

WRITTEN_HERE = "written here"  # the context in which a result is read that is known to be as it was written

Label = str | bool | int | float | None
Ends = tuple[float | None, float | None]

_LABEL = re.compile(r"[^\W\d][\w.-]*")  # a label's name is a column, and a word of a query
_LONGEST_TRACEBACK = 20_000  # characters, of which the last matter most


def one_sentence(error: ValidationError) -> str:
    """What is wrong first, and where."""
    first = error.errors()[0]
    said = first["msg"].removeprefix("Value error, ")
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {said}" if place and first["type"] != "value_error" else said


if TYPE_CHECKING:
    OneSentence = BaseModel
else:

    class _Made(type(BaseModel)):
        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except ValidationError as error:
                raise InputError(f"{cls.__name__}: {one_sentence(error)}") from error

    class OneSentence(BaseModel, metaclass=_Made):
        """A record that says in one sentence which of its fields do not fit."""


class Strict(OneSentence):
    """A record that cannot change and has no fields but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Strict):
    """The smallest unit of a study that is computed, stored and resumed.

    `labels` are what tables show. `inputs` are everything that can change the value: the fingerprint of the weights,
    the preprocessing, the settings of the world, names and versions of metrics, parameters, the seed. Only the study
    and the inputs make the key, so a label may be reworded without computing anything again.

    >>> cell = Cell(study="neurons", labels={"model": "ae", "seed": 0}, inputs={"weights": "9f3a", "seed": 0})
    >>> cell.key[:8], cell.seed
    ('...', ...)
    >>> cell.key == Cell(study="neurons", labels={}, inputs={"seed": 0.0, "weights": "9f3a"}).key
    True
    """

    study: str = Field(min_length=1)
    labels: dict[str, Label] = {}
    inputs: dict[str, Any]

    @field_validator("study", mode="before")
    @classmethod
    def _study(cls, study: Any) -> Any:
        return jsonable(study, "study")

    @field_validator("labels", mode="before")
    @classmethod
    def _labels(cls, labels: Any, info: ValidationInfo) -> Any:
        if info.context == WRITTEN_HERE:
            return labels
        found = jsonable(labels, "labels")
        for name in found if isinstance(found, dict) else ():
            if not _LABEL.fullmatch(name) or name in RESERVED:
                wanted = "a word that is none of " + ", ".join(RESERVED)
                raise InputError(f"the name of a label must be {wanted}, not {name!r}")
        return found

    @field_validator("inputs", mode="before")
    @classmethod
    def _inputs(cls, inputs: Any, info: ValidationInfo) -> Any:
        return inputs if info.context == WRITTEN_HERE else jsonable(inputs, "inputs")

    @property
    def key(self) -> str:
        """The SHA-256 of the study and its inputs; it names the cell wherever it is stored."""
        return digest({"schema": KEY_SCHEMA, "study": self.study, "inputs": self.inputs})

    @property
    def seed(self) -> int:
        """A seed of 32 bits, which every generator takes, derived from the key."""
        return int(self.key[-8:], 16)

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return " ".join([self.study, *(f"{name}={label}" for name, label in self.labels.items())])


class ScoreInterval(Strict):
    """Where a score lies with a chance of 95 %, and how that was found."""

    low: float
    high: float
    method: str = ""


class Value(Strict):
    """One number that a cell found. What is not a number is null, and `reason` says why.

    >>> Value(score=0.5).score, Value(score=math.nan).reason
    (0.5, 'the score is nan')
    """

    score: float | None
    reason: str | None = None
    standard_error: float | None = None
    interval: ScoreInterval | None = None
    spread_reason: str | None = None  # why there is no interval or no standard error
    direction: Literal["higher", "lower"] | None = None
    range: Ends = (None, None)  # null where it has no end
    details: dict[str, Any] = {}
    left_out: tuple[str, ...] = ()  # details too long to keep

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, fields: Any, info: ValidationInfo) -> Any:
        """Numbers that are not finite become null with a reason; details as JSON knows them, long ones left out."""
        if not isinstance(fields, dict) or info.context == WRITTEN_HERE:
            return fields
        fields = dict(fields)
        if _is_endless(fields.get("score")):
            fields["reason"] = fields.get("reason") or f"the score is {float(fields['score'])}"
            fields["score"] = None
        if _is_endless(fields.get("standard_error")):
            fields["spread_reason"] = fields.get("spread_reason") or "the standard error is not finite"
            fields["standard_error"] = None
        interval = fields.get("interval")
        ends = (
            [interval.get("low"), interval.get("high")]
            if isinstance(interval, Mapping)
            else [getattr(interval, "low", None), getattr(interval, "high", None)]
        )
        if any(map(_is_endless, ends)):
            fields["spread_reason"] = fields.get("spread_reason") or "the interval has no finite ends"
            fields["interval"] = None
        if isinstance(fields.get("range"), (tuple, list)):
            fields["range"] = tuple(None if _is_endless(end) else end for end in fields["range"])
        if isinstance(fields.get("details"), Mapping):
            kept = {str(name): plain(item) for name, item in fields["details"].items()}
            long = [name for name, item in kept.items() if _leaves(item) > LONGEST]
            fields["left_out"] = (*fields.get("left_out", ()), *long)
            fields["details"] = {name: jsonable(item, name) for name, item in kept.items() if name not in long}
        return fields

    @model_validator(mode="after")
    def _explained(self) -> Value:
        if self.score is None and not self.reason:
            raise InputError("a score that is null needs a reason")
        return self

    @classmethod
    def of(cls, record: Record, answer: Any, interval: Interval | None = None, **fields: Any) -> Value:
        """What a metric answered: a number, or a record with `score`; direction and range are the metric's."""
        if is_dataclass(answer) and not isinstance(answer, type):
            kept, left_out = details(answer)
            fields = {"reason": getattr(answer, "reason", None), "details": kept, "left_out": tuple(left_out)} | fields
            answer = answer.score  # type: ignore[attr-defined]
        if interval is not None:
            fields["interval"] = {"low": interval.low, "high": interval.high, "method": interval.method}
        return cls(score=float(answer), direction=record.direction, range=record.range, **fields)


class Machine(Strict):
    """Where a cell was computed."""

    python: str
    torch: str | None
    platform: str
    device: str

    @classmethod
    def here(cls, device: str = "cpu") -> Machine:
        """This machine; torch is not imported to ask for its version."""
        return cls(python=platform.python_version(), torch=_torch(), platform=platform.platform(), device=str(device))


class Result(Strict):
    """What came of a cell: its values, or the traceback of its failure.

    >>> cell = Cell(study="neurons", inputs={"seed": 0})
    >>> Result.done(cell, {"SNC": Value(score=0.5)}, seconds=1.5).values["SNC"].score
    0.5
    """

    schema_version: Literal[2] = RESULT_SCHEMA
    library_version: str = __version__
    cell: Cell
    key: str = Field(default_factory=lambda fields: fields["cell"].key)
    status: Literal["done", "failed"]
    values: dict[str, Value] = {}
    traceback: str | None = None
    seconds: float = Field(ge=0, allow_inf_nan=False)
    machine: Machine
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))

    @field_validator("created")
    @classmethod
    def _utc(cls, created: datetime) -> datetime:
        return created.astimezone(UTC)

    @model_validator(mode="after")
    def _consistent(self) -> Result:
        if self.key != self.cell.key:
            raise InputError("the key is not that of the cell: its study or its inputs were changed")
        if (self.status == "failed") != bool(self.traceback):
            raise InputError("a result has a traceback if it failed, and only then")
        if self.status == "failed" and self.values:
            raise InputError("a result that failed has no values")
        return self

    @property
    def fault(self) -> str:
        """Why it failed, in the words of the error; empty if it did not."""
        last = (self.traceback or "").strip().rpartition("\n")[2]
        return last.removeprefix(f"{InputError.__module__}.{InputError.__qualname__}: ")

    @classmethod
    def done(
        cls, cell: Cell, values: Mapping[str, Value | float], *, seconds: float, machine: Machine | None = None
    ) -> Result:
        """The result of a cell that was computed."""
        full = {name: value if isinstance(value, Value) else Value(score=value) for name, value in values.items()}
        return cls(cell=cell, status="done", values=full, seconds=seconds, machine=machine or Machine.here())

    @classmethod
    def failed(cls, cell: Cell, error: BaseException, *, seconds: float, machine: Machine | None = None) -> Result:
        """The result of a cell that could not be computed, with the end of the traceback."""
        text = "".join(tracebacks.format_exception(error)).strip()
        text = text.encode(errors="backslashreplace").decode()[-_LONGEST_TRACEBACK:]
        return cls(cell=cell, status="failed", traceback=text, seconds=seconds, machine=machine or Machine.here())


def _is_endless(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, str) and not math.isfinite(float(value))


def _leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_leaves, value.values()))
    return sum(map(_leaves, value)) if isinstance(value, list) else 1


def _torch() -> str | None:
    loaded = getattr(sys.modules.get("torch"), "__version__", None)
    if loaded is not None:
        return str(loaded)
    try:
        return version("torch")
    except PackageNotFoundError:
        return None
