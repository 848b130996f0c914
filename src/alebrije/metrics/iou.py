"""Overlap of true and predicted segments: mean IoU, mean best overlap and segmentation covering."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.metrics.contingency import grouping_metric, score_tables


def _ious(table: Integers) -> Floats:
    """Intersection over union of every true segment with every predicted segment."""
    union = table.sum(1, keepdims=True) + table.sum(0, keepdims=True) - table
    return np.asarray(table / union)


def _matched_iou(table: Integers) -> float:
    ious = _ious(table)
    matched = scipy.optimize.linear_sum_assignment(ious, maximize=True)
    return float(ious[matched].sum() / len(ious))


@grouping_metric("miou", title="Mean IoU, Hungarian matching", cites="Jaccard 1901; Engelcke et al. 2020")
def mean_iou(true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None) -> Any:
    """Mean intersection over union of each true segment with the predicted segment matched to it.

    The matching is one to one and maximises the sum. A true segment without a match counts as 0.

    >>> mean_iou(np.array([[[0, 0, 1, 1]]]), np.array([[[5, 5, 5, 5]]]))
    array([0.25])
    """
    return score_tables(true, pred, ignore, _matched_iou)


@grouping_metric("mbo", title="Mean best overlap", cites="Pont-Tuset et al. 2015")
def mean_best_overlap(true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None) -> Any:
    """Mean intersection over union of each true segment with the predicted segment that fits it best.

    Two true segments may share a predicted one, so the value is never below `mean_iou`.
    """
    return score_tables(true, pred, ignore, lambda table: float(_ious(table).max(1).mean()))


@grouping_metric(
    "sc",
    title="Segmentation covering",
    cites="Arbeláez et al. 2011; Engelcke et al. 2020",
    also={"msc": {"title": "Mean segmentation covering", "settings": {"weighted": False}}},
)
def segmentation_covering(
    true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None, weighted: bool = True
) -> Any:
    """Mean best overlap of the true segments, weighted by their size (SC) or not (`weighted=False`, mSC).

    >>> true = np.array([[[0, 0, 0, 1]]])
    >>> segmentation_covering(true, np.zeros_like(true)), segmentation_covering(true, 0 * true, weighted=False)
    (array([0.625]), array([0.5]))
    """

    def covering(table: Integers) -> float:
        return float(np.average(_ious(table).max(1), weights=table.sum(1) if weighted else None))

    return score_tables(true, pred, ignore, covering)
