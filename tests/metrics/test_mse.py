"""Squared errors: agreement with the formula."""

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.metrics import mean_squared_error
from tests.metrics.image_pairs import PREDICTED, TARGET


def test_squared_error_agrees_with_the_formula():
    slow = [sum((float(a) - float(b)) ** 2 for a, b in zip(t.flat, p.flat, strict=True))
            for t, p in zip(TARGET, PREDICTED, strict=True)]  # fmt: skip
    np.testing.assert_allclose(mean_squared_error(TARGET, PREDICTED, reduction="sum"), slow, rtol=1e-12)
    np.testing.assert_allclose(mean_squared_error(TARGET, PREDICTED), np.array(slow) / (3 * 6 * 7), rtol=1e-12)


def test_bytes_are_divided_by_255():
    target, predicted = np.random.default_rng(1).integers(0, 256, (2, 4, 3, 5, 5), dtype=np.uint8)
    expected = mean_squared_error(target / 255, predicted / 255)
    np.testing.assert_array_equal(mean_squared_error(target, predicted), expected)
    np.testing.assert_array_equal(mean_squared_error(target, predicted / 255), expected)


def test_large_batches_are_split(monkeypatch):
    whole = mean_squared_error(TARGET, PREDICTED)
    monkeypatch.setattr("alebrije.metrics.images.image_batches.__defaults__", (2 * 3 * 6 * 7,))
    np.testing.assert_array_equal(mean_squared_error(TARGET, PREDICTED), whole)


def test_unknown_reduction_is_refused():
    with pytest.raises(InputError, match="reduction must be 'mean' or 'sum', got 'max'"):
        mean_squared_error(TARGET, PREDICTED, reduction="max")
