"""Run a study and find its results."""

from __future__ import annotations

from typing import Any

from alebrije.results import Result
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import RunSummary
from alebrije.studies.request import Request
from alebrije.studies.run import Study, plan_study, run_study

Results = dict[tuple[Any, ...], Result]  # by some of their labels


def run(study: Study, folder: ResultFolder, request: Request) -> RunSummary:
    return run_study(plan_study(study, folder, request), folder)


def results_by_labels(study: Study, folder: ResultFolder, request: Request, *labels: str) -> Results:
    """Run the study; the results by some of their labels."""
    planned = plan_study(study, folder, request)
    summary = run_study(planned, folder)
    assert not summary.failed, summary.failed[0].traceback
    keys = {job.cell.key for job in planned.jobs}
    own = [result for result in folder.store.all() if result.key in keys]
    by_labels = {tuple(result.cell.labels.get(name) for name in labels): result for result in own}
    assert len(by_labels) == len(own) == len(keys)
    return by_labels
