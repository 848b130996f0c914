"""Gradient-boosted trees for many targets at once.

The algorithm is scikit-learn's ``GradientBoostingClassifier()`` (100 rounds, depth 3, rate 0.1, splits by squared
error on the residuals, Newton leaves, importance by impurity). Here all trees of a round, over all classes of all
targets, grow together: see `alebrije.probes.growing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from alebrije.arrays import Array, Floats
from alebrije.errors import InputError
from alebrije.probes.growing import DEPTH, Grower, SortedCodes, Splits, descend

ROUNDS, RATE = 100, 0.1


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """`importance` [L, F], whose columns sum to 1, and `predictions` [M, F] for the new rows."""

    importance: Floats
    predictions: Floats


def boost_trees(inputs: Floats, targets: Sequence[Array], new_inputs: Floats) -> BoostedTrees:
    """Fit boosted trees from `inputs` [N, L] to each of F `targets` [N] and predict for `new_inputs` [M, L].

    Targets of integers are classes, targets of floats are regressed with squared error.

    >>> rng = np.random.default_rng(0)
    >>> codes = rng.normal(size=(500, 3))
    >>> trees = boost_trees(codes, [(codes[:, 1] > 0).astype(int)], codes)
    >>> int(trees.importance.argmax()), float((trees.predictions[:, 0] == (codes[:, 1] > 0)).mean())
    (1, 1.0)
    """
    if len(inputs) < 2:
        raise InputError(f"boosted trees need at least 2 rows to fit, got {len(inputs)}")
    order = np.lexsort(inputs[:64][::-1])  # equal gains are broken at random, whatever the order of neurons
    inputs, new_inputs = inputs[:, order], new_inputs[:, order]
    columns = [_Target(target) for target in targets]
    ends = np.cumsum([0, *(len(t.start) for t in columns)]).tolist()
    spans = [(target, *span) for target, span in zip(columns, pairwise(ends), strict=True)]  # each target's trees
    grower = Grower(SortedCodes(inputs))
    start = torch.cat([t.start for t in columns])  # [T, 1], T trees per round
    raw = start.expand(-1, len(inputs))
    importance = torch.zeros(inputs.shape[1], len(start), dtype=torch.float64)
    forest = []
    for _ in range(ROUNDS):
        steps = [t.residual(raw[a:b]) for t, a, b in spans]
        residual, curvature = (torch.cat(parts) for parts in zip(*steps, strict=True))
        leaf, levels = grower.grow(residual, importance)
        values = RATE * _leaf_values(leaf, residual, curvature)
        raw = raw + values.gather(1, leaf)
        forest.append((levels, values))
    gains = torch.stack([importance[:, a:b].sum(1) for _, a, b in spans], 1)  # [L, F]
    gains = (gains / gains.sum(0).clamp_min(1e-300))[np.argsort(order)]
    new_raw = start + _predict(forest, new_inputs)
    predictions = torch.stack([t.predict(new_raw[a:b]) for t, a, b in spans], 1)
    return BoostedTrees(gains.numpy(), predictions.double().numpy())


class _Target:
    """One target: its initial prediction, its residuals, and how to read raw scores.

    Two classes need one tree per round, more classes one each.
    """

    def __init__(self, column: Array) -> None:
        self.classes = column.dtype.kind in "iub"
        if self.classes:
            names, truth = np.unique(column, return_inverse=True)
            self.names = torch.from_numpy(names.astype(np.float64))
            self.truth = torch.nn.functional.one_hot(torch.from_numpy(truth)).T.float()  # [K, N]
            self.start = self.truth.mean(1, keepdim=True).log()
            self.damping = 1.0 - 1.0 / max(len(names), 2)
            if len(names) == 2:
                self.truth, self.start = self.truth[1:], self.start[1:] - self.start[:1]
        else:
            column = column.astype(np.float64)
            self.scale = float(column.std()) or 1.0
            self.mean = float(column.mean())
            self.truth = torch.from_numpy((column - self.mean) / self.scale).float()[None]
            self.start = torch.zeros(1, 1)

    def residual(self, raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The residuals and the weights of a Newton step, each [K, N]."""
        if not self.classes:
            residual = self.truth - raw
            return residual, torch.ones_like(residual)
        residual = self.truth - _probabilities(raw)
        size = residual.abs()
        curvature = size * (1.0 - size)
        return residual, curvature if len(self.names) == 2 else curvature / self.damping

    def predict(self, raw: torch.Tensor) -> torch.Tensor:
        if not self.classes:
            return raw[0].double() * self.scale + self.mean
        return self.names[(raw[0] > 0).long() if len(self.names) == 2 else raw.argmax(0)]


def _probabilities(raw: torch.Tensor) -> torch.Tensor:
    """The softmax over classes [K, N], or the sigmoid of one row.

    Computed by numpy: torch's last bit depends on how rows are shared between threads, and among equally good splits
    that bit decides.
    """
    scores = raw.numpy()
    if len(scores) == 1:
        scores = np.concatenate([np.zeros_like(scores), scores])
    found = np.exp(scores - scores.max(0))
    found /= found.sum(0)
    return torch.from_numpy(found[-len(raw) :])


def _leaf_values(leaf: torch.Tensor, residual: torch.Tensor, curvature: torch.Tensor) -> torch.Tensor:
    """The Newton step of every leaf [T, 2**DEPTH]."""
    top = torch.zeros(len(leaf), 2**DEPTH).scatter_add_(1, leaf, residual)
    bottom = torch.zeros(len(leaf), 2**DEPTH).scatter_add_(1, leaf, curvature)
    return torch.where(bottom > 1e-30, top / bottom, 0.0)


def _predict(forest: list[tuple[list[Splits], torch.Tensor]], inputs: Floats) -> torch.Tensor:
    """The sum of all trees [T, M] on new rows, which are compared by their place in sorted order."""
    order = np.argsort(inputs.T, axis=1, kind="stable")
    ordered = np.take_along_axis(inputs.T, order, 1)
    narrow = torch.int16 if len(inputs) < 2**15 else torch.int32
    rank = torch.from_numpy(np.argsort(order, axis=1)).to(narrow)
    neurons = torch.stack([torch.cat([level.neuron for level in levels]) for levels, _ in forest])  # [R, nodes, T]
    thresholds = torch.stack([torch.cat([level.threshold for level in levels]) for levels, _ in forest])
    borders = torch.empty_like(neurons)
    for neuron, column in enumerate(ordered):
        asked = neurons == neuron
        borders[asked] = torch.from_numpy(np.searchsorted(column, thresholds[asked].numpy(), "right"))
    total = torch.zeros(neurons.shape[2], len(inputs))
    firsts = [2**level - 1 for level in range(DEPTH + 1)]
    for (_, values), neuron, border in zip(forest, neurons, borders, strict=True):
        leaf = torch.zeros(total.shape, dtype=torch.uint8)
        for a, b in pairwise(firsts):
            leaf = descend(rank, leaf, neuron[a:b], border[a:b])
        total += values.gather(1, leaf.long())
    return total
