"""Runs of the study, and values of its results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from alebrije.instruments.neurons import INSTRUMENT
from alebrije.instruments.neurons.generalisation import ACCURACY
from alebrije.instruments.neurons.values import Heads
from alebrije.results import Result, Value
from tests.instruments import running

QUICK = Heads(epochs=2, learning_rate=1e-2, batch_size=128)


run_neurons = partial(running.run, INSTRUMENT)


def values_of(results: list[Result]) -> Mapping[str, Value]:
    """The values of the one cell of metrics."""
    (found,) = [result.values for result in results if "SNC" in result.values]
    return found


def accuracy_of(results: list[Result], setting: str, feature: str) -> Value:
    """The accuracy in the one cell of a setting and a feature."""
    wanted = (setting, feature)
    (found,) = [r for r in results if (r.cell.labels.get("setting"), r.cell.labels.get("feature")) == wanted]
    return found.values[ACCURACY]
