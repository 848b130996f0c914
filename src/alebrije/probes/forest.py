"""The trees of all rounds and all targets of gradient boosting, and their targets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from alebrije.arrays import Array, Floats, Integers
from alebrije.probes.growing import LANES, LEAVES, NODES, add_trees, grow, step_to_leaves

JITTER = 1e-9  # relative: equal gains are broken at random, as in scikit-learn


class Forest:
    """Boosted trees from `inputs` [N, L] to `targets` [N]; `importance` is [L, F].

    A round has one tree per class of each target, one for two classes and one for a regressed target. LANES trees are
    a block, which one thread grows; arrays of trees are [blocks, ..., LANES].
    """

    def __init__(self, inputs: Floats, targets: Sequence[Array], rounds: int, rate: float, threads: int) -> None:
        self.neurons, self.threads = SortedNeurons.of(inputs), threads
        self.targets = [_Classes(column) if column.dtype.kind in "iub" else _Numbers(column) for column in targets]
        ends = np.cumsum([0, *(len(target.start) for target in self.targets)]).tolist()
        self.trees = [np.arange(*span) for span in pairwise(ends)]  # of each target in a round
        self.blocks = -(-ends[-1] // LANES)
        self.start = self._of_trees([target.start for target in self.targets])
        self.neuron = np.empty((self.blocks, rounds, NODES, LANES), dtype=np.int32)
        self.values = np.empty((self.blocks, rounds, LEAVES, LANES))
        gains = self._fit(rate)  # [blocks, L, LANES]
        totals = np.stack([gains[tree // LANES, :, tree % LANES].sum(0) for tree in self.trees], 1)
        self.importance = np.empty_like(totals)
        self.importance[self.neurons.columns] = totals / totals.sum(0).clip(1e-300)

    def _fit(self, rate: float) -> Floats:
        """Grow all trees and return the sum of the gains of each neuron."""
        neurons = self.neurons
        random = [_generator_of(target.truth) for target in self.targets]
        count, rows = neurons.order.shape
        steps = self._of_trees([np.full(len(target.start), target.step) for target in self.targets])
        raw = np.repeat(self.start[:, None], rows, axis=1)  # [blocks, N, LANES]
        residual = np.zeros_like(raw)
        leaf = np.empty(raw.shape, dtype=np.uint8)
        splits = np.empty((*self.neuron.shape, 2), dtype=np.int32)
        gains = np.zeros((self.blocks, count, LANES))
        jitter = np.ones((self.blocks, NODES, count, LANES))

        def grow_block(block: int) -> None:
            now = residual[block], leaf[block]
            grow(
                neurons.order,
                neurons.ranks,
                neurons.distinct,
                *now,
                jitter[block],
                gains[block],
                neuron[block],
                split[block],
            )
            step_to_leaves(*now, steps[block], rate, raw[block], values[block])

        def subtract(number: int) -> None:
            block, lane = np.divmod(self.trees[number], LANES)
            residual[block, :, lane] = self.targets[number].residual(raw[block, :, lane])

        for turn in range(self.neuron.shape[1]):
            for number, tree in enumerate(self.trees):
                drawn = random[number].random((len(tree), NODES, count))
                jitter[tree // LANES, :, :, tree % LANES] = 1.0 + JITTER * drawn
            neuron, split, values = self.neuron[:, turn], splits[:, turn], self.values[:, turn]
            self._share(subtract, len(self.targets))
            self._share(grow_block, self.blocks)
        self.threshold = neurons.thresholds(self.neuron, splits)
        return gains

    def predict(self, inputs: Floats) -> Floats:
        """The predictions [M, F] for new rows."""
        inputs = np.ascontiguousarray(inputs[:, self.neurons.columns])
        raw = np.repeat(self.start[:, None], len(inputs), axis=1)  # [blocks, M, LANES]

        def predict_block(block: int) -> None:
            add_trees(inputs, self.neuron[block], self.threshold[block], self.values[block], raw[block])

        self._share(predict_block, self.blocks)
        scores = [raw[tree // LANES, :, tree % LANES] for tree in self.trees]
        return np.stack([target.predict(score) for target, score in zip(self.targets, scores, strict=True)], 1)

    def _of_trees(self, parts: list[Floats]) -> Floats:
        """One number per tree, [blocks, LANES]; the last block is filled up with zeros."""
        numbers = np.concatenate(parts)
        return np.pad(numbers, (0, self.blocks * LANES - len(numbers))).reshape(self.blocks, LANES)

    def _share(self, work: Callable[[int], None], items: int) -> None:
        """Call `work` for each item, in several threads if there are any."""
        if self.threads < 2:
            for item in range(items):
                work(item)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(work, range(items)))


@dataclass(frozen=True, eq=False)
class SortedNeurons:
    """The rows sorted by each neuron. Neurons are in an order that does not depend on the one they came in."""

    columns: Integers  # [L] the column of each neuron in the inputs
    order: Array  # [L, N] rows in ascending order, inverted (~row) where others have the same value
    ranks: Array  # [L, N] the rank of each row among the distinct values of the neuron
    distinct: Integers  # [L] the number of distinct values
    values: Floats  # [L, N] the distinct values in ascending order

    @classmethod
    def of(cls, inputs: Floats) -> SortedNeurons:
        """Sort the rows of `inputs` [N, L]."""
        order, ranks = np.empty((2, *inputs.T.shape), dtype=np.int32)
        values = np.zeros(order.shape)
        for neuron, column in enumerate(inputs.T):
            rows = np.argsort(column, kind="stable")
            ordered = column[rows]
            is_new = np.concatenate([[True], ordered[1:] > ordered[:-1]])
            rank = is_new.cumsum() - 1
            ranks[neuron, rows] = rank
            is_last = np.append(is_new[1:], True)
            order[neuron] = np.where(is_new & is_last, rows, ~rows)
            values[neuron, : rank[-1] + 1] = ordered[is_new]
        digests = [hashlib.sha256(rank.tobytes()).digest() for rank in ranks]
        columns = np.array(sorted(range(len(digests)), key=digests.__getitem__))
        return cls(columns, order[columns], ranks[columns], ranks[columns].max(1) + 1, values[columns])

    def thresholds(self, neuron: Array, split: Array) -> Floats:
        """Halfway between the two ranks in the last axis of `split`; infinite where there is no split."""
        low, high = self.values[neuron, split[..., 0]], self.values[neuron, split[..., 1]]
        halfway = low / 2 + high / 2
        halfway = np.where(
            (low <= halfway) & (halfway < high), halfway, low
        )  # nothing lies between neighbouring floats
        return np.where(split[..., 1] < 0, np.inf, halfway)


def _generator_of(truth: Floats) -> np.random.Generator:
    """The random numbers that break the ties of a target, whatever other targets are fitted beside it."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(np.ascontiguousarray(truth).tobytes()).digest()[:8]))


class _Classes:
    """A target of classes: its first scores, its residuals, and how to read scores.

    Two classes need one tree per round, more classes one each.
    """

    def __init__(self, column: Array) -> None:
        names, truth = np.unique(column, return_inverse=True)
        self.names = names.astype(np.float64)
        self.truth = (truth == np.arange(len(names))[:, None]).astype(np.float64)  # [K, N]
        self.start = np.log(self.truth.mean(1))
        self.step = 1.0 - 1.0 / max(len(names), 2)
        if len(names) == 2:
            self.truth, self.start, self.step = self.truth[1:], self.start[1:] - self.start[:1], 1.0

    def residual(self, raw: Floats) -> Floats:
        """The truth minus the probabilities [K, N]."""
        scores = np.concatenate([np.zeros_like(raw), raw]) if len(self.names) == 2 else raw
        found = np.exp(scores - scores.max(0))
        found /= found.sum(0)
        return np.asarray(self.truth - found[-len(raw) :])

    def predict(self, raw: Floats) -> Floats:
        return np.asarray(self.names[(raw[0] > 0).astype(int) if len(self.names) == 2 else raw.argmax(0)])


class _Numbers:
    """A target of numbers, which is regressed."""

    step = 0.0  # leaves have the mean residual

    def __init__(self, column: Array) -> None:
        column = column.astype(np.float64)
        self.scale, self.mean = float(column.std()) or 1.0, float(column.mean())
        self.truth = (column - self.mean) / self.scale
        self.start = np.zeros(1)

    def residual(self, raw: Floats) -> Floats:
        return np.asarray(self.truth - raw)

    def predict(self, raw: Floats) -> Floats:
        return np.asarray(raw[0] * self.scale + self.mean)
