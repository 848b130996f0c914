"""Counts and mutual information between neurons and factors, shared by MIG, MED, modularity and alignment."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Floats, Integers
from alebrije.errors import InputError

_NEURONS_AT_ONCE = 512


def equal_width_bins(codes: Floats, bins: int) -> Integers:
    """The bin 0..bins-1 of each value [N, L], with bins of equal width between a neuron's minimum and maximum.

    A value on an edge, or less than 1e-7 of the range below it, goes to the upper bin, so that rounding does not
    decide. A neuron that varies only by rounding is constant: all its values are in one bin.
    """
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}")
    low, high = codes.min(0), codes.max(0)
    varied = high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high))
    scaled = (codes - low) / np.where(varied, high - low, np.inf)  # 0 to 1
    return np.asarray(np.minimum(np.floor((scaled + 1e-7) * bins), bins - 1), dtype=np.int64)


def joint_counts(left: Integers, right: Integers) -> Floats:
    """How often each class of `left` [N] occurs with each class of `right` [N]."""
    rows, columns = int(left.max()) + 1, int(right.max()) + 1
    return np.bincount(left * columns + right, minlength=rows * columns).reshape(rows, columns).astype(np.float64)


def entropy(counts: Floats | Integers) -> float:
    """Entropy in nats of the distribution given by `counts`, of any shape."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def mutual_information(counts: Floats) -> float:
    """Mutual information in nats of a table of joint counts; never below 0."""
    rows, columns = counts.sum(1, keepdims=True), counts.sum(0, keepdims=True)
    positive = counts > 0
    ratio = counts * counts.sum() / (rows * columns + (rows * columns == 0))
    return max(0.0, float((counts[positive] * np.log(ratio[positive])).sum() / counts.sum()))


def information_matrix(codes: Floats, factors: Integers, bins: int, device: str = "cpu") -> Floats:
    """Mutual information in nats [L, F] of every neuron, in equal-width bins, with every factor.

    A GPU as `device` is faster for many neurons.
    """
    binned = equal_width_bins(codes, bins)
    if torch.device(device).type == "cuda":
        where, classes = (torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in (binned, factors))
        return np.asarray(_binned_information(where, classes, bins).cpu().numpy(), dtype=np.float64)
    return np.array([[mutual_information(joint_counts(z, g)) for g in factors.T] for z in binned.T])


def equal_count_table(code: Floats, classes: Integers, bins: int, order: Integers | None = None) -> Floats:
    """Expected counts [bins, K] of the classes in bins of equal count, by rank of `code`.

    Equal values have no order, so ties that straddle a border are divided in proportion. The table is the mean over all
    ways to break the ties: it depends neither on chance nor on the order of the rows. `order` sorts the code, for
    callers that count several factors.
    """
    samples, class_count = len(code), int(classes.max()) + 1
    if order is None:
        order = np.argsort(code, kind="stable")
    ranked = code[order]
    borders = np.round(np.arange(bins + 1) * (samples / bins))
    inside = np.minimum(borders, samples - 1).astype(np.int64)
    first = np.searchsorted(ranked, ranked[inside], side="left")  # the ties around each border
    last = np.searchsorted(ranked, ranked[inside], side="right")
    stops = np.unique(np.concatenate([[0], first, last, [samples]]))
    pieces = np.repeat(np.arange(len(stops) - 1), np.diff(stops))
    counts = np.bincount(pieces * class_count + classes[order], minlength=(len(stops) - 1) * class_count)
    below = np.concatenate([np.zeros((1, class_count)), counts.reshape(-1, class_count).cumsum(0)])  # at each stop
    start, end = below[np.searchsorted(stops, first)], below[np.searchsorted(stops, last)]
    share = ((borders - first) / (last - first))[:, None]
    return np.diff(start + share * (end - start), axis=0)


def equal_count_information(codes: Tensor, factors: Tensor) -> Tensor:
    """Mutual information in nats [F, L] of neurons [N, L], in as many bins of equal count as a factor has values.

    `mutual_information` of `equal_count_table` for all neurons at once, on the device of the codes. Every factor [N, F]
    is numbered from 0.

    >>> codes = torch.tensor([[0.1, 1.0], [0.2, 0.0], [0.3, 1.0], [0.4, 0.0]]).double()
    >>> equal_count_information(codes, torch.tensor([[0], [0], [1], [1]]))
    tensor([[0.6931, 0.0000]], dtype=torch.float64)
    """
    found = []
    for some in torch.split(codes, _NEURONS_AT_ONCE, 1):
        ranked, order = some.T.sort(dim=1, stable=True)  # [L, N]
        found.append(torch.stack([_information(_tables(ranked, classes[order])) for classes in factors.T]))
    return torch.cat(found, 1)


def _tables(ranked: Tensor, classes: Tensor) -> Tensor:
    """`equal_count_table` [L, bins, K] of several neurons, from their sorted values and the classes in that order."""
    (neurons, samples), count = ranked.shape, int(classes.max()) + 1
    device, number = ranked.device, torch.arange(samples, device=ranked.device)
    borders = torch.from_numpy(np.round(np.arange(count + 1) * (samples / count))).to(device)
    inside = borders.clamp_max(samples - 1).long()
    differs = ranked[:, 1:] != ranked[:, :-1]
    edge = torch.ones(neurons, 1, dtype=torch.bool, device=device)
    starts = torch.where(torch.cat((edge, differs), 1), number, 0).cummax(1).values  # of the ties around each value
    ends = torch.where(torch.cat((differs, edge), 1), number + 1, samples).flip(1).cummin(1).values.flip(1)
    first, last = starts[:, inside], ends[:, inside]  # [L, bins + 1]
    stops = torch.cat((first, last), 1).sort(1).values
    passed = torch.zeros(neurons, samples + 1, dtype=torch.int64, device=device)
    passed.scatter_add_(1, stops, torch.ones_like(stops))
    pieces = passed[:, :-1].cumsum(1)  # stops at or before each value
    places = stops.shape[1] + 1
    keys = (torch.arange(neurons, device=device)[:, None] * places + pieces) * count + classes
    counts = torch.bincount(keys.flatten(), minlength=neurons * places * count).view(neurons, places, count)
    below = counts.cumsum(1).double()

    def up_to(position: Tensor) -> Tensor:
        index = torch.searchsorted(stops, position)[..., None].expand(-1, -1, count)
        return below.gather(1, index)

    start, end = up_to(first), up_to(last)
    return (start + ((borders - first) / (last - first))[..., None] * (end - start)).diff(dim=1)


def _binned_information(binned: Tensor, factors: Tensor, bins: int) -> Tensor:
    """Mutual information [L, F] of neurons in bins [N, L] with factors [N, F]."""
    found, neurons = [], torch.arange(binned.shape[1], device=binned.device)
    for classes in factors.T:
        count = int(classes.max()) + 1
        keys = (neurons * bins + binned) * count + classes[:, None]
        counts = torch.bincount(keys.flatten(), minlength=len(neurons) * bins * count)
        found.append(_information(counts.view(-1, bins, count).double()))
    return torch.stack(found, 1)


def _information(counts: Tensor) -> Tensor:
    """`mutual_information` of several tables [L, bins, K]."""
    total, expected = counts.sum((1, 2)), counts.sum(2, keepdim=True) * counts.sum(1, keepdim=True)
    ratio = counts * total[:, None, None] / torch.where(expected == 0, 1.0, expected)
    terms = torch.where(counts > 0, counts * ratio.log(), 0.0)
    return (terms.sum((1, 2)) / total).clamp_min(0.0)
