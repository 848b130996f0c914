"""PSNR: known answers."""

import math

import numpy as np
import pytest

from alebrije.metrics import psnr
from tests.metrics.image_pairs import TARGET


@pytest.mark.parametrize("error", [1.0, 0.1, 1e-3, 10.0])
def test_psnr_of_a_constant_error(error):
    got = psnr(np.zeros((2, 1, 3, 3)), np.full((2, 1, 3, 3), error))
    np.testing.assert_allclose(got, -20 * math.log10(error), atol=1e-9)


def test_psnr_of_a_perfect_image_is_infinite():
    np.testing.assert_array_equal(psnr(TARGET, TARGET), np.inf)
