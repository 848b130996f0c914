"""Codes with known factors, for tests of the neuron metrics."""

import numpy as np

from alebrije.probes import split_rows

rng = np.random.default_rng(0)
FACTORS = rng.integers(0, 3, (300, 2))
CODES = FACTORS + 0.3 * rng.normal(size=(300, 2))
KINDS = (5, 3, 4, 2)


def mixed_codes(rows=1500, neurons=6, seed=0):
    draw = np.random.default_rng(seed)
    factors = np.stack([draw.integers(0, k, rows) for k in KINDS], 1)
    mix = np.eye(len(KINDS), neurons) + 0.3 * draw.normal(size=(len(KINDS), neurons))
    return factors @ mix + 0.4 * draw.normal(size=(rows, neurons)), factors


def split_parts(codes, factors, held_out, seed=0):
    fit, test = split_rows(len(codes), held_out, seed)
    return codes[fit], factors[fit], codes[test], factors[test]


def toy_model(second: str, rows: int = 200_000):
    """Two fair bits; neuron 1 copies one of them at random; neuron 2 is noise (M1) or bit 1 at 70 % (M2)."""
    draw = np.random.default_rng(5)
    bits = draw.integers(0, 2, (rows, 2))
    first = np.where(draw.random(rows) < 0.5, bits[:, 0], bits[:, 1])
    noise = draw.integers(0, 2, rows)
    flipped = np.where(draw.random(rows) < 0.3, 1 - bits[:, 0], bits[:, 0])
    return np.stack([first, noise if second == "M1" else flipped], 1).astype(float), bits
