"""Regression trees of depth 3 for many targets at once: the search for the best splits.

One level of all trees costs one product of a sparse matrix (which row is in which bin) with the residuals of every
node. It gives the gain of a split at every border of a bin, and a guess at the best gain inside each bin. The most
promising bins of each neuron are then searched row by row, so a split may be between any two rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from alebrije.arrays import Array, Floats

DEPTH = 3
BINS = 64, 128  # per neuron: up to MANY_ROWS and beyond
MANY_ROWS = 4000
SEARCHED = (6, 60), (3, 30)  # bins that are searched row by row for each node: per neuron, and in all
JITTER = 1e-5  # relative: equal gains are broken at random, as in scikit-learn
WINDOW = 32  # rows on either side of a split among which the neighbours in the node are looked for first


@dataclass(frozen=True, eq=False)
class Splits:
    """One level of all trees, each [nodes, T]: the neuron, the threshold, and how many sorted rows are below it."""

    neuron: torch.Tensor
    border: torch.Tensor
    threshold: torch.Tensor


class SortedCodes:
    """The rows sorted by each neuron and cut into bins that never separate equal values."""

    def __init__(self, inputs: Floats) -> None:
        self.rows, self.neurons = inputs.shape
        order = np.argsort(inputs.T, axis=1, kind="stable")  # [L, N]
        self.values = np.take_along_axis(inputs.T, order, 1)
        narrow = torch.int16 if self.rows < 2**15 else torch.int32
        self.rank = torch.from_numpy(np.argsort(order, axis=1)).to(narrow)  # the place of each row in that order
        bins = BINS[self.rows > MANY_ROWS]
        starts = [_bin_starts(column, bins) for column in self.values]
        self.bins = max(map(len, starts)) - 1
        self.edges = torch.from_numpy(np.stack([np.pad(s, (0, self.bins + 1 - len(s)), "edge") for s in starts]))
        splits_here = np.diff(self.values, axis=1, append=np.inf) > 0  # whether a split may follow this row
        splits_here[:, -1] = False
        below = np.pad(splits_here.cumsum(1), ((0, 0), (1, 0)))
        first, last = self.edges[:, :-1].numpy(), self.edges[:, 1:].numpy()
        ends = np.maximum(last - 1, first)
        inner = np.take_along_axis(below, ends, 1) - np.take_along_axis(below, first, 1)  # splits within each bin
        self.divisible = torch.from_numpy(inner > 0)  # [L, bins]
        self.widest = int(((last - first) * (inner > 0)).max())
        self.pad = max(self.widest, WINDOW)
        padded = np.pad(order, ((0, 0), (self.pad, self.pad)), constant_values=self.rows)  # row N is in no node
        self.stride = padded.shape[1]
        self.order = torch.from_numpy(padded.astype(np.int32)).flatten()
        allowed = np.pad(splits_here, ((0, 0), (self.pad, self.pad))).astype(np.float32)
        self.splits_here = torch.from_numpy(allowed).flatten()  # 1 or 0
        pointers = (self.edges[:, :-1] + torch.arange(self.neurons)[:, None] * self.rows).flatten()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns that sparse CSR is in beta
            self.rows_in_bin = torch.sparse_csr_tensor(
                torch.cat([pointers, torch.tensor([order.size])]),
                torch.from_numpy(order).flatten(),
                torch.ones(order.size),
                (self.neurons * self.bins, self.rows),
            )

    def histogram(self, columns: torch.Tensor) -> torch.Tensor:
        """Sums of `columns` [N, C] over the rows up to the end of each bin: [L, bins, C]."""
        sums: torch.Tensor = self.rows_in_bin @ columns
        return sums.view(self.neurons, self.bins, -1).cumsum(1)

    def windows(self, source: torch.Tensor, neuron: torch.Tensor, place: torch.Tensor, width: int) -> torch.Tensor:
        """`width` consecutive entries of `order` or `splits_here`, from `place` on in the order of `neuron`."""
        view = source.as_strided((len(source) - width + 1, width), (1, 1))
        return view.index_select(0, neuron * self.stride + self.pad + place)


def _bin_starts(ordered: Floats, bins: int) -> Array:
    """The first place of each bin and, at the end, the number of rows."""
    rows = len(ordered)
    wanted = np.arange(bins) * rows // bins
    first = np.searchsorted(ordered, ordered[wanted], "left")
    last = np.searchsorted(ordered, ordered[wanted], "right")
    heavy = last - first > rows / bins  # many equal values have a bin of their own
    return np.unique(np.concatenate([first, last[heavy], [0, rows]]))


class Grower:
    """Grows all trees of a round, level by level."""

    def __init__(self, codes: SortedCodes) -> None:
        self.codes = codes
        self.counts = codes.histogram(torch.ones(codes.rows, 1))
        self.random = torch.Generator().manual_seed(0)

    def grow(self, residual: torch.Tensor, importance: torch.Tensor) -> tuple[torch.Tensor, list[Splits]]:
        """Return the leaf of each row in each tree [T, N] and the splits, and add the gains to `importance` [L, T]."""
        trees, rows = residual.shape
        columns = residual.T.contiguous()  # [N, T]
        padded = torch.nn.functional.pad(residual, (0, 1))
        leaf = torch.zeros(trees, rows + 1, dtype=torch.uint8)
        leaf[:, rows] = 255
        found = self.codes.histogram(torch.cat([columns, columns.square()], 1))[:, :, None]
        sums, squares = found[..., :trees].contiguous(), found[..., trees:]  # [L, bins, nodes, T]
        spread = squares.diff(dim=1, prepend=torch.zeros_like(squares[:, :1])).clamp_min_(0.0).sqrt_()
        counts = self.counts[:, :, None].expand_as(sums)
        levels = []
        for level in range(DEPTH):
            search = _Search(self.codes, sums, counts, spread, padded, leaf)
            jitter = 1.0 + JITTER * torch.rand(self.codes.neurons, 2**level, trees, generator=self.random)
            neuron, border, gain = search.best(jitter)
            importance.scatter_add_(0, neuron, gain.double())
            levels.append(Splits(neuron, border, self._thresholds(neuron, border, leaf)))
            leaf[:, :rows] = descend(self.codes.rank, leaf[:, :rows], neuron, border)
            if level + 1 < DEPTH:
                sums, counts = self._split_sums(columns, leaf[:, :rows], sums, counts)
        return leaf[:, :rows].long(), levels

    def _split_sums(
        self,
        columns: torch.Tensor,
        leaf: torch.Tensor,
        sums: torch.Tensor,
        counts: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sums and counts of the children of each node."""
        nodes = sums.shape[2]
        children = leaf.T.contiguous().numpy()
        parts = torch.empty(len(columns), 2, nodes, columns.shape[1])
        for node in range(nodes):
            parts[:, 1, node] = torch.from_numpy(children == 2 * node)
        torch.mul(parts[:, 1], columns[:, None], out=parts[:, 0])
        found = self.codes.histogram(parts.flatten(1)).view(*sums.shape[:2], 2, nodes, -1)
        left_sums, left_counts = found[:, :, 0], found[:, :, 1]
        return (
            torch.stack([left_sums, sums - left_sums], 3).flatten(2, 3),
            torch.stack([left_counts, counts - left_counts], 3).flatten(2, 3),
        )

    def _thresholds(self, neuron: torch.Tensor, border: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
        """Halfway between the node's own rows on either side of a split."""
        codes, (nodes, trees) = self.codes, neuron.shape
        neurons, place = neuron.flatten(), border.flatten()
        tree = torch.arange(trees).repeat(nodes)
        node = torch.arange(nodes).repeat_interleave(trees).to(torch.uint8)
        below = _first_of_node(codes, neurons, place - WINDOW, tree, node, leaf, backwards=True)
        above = _first_of_node(codes, neurons, place, tree, node, leaf, backwards=False)
        low, high = place - 1 - below, place + above
        for i in torch.nonzero((below == WINDOW) | (above == WINDOW))[:, 0].tolist():
            places = codes.rank[neurons[i]][leaf[tree[i], :-1] == node[i]]
            left, right = places[places < place[i]], places[places >= place[i]]
            low[i] = left.max() if len(left) else place[i] - 1
            high[i] = right.min() if len(right) else place[i]
        ordered = codes.values[neurons.numpy()[:, None], torch.stack([low, high], 1).clamp(0, codes.rows - 1).numpy()]
        halfway = torch.from_numpy(ordered[:, 0] / 2 + ordered[:, 1] / 2)
        return halfway.masked_fill_(place >= codes.rows, torch.inf).view(nodes, trees)


def _first_of_node(
    codes: SortedCodes,
    neuron: torch.Tensor,
    place: torch.Tensor,
    tree: torch.Tensor,
    node: torch.Tensor,
    leaf: torch.Tensor,
    backwards: bool,
) -> torch.Tensor:
    """How many of the next WINDOW rows come before the first row of the node; WINDOW if all do."""
    rows = codes.windows(codes.order, neuron, place.clamp(-codes.pad, codes.rows), WINDOW)
    inside = take(leaf, rows + (tree * leaf.shape[1]).int()[:, None]) == node[:, None]
    found, index = (inside.flip(1) if backwards else inside).max(1)
    return torch.where(found, index, WINDOW)


class _Search:
    """The best split of every node of every tree on one level."""

    def __init__(
        self,
        codes: SortedCodes,
        sums: torch.Tensor,
        counts: torch.Tensor,
        spread: torch.Tensor,
        residual: torch.Tensor,
        leaf: torch.Tensor,
    ) -> None:
        self.codes, self.residual, self.leaf = codes, residual, leaf
        self.counts = counts.flatten(2)  # [L, bins, C], C nodes and trees
        self.sums = sums.flatten(2)
        self.total, self.rows = self.sums[0, -1], self.counts[0, -1].clamp_min(1.0)  # [C]
        self.nodes, self.trees = sums.shape[2:]
        self.spread = spread.expand_as(sums).flatten(2)  # of the sum of each bin

    def best(self, jitter: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The neuron, the number of sorted rows below the split and the gain in squared error, each [nodes, T].

        A node that cannot be split sends all its rows left, with gain 0.
        """
        codes, jitter = self.codes, jitter.flatten(1)
        share = self.counts / self.rows
        excess = torch.addcmul(self.sums, share, self.total, value=-1.0)  # the sum beyond that of an average row
        weight = self.counts * (1.0 - share)
        gains = excess.square().div_(weight.clamp_min(0.4))  # 0 where one side is empty
        gain, index = gains.mul_(jitter[:, None]).flatten(0, 1).max(0)  # [C]
        neuron = index // codes.bins
        border = codes.edges[:, 1:].flatten()[index]
        if codes.widest > 1:
            found = self._search_bins(excess, jitter)
            better = found[2] > gain
            neuron, border, gain = (
                torch.where(better, new, old) for new, old in zip(found, (neuron, border, gain), strict=True)
            )
        useless = gain <= 1e-7
        shape = self.nodes, self.trees
        neuron = neuron.masked_fill(useless, 0).view(shape)
        return neuron, border.masked_fill(useless, codes.rows).view(shape), gain.masked_fill(useless, 0.0).view(shape)

    def _search_bins(
        self, excess: torch.Tensor, jitter: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `best`, for splits inside the most promising bins."""
        codes, columns = self.codes, len(self.rows)
        chosen = self._promising_bins(excess, jitter)  # [C, K], neuron x bin
        bins = chosen.flatten()
        column = torch.arange(columns).repeat_interleave(chosen.shape[1])
        neuron, place = bins // codes.bins, codes.edges[:, :-1].flatten()[bins]
        rows = codes.windows(codes.order, neuron, place, codes.widest)  # [C K, M]
        rows += (column % self.trees * self.leaf.shape[1]).int()[:, None]
        inside = equal(take(self.leaf, rows), (column // self.trees).to(torch.uint8)).float()
        before = torch.where(bins % codes.bins > 0, (bins - 1) * columns + column, -1)
        first = before < 0
        counts = inside.cumsum(1).add_(take(self.counts, before.clamp_min(0)).masked_fill_(first, 0.0)[:, None])
        sums = take(self.residual, rows).mul_(inside).cumsum(1)
        sums.add_(take(self.sums, before.clamp_min(0)).masked_fill_(first, 0.0)[:, None])
        share = counts / self.rows[column, None]
        gains = sums.addcmul_(share, self.total[column, None], value=-1.0).square_()
        gains /= share.neg_().add_(1.0).mul_(counts).clamp_min_(0.4)
        gains *= codes.windows(codes.splits_here, neuron, place, codes.widest)
        best, which = (gains.amax(1) * jitter[neuron, column]).view(columns, -1).max(1)
        which += torch.arange(columns) * chosen.shape[1]
        return neuron[which], place[which] + gains[which].argmax(1) + 1, best

    def _promising_bins(self, excess: torch.Tensor, jitter: torch.Tensor) -> torch.Tensor:
        """Bins [C, K] with the largest gain if their sum, halfway, is off by its standard deviation."""
        codes, (per_neuron, most) = self.codes, SEARCHED[self.codes.rows > MANY_ROWS]
        before = torch.nn.functional.pad(self.counts, (0, 0, 1, 0))[:, :-1]
        inside = self.counts - before
        halfway = (self.counts + before).mul_(0.5)
        middle = torch.nn.functional.pad(excess, (0, 0, 1, 0))[:, :-1].add(excess).mul_(0.5).abs_()
        middle.add_(self.spread)
        hope = middle.square_().div_((halfway * (1.0 - halfway / self.rows)).clamp_min_(0.4))
        hope.masked_fill_((inside < 1.5) | ~codes.divisible[:, :, None], 0.0).mul_(jitter[:, None])
        groups = -(-codes.bins // per_neuron)
        hope = torch.nn.functional.pad(hope, (0, 0, 0, groups * per_neuron - codes.bins))
        hope, group = hope.view(codes.neurons, groups, per_neuron, -1).max(1)  # [L, per_neuron, C]
        bins = (group * per_neuron + torch.arange(per_neuron)[:, None]).clamp_(max=codes.bins - 1)
        bins += torch.arange(codes.neurons)[:, None, None] * codes.bins
        hope, bins = hope.flatten(0, 1).T, bins.flatten(0, 1).T
        if hope.shape[1] > most:
            bins = bins.gather(1, hope.topk(most, 1, sorted=False).indices)
        return bins


def take(source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Entries of the flattened `source`, in the shape of `index`; several times as fast as indexing."""
    return source.flatten().index_select(0, index.flatten()).view(index.shape)


def equal(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Whether each row of `left` is `right`; numpy compares bytes several times as fast as torch."""
    return torch.from_numpy(np.equal(left.numpy(), right.numpy()[:, None]))


def descend(rank: torch.Tensor, leaf: torch.Tensor, neuron: torch.Tensor, border: torch.Tensor) -> torch.Tensor:
    """The child node of each row [T, N], given its node `leaf` and the place of each row in sorted order [L, N]."""
    nodes = leaf.numpy()
    child = nodes * 2
    for node, (column, first) in enumerate(zip(neuron, border.to(rank.dtype).numpy(), strict=True)):
        right = rank.index_select(0, column).numpy() >= first[:, None]  # [T, N]
        if len(neuron) > 1:
            right &= nodes == node
        child += right.view(np.uint8)
    return torch.from_numpy(child)
