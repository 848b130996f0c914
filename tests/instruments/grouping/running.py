"""Runs of the study, and scores of its results."""

from __future__ import annotations

from typing import Any

from alebrije.instruments.grouping import INSTRUMENT
from alebrije.results import Result
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model
from alebrije.studies.request import Request
from alebrije.studies.run import plan_study, run_study

ARI = ("fg-ari", "fg-arp", "fg-arr", "ari")

Results = dict[tuple[Any, ...], Result]  # by some of their labels


def results_of(folder: ResultFolder, request: Request, *labels: str) -> Results:
    """Run the study; the results by some of their labels."""
    planned = plan_study(INSTRUMENT, folder, request)
    summary = run_study(planned, folder)
    assert not summary.failed, summary.failed[0].traceback
    keys = {job.cell.key for job in planned.jobs}
    own = [result for result in folder.store.all() if result.key in keys]
    by_labels = {tuple(result.cell.labels.get(name) for name in labels): result for result in own}
    assert len(by_labels) == len(own) == len(keys)
    return by_labels


def results_of_model(folder: ResultFolder, model: Model, *labels: str) -> Results:
    """The results of one loaded model at the size tiny."""
    return results_of(folder, Request(size="tiny", loaded=(model,), only_loaded=True), *labels)


def scores(result: Result) -> dict[str, float | None]:
    return {name: value.score for name, value in result.values.items()}
