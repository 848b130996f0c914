"""One record per metric: what it is called, what it needs, what it promises. The records are the catalog."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from alebrije.errors import InputError
from alebrije.named import object_named

Instrument = Literal["grouping", "neurons", "analogy", "imagination"]
Direction = Literal["higher", "lower"]
Invariance = Literal[
    "sample order",  # the same rows, images or cases in another order
    "neuron permutation",  # the same neurons in another order
    "slot permutation",  # the same slots in another order, in each scene its own
    "label permutation",  # the same segments or classes under other integers
    "scaling",  # all codes times a positive number
    "batch split",  # the values of a batch are those of its halves
    "dtype",  # float32 and float64, int32 and int64 agree to single precision
    "device",  # CPU and an accelerator agree to single precision
]


@dataclass(frozen=True)
class Record:
    """What a user, a table and the test suite need to know of a metric."""

    name: str
    function: Callable[..., Any]
    title: str
    instrument: Instrument
    inputs: tuple[str, ...]
    range: tuple[float, float]
    direction: Direction
    cites: str
    invariances: frozenset[Invariance]
    settings: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    costly: bool = False  # takes seconds: not scored again on resampled rows unless the user asks

    @property
    def all_settings(self) -> dict[str, Any]:
        """The settings of a plain call: this record's, and the function's defaults for the rest."""
        parameters = inspect.signature(self.function).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in self.inputs}
        return {**defaults, **self.settings}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The metric, with the settings of this record unless the call says otherwise."""
        return self.function(*args, **{**self.settings, **kwargs})


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """A metric's answer: the headline number, why it is not a number if it is not, and how it was made."""

    score: float
    reason: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cases(self) -> Any | None:
        """Values whose mean is `score`, where there are such; resampling them gives its uncertainty."""
        return None


F = TypeVar("F", bound=Callable[..., Any])

_CATALOG: dict[str, Record] = {}


def register(
    name: str,
    *,
    title: str,
    instrument: Instrument,
    inputs: tuple[str, ...],
    cites: str,
    invariances: tuple[Invariance, ...],
    range: tuple[float, float] = (0.0, 1.0),
    direction: Direction = "higher",
    version: int = 1,
    costly: bool = False,
    also: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[F], F]:
    """Enters the decorated function in the catalog under `name`, unchanged.

    `also` enters it under further names, each with the fields of its record that differ, `settings` above all.
    """

    def enter(function: F) -> F:
        plain = Record(
            name=name,
            function=function,
            title=title,
            instrument=instrument,
            inputs=inputs,
            range=range,
            direction=direction,
            cites=cites,
            invariances=frozenset(invariances),
            version=version,
            costly=costly,
        )
        variants = [replace(plain, name=other, **changes) for other, changes in (also or {}).items()]
        for record in (plain, *variants):
            if record.name in _CATALOG:
                raise ValueError(f"two metrics are called {record.name!r}")
            _CATALOG[record.name] = record
        return function

    return enter


def catalog() -> dict[str, Record]:
    """Every metric's record by its short name, in the order of the instruments.

    >>> catalog()["ari"].range
    (-0.5, 1.0)
    """
    return dict(_CATALOG)


def find(name: str) -> Record:
    """The record called `name`, by its short name or its function's; an unknown name suggests the nearest.

    A metric of your own is `package.module:function`, where the function is one that `register` decorates.
    """
    if ":" in name:
        return _of_a_stranger(name)
    wanted = name.strip().lower().replace("_", "-")
    by_name = dict(_CATALOG)
    for record in _CATALOG.values():
        if not record.settings:
            by_name.setdefault(record.function.__name__.replace("_", "-"), record)
    if wanted in by_name:
        return by_name[wanted]
    near = difflib.get_close_matches(wanted, by_name, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else "; `alebrije metrics` lists them"
    raise InputError(f"there is no metric called {name!r}{hint}")


def _of_a_stranger(name: str) -> Record:
    module, _, attribute = name.partition(":")
    function = object_named(module, attribute)
    for record in _CATALOG.values():
        if record.function is function:
            return record
    raise InputError(f"{name} is no metric; decorate it with alebrije.metrics.register")
