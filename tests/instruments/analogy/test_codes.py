"""Codes of a corpus, and variants of slots."""

from __future__ import annotations

import math

import pytest

from alebrije import adapters
from alebrije.errors import InputError
from alebrije.instruments.analogy import INSTRUMENT
from alebrije.instruments.analogy.codes import MOST_SLOTS, NO_MASKS, VARIANTS
from alebrije.instruments.analogy.section import section
from alebrije.report.findings import read_findings
from alebrije.studies.encode import NOT_FINITE
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel
from alebrije.studies.request import Request
from tests.instruments.analogy.models import ExtraSlots, NotFinite, SlotsAt, Tokens
from tests.instruments.analogy.running import results_of_model, score


def test_duplicate_and_invisible_slots_are_dropped(folder: ResultFolder) -> None:
    results = results_of_model(folder, ExtraSlots(), "coat", "coat-acos")
    assert {variant for _, variant in results} == set(VARIANTS)
    for corpus in ("occluded", "unoccluded"):
        raw, no_duplicates, visible = (results[corpus, variant] for variant in VARIANTS)
        assert score(raw) < score(no_duplicates) < score(visible)
        assert score(visible) == pytest.approx(1.0, abs=1e-4)
        assert visible.values["coat"].details["passed"] is True


def test_without_masks_invisible_slots_are_unknown(folder: ResultFolder) -> None:
    results = results_of_model(folder, ExtraSlots(masked=False), "coat", "coat-acos")
    value = results["occluded", VARIANTS[2]].values["coat"]
    assert (value.score, value.reason) == (None, NO_MASKS)
    assert score(results["occluded", VARIANTS[1]]) > score(results["occluded", VARIANTS[0]])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_codes_that_are_not_finite_are_null(folder: ResultFolder, bad: float) -> None:
    for result in results_of_model(folder, NotFinite(bad=bad)).values():
        for metric, value in result.values.items():
            assert (value.score, value.reason) == ((1.0, None) if metric == "fg-ari" else (None, NOT_FINITE))


def test_a_model_is_tried_at_the_size_of_the_corpus(folder: ResultFolder) -> None:
    for side, variants in ((64, set(VARIANTS)), (128, {None})):
        model = LoadedModel(adapters.load(SlotsAt(side)))
        jobs = INSTRUMENT.jobs(folder, Request(size="tiny", loaded=(model,), only_loaded=True))
        assert {job.cell.labels.get("variant") for job in jobs} == variants
    with pytest.raises(InputError, match="the wrong size"):  # stored as the error of its cell
        jobs[0].work()


def test_a_varying_number_of_slots_is_an_error(folder: ResultFolder) -> None:
    model = LoadedModel(adapters.load(SlotsAt(64, varied=True)))
    jobs = INSTRUMENT.jobs(folder, Request(size="tiny", loaded=(model,), only_loaded=True))
    assert len(jobs) == 2 * 3
    with pytest.raises(InputError, match=r"same shape, not \[3, 3\] and \[4, 3\]; give the model a fixed number"):
        jobs[1].work()


def test_too_many_slots_to_match_are_averaged(folder: ResultFolder) -> None:
    results = results_of_model(folder, LoadedModel(adapters.load(Tokens())))
    assert set(results) == {("occluded", None), ("unoccluded", None)}
    for result in results.values():
        assert score(result) > 0.8  # the mean over patches is the mean colour of the image
        for metric in ("coat", "coat-l2", "coat-acos", "tre"):
            assert result.values[metric].details["codes"] == "the mean over 144 slots, too many to match"
        assert result.values["fg-ari"].score is not None  # masks still group pixels
    shown = section(read_findings(folder).only({result.key for result in results.values()}))
    small = [line for grid in shown.grids for row in grid.rows for entry in row for line in entry.small]
    assert sum("the mean over 144 slots, too many to match" in line for line in small) == 2 * 4
    assert any(f"more than {MOST_SLOTS} slots" in remark for remark in shown.remarks)


@pytest.mark.parametrize(("slots", "variants"), [(MOST_SLOTS, set(VARIANTS)), (MOST_SLOTS + 1, {None})])
def test_the_most_slots_that_are_matched(folder: ResultFolder, slots: int, variants: set[str | None]) -> None:
    model = LoadedModel(adapters.load(lambda images: images.mean((2, 3))[:, None].repeat(1, slots, 1)))
    jobs = INSTRUMENT.jobs(folder, Request(size="tiny", loaded=(model,), only_loaded=True))
    assert {job.cell.labels.get("variant") for job in jobs} == variants
