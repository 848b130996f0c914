"""Alpha efficiency: known answers and bad settings."""

import math

import numpy as np
import pytest
import torch

from alebrije.errors import InputError
from alebrije.metrics import alpha_efficiency

ALPHAS = np.array([0.0, 0.2, 0.4, 0.6])
ORACLE = np.array([8.0, 2.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("model", "score"),
    [
        ([8.0, 2.0, 1.0, 1.0], 0.0),
        ([80.0, 3.0, 1.5, 1.5], 0.2),  # the bound itself is within
        ([80.0, 2.0, 2.0, 1.0], 0.6),  # near the Oracle at 0.2 by luck: 0.4 fails again
        ([80.0, 20.0, 1.0, 1.4], 0.4),
    ],
)
def test_alpha_efficiency(model, score):
    model = np.array(model)
    found = alpha_efficiency(ALPHAS, model, ORACLE)
    assert (found.score, found.reason, found.settings) == (score, None, {"factor": 1.5})
    order = [2, 0, 3, 1]
    shuffled = alpha_efficiency(ALPHAS[order], model[order], ORACLE[order])
    assert shuffled.score == score
    np.testing.assert_array_equal(shuffled.within, found.within[order])
    np.testing.assert_array_equal(found.within, model <= 1.5 * ORACLE)


def test_alpha_efficiency_is_nan_if_the_largest_alpha_fails():
    found = alpha_efficiency(torch.tensor([0.6, 0.2]), torch.tensor([9.0, 1.0]), torch.tensor([1.0, 1.0]))
    assert math.isnan(found.score)
    assert found.reason == "at the largest alpha, 0.6, the error is over 1.5 times the Oracle's"
    assert found.within.tolist() == [False, True]
    assert isinstance(found.within, torch.Tensor)


def test_alpha_efficiency_with_another_factor():
    assert alpha_efficiency(ALPHAS, 4 * ORACLE, ORACLE, factor=4).score == 0
    assert math.isnan(alpha_efficiency(ALPHAS, 4 * ORACLE, ORACLE, factor=3.9).score)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": ORACLE[:3]}, "same length, got 4, 3 and 4"),
        ({"alphas": ALPHAS * 2}, r"alphas must lie in 0\.\.1"),
        ({"alphas": ALPHAS - 0.1}, "alphas must not be negative, got -0.1"),
        ({"alphas": np.array([0.2, 0.2, 0.4, 0.6])}, "and differ"),
        ({"oracle": np.array([1.0, np.nan, 1.0, 1.0])}, "oracle must be finite"),
        ({"factor": 0}, "factor must be a positive number, got 0"),
        ({"factor": math.nan}, "factor must be a finite number, not nan"),
        ({"factor": math.inf}, "factor must be a finite number, not inf"),
    ],
)
def test_alpha_efficiency_refuses_bad_input(change, message):
    with pytest.raises(InputError, match=message):
        alpha_efficiency(**{"alphas": ALPHAS, "model": ORACLE, "oracle": ORACLE, **change})
