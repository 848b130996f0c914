"""Factors with a single value: left out of the score and named in the reason."""

import math

import numpy as np
import pytest

from alebrije import metrics
from tests.metrics.codes import CODES, FACTORS

LEFT_OUT = {
    "factor-vae": {},
    "beta-vae": {"train": 1000, "test": 500},
    "modularity": {},
    "irs": {},
    "tre": {"steps": 40},
}


@pytest.mark.parametrize("name", LEFT_OUT)
@pytest.mark.parametrize("column", [0, 1, 2])
def test_constant_factor_does_not_change_the_score(name, column):
    record, factors = metrics.find(name), np.insert(FACTORS, column, 7, axis=1)
    alone, beside = (record(CODES, each, **LEFT_OUT[name]) for each in (FACTORS, factors))
    assert beside.score == pytest.approx(alone.score, abs=1e-12)
    assert alone.reason is None
    assert beside.reason == f"factors [{column}] have a single value"
    assert record.version >= 2


@pytest.mark.parametrize("name", LEFT_OUT)
def test_score_is_nan_if_all_factors_are_constant(name):
    for count in (1, 2):
        result = metrics.find(name)(CODES, np.full((300, count), 7))
        assert math.isnan(result.score)
        assert result.reason == f"factors {list(range(count))} have a single value"


@pytest.mark.parametrize("name", ["factor-vae", "beta-vae", "modularity"])
def test_score_is_nan_if_only_one_factor_varies(name):
    result = metrics.find(name)(CODES, np.c_[FACTORS[:, :1], np.full(300, 7)])
    assert math.isnan(result.score)
    assert result.reason == "factors [1] have a single value, which leaves only one"


def test_arrays_keep_the_columns_of_left_out_factors():
    factors = np.insert(FACTORS, 0, 7, axis=1)
    robust = metrics.interventional_robustness(CODES, factors)
    assert np.isnan(robust.per_pair).tolist() == [[True, False, False]] * 2
    assert robust.best_factor.tolist() == [1, 2]
    assert metrics.modularity(CODES, factors).information.shape == (2, 3)
    votes = metrics.factor_vae_score(CODES, factors).votes
    assert votes.argmax(1).tolist() == [1, 2]
    assert votes[:, 0].tolist() == [0, 0]
    assert votes.sum() == 10_000


def test_reason_names_every_problem():
    single = "factors [0] have a single value"
    factors, dead = np.insert(FACTORS, 0, 7, axis=1), np.ones((300, 2))
    assert metrics.interventional_robustness(dead, factors).reason == f"every neuron is constant; {single}"
    silent = metrics.factor_vae_score(dead, factors)
    assert (silent.score, silent.reason) == (0.0, f"no neuron has a standard deviation of at least 0.05; {single}")
    index = np.c_[np.full(200, 7), np.arange(200), np.arange(200) % 2]
    unshared = metrics.beta_vae_score(CODES[:200], index)
    assert math.isnan(unshared.score)
    assert unshared.reason == f"{single}; no two rows share a value of factors [1]"
