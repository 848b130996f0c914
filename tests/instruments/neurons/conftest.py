"""Results that several files test."""

from __future__ import annotations

import pytest

from alebrije.results import Result
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request
from tests.instruments.neurons.running import run_neurons


@pytest.fixture(scope="package")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """The tiny study of two references in rooms, by model."""
    folder = ResultFolder(tmp_path_factory.mktemp("references"))
    summary = run_neurons(folder, Request(size="tiny", models=("oracle", "noise")))
    assert not summary.failed
    found: dict[str, list[Result]] = {}
    for result in folder.store.all():
        found.setdefault(str(result.cell.labels["model"]), []).append(result)
    return found
