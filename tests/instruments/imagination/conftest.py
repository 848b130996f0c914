"""Results that several files test."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from alebrije.instruments.imagination.study import jobs
from alebrije.results import Result
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request
from tests.instruments.imagination.running import run


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ResultFolder:
    """One folder for all tests, so that episodes are rendered and the reader is trained once."""
    return ResultFolder(tmp_path_factory.mktemp("imagination"))


@pytest.fixture(scope="package")
def references(folder: ResultFolder) -> Mapping[str, Result]:
    """The tiny study of three references, by model."""
    request = Request(size="tiny", models=("pixels", "oracle", "noise"))
    summary = run(folder, request)
    assert not summary.failed
    found = [folder.store.get(job.cell) for job in jobs(folder, request)]
    return {str(result.cell.labels["model"]): result for result in found if result is not None}
