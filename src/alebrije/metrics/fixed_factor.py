"""The beta-VAE and FactorVAE scores: can one tell from the codes which factor was held fixed?

Both need rows that share the value of one factor; they are drawn from the rows given, with replacement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.errors import InputError
from alebrije.metrics.arrays import (
    Array,
    Floats,
    Integers,
    answer_like,
    check_classes,
    check_codes,
    joined,
    which_vary,
)
from alebrije.metrics.record import Score, register
from alebrije.probes import logistic_regression


@dataclass(frozen=True, eq=False, kw_only=True)
class FixedFactorScore(Score):
    """Accuracy of naming the fixed factor; `correct` [points] holds the verdict on every test point."""

    correct: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorVAEScore(FixedFactorScore):
    """As above, with the neurons that were active [L] and the votes [L, F] behind the majority."""

    active: Any
    votes: Any


class _Groups:
    """Rows sorted by the value of each factor, so that a row with the same value is one lookup away."""

    def __init__(self, factors: Integers) -> None:
        self.order = np.argsort(factors, axis=0, kind="stable")  # [N, F]
        self.place = np.argsort(self.order, axis=0, kind="stable")  # where each row stands in that order
        ranked = np.take_along_axis(factors, self.order, 0)
        first = np.stack([np.searchsorted(column, column, "left") for column in ranked.T], 1)
        last = np.stack([np.searchsorted(column, column, "right") for column in ranked.T], 1)
        self.first = np.take_along_axis(first, self.place, 0)  # by row
        self.size = np.take_along_axis(last - first, self.place, 0)
        self.paired = [np.flatnonzero(size > 1) for size in self.size.T]  # rows that share their value with another

    def rows(self, fixed: Integers, draw: np.random.Generator) -> Integers:
        """A row for each entry of `fixed` that shares that factor's value with another row."""
        counts = np.array([len(rows) for rows in self.paired])
        starts = np.cumsum(counts) - counts
        chosen = starts[fixed] + (draw.random(fixed.shape) * counts[fixed]).astype(np.int64)
        return np.asarray(np.concatenate(self.paired)[chosen])

    def partners(self, rows: Integers, factor: Integers, draw: np.random.Generator) -> Integers:
        """For each of `rows` another row that shares `factor`."""
        size, first = self.size[rows, factor], self.first[rows, factor]
        step = 1 + (draw.random(rows.shape) * (size - 1)).astype(np.int64)
        place = first + (self.place[rows, factor] - first + step) % size
        return np.asarray(self.order[place, factor])

    def members(self, row: Integers, factor: Integers, count: int, draw: np.random.Generator) -> Integers:
        """For each of `row` [P], `count` rows [P, count] that share its value of `factor`."""
        size, first = self.size[row, factor], self.first[row, factor]
        place = first[:, None] + (draw.random((len(row), count)) * size[:, None]).astype(np.int64)
        return np.asarray(self.order[place, factor[:, None]])


def _nameable(factors: Integers) -> tuple[Integers, str | None, bool]:
    """The factors that can be held fixed, what is to be said of the others, and whether one can be told from another.

    A factor with a single value is always fixed, so that there is nothing to name.
    """
    varied, left_out = which_vary(factors)
    lonely = np.flatnonzero((factors.max(0) + 1 == len(factors)) & varied).tolist()
    fault = f"no two rows share a value of factors {lonely}" if lonely else None
    if varied.sum() == 1:
        only = f"{left_out}, which leaves only one" if left_out else "there is only one factor"
        return np.flatnonzero(varied), only, False
    return np.flatnonzero(varied), joined(left_out, fault), bool(varied.any()) and not lonely


def _check_sizes(train: int, test: int, batch: int) -> None:
    if min(train, test, batch) < 1:
        raise InputError(f"train, test and batch must be at least 1, got {train}, {test} and {batch}")


@register(
    "beta-vae",
    title="beta-VAE score",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Higgins et al. 2017",
    invariances=("dtype", "device"),
    version=2,
)
def beta_vae_score(
    codes: Array, factors: Array, train: int = 10_000, test: int = 5_000, batch: int = 64, seed: int = 0
) -> FixedFactorScore:
    """Accuracy of a linear classifier that names the factor shared by pairs, from their mean ``|difference|``.

    Each point averages `batch` pairs. Chance, and a constant code, is one over the number of factors. A factor with a
    single value is left out: it is never drawn. With one factor, or one whose values never repeat, there is nothing to
    name: not a number.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> beta_vae_score(factors.astype(float), factors, train=200, test=100).score
    1.0
    """
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "the beta-VAE score")
    _check_sizes(train, test, batch)
    settings = {"train": train, "test": test, "batch": batch, "seed": seed}
    named, reason, defined = _nameable(classes)
    if not defined:
        correct = np.zeros(0, dtype=bool)
        return FixedFactorScore(score=math.nan, reason=reason, correct=answer_like(codes, correct), settings=settings)
    draw, groups = np.random.default_rng(seed), _Groups(classes[:, named])
    fixed = draw.integers(len(named), size=train + test)
    points = np.concatenate([_differences(values, groups, f, batch, draw) for f in np.array_split(fixed, 16)])
    if len(np.unique(fixed[:train])) == 1:
        predicted = np.full(test, fixed[0])
    else:
        predicted = logistic_regression(points[:train], fixed[:train]).predict(points[train:])
    correct = predicted == fixed[train:]
    return FixedFactorScore(
        score=float(correct.mean()), reason=reason, correct=answer_like(codes, correct), settings=settings
    )


def _differences(codes: Floats, groups: _Groups, fixed: Integers, batch: int, draw: np.random.Generator) -> Floats:
    factor = np.repeat(fixed[:, None], batch, axis=1)
    rows = groups.rows(factor, draw)
    partners = groups.partners(rows, factor, draw)
    return np.asarray(np.abs(codes[rows] - codes[partners]).mean(1))


@register(
    "factor-vae",
    title="FactorVAE score",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Kim & Mnih 2018",
    invariances=("dtype", "device"),
    version=2,
)
def factor_vae_score(
    codes: Array,
    factors: Array,
    train: int = 10_000,
    test: int = 5_000,
    batch: int = 64,
    least_spread: float = 0.05,
    seed: int = 0,
) -> FactorVAEScore:
    """Accuracy of naming the fixed factor from the one neuron that varies least, by majority vote.

    Variances within `batch` rows are divided by those of all rows. Neurons whose standard deviation over all rows is
    below `least_spread` take no part; if that leaves none the score is 0, as in the reference library. A factor with a
    single value is left out: it is never drawn and gets no vote. Not a number where `beta_vae_score` is none.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 25)
    >>> factor_vae_score(factors.astype(float), factors, train=200, test=100).score
    1.0
    """
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "the FactorVAE score")
    _check_sizes(train, test, batch)
    settings = {"train": train, "test": test, "batch": batch, "least_spread": least_spread, "seed": seed}
    active = (values.std(0, ddof=1) >= least_spread) & (values.max(0) > values.min(0))
    votes = np.zeros((values.shape[1], classes.shape[1]), dtype=np.int64)
    correct = np.zeros(test, dtype=bool)
    (named, reason, defined), dead = _nameable(classes), not active.any()
    if defined and not dead:
        draw, groups = np.random.default_rng(seed), _Groups(classes[:, named])
        fixed = draw.integers(len(named), size=train + test)
        scaled = values[:, active] / values[:, active].std(0, ddof=1)
        chosen = [_steadiest(scaled, groups, f, batch, draw) for f in np.array_split(fixed, 16)]
        stillest = np.flatnonzero(active)[np.concatenate(chosen)]
        np.add.at(votes, (stillest[:train], named[fixed[:train]]), 1)
        correct = votes[:, named].argmax(1)[stillest[train:]] == fixed[train:]
    elif defined:
        reason = joined(f"no neuron has a standard deviation of at least {least_spread}", reason)
    return FactorVAEScore(
        score=float(correct.mean()) if defined else math.nan,
        reason=reason,
        correct=answer_like(codes, correct),
        active=answer_like(codes, active),
        votes=answer_like(codes, votes),
        settings=settings,
    )


def _steadiest(codes: Floats, groups: _Groups, fixed: Integers, batch: int, draw: np.random.Generator) -> Integers:
    """The neuron that varies least in a batch that shares factor `fixed`, for each entry of `fixed`."""
    rows = groups.members(groups.rows(fixed, draw), fixed, batch, draw)
    return np.asarray(codes[rows].var(1).argmin(1))
