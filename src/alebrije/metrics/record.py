"""One record per metric: its name, its inputs, its range, its invariances. Together they are the catalog."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor, Floats
from alebrije.checks import checked
from alebrije.errors import InputError
from alebrije.imports import import_object
from alebrije.metrics.inputs import answer_like
from alebrije.metrics.reasons import mean_of_defined
from alebrije.suggest import closest

Direction = Literal["higher", "lower"]
Invariance = Literal[
    "sample order",  # the same rows, images or cases in another order
    "neuron permutation",  # the same neurons in another order
    "slot permutation",  # the same slots in another order, different in each scene
    "label permutation",  # the same segments or classes under other integers
    "scaling",  # all codes times a positive number
    "batch split",  # a batch gives the same values as its two halves
    "dtype",  # float32 and float64, int32 and int64 agree to single precision
    "device",  # CPU and an accelerator agree to single precision
]


@dataclass(frozen=True)
class Record:
    """What users, tables and the test suite need to know about a metric."""

    name: str
    function: Callable[..., Any]
    title: str
    instrument: str
    inputs: tuple[str, ...]
    range: tuple[float, float]
    direction: Direction
    cites: str
    invariances: frozenset[Invariance]
    settings: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    costly: bool = False  # takes seconds: rows are resampled for an interval only on request

    @property
    def all_settings(self) -> dict[str, Any]:
        """The settings of a call without arguments: the function's defaults, overridden by this record's."""
        parameters = inspect.signature(self.function).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in self.inputs}
        return {**defaults, **self.settings}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the metric with the settings of this record, overridden by `kwargs`."""
        return self.function(*args, **{**self.settings, **kwargs})


@dataclass(frozen=True, eq=False, kw_only=True)
class Score:
    """The result of a metric: the headline number, a reason if it is NaN or partial, and the settings used."""

    score: float
    reason: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cases(self) -> Any | None:
        """Values whose mean is `score`, to resample for its interval; None if the score is not a mean."""
        return None

    @classmethod
    def like(
        cls, reference: ArrayOrTensor, score: float, reason: str | None, settings: Mapping[str, Any], **details: Any
    ) -> Self:
        """A result whose arrays are the same kind as `reference`: tensors on its device, or numpy arrays."""
        for name, value in details.items():
            if isinstance(value, (np.ndarray, torch.Tensor)):
                details[name] = answer_like(reference, value)
        return cls(score=score, reason=reason, settings=settings, **details)


@dataclass(frozen=True, eq=False, kw_only=True)
class PerFactorScore(Score):
    """A score that is the mean of `per_factor` [F]; undefined factors are NaN and left out."""

    per_factor: Any

    @classmethod
    def mean(
        cls,
        reference: ArrayOrTensor,
        per_factor: Floats,
        settings: Mapping[str, Any],
        fault: str = "have a single value",
        **details: Any,
    ) -> Self:
        """The mean over the factors that are defined, with a reason that names the others."""
        score, reason = mean_of_defined(per_factor, fault)
        return cls.like(reference, score, reason, settings, per_factor=per_factor, **details)


F = TypeVar("F", bound=Callable[..., Any])

_CATALOG: dict[str, Record] = {}


def register(
    name: str,
    *,
    title: str,
    instrument: str,
    inputs: tuple[str, ...],
    cites: str,
    invariances: tuple[Invariance, ...],
    range: tuple[float, float] = (0.0, 1.0),
    direction: Direction = "higher",
    version: int = 1,
    costly: bool = False,
    also: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[F], F]:
    """Add the decorated function to the catalog under `name`, with its arguments checked by their annotations.

    `also` adds variants by name, each with the fields of its record that differ, such as `settings`.
    """

    def add(unchecked: F) -> F:
        function = checked(unchecked)
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

    return add


neuron_metric = partial(register, instrument="neurons", inputs=("codes", "factors"))


def catalog() -> dict[str, Record]:
    """All records by their short names, grouped by instrument.

    >>> catalog()["ari"].range
    (-0.5, 1.0)
    """
    return dict(_CATALOG)


@checked
def find(name: str) -> Record:
    """The record of a metric, by its short name or the name of its function.

    A metric of your own is `package.module:function`, where `register` decorates the function.
    """
    if ":" in name:
        return _find_user_metric(name)
    wanted = name.strip().lower().replace("_", "-")
    by_name = dict(_CATALOG)
    for record in _CATALOG.values():
        if not record.settings:
            by_name.setdefault(record.function.__name__.replace("_", "-"), record)
    if wanted in by_name:
        return by_name[wanted]
    near = closest(wanted, by_name, cutoff=0.4)
    hint = f"did you mean {near!r}?" if near else "`alebrije metrics` lists them"
    raise InputError(f"there is no metric called {name!r}; {hint}")


def _find_user_metric(name: str) -> Record:
    module, _, attribute = name.partition(":")
    function = import_object(module, attribute)
    for record in _CATALOG.values():
        if record.function is function:
            return record
    raise InputError(f"{name} is not a metric; decorate it with alebrije.metrics.register")
