"""MED: agreement with a slow implementation."""

import pytest

from alebrije import metrics
from tests.metrics import references
from tests.metrics.codes import mixed_codes


@pytest.mark.parametrize("normalise", [True, False])
def test_med(normalise):
    codes, factors = mixed_codes()
    slow = references.med(codes, factors, normalise=normalise)
    fast = metrics.med(codes, factors, normalise=normalise)
    assert fast.disentanglement == pytest.approx(slow["disentanglement"], abs=1e-12)
    assert fast.completeness == pytest.approx(slow["completeness"], abs=1e-12)
    assert fast.score == pytest.approx((fast.disentanglement + fast.completeness + fast.informativeness) / 3)
