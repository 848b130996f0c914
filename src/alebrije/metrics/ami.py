"""AMI: adjusted mutual information of two groupings (Vinh et al. 2010)."""

from __future__ import annotations

from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor, Integers
from alebrije.metrics.contingency import grouping_metric, score_tables
from alebrije.metrics.mutual_information import entropy


@grouping_metric("ami", title="Adjusted mutual information", range=(-1.0, 1.0), cites="Vinh et al. 2010")
def adjusted_mutual_information(true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None) -> Any:
    """Mutual information of two groupings, corrected for chance and normalised by their mean entropy.

    >>> adjusted_mutual_information(np.array([[[0, 0, 1, 1]]]), np.array([[[1, 1, 0, 0]]]))
    array([1.])
    """
    return score_tables(true, pred, ignore, lambda table, _: _adjusted_information(table))


def _adjusted_information(table: Integers) -> float:
    if table.shape in ((1, 1), (table.sum(), table.sum())):
        return 1.0  # both maps are one segment, or both have one segment per pixel: equal
    from sklearn.metrics.cluster import expected_mutual_information

    entropies = entropy(table.sum(1)), entropy(table.sum(0))
    information = sum(entropies) - entropy(table)
    expected = expected_mutual_information(table.astype(np.int64), int(table.sum()))
    rest = float(np.mean(entropies)) - expected
    tiny = np.finfo(np.float64).eps  # a denominator near 0 keeps its sign, as in scikit-learn
    rest = min(rest, -tiny) if rest < 0 else max(rest, tiny)
    return float((information - expected) / rest)
