"""The beta-VAE and FactorVAE scores: values that never repeat."""

import math

import numpy as np

from alebrije import metrics

rng = np.random.default_rng(1)


def test_values_that_never_repeat_give_no_pairs():
    factors = np.c_[rng.permutation(200), rng.integers(0, 2, 200)]
    for name in ("beta-vae", "factor-vae"):
        result = metrics.find(name)(rng.normal(size=(200, 2)), factors)
        assert math.isnan(result.score)
        assert "factors [0]" in result.reason


def test_values_that_occur_once_do_not_reveal_the_factor():
    factors = np.c_[np.r_[np.zeros(100, int), np.arange(1, 101)], rng.integers(0, 2, 200)]
    assert metrics.beta_vae_score(rng.normal(size=(200, 2)), factors, train=2000, test=1000).score < 0.75
