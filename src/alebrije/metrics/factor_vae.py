"""FactorVAE score: predict the fixed factor from the neuron that varies least (Kim & Mnih 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.metrics.fixed_factor import FixedFactorSampler, FixedFactorScore, check_sizes, usable_factors
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.reasons import join_reasons
from alebrije.metrics.record import neuron_metric


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorVAEScore(FixedFactorScore):
    """Adds which neurons were active [L], and the votes [L, F] that decide the factor of each neuron."""

    active: Any
    votes: Any


@neuron_metric(
    "factor-vae",
    title="FactorVAE score",
    cites="Kim & Mnih 2018",
    invariances=("dtype", "device"),
    version=2,
)
def factor_vae_score(
    codes: ArrayOrTensor,
    factors: ArrayOrTensor,
    train: int = 10_000,
    test: int = 5_000,
    batch: int = 64,
    least_spread: float = 0.05,
    seed: int = 0,
) -> FactorVAEScore:
    """Accuracy of predicting the fixed factor, by majority vote, from the neuron that varies least.

    Variances within `batch` rows are divided by the variance over all rows. Neurons whose standard deviation over all
    rows is below `least_spread` are not used; if none is left the score is 0, as in the reference library. A factor
    with a single value is left out: it is never fixed and gets no votes. NaN in the same cases as `beta_vae_score`.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> factor_vae_score(factors.astype(float), factors, train=200, test=100).score
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "the FactorVAE score")
    check_sizes(train, test, batch)
    active = (values.std(0, ddof=1) >= least_spread) & (values.max(0) > values.min(0))
    votes = np.zeros((values.shape[1], classes.shape[1]), dtype=np.int64)
    correct = np.zeros(test, dtype=bool)
    usable, reason, defined = usable_factors(classes)
    if defined and active.any():
        rng, sampler = np.random.default_rng(seed), FixedFactorSampler(classes[:, usable])
        fixed = rng.integers(len(usable), size=train + test)
        scaled = values[:, active] / values[:, active].std(0, ddof=1)
        chosen = [_least_varying(scaled, sampler, f, batch, rng) for f in np.array_split(fixed, 16)]
        neurons = np.flatnonzero(active)[np.concatenate(chosen)]
        np.add.at(votes, (neurons[:train], usable[fixed[:train]]), 1)
        correct = votes[:, usable].argmax(1)[neurons[train:]] == fixed[train:]
    elif defined:
        reason = join_reasons(f"no neuron has a standard deviation of at least {least_spread}", reason)
    score = float(correct.mean()) if defined else math.nan
    settings = {"train": train, "test": test, "batch": batch, "least_spread": least_spread, "seed": seed}
    return FactorVAEScore.like(codes, score, reason, settings, correct=correct, active=active, votes=votes)


def _least_varying(
    codes: Floats, sampler: FixedFactorSampler, fixed: Integers, batch: int, rng: np.random.Generator
) -> Integers:
    """The neuron that varies least among `batch` rows that share factor `fixed`, for each entry of `fixed`."""
    rows = sampler.members(sampler.rows(fixed, rng), fixed, batch, rng)  # [P, batch]
    return np.asarray(codes[rows].var(1).argmin(1))
