"""Sample rows that share the value of one factor, for the beta-VAE and FactorVAE scores.

Rows are sampled from the given ones with replacement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.arrays import Integers
from alebrije.errors import InputError
from alebrije.metrics.reasons import join_reasons, which_vary
from alebrije.metrics.record import Score


@dataclass(frozen=True, eq=False, kw_only=True)
class FixedFactorScore(Score):
    """Accuracy of predicting the fixed factor; `correct` [points] says which test points were right."""

    correct: Any


class FixedFactorSampler:
    """Rows sorted by the value of each factor, so that rows with the same value are found by index."""

    def __init__(self, factors: Integers) -> None:
        self.order = np.argsort(factors, axis=0, kind="stable")  # [N, F]
        self.rank = np.argsort(self.order, axis=0, kind="stable")  # the index of each row in that order
        ranked = np.take_along_axis(factors, self.order, 0)
        first = np.stack([np.searchsorted(column, column, "left") for column in ranked.T], 1)
        last = np.stack([np.searchsorted(column, column, "right") for column in ranked.T], 1)
        self.first = np.take_along_axis(first, self.rank, 0)  # by row
        self.size = np.take_along_axis(last - first, self.rank, 0)
        self.paired = [np.flatnonzero(size > 1) for size in self.size.T]  # rows that share their value with another

    def rows(self, fixed: Integers, rng: np.random.Generator) -> Integers:
        """For each entry of `fixed`, a row that shares its value of that factor with another row."""
        counts = np.array([len(rows) for rows in self.paired])
        starts = np.cumsum(counts) - counts
        chosen = starts[fixed] + (rng.random(fixed.shape) * counts[fixed]).astype(np.int64)
        return np.asarray(np.concatenate(self.paired)[chosen])

    def partners(self, rows: Integers, factor: Integers, rng: np.random.Generator) -> Integers:
        """For each of `rows`, another row with the same value of `factor`."""
        size, first = self.size[rows, factor], self.first[rows, factor]
        step = 1 + (rng.random(rows.shape) * (size - 1)).astype(np.int64)
        rank = first + (self.rank[rows, factor] - first + step) % size
        return np.asarray(self.order[rank, factor])

    def members(self, row: Integers, factor: Integers, count: int, rng: np.random.Generator) -> Integers:
        """For each of `row` [P], `count` rows [P, count] with the same value of `factor`."""
        size, first = self.size[row, factor], self.first[row, factor]
        rank = first[:, None] + (rng.random((len(row), count)) * size[:, None]).astype(np.int64)
        return np.asarray(self.order[rank, factor[:, None]])


def usable_factors(factors: Integers) -> tuple[Integers, str | None, bool]:
    """The factors that can be fixed, a reason that names the others, and whether a score is defined.

    A factor with a single value is always fixed, so it is left out.
    """
    varied, left_out = which_vary(factors)
    unshared = np.flatnonzero((factors.max(0) + 1 == len(factors)) & varied).tolist()
    fault = f"no two rows share a value of factors {unshared}" if unshared else None
    if varied.sum() == 1:
        only = f"{left_out}, which leaves only one" if left_out else "there is only one factor"
        return np.flatnonzero(varied), only, False
    return np.flatnonzero(varied), join_reasons(left_out, fault), bool(varied.any()) and not unshared


def check_sizes(train: int, test: int, batch: int) -> None:
    """Raise an InputError unless all three are at least 1."""
    if min(train, test, batch) < 1:
        raise InputError(f"train, test and batch must be at least 1, got {train}, {test} and {batch}")
