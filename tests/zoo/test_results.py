"""Results that come with the zoo: whole, about models of the zoo and references only, and the same when repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from alebrije import adapters, instruments, zoo
from alebrije.results import Store
from alebrije.studies.folder import CELLS, ResultFolder
from alebrije.studies.model import LoadedModel
from alebrije.studies.references import REFERENCES
from alebrije.studies.request import Request
from alebrije.studies.run import plan_study, run_studies
from alebrije.studies.untrained import kind_of_twin

SHIPPED = Store(zoo.RESULTS / CELLS)
REPEATED = (("slot-attention", "grouping"), ("annealed-vae", "neurons"))
TOLERANCE = 2e-3  # of a score: another processor rounds differently


def test_every_file_is_a_result() -> None:
    assert SHIPPED.problems() == []
    assert len(SHIPPED.all()) > 20


def test_they_are_about_models_of_the_zoo_and_references() -> None:
    known = {*REFERENCES, *(f"zoo:{name}" for name in zoo.names())}
    results = SHIPPED.all()
    assert {str(result.cell.labels["model"]) for result in results} <= known
    assert all(result.status == "done" and kind_of_twin(result.cell) is None for result in results)


def test_they_are_about_the_weights_that_are_stored() -> None:
    """The key of a cell depends on the weights, so results of other weights would not be found."""
    for name in zoo.names():
        fingerprint = adapters.load(f"zoo:{name}").fingerprint
        own = [result.cell for result in SHIPPED.all() if result.cell.labels["model"] == f"zoo:{name}"]
        assert all(cell.inputs["subject"]["encoder"] == fingerprint for cell in own)


def test_the_cards_have_the_scores_of_the_results() -> None:
    studies = {str(result.cell.labels["model"]): result.cell.study for result in SHIPPED.all()}
    for card in zoo.cards():
        assert bool(card.scores) == (f"zoo:{card.name}" in studies)
        for score in card.scores:
            assert score.low is None or score.high is None or score.low <= score.value <= score.high


@pytest.mark.slow
@pytest.mark.parametrize(("name", "instrument"), [pair for pair in REPEATED if pair[0] in zoo.names()])
def test_examining_a_model_again_gives_the_shipped_values(name: str, instrument: str, tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    request = Request("tiny", loaded=(LoadedModel(adapters.load(f"zoo:{name}")),), only_loaded=True)
    planned = replace(plan_study(instruments.get(instrument), folder, request), yardsticks=())
    run_studies([planned], folder)
    compared = 0
    for job in planned.jobs:
        ours, theirs = folder.store.get(job.cell), SHIPPED.get(job.cell)
        assert ours is not None
        assert theirs is not None, f"{job.cell} did not come along"
        for metric, value in theirs.values.items():
            again = ours.values[metric].score
            assert again == (value.score if value.score is None else pytest.approx(value.score, abs=TOLERANCE))
            compared += 1
    assert compared > 5
