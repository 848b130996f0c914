"""MIG: agreement with a slow implementation."""

import numpy as np
import pytest

from alebrije import metrics
from tests.metrics import references
from tests.metrics.codes import mixed_codes


@pytest.mark.parametrize("seed", range(3))
def test_mig(seed):
    codes, factors = mixed_codes(seed=seed)
    score, per_factor = references.mig(codes, factors)
    result = metrics.mutual_information_gap(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=1e-12)
