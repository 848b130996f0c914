"""Grouping: are pixels grouped into objects, too coarsely, rightly or too finely?

All functions take integer label maps [B, H, W] (or [B, T, H, W], where a video counts as one image of
T x H x W pixels) and return one value per image. Pixels whose true label is `ignore` are left out; with
``ignore=0`` these are the foreground forms (FG-ARI and so on). An image without a pixel left has no value:
it gets not-a-number and an `UndefinedMetricWarning` says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import torch

from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics.arrays import Array, Floats, Integers, answer_like
from alebrije.metrics.contingency import PairCounts, contingency_tables, pair_counts
from alebrije.metrics.information import entropy
from alebrije.metrics.record import Invariance, register

_EVERYTHING: tuple[Invariance, ...] = ("sample order", "label permutation", "batch split", "dtype", "device")
_RAND = "Hubert & Arabie 1985; Zimmermann et al. 2023 (ARP, ARR)"
_MAPS = ("true", "pred")


def _answer(reference: Array, values: Floats, pixels: Integers | list[int], depth: int = 3) -> Any:
    """Values in the caller's kind, not a number where no pixel is left; the warning points `depth` calls up."""
    empty = np.asarray(pixels) == 0
    values = np.where(empty, np.nan, values)
    if empty.any():
        warnings.warn(
            f"{int(empty.sum())} of {len(values)} images have no pixel left to score: not a number",
            UndefinedMetricWarning,
            stacklevel=depth,
        )
    return answer_like(reference, values)


def _adjusted(counts: PairCounts, most: Floats) -> Floats:
    """(pairs found - pairs expected) / (`most` - pairs expected), Equation 11 of Zimmermann et al.

    Where nothing could be found beyond chance, nothing was missed either: the value is 1, as in scikit-learn.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.where(counts.total > 0, counts.true * (counts.pred / counts.total), 0.0)
        adjusted = (counts.both - expected) / (most - expected)
    return np.where(most == expected, 1.0, adjusted)


@register(
    "ari",
    title="Adjusted Rand index",
    instrument="grouping",
    inputs=_MAPS,
    range=(-0.5, 1.0),
    cites=_RAND,
    invariances=_EVERYTHING,
    also={"fg-ari": {"title": "Adjusted Rand index, foreground", "settings": {"ignore": 0}}},
)
def adjusted_rand_index(true: Array, pred: Array, ignore: int | None = None) -> Any:
    """Agreement of two groupings over pairs of pixels, corrected for chance: 1 equal, 0 chance.

    >>> true = np.array([[[0, 0, 1, 1]]])
    >>> adjusted_rand_index(true, np.array([[[7, 7, -3, -3]]]))
    array([1.])
    """
    counts = pair_counts(true, pred, ignore)
    return _answer(true, _adjusted(counts, (counts.true + counts.pred) / 2), counts.pixels)


@register(
    "arp",
    title="Adjusted Rand precision",
    instrument="grouping",
    inputs=_MAPS,
    range=(-np.inf, 1.0),
    cites=_RAND,
    invariances=_EVERYTHING,
    also={"fg-arp": {"title": "Adjusted Rand precision, foreground", "settings": {"ignore": 0}}},
)
def adjusted_rand_precision(true: Array, pred: Array, ignore: int | None = None) -> Any:
    """Of the pixel pairs together in the prediction, the share together in the truth, corrected for chance.

    Low when objects are merged, 1 when they are only split (Definition 3 and Figure 9 of Zimmermann et al.;
    the paper's Listing 1 and one sentence of its Section 3 have precision and recall exchanged).

    >>> merged = np.array([[[0, 0, 0, 0]]])
    >>> adjusted_rand_precision(np.array([[[0, 0, 1, 1]]]), merged)
    array([0.])
    """
    counts = pair_counts(true, pred, ignore)
    return _answer(true, _adjusted(counts, counts.pred), counts.pixels)


@register(
    "arr",
    title="Adjusted Rand recall",
    instrument="grouping",
    inputs=_MAPS,
    range=(-np.inf, 1.0),
    cites=_RAND,
    invariances=_EVERYTHING,
    also={"fg-arr": {"title": "Adjusted Rand recall, foreground", "settings": {"ignore": 0}}},
)
def adjusted_rand_recall(true: Array, pred: Array, ignore: int | None = None) -> Any:
    """Of the pixel pairs together in the truth, the share together in the prediction, corrected for chance.

    Low when objects are split, 1 when they are only merged (Definition 3 of Zimmermann et al.).

    >>> split = np.array([[[0, 1, 2, 3]]])
    >>> adjusted_rand_recall(np.array([[[0, 0, 1, 1]]]), split)
    array([0.])
    """
    counts = pair_counts(true, pred, ignore)
    return _answer(true, _adjusted(counts, counts.true), counts.pixels)


def _per_table(true: Array, pred: Array, ignore: int | None, value: Callable[[Integers], float]) -> Any:
    """`value` of each image's table without its empty rows and columns."""
    values, pixels = [], []
    for table in contingency_tables(true, pred, ignore):
        table = table[table.any(1)][:, table.any(0)]
        pixels.append(int(table.sum()))
        values.append(value(table) if table.size else np.nan)
    return _answer(true, np.array(values, dtype=np.float64), pixels, depth=4)


def _overlaps(table: Integers) -> Floats:
    """Intersection over union of every true with every predicted segment."""
    union = table.sum(1, keepdims=True) + table.sum(0, keepdims=True) - table
    return np.asarray(table / union)


def _best_overlap(table: Integers) -> Floats:
    return np.asarray(_overlaps(table).max(1))


def _matched_iou(table: Integers) -> float:
    overlaps = _overlaps(table)
    matched = scipy.optimize.linear_sum_assignment(overlaps, maximize=True)
    return float(overlaps[matched].sum() / len(overlaps))


@register(
    "miou",
    title="Mean IoU, Hungarian matching",
    instrument="grouping",
    inputs=_MAPS,
    cites="Jaccard 1901; Engelcke et al. 2020",
    invariances=_EVERYTHING,
)
def mean_iou(true: Array, pred: Array, ignore: int | None = None) -> Any:
    """Intersection over union of each true segment with the one prediction matched to it, averaged.

    The matching is one to one and the best in total; a true segment left without a partner counts 0.

    >>> mean_iou(np.array([[[0, 0, 1, 1]]]), np.array([[[5, 5, 5, 5]]]))
    array([0.25])
    """
    return _per_table(true, pred, ignore, _matched_iou)


@register(
    "mbo",
    title="Mean best overlap",
    instrument="grouping",
    inputs=_MAPS,
    cites="Pont-Tuset et al. 2015",
    invariances=_EVERYTHING,
)
def mean_best_overlap(true: Array, pred: Array, ignore: int | None = None) -> Any:
    """Intersection over union of each true segment with whichever prediction fits it best, averaged.

    Two true segments may choose the same prediction, so it is never below `mean_iou`.
    """
    return _per_table(true, pred, ignore, lambda table: float(_best_overlap(table).mean()))


@register(
    "sc",
    title="Segmentation covering",
    instrument="grouping",
    inputs=_MAPS,
    cites="Arbeláez et al. 2011; Engelcke et al. 2020",
    invariances=_EVERYTHING,
    also={"msc": {"title": "Mean segmentation covering", "settings": {"weighted": False}}},
)
def segmentation_covering(true: Array, pred: Array, ignore: int | None = None, weighted: bool = True) -> Any:
    """Best overlap of each true segment, weighted by its size (SC) or not (`weighted=False`, mSC).

    >>> true = np.array([[[0, 0, 0, 1]]])
    >>> segmentation_covering(true, np.zeros_like(true)), segmentation_covering(true, 0 * true, weighted=False)
    (array([0.625]), array([0.5]))
    """

    def covering(table: Integers) -> float:
        return float(np.average(_best_overlap(table), weights=table.sum(1) if weighted else None))

    return _per_table(true, pred, ignore, covering)


@register(
    "ami",
    title="Adjusted mutual information",
    instrument="grouping",
    inputs=_MAPS,
    range=(-1.0, 1.0),
    cites="Vinh et al. 2010",
    invariances=_EVERYTHING,
)
def adjusted_mutual_information(true: Array, pred: Array, ignore: int | None = None) -> Any:
    """Mutual information of two groupings, corrected for chance and normalised by their mean entropy.

    >>> adjusted_mutual_information(np.array([[[0, 0, 1, 1]]]), np.array([[[1, 1, 0, 0]]]))
    array([1.])
    """
    return _per_table(true, pred, ignore, _adjusted_information)


def _adjusted_information(table: Integers) -> float:
    if table.shape in ((1, 1), (table.sum(), table.sum())):
        return 1.0  # both trivial in the same way: equal
    from sklearn.metrics.cluster import expected_mutual_information

    entropies = entropy(table.sum(1)), entropy(table.sum(0))
    information = sum(entropies) - entropy(table)
    expected = expected_mutual_information(table.astype(np.int64), int(table.sum()))
    rest = float(np.mean(entropies)) - expected
    tiny = np.finfo(np.float64).eps  # the sign of a vanishing denominator is kept, as in scikit-learn
    rest = min(rest, -tiny) if rest < 0 else max(rest, tiny)
    return float((information - expected) / rest)


def labels_from_masks(masks: Array) -> Any:
    """The label map [B, H, W] of soft or hard masks [B, K, H, W]: at each pixel the strongest mask wins.

    Video masks [B, T, K, H, W] become [B, T, H, W]. Of equal masks the first wins.

    >>> labels_from_masks(np.array([[[[0.9, 0.2]], [[0.1, 0.8]]]]))
    array([[[0, 1]]])
    """
    if masks.ndim not in (4, 5) or 0 in masks.shape:
        raise InputError(
            f"masks must have shape [B, K, H, W] or [B, T, K, H, W] with no empty axis, got {list(masks.shape)}"
        )
    if isinstance(masks, torch.Tensor):
        real, finite = not masks.is_complex(), bool(masks.isfinite().all())
    else:
        real = masks.dtype.kind in "fiub"
        finite = real and bool(np.isfinite(masks).all())
    if not real:
        raise InputError(f"masks must hold real numbers, got dtype {masks.dtype}")
    if not finite:
        raise InputError("masks must be finite")
    if isinstance(masks, torch.Tensor) and masks.dtype == torch.bool:
        masks = masks.byte()  # torch has no argmax of booleans
    return masks.argmax(-3)
