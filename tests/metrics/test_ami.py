"""AMI: agreement with scikit-learn, together with ARI."""

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from alebrije.metrics import adjusted_mutual_information, adjusted_rand_index
from tests.metrics.label_maps import HIGHEST, LOWEST, label_maps, voronoi


@given(maps=label_maps(labels=6))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_small_maps_agree_with_scikit_learn(maps):
    pairs = [(true.ravel(), pred.ravel()) for true, pred in zip(*maps, strict=True)]
    slow = [adjusted_rand_score(*pair) for pair in pairs]
    np.testing.assert_allclose(adjusted_rand_index(*maps), slow, rtol=1e-12, atol=1e-12)
    slow = [adjusted_mutual_info_score(*pair) for pair in pairs]
    # a few pixels may leave a denominator near 1e-16 over which both sides divide what rounding left
    np.testing.assert_allclose(adjusted_mutual_information(*maps), slow, rtol=1e-9, atol=1e-9)


LARGE_MAPS = {
    "11 objects": (voronoi(512, 11, seed=0), voronoi(512, 11, seed=0, shift=30)),
    "objects against stripes": (voronoi(512, 7, seed=1), np.indices((1, 512, 512))[1] // 60),
    "noise": tuple(np.random.default_rng(2).integers(0, 11, (2, 1, 512, 512))),
    "200 labels": (voronoi(256, 200, seed=3), voronoi(256, 200, seed=3, shift=3)),
}


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("maps", LARGE_MAPS.values(), ids=LARGE_MAPS)
def test_large_maps_agree_with_scikit_learn(maps, extreme):
    if extreme:  # the same segments under integers from all over int64, its two ends among them
        rng = np.random.default_rng(4)
        names = np.concatenate([[HIGHEST, LOWEST], rng.integers(LOWEST, HIGHEST, 300, dtype=np.int64)])
        maps = [names[labels] for labels in maps]
    true, pred = (labels.ravel() for labels in maps)
    np.testing.assert_allclose(adjusted_rand_index(*maps), [adjusted_rand_score(true, pred)], rtol=0, atol=1e-12)
    slow = adjusted_mutual_info_score(true, pred)
    np.testing.assert_allclose(adjusted_mutual_information(*maps), [slow], rtol=0, atol=1e-12)
