"""MED: agreement with a slow implementation."""

import numpy as np
import pytest

from alebrije import metrics
from alebrije.errors import InputError
from alebrije.probes import split_rows
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


def test_information_is_counted_on_training_rows_or_on_all():
    codes, factors = mixed_codes(rows=400)
    fit, _ = split_rows(400, 1 / 2, seed=0)
    for rows, counted in (("training", fit), ("all", np.arange(400))):
        found = metrics.med(codes, factors, information_rows=rows)
        slow = references.med(codes[counted], factors[counted])
        np.testing.assert_allclose(found.importance, slow["importance"], atol=1e-12)
        assert found.settings["information_rows"] == rows
    assert metrics.med(codes, factors).settings["information_rows"] == "all"
    with pytest.raises(InputError, match="information_rows must be 'all' or 'training', got 'test'"):
        metrics.med(codes, factors, information_rows="test")
