"""The generalisation gap: known answers and bad errors."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alebrije.errors import InputError
from alebrije.metrics import generalisation_gap


@given(st.lists(st.floats(1e-6, 1e6), min_size=1), st.lists(st.floats(1e-6, 1e6), min_size=1))
def test_gap_is_a_difference_of_logarithms(known, new):
    gap = generalisation_gap(np.array(known), np.array(new))
    assert gap.score == pytest.approx(math.log(np.mean(new) / np.mean(known)), abs=1e-9)
    assert (gap.in_distribution, gap.out_of_distribution) == pytest.approx((np.mean(known), np.mean(new)))
    assert gap.reason is None


def test_gap_of_means_and_of_tensors():
    assert generalisation_gap(2.0, 2.0).score == 0
    assert generalisation_gap(10, 1).score == pytest.approx(-math.log(10))
    assert generalisation_gap(torch.tensor([1.0, 3.0]), torch.tensor(4.0)).score == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("known", "new", "which"),
    [
        (0.0, 1.0, "in-distribution"),
        (1.0, 0.0, "out-of-distribution"),
        (0.0, 0.0, "in-distribution and out-of-distribution"),
    ],
)
def test_gap_is_nan_if_a_mean_is_zero(known, new, which):
    gap = generalisation_gap(np.full(3, known), new)
    assert math.isnan(gap.score)
    assert gap.reason == f"the mean {which} error is 0, which has no logarithm"
    assert gap.in_distribution == known


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (np.ones((2, 2)), r"must be a number or have shape \[N\]"),
        (np.array([]), r"must be a number or have shape \[N\]"),
        (np.array([1.0, -0.5]), "must not be negative, got -0.5"),
        (np.array([1.0, np.nan]), "must be finite"),
        (np.array(["a"]), "must hold real numbers"),
    ],
)
def test_gap_refuses_bad_errors(errors, message):
    with pytest.raises(InputError, match=f"in_distribution {message}"):
        generalisation_gap(errors, 1.0)
    with pytest.raises(InputError, match=f"out_of_distribution {message}"):
        generalisation_gap(1.0, errors)
