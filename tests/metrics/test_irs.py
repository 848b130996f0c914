"""IRS: agreement with a slow implementation."""

import numpy as np
import pytest

from alebrije import metrics
from tests.metrics import references
from tests.metrics.codes import mixed_codes


@pytest.mark.parametrize("quantile", [0.99, 1.0])
def test_irs(quantile):
    codes, factors = mixed_codes()
    codes[:, 2] = 7.0
    score, matrix = references.irs(codes, factors, quantile=quantile)
    result = metrics.interventional_robustness(codes, factors, quantile=quantile)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_pair[[0, 1, 3, 4, 5]], matrix, atol=1e-12)
    assert np.isnan(result.per_pair[2]).all()
