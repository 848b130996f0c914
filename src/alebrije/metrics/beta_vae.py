"""beta-VAE score: predict from differences of codes which factor was fixed (Higgins et al. 2017)."""

from __future__ import annotations

import math

import numpy as np

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.metrics.fixed_factor import FixedFactorSampler, FixedFactorScore, check_sizes, usable_factors
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.record import neuron_metric
from alebrije.probes import logistic_regression


@neuron_metric(
    "beta-vae",
    title="beta-VAE score",
    cites="Higgins et al. 2017",
    invariances=("dtype", "device"),
    version=2,
)
def beta_vae_score(
    codes: ArrayOrTensor, factors: ArrayOrTensor, train: int = 10_000, test: int = 5_000, batch: int = 64, seed: int = 0
) -> FixedFactorScore:
    """Accuracy of a linear classifier that predicts the factor shared by pairs, from their mean ``|difference|``.

    Each point averages `batch` pairs. Chance, and the score of a constant code, is one over the number of factors. A
    factor with a single value is left out: it is never fixed. The score is NaN with one factor, or if the values of a
    factor never repeat.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> beta_vae_score(factors.astype(float), factors, train=200, test=100).score
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "the beta-VAE score")
    check_sizes(train, test, batch)
    usable, reason, defined = usable_factors(classes)
    correct = np.zeros(0, dtype=bool)
    if defined:
        rng, sampler = np.random.default_rng(seed), FixedFactorSampler(classes[:, usable])
        fixed = rng.integers(len(usable), size=train + test)
        points = np.concatenate([_differences(values, sampler, f, batch, rng) for f in np.array_split(fixed, 16)])
        if len(np.unique(fixed[:train])) == 1:
            predicted = np.full(test, fixed[0])
        else:
            predicted = logistic_regression(points[:train], fixed[:train]).predict(points[train:])
        correct = predicted == fixed[train:]
    score = float(correct.mean()) if defined else math.nan
    settings = {"train": train, "test": test, "batch": batch, "seed": seed}
    return FixedFactorScore.like(codes, score, reason, settings, correct=correct)


def _differences(
    codes: Floats, sampler: FixedFactorSampler, fixed: Integers, batch: int, rng: np.random.Generator
) -> Floats:
    factor = np.repeat(fixed[:, None], batch, axis=1)  # [P, batch]
    rows = sampler.rows(factor, rng)
    partners = sampler.partners(rows, factor, rng)
    return np.asarray(np.abs(codes[rows] - codes[partners]).mean(1))  # [P, L]
