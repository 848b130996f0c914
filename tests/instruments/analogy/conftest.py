"""The references at the size tiny, which several files test."""

from __future__ import annotations

import pytest

from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request
from tests.instruments.analogy.running import Results, results_of


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ResultFolder:
    return ResultFolder(tmp_path_factory.mktemp("analogy"))


@pytest.fixture(scope="package")
def references(folder: ResultFolder) -> Results:
    """The results of the references by model and corpus."""
    return results_of(folder, Request(size="tiny"), "model", "corpus")
