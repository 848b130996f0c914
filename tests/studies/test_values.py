"""Values of cells: means with their uncertainty."""

from __future__ import annotations

import numpy as np
import pytest

from alebrije.metrics import find
from alebrije.studies.values import mean_value, null_value

RECORD = find("fg-ari")


def test_a_mean_has_a_standard_error_and_an_interval() -> None:
    cases = np.random.default_rng(0).uniform(size=200)
    value = mean_value(RECORD, cases, details={"images": 200})
    assert value.score == pytest.approx(cases.mean())
    assert value.standard_error == pytest.approx(cases.std(ddof=1) / 200**0.5)
    assert value.interval is not None
    assert value.interval.low < cases.mean() < value.interval.high
    assert value.details["images"] == 200
    assert (value.direction, value.range) == (RECORD.direction, RECORD.range)


def test_a_given_score_replaces_the_mean() -> None:
    assert mean_value(RECORD, [0.0, 1.0], 0.25).score == 0.25


def test_one_case_has_no_interval() -> None:
    value = mean_value(RECORD, np.array([0.5]), noun="images")
    assert (value.score, value.interval) == (0.5, None)
    assert value.spread_reason == "fewer than two images to resample"


def test_a_null_value_has_a_reason() -> None:
    value = null_value(RECORD, "no masks")
    assert (value.score, value.reason, value.direction) == (None, "no masks", RECORD.direction)
