"""Explicitness: agreement with a slow implementation."""

import numpy as np
import pytest

from alebrije import metrics
from tests.metrics import references
from tests.metrics.codes import mixed_codes, split_parts


def test_explicitness():
    codes, factors = mixed_codes(rows=900)
    score, per_factor = references.explicitness(*split_parts(codes, factors, 1 / 3))
    result = metrics.explicitness(codes, factors)
    assert result.score == pytest.approx(score, abs=1e-4)
    np.testing.assert_allclose(result.per_factor, per_factor, atol=5e-4)
