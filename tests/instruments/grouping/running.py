"""Runs of the study, and scores of its results."""

from __future__ import annotations

from functools import partial

from alebrije.instruments.grouping import INSTRUMENT
from alebrije.results import Result
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model
from alebrije.studies.request import Request
from tests.instruments.running import Results, results_by_labels

ARI = ("fg-ari", "fg-arp", "fg-arr", "ari")

results_of = partial(results_by_labels, INSTRUMENT)


def results_of_model(folder: ResultFolder, model: Model, *labels: str) -> Results:
    """The results of one loaded model at the size tiny."""
    return results_of(folder, Request(size="tiny", loaded=(model,), only_loaded=True), *labels)


def scores(result: Result) -> dict[str, float | None]:
    return {name: value.score for name, value in result.values.items()}
