"""Linear support vector machines on a single neuron, solved on sorted values.

On one neuron every machine is a threshold. A Newton step needs sums over the rows inside the margin, and in sorted
order these are the rows beyond a position: prefix sums give every step in the time of a binary search.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alebrije.arrays import Floats, Integers

STEPS = 100  # Newton steps; a few are enough, since the loss is piecewise quadratic


@dataclass(frozen=True, eq=False)
class SortedNeuron:
    """The values [N] of a neuron in ascending order, and the rows in that order."""

    values: Floats
    order: Integers

    @classmethod
    def of(cls, code: Floats) -> SortedNeuron:
        """Sort a neuron once for all factors."""
        order = np.argsort(code, kind="stable")
        return cls(code[order], order)


def svm_predictions(neuron: SortedNeuron, classes: Integers, new_code: Floats, cost: float = 0.01) -> Integers:
    """Fit scikit-learn's `LinearSVC(C=cost, class_weight="balanced")` on one neuron and predict new classes [M].

    One machine with squared hinge loss per class against the rest, one in all for two classes. The intercept is
    penalised, as in scikit-learn. `classes` [N] are in the order of the rows, not of the values.

    >>> neuron = SortedNeuron.of(np.array([0.0, 3.0, 1.0, 2.0] * 50))
    >>> svm_predictions(neuron, np.array([4, 7, 4, 7] * 50), np.array([0.4, 2.6]))
    array([4, 7])
    """
    names, counts = np.unique(classes, return_counts=True)
    if len(names) == 1:
        return np.full(len(new_code), names[0])
    ranked = classes[neuron.order]
    everything = _Sums.of(neuron.values)
    own = [_Sums.of(neuron.values[ranked == name]) for name in names]
    weights = cost * len(classes) / (len(names) * counts)
    if len(names) == 2:
        slope, offset = _solve([(own[1], weights[1], 1.0), (own[0], weights[0], -1.0)])
        return names[(slope * new_code + offset > 0).astype(np.int64)]
    machines = [
        # the rest is everything without the class itself
        _solve([(part, weight, 1.0), (everything, cost, -1.0), (part, -cost, -1.0)])
        for part, weight in zip(own, weights, strict=True)
    ]
    best, highest = np.zeros(len(new_code), dtype=np.int64), np.full(len(new_code), -np.inf)
    for index, (slope, offset) in enumerate(machines):
        decision = slope * new_code + offset
        better = decision > highest
        best[better], highest[better] = index, decision[better]
    return names[best]


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sorted values [n] and the sums of 1, x and x^2 over the first rows [n + 1, 3]."""

    values: Floats
    before: Floats

    @classmethod
    def of(cls, values: Floats) -> _Sums:
        powers = np.zeros((len(values) + 1, 3))
        powers[1:, 0] = np.arange(1, len(values) + 1)
        np.cumsum(values, out=powers[1:, 1])
        np.cumsum(np.square(values), out=powers[1:, 2])
        return cls(values, powers)

    def inside(self, sign: float, slope: float, offset: float) -> Floats:
        """The sums over the rows whose margin ``sign * (slope x + offset)`` is below 1."""
        if slope == 0:
            return np.asarray(self.before[-1] * (sign * offset < 1))
        border = (sign - offset) / slope  # the margin is 1 there
        if sign * slope > 0:
            return np.asarray(self.before[np.searchsorted(self.values, border, "left")])
        return np.asarray(self.before[-1] - self.before[np.searchsorted(self.values, border, "right")])


Parts = list[tuple[_Sums, float, float]]  # rows, their weight, and their side: 1 or -1


def _solve(parts: Parts) -> tuple[float, float]:
    """The slope and the offset that minimise (slope^2 + offset^2) / 2 + the weighted squared hinge loss."""
    at = np.zeros(2)
    loss, gradient, curvature = _loss(parts, at)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature, gradient)
        slope = float(gradient @ step)
        if slope <= 1e-20 * max(loss, 1e-300):
            break
        share = 1.0
        while True:
            tried = _loss(parts, at - share * step)
            if tried[0] <= loss - 1e-4 * share * slope or share < 1e-9:
                break
            share /= 2
        if tried[0] >= loss:
            break
        at, (loss, gradient, curvature) = at - share * step, tried
    return float(at[0]), float(at[1])


def _loss(parts: Parts, at: Floats) -> tuple[float, Floats, Floats]:
    """The loss, its gradient [2] and its generalised second derivative [2, 2]."""
    slope, offset = at
    loss, gradient, curvature = float(at @ at) / 2, at.copy(), np.eye(2)
    for rows, weight, sign in parts:
        count, first, second = rows.inside(sign, float(slope), float(offset))
        # sum of (1 - sign (slope x + offset))^2
        miss = 1.0 - sign * offset
        loss += weight * (miss**2 * count - 2 * miss * sign * slope * first + slope**2 * second)
        gradient -= (
            2 * weight * sign * np.array([miss * first - sign * slope * second, miss * count - sign * slope * first])
        )
        curvature += 2 * weight * np.array([[second, first], [first, count]])
    return loss, gradient, curvature
