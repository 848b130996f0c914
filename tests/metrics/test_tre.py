"""TRE: composed codes, left-out factors and absent objects."""

import math

import numpy as np
import pytest
import torch

from alebrije import metrics
from tests.metrics.codes import CODES, FACTORS


def test_tre_is_low_only_for_composed_codes():
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 3, (2000, 3, 2))
    present = draw.random((2000, 3)) < 0.7
    present[:, 0] = True
    table = draw.normal(size=(2, 3, 6))
    parts = table[0][factors[:, :, 0]] + table[1][factors[:, :, 1]]
    composed = (parts * present[:, :, None]).sum(1)
    good = metrics.tree_reconstruction_error(composed, factors, present)
    bad = metrics.tree_reconstruction_error(draw.normal(size=composed.shape), factors, present)
    assert good.relative < 0.35
    assert bad.relative == pytest.approx(1.0, abs=0.1)
    assert good.score == pytest.approx(np.mean(good.per_row))


def test_tre_scales_with_the_codes():
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 3, (500, 3))
    codes = factors @ draw.normal(size=(3, 4))
    once, tenfold = (metrics.tree_reconstruction_error(codes * k, factors, steps=50) for k in (1.0, 10.0))
    assert tenfold.score == pytest.approx(10 * once.score, rel=1e-3)
    assert tenfold.relative == pytest.approx(once.relative, rel=1e-3)


def test_tre_leaves_out_attributes_shared_by_all_present_objects():
    draw = np.random.default_rng(1)
    factors, present = draw.integers(0, 3, (300, 3, 2)), draw.random((300, 3)) < 0.7
    present[:, 0] = True
    shared = np.where(present, 4, draw.integers(0, 3, present.shape))  # what is absent has no value that counts
    objects = np.concatenate([shared[:, :, None], factors], 2)
    alone, beside = (metrics.tree_reconstruction_error(CODES, each, present, steps=40) for each in (factors, objects))
    assert beside.score == alone.score
    assert (alone.reason, beside.reason) == (None, "factors [0] have a single value")
    nothing = metrics.tree_reconstruction_error(CODES, shared[:, :, None], present, steps=40)
    assert math.isnan(nothing.score)
    assert math.isnan(nothing.relative)


def test_tre_keeps_a_constant_factor_if_others_are_absent():
    draw = np.random.default_rng(1)
    there = draw.integers(0, 2, (900, 1)).astype(bool)
    factors, present = np.full((900, 2), 7), np.c_[np.ones((900, 1), bool), there]
    result = metrics.tree_reconstruction_error(there * 1.0, factors, present)
    assert result.relative < 0.2
    assert result.reason is None


def test_tre_does_not_touch_the_global_generator():
    before = torch.random.get_rng_state()
    metrics.tree_reconstruction_error(CODES, FACTORS, steps=2)
    assert torch.equal(before, torch.random.get_rng_state())
