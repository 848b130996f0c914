"""Cells and their results: the unit that is computed, and its values or its error."""

from __future__ import annotations

import platform
import re
import sys
import traceback as tracebacks
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alebrije import __version__
from alebrije.errors import InputError, plain
from alebrije.results.canonical_json import digest, exact_json_value, json_value
from alebrije.results.scores import LONGEST, details

if TYPE_CHECKING:
    from alebrije.metrics import Record
    from alebrije.metrics.uncertainty import Interval

RESULT_SCHEMA: Final = 2  # of the file; raise it when the layout changes, and teach result_file.py to read the old one
KEY_SCHEMA = 1  # of the key; raise it only when every stored value must be computed again
RESERVED = ("study", "metric", "value", "standard_error", "low", "high", "n", "spread", "left_out", "reason", "key")

TRUSTED = "trusted"  # validation context of a file whose checksum is right: its values need no conversion

LARGEST = 1e150  # of a number in a value: its square is finite


def _number(value: Any) -> Any:
    """A number as it is; pydantic would take true for 1, and a huge one would overflow in tables and charts."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise PydanticCustomError("number", "must be a number, not {value}", {"value": repr(value)})
    return value


Number = Annotated[float, BeforeValidator(_number), Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
End = Annotated[float, BeforeValidator(_number)]  # of a range or an interval, which may be infinite
Plain = Annotated[str, AfterValidator(plain)]  # may come from other people's code
Label = str | bool | int | float | None
Range = tuple[End | None, End | None]

_LABEL = re.compile(r"[^\W\d][\w.-]*")  # a label's name is also a column and a name in queries
_LONGEST_TRACEBACK = 20_000  # characters; the end matters most


def first_fault(error: ValidationError) -> str:
    """The first fault that pydantic reports, in one sentence with the name of the field."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {message}" if field and first["type"] != "value_error" else message


if TYPE_CHECKING:
    Validated = BaseModel
else:

    class _RaisesInputError(type(BaseModel)):
        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except ValidationError as error:
                raise InputError(f"{cls.__name__}: {first_fault(error)}") from error

    class Validated(BaseModel, metaclass=_RaisesInputError):
        """A record that raises an InputError of one sentence if a field is wrong."""


class Strict(Validated):
    """A frozen record that accepts no other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Strict):
    """The smallest unit of a study that is computed, stored and resumed.

    Tables show `labels`. `inputs` hold everything that can change a value: the fingerprint of the weights, the
    preprocessing, the settings of the world, the names and versions of metrics, parameters, the seed. The key depends
    only on the study and the inputs, so a label can be reworded without computing anything again.

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
        return exact_json_value(study, "study")

    @field_validator("labels", mode="before")
    @classmethod
    def _labels(cls, labels: Any, info: ValidationInfo) -> Any:
        if info.context == TRUSTED:
            return labels
        checked = exact_json_value(labels, "labels")
        for name in checked if isinstance(checked, dict) else ():
            if not _LABEL.fullmatch(name):
                raise InputError(f"the name of a label must be one word, not {name!r}")
            if name in RESERVED:
                raise InputError(f"the name of a label cannot be {name!r}, which tables use themselves")
        return checked

    @field_validator("inputs", mode="before")
    @classmethod
    def _inputs(cls, inputs: Any, info: ValidationInfo) -> Any:
        return inputs if info.context == TRUSTED else exact_json_value(inputs, "inputs")

    @property
    def key(self) -> str:
        """The SHA-256 of the study and the inputs, which identifies the cell."""
        return digest({"schema": KEY_SCHEMA, "study": self.study, "inputs": self.inputs})

    @property
    def seed(self) -> int:
        """A seed derived from the key; 32 bits, which every generator accepts."""
        return int(self.key[-8:], 16)

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return plain(" ".join([self.study, *(f"{name}={label}" for name, label in self.labels.items())]))


class ScoreInterval(Strict):
    """A 95 % interval of a score, and how it was computed."""

    low: End
    high: End
    method: str = ""


class Value(Strict):
    """One number of a result. NaN and infinity are stored as null, and `reason` says why.

    >>> Value(score=0.5).score, Value(score=float("nan")).reason
    (0.5, 'the score is nan')
    """

    score: Number | None
    reason: Plain | None = None
    standard_error: Annotated[Number, Field(ge=0)] | None = None
    interval: ScoreInterval | None = None
    spread_reason: Plain | None = None  # why there is no interval or standard error
    direction: Literal["higher", "lower"] | None = None
    range: Range = (None, None)  # null where it is unbounded
    details: dict[str, Any] = {}
    left_out: tuple[str, ...] = ()  # details too long to keep

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, fields: Any, info: ValidationInfo) -> Any:
        """Store numbers that are not finite as null with a reason, and details as JSON without the long ones."""
        if not isinstance(fields, dict) or info.context == TRUSTED:
            return fields
        fields = dict(fields)
        if _not_finite(fields.get("score")):
            fields["reason"] = fields.get("reason") or f"the score is {float(fields['score'])}"
            fields["score"] = None
        if _not_finite(fields.get("standard_error")):
            fields["spread_reason"] = fields.get("spread_reason") or "the standard error is not finite"
            fields["standard_error"] = None
        interval = fields.get("interval")
        ends = (
            [interval.get("low"), interval.get("high")]
            if isinstance(interval, Mapping)
            else [getattr(interval, "low", None), getattr(interval, "high", None)]
        )
        if any(map(_not_finite, ends)):
            fields["spread_reason"] = fields.get("spread_reason") or "the interval has no finite ends"
            fields["interval"] = None
        if isinstance(fields.get("range"), (tuple, list)):
            fields["range"] = tuple(None if _not_finite(end) else end for end in fields["range"])
        if isinstance(fields.get("details"), Mapping):
            kept = {str(name): json_value(item) for name, item in fields["details"].items()}
            long = [name for name, item in kept.items() if _leaves(item) > LONGEST]
            fields["left_out"] = (*fields.get("left_out", ()), *long)
            fields["details"] = {name: exact_json_value(item, name) for name, item in kept.items() if name not in long}
        return fields

    @model_validator(mode="after")
    def _null_has_reason(self) -> Value:
        if self.score is None and not self.reason:
            raise InputError("a null score needs a reason")
        if self.interval is not None and (_not_finite(self.interval.low) or _not_finite(self.interval.high)):
            raise InputError("the interval is huge: low and high must be numbers that tables and charts can show")
        if self.interval is not None and self.interval.low > self.interval.high:
            raise InputError(f"the interval is reversed: low is {self.interval.low:g}, high {self.interval.high:g}")
        return self

    @classmethod
    def of(cls, record: Record, answer: Any, interval: Interval | None = None, **fields: Any) -> Value:
        """The value of a metric's answer: a number, or a dataclass with `score`."""
        if is_dataclass(answer) and not isinstance(answer, type):
            kept, left_out = details(answer)
            fields = {"reason": getattr(answer, "reason", None), "details": kept, "left_out": tuple(left_out)} | fields
            answer = answer.score  # type: ignore[attr-defined]
        if interval is not None:
            fields["interval"] = {"low": interval.low, "high": interval.high, "method": interval.method}
        return cls(score=float(answer), direction=record.direction, range=record.range, **fields)


class Machine(Strict):
    """The machine that computed a cell."""

    python: str
    torch: str | None
    platform: str
    device: str

    @classmethod
    def here(cls, device: str = "cpu") -> Machine:
        """Describe this machine, without importing torch for its version."""
        return cls(python=platform.python_version(), torch=_torch(), platform=platform.platform(), device=str(device))


class Result(Strict):
    """The outcome of a cell: its values, or the traceback of its error.

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
    traceback: Plain | None = None
    seconds: Number = Field(ge=0)
    machine: Machine
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))

    @field_validator("created")
    @classmethod
    def _utc(cls, created: datetime) -> datetime:
        try:
            return created.astimezone(UTC)
        except OverflowError:
            raise InputError(f"created must be a time of the years 1 to 9999, not {created}") from None

    @model_validator(mode="after")
    def _consistent(self) -> Result:
        if self.key != self.cell.key:
            raise InputError("the key does not belong to the cell: its study or inputs were changed")
        if (self.status == "failed") != bool(self.traceback):
            raise InputError("a failed result needs a traceback, and only a failed result has one")
        if self.status == "failed" and self.values:
            raise InputError("a failed result cannot have values")
        return self

    @property
    def fault(self) -> str:
        """The error message of a failed result; empty if it did not fail."""
        last = (self.traceback or "").strip().rpartition("\n")[2]
        return last.removeprefix(f"{InputError.__module__}.{InputError.__qualname__}: ")

    @classmethod
    def done(
        cls, cell: Cell, values: Mapping[str, Value | float], *, seconds: float, machine: Machine | None = None
    ) -> Result:
        """Make the result of a computed cell."""
        full = {name: value if isinstance(value, Value) else Value(score=value) for name, value in values.items()}
        return cls(cell=cell, status="done", values=full, seconds=seconds, machine=machine or Machine.here())

    @classmethod
    def failed(cls, cell: Cell, error: BaseException, *, seconds: float, machine: Machine | None = None) -> Result:
        """Make the result of a failed cell, with the end of the traceback."""
        text = "".join(tracebacks.format_exception(error)).strip()
        text = text.encode(errors="backslashreplace").decode()[-_LONGEST_TRACEBACK:]
        return cls(cell=cell, status="failed", traceback=text, seconds=seconds, machine=machine or Machine.here())


def _not_finite(value: Any) -> bool:
    if not hasattr(value, "__float__") or isinstance(value, str):
        return False
    return not abs(float(value)) <= LARGEST  # also for NaN


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
