"""Modularity: agreement with a slow implementation."""

import numpy as np
import pytest

from alebrije import metrics
from tests.metrics import references
from tests.metrics.codes import mixed_codes


@pytest.mark.parametrize("seed", range(3))
def test_modularity(seed):
    codes, factors = mixed_codes(seed=seed)
    score, per_neuron = references.modularity(codes, factors)
    result = metrics.modularity(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.per_neuron, per_neuron, atol=1e-12)
