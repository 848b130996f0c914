"""Runs of the study, and values of its results."""

from __future__ import annotations

from functools import partial

from alebrije.instruments.analogy import INSTRUMENT
from alebrije.results import Result
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model
from alebrije.studies.request import Request
from tests.instruments.running import Results, results_by_labels

results_of = partial(results_by_labels, INSTRUMENT)


def results_of_model(folder: ResultFolder, model: Model, *metrics: str) -> Results:
    """The results of one loaded model at the size tiny, by corpus and variant."""
    request = Request(size="tiny", loaded=(model,), only_loaded=True, metrics=metrics)
    return results_of(folder, request, "corpus", "variant")


def score(result: Result, metric: str = "coat") -> float:
    value = result.values[metric].score
    assert value is not None
    return value
