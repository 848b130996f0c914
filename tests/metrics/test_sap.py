"""SAP: agreement with a slow implementation."""

import numpy as np
import pytest

from alebrije import metrics
from tests.metrics import references
from tests.metrics.codes import mixed_codes, split_parts


def test_sap_classifier():
    codes, factors = mixed_codes(rows=900)
    score, accuracies = references.sap_classifier(*split_parts(codes, factors, 1 / 3))
    result = metrics.separated_attribute_predictability(codes, factors)
    assert result.score == pytest.approx(score, abs=0.005)  # the two solvers stop at different points
    np.testing.assert_allclose(result.predictability, accuracies, atol=0.01)


def test_sap_r2():
    codes, factors = mixed_codes()
    score, matrix = references.sap_r2(codes, factors)
    result = metrics.separated_attribute_predictability(codes, factors, predictor="r2")
    assert result.score == pytest.approx(score, abs=1e-12)
    np.testing.assert_allclose(result.predictability, matrix, atol=1e-12)
