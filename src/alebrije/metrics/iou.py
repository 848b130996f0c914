"""Overlap of true and predicted segments: mean IoU, mean best overlap and segmentation covering.

With `ignore`, the segment of that true label is left out of the average and needs no match, but its pixels stay: a
prediction that spills over them loses. This is what GENESIS's and OCLF's code does with the background. With
``ignored_pixels="dropped"``, its pixels are removed from all segments, as FG-ARI does; one prediction that covers the
whole image is then perfect for an image with one object. Version 1 always did so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.errors import InputError
from alebrije.metrics.contingency import grouping_metric, score_tables

IgnoredPixels = Literal["kept", "dropped"]
overlap_metric = partial(grouping_metric, version=2)


def _score_overlaps(
    true: ArrayOrTensor,
    pred: ArrayOrTensor,
    ignore: int | None,
    ignored_pixels: IgnoredPixels,
    score: Callable[[Floats, Integers], float],
) -> Any:
    """Apply `score` to the IoU of every true segment with every predicted one, and to the sizes of the true ones."""
    if ignored_pixels not in ("kept", "dropped"):
        raise InputError(f"ignored_pixels must be 'kept' or 'dropped', got {ignored_pixels!r}")

    def score_table(table: Integers, pred_sizes: Integers) -> float:
        sizes = table.sum(1)
        return score(np.asarray(table / (sizes[:, None] + pred_sizes - table)), sizes)

    return score_tables(true, pred, ignore, score_table, keep_ignored=ignored_pixels == "kept")


@overlap_metric("miou", title="Mean IoU, Hungarian matching", cites="Jaccard 1901; Engelcke et al. 2020")
def mean_iou(
    true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None, ignored_pixels: IgnoredPixels = "kept"
) -> Any:
    """Mean intersection over union of each true segment with the predicted segment matched to it.

    The matching is one to one and maximises the sum. A true segment without a match counts as 0.

    The pixels of the label `ignore` are kept or dropped; see this module.

    >>> mean_iou(np.array([[[0, 0, 1, 1]]]), np.array([[[5, 5, 5, 5]]]))
    array([0.25])
    >>> mean_iou(np.array([[[0, 0, 1, 1]]]), np.array([[[5, 5, 5, 5]]]), ignore=0)
    array([0.5])
    """

    def matched_iou(ious: Floats, sizes: Integers) -> float:
        matched = scipy.optimize.linear_sum_assignment(ious, maximize=True)
        return float(ious[matched].sum() / len(ious))

    return _score_overlaps(true, pred, ignore, ignored_pixels, matched_iou)


@overlap_metric("mbo", title="Mean best overlap", cites="Pont-Tuset et al. 2015")
def mean_best_overlap(
    true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None, ignored_pixels: IgnoredPixels = "kept"
) -> Any:
    """Mean intersection over union of each true segment with the predicted segment that fits it best.

    Two true segments may share a predicted one, so the value is never below `mean_iou`. The pixels of the label
    `ignore` are kept or dropped; see this module.
    """
    return _score_overlaps(true, pred, ignore, ignored_pixels, lambda ious, sizes: float(ious.max(1).mean()))


@overlap_metric(
    "sc",
    title="Segmentation covering",
    cites="Arbeláez et al. 2011; Engelcke et al. 2020",
    also={"msc": {"title": "Mean segmentation covering", "settings": {"weighted": False}}},
)
def segmentation_covering(
    true: ArrayOrTensor,
    pred: ArrayOrTensor,
    ignore: int | None = None,
    weighted: bool = True,
    ignored_pixels: IgnoredPixels = "kept",
) -> Any:
    """Mean best overlap of the true segments, weighted by their size (SC) or not (`weighted=False`, mSC).

    The pixels of the label `ignore` are kept or dropped; see this module.

    >>> true = np.array([[[0, 0, 0, 1]]])
    >>> segmentation_covering(true, np.zeros_like(true)), segmentation_covering(true, 0 * true, weighted=False)
    (array([0.625]), array([0.5]))
    """

    def covering(ious: Floats, sizes: Integers) -> float:
        return float(np.average(ious.max(1), weights=sizes if weighted else None))

    return _score_overlaps(true, pred, ignore, ignored_pixels, covering)
