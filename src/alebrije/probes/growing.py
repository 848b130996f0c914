"""Regression trees of depth 3 that grow side by side: an exact search for the best splits, compiled.

Each neuron is sorted once. One level of LANES trees costs one pass over the sorted rows per neuron, which keeps the
sum of the residuals of each node and tries a split wherever the value changes within the node. The trees of a pass
share what is read of the neuron, and their sums do not wait for one another.

Arrays of rows and trees are [N, LANES], N rows. A tree has 7 nodes, of which 0, 1 to 2 and 3 to 6 are its levels, and
8 leaves.
"""

from __future__ import annotations

import numpy as np

from alebrije.arrays import Array, Floats
from alebrije.compiled import compiled

DEPTH = 3
NODES, LEAVES = 2**DEPTH - 1, 2**DEPTH
LANES = 4  # trees that grow in the same pass
PURE = 2.220446049250313e-16  # a node with less variance is not split, as in scikit-learn
TINY = 1e-300  # so that even gains of 0 are broken at random
FEW = 1 / 8  # distinct values per row: up to here, sums are kept by value
SLACK = 1.0 - 1e-6  # less than any quotient of two factors of `jitter`
# The state of each node of a level, with LANES entries per field: the sum and the number of its rows so far in a pass,
# the number of all its rows, the gain of its best split, the place of the first row after that, and the sum and the
# number of the rows before.
SUM, COUNT, SIZE, GAIN, PLACE, BEFORE, BELOW, STATE = (field * LANES for field in range(8))


@compiled
def grow(
    order: Array,
    ranks: Array,
    distinct: Array,
    residual: Floats,
    leaf: Array,
    jitter: Floats,
    gains: Floats,
    neuron: Array,
    split: Array,
) -> None:
    """Grow one tree per lane for `residual` [N, LANES], and store the leaf of each row in `leaf`.

    `order` [L, N] has the rows sorted by each neuron, inverted (~row) where others have the same value, and `ranks`
    [L, N] the rank of each row among the `distinct` [L] values. A split by `neuron` [NODES, LANES] is between the ranks
    `split` [NODES, LANES, 2]; a node that cannot be split has no ranks (-1) and sends its rows left. `jitter`
    [NODES, L, LANES] are factors that decide between equal gains. The decrease of the squared error is added to
    `gains` [L, LANES].
    """
    deviation = residual.copy()  # from the mean of the node
    start, state, children = np.zeros(LEAVES * STATE), np.empty(LEAVES * STATE), np.empty(LEAVES * STATE)
    bins = np.empty((int(FEW * len(residual)) + 1) * LEAVES // 2 * LANES * 2)
    leaf[:], neuron[:], split[:] = 0, 0, -1
    _centre(deviation, start)
    for level in range(DEPTH):
        nodes, first = 2**level, 2**level - 1
        best, place = np.zeros((nodes, LANES)), np.full((nodes, LANES), -1)
        chosen, sides = neuron[first : first + nodes], split[first : first + nodes]
        if _prepare(nodes, start):
            for column in range(len(order)):
                state[: nodes * STATE] = start[: nodes * STATE]
                few = distinct[column] <= FEW * len(residual)
                if few and level == 0:
                    _scan_root_values(ranks[column], distinct[column], deviation, bins, state)
                elif few:
                    _scan_values(ranks[column], distinct[column], leaf, deviation, nodes, bins, state)
                elif level == 0:
                    _scan_root(order[column], ranks[column], deviation, state)
                else:
                    _scan(order[column], ranks[column], leaf, deviation, nodes, state)
                _keep_best(state, jitter[first:, column], column, best, chosen, place, start)
        _store_splits(order, ranks, leaf, best, place, chosen, gains, sides)
        _set_children(start, place, children)
        _descend(ranks, chosen, sides, leaf, deviation, children)
        start, children = children, start


@compiled
def _centre(deviation: Floats, start: Floats) -> None:
    """Subtract the mean from the residuals, and set the number of rows and the sum of squares of the root."""
    for row in range(len(deviation)):
        for lane in range(LANES):
            start[SUM + lane] += deviation[row, lane]
    for lane in range(LANES):
        start[SUM + lane] /= len(deviation)
        start[SIZE + lane] = len(deviation)
    for row in range(len(deviation)):
        for lane in range(LANES):
            deviation[row, lane] -= start[SUM + lane]
            start[GAIN + lane] += deviation[row, lane] * deviation[row, lane]


@compiled
def _prepare(nodes: int, start: Floats) -> bool:
    """Prepare the state of the passes of a level, given the squared errors; return whether any node can be split."""
    divisible = False
    for node in range(nodes):
        for lane in range(LANES):
            at = node * STATE + lane
            mixed = start[at + GAIN] > PURE * start[at + SIZE]
            divisible |= mixed
            start[at + GAIN] = -1.0 if mixed else np.inf  # which no gain exceeds
            start[at + SUM], start[at + COUNT], start[at + PLACE] = 0.0, 0.0, -1.0
    return divisible


@compiled
def _scan(order: Array, ranks: Array, leaf: Array, deviation: Floats, nodes: int, state: Floats) -> None:
    """Find the best split of every node of a level by one neuron.

    The deviations of a node sum to 0, so those of n of its N rows, which sum to s, give a split that decreases the
    squared error by s^2 N / (n (N - n)). N is left out here.
    """
    last = -1
    for place in range(len(order)):
        row = order[place]
        if row >= 0:
            for lane in range(LANES):
                at = leaf[row, lane] * STATE + lane
                count, total = state[at + COUNT], state[at + SUM]
                weight = count * (state[at + SIZE] - count)
                if total * total > state[at + GAIN] * weight:
                    state[at + GAIN], state[at + PLACE] = total * total / weight, place
                    state[at + BEFORE], state[at + BELOW] = total, count
                state[at + SUM], state[at + COUNT] = total + deviation[row, lane], count + 1.0
            continue
        row = ~row
        if ranks[row] != last:  # the first of equal values, which may be in any node
            last = ranks[row]
            for node in range(nodes):
                for lane in range(LANES):
                    at = node * STATE + lane
                    count, total = state[at + COUNT], state[at + SUM]
                    weight = count * (state[at + SIZE] - count)
                    if total * total > state[at + GAIN] * weight and weight > 0.0:
                        state[at + GAIN], state[at + PLACE] = total * total / weight, place
                        state[at + BEFORE], state[at + BELOW] = total, count
        for lane in range(LANES):
            at = leaf[row, lane] * STATE + lane
            state[at + SUM] += deviation[row, lane]
            state[at + COUNT] += 1.0


@compiled
def _scan_root(order: Array, ranks: Array, deviation: Floats, state: Floats) -> None:
    """As `_scan`, for the first level, where the counts are those of all trees."""
    last = -1
    for place in range(len(order)):
        row = order[place]
        same = False
        if row < 0:
            row = ~row
            same = ranks[row] == last
            last = ranks[row]
        weight = place * float(len(order) - place)
        better = False
        for lane in range(LANES):
            total = state[SUM + lane]
            better |= total * total > state[GAIN + lane] * weight
        if better and not same:
            for lane in range(LANES):
                total = state[SUM + lane]
                if total * total > state[GAIN + lane] * weight:
                    state[GAIN + lane], state[PLACE + lane] = total * total / weight, place
                    state[BEFORE + lane], state[BELOW + lane] = total, place
        for lane in range(LANES):
            state[SUM + lane] += deviation[row, lane]


@compiled
def _scan_values(
    ranks: Array, distinct: int, leaf: Array, deviation: Floats, nodes: int, bins: Floats, state: Floats
) -> None:
    """As `_scan`, for a neuron of few distinct values: `bins` has the sum and the number of the rows with each."""
    bins[: distinct * nodes * LANES * 2] = 0.0
    for row in range(len(leaf)):
        first = ranks[row] * nodes
        for lane in range(LANES):
            at = ((first + leaf[row, lane]) * LANES + lane) * 2
            bins[at] += deviation[row, lane]
            bins[at + 1] += 1.0
    place = 0.0
    for value in range(distinct):
        here = place
        for node in range(nodes):
            for lane in range(LANES):
                at, found = node * STATE + lane, ((value * nodes + node) * LANES + lane) * 2
                count, total = state[at + COUNT], state[at + SUM]
                weight = count * (state[at + SIZE] - count)
                if total * total > state[at + GAIN] * weight and weight > 0.0:
                    state[at + GAIN], state[at + PLACE] = total * total / weight, here
                    state[at + BEFORE], state[at + BELOW] = total, count
                state[at + SUM], state[at + COUNT] = total + bins[found], count + bins[found + 1]
            place += bins[(value * nodes + node) * LANES * 2 + 1]


@compiled
def _scan_root_values(ranks: Array, distinct: int, deviation: Floats, bins: Floats, state: Floats) -> None:
    """As `_scan_values`, for the first level."""
    counts, sums = bins[:distinct], bins[distinct : distinct * (1 + LANES)]
    counts[:], sums[:] = 0.0, 0.0
    for row in range(len(ranks)):
        value = ranks[row]
        counts[value] += 1.0
        for lane in range(LANES):
            sums[value * LANES + lane] += deviation[row, lane]
    place = 0.0
    for value in range(distinct):
        weight = place * (len(ranks) - place)
        for lane in range(LANES):
            total = state[SUM + lane]
            if total * total > state[GAIN + lane] * weight:
                state[GAIN + lane], state[PLACE + lane] = total * total / weight, place
                state[BEFORE + lane], state[BELOW + lane] = total, place
            state[SUM + lane] = total + sums[value * LANES + lane]
        place += counts[value]


@compiled
def _keep_best(
    state: Floats, jitter: Floats, column: int, best: Floats, neuron: Array, place: Array, start: Floats
) -> None:
    """Keep the splits by the neuron `column` that are better than those by the neurons before it.

    The next neuron starts with their gains, since no smaller ones matter.
    """
    for node in range(len(best)):
        for lane in range(LANES):
            at = node * STATE + lane
            gain = (state[at + GAIN] * state[at + SIZE] + TINY) * jitter[node, lane]
            if state[at + PLACE] >= 0.0 and gain > best[node, lane]:
                best[node, lane], neuron[node, lane], place[node, lane] = gain, column, state[at + PLACE]
                start[at + GAIN] = (gain * SLACK - TINY) / state[at + SIZE]
                start[at + BEFORE], start[at + BELOW] = state[at + BEFORE], state[at + BELOW]


@compiled
def _store_splits(
    order: Array, ranks: Array, leaf: Array, best: Floats, place: Array, neuron: Array, gains: Floats, split: Array
) -> None:
    """Add up the gains, and store the ranks of the node's own rows on either side of each split."""
    for node in range(len(best)):
        for lane in range(LANES):
            if place[node, lane] < 0:
                continue
            column = neuron[node, lane]
            gains[column, lane] += best[node, lane]
            for side in range(2):
                at = place[node, lane] - 1 + side
                row = max(order[column, at], ~order[column, at])
                while leaf[row, lane] != node:
                    at += 2 * side - 1
                    row = max(order[column, at], ~order[column, at])
                split[node, lane, side] = ranks[column, row]


@compiled
def _set_children(start: Floats, place: Array, children: Floats) -> None:
    """Set the number of rows of the children of a level, and as their sum the mean of the parent's deviations."""
    for node in range(len(place)):
        for lane in range(LANES):
            at, left = node * STATE + lane, 2 * node * STATE + lane
            right = left + STATE
            children[left + GAIN], children[right + GAIN] = 0.0, 0.0
            if place[node, lane] < 0:
                children[left + SUM], children[left + SIZE] = 0.0, start[at + SIZE]
                children[right + SUM], children[right + SIZE] = 0.0, 0.0
            else:
                below, above = start[at + BELOW], start[at + SIZE] - start[at + BELOW]
                children[left + SUM], children[left + SIZE] = start[at + BEFORE] / below, below
                children[right + SUM], children[right + SIZE] = -start[at + BEFORE] / above, above


@compiled
def _descend(ranks: Array, neuron: Array, split: Array, leaf: Array, deviation: Floats, children: Floats) -> None:
    """Send each row to a child of its node, subtract the child's mean, and add up the child's squared errors."""
    for row in range(len(leaf)):
        for lane in range(LANES):
            node = leaf[row, lane]
            high = split[node, lane, 1]
            child = 2 * node + (high >= 0 and ranks[neuron[node, lane], row] >= high)
            at = child * STATE + lane
            error = deviation[row, lane] - children[at + SUM]
            children[at + GAIN] += error * error
            deviation[row, lane] = error
            leaf[row, lane] = child


@compiled
def step_to_leaves(residual: Floats, leaf: Array, steps: Floats, rate: float, raw: Floats, values: Floats) -> None:
    """Store the value of every leaf [LEAVES, LANES] and add it to the raw scores of its rows.

    `steps` [LANES] scales the Newton steps of classes; 0 stands for regression, whose leaves have the mean residual.
    """
    curvature = np.zeros((LEAVES, LANES))
    values[:] = 0.0
    for row in range(len(residual)):
        for lane in range(LANES):
            size = abs(residual[row, lane])
            values[leaf[row, lane], lane] += residual[row, lane]
            curvature[leaf[row, lane], lane] += size * (1.0 - size) if steps[lane] > 0.0 else 1.0
    for node in range(LEAVES):
        for lane in range(LANES):
            if curvature[node, lane] < 1e-150:
                values[node, lane] = 0.0
            else:
                values[node, lane] *= rate * (steps[lane] or 1.0) / curvature[node, lane]
    for row in range(len(residual)):
        for lane in range(LANES):
            raw[row, lane] += values[leaf[row, lane], lane]


@compiled
def add_trees(inputs: Floats, neuron: Array, threshold: Floats, values: Floats, raw: Floats) -> None:
    """Add the values of R trees per lane to the raw scores `raw` [M, LANES] of new rows `inputs` [M, L].

    `neuron` and `threshold` are [R, NODES, LANES], `values` [R, LEAVES, LANES].
    """
    for row in range(len(inputs)):
        for tree in range(len(neuron)):
            for lane in range(LANES):
                node = 0
                for _ in range(DEPTH):
                    right = inputs[row, neuron[tree, node, lane]] > threshold[tree, node, lane]
                    node = 2 * node + 1 + right
                raw[row, lane] += values[tree, node - NODES, lane]
