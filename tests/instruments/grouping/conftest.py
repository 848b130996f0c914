"""A result folder that the tests of a module share, and the results of the references."""

from __future__ import annotations

import pytest

from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request
from tests.instruments.grouping.running import Results, results_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ResultFolder:
    return ResultFolder(tmp_path_factory.mktemp("grouping"))


@pytest.fixture(scope="module")
def references(folder: ResultFolder) -> Results:
    return results_of(folder, Request(size="tiny"), "model")
