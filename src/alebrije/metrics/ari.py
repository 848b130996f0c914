"""ARI, ARP and ARR: adjusted Rand index, precision and recall of two groupings (Zimmermann et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor, Floats
from alebrije.metrics.contingency import PairCounts, answer_per_image, grouping_metric, pair_counts
from alebrije.metrics.record import F


def _rand_metric(name: str, title: str, lowest: float) -> Callable[[F], F]:
    """Register a metric and its foreground form."""
    return grouping_metric(
        name,
        title=title,
        range=(lowest, 1.0),
        cites="Hubert & Arabie 1985; Zimmermann et al. 2023 (ARP, ARR)",
        also={f"fg-{name}": {"title": f"{title}, foreground", "settings": {"ignore": 0}}},
    )


def _adjusted(counts: PairCounts, most: Floats) -> Floats:
    """(pairs together in both - expected) / (`most` - expected), Equation 11 of Zimmermann et al.

    Where the denominator is 0, no pairs beyond chance could be found, so none were missed: 1, as in scikit-learn.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.where(counts.total > 0, counts.true * (counts.pred / counts.total), 0.0)
        adjusted = (counts.both - expected) / (most - expected)
    return np.where(most == expected, 1.0, adjusted)


@_rand_metric("ari", "Adjusted Rand index", lowest=-0.5)
def adjusted_rand_index(true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None) -> Any:
    """Agreement of two groupings over pairs of pixels, corrected for chance: 1 is equal, 0 is chance.

    >>> true = np.array([[[0, 0, 1, 1]]])
    >>> adjusted_rand_index(true, np.array([[[7, 7, -3, -3]]]))
    array([1.])
    """
    counts = pair_counts(true, pred, ignore)
    return answer_per_image(true, _adjusted(counts, (counts.true + counts.pred) / 2), counts.pixels)


@_rand_metric("arp", "Adjusted Rand precision", lowest=-np.inf)
def adjusted_rand_precision(true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None) -> Any:
    """Share of the pixel pairs together in the prediction that are together in the truth, corrected for chance.

    Low if objects are merged, 1 if they are only split (Definition 3 and Figure 9 of Zimmermann et al.; the paper's
    Listing 1 and one sentence of its Section 3 swap precision and recall).

    >>> merged = np.array([[[0, 0, 0, 0]]])
    >>> adjusted_rand_precision(np.array([[[0, 0, 1, 1]]]), merged)
    array([0.])
    """
    counts = pair_counts(true, pred, ignore)
    return answer_per_image(true, _adjusted(counts, counts.pred), counts.pixels)


@_rand_metric("arr", "Adjusted Rand recall", lowest=-np.inf)
def adjusted_rand_recall(true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None = None) -> Any:
    """Share of the pixel pairs together in the truth that are together in the prediction, corrected for chance.

    Low if objects are split, 1 if they are only merged (Definition 3 of Zimmermann et al.).

    >>> split = np.array([[[0, 1, 2, 3]]])
    >>> adjusted_rand_recall(np.array([[[0, 0, 1, 1]]]), split)
    array([0.])
    """
    counts = pair_counts(true, pred, ignore)
    return answer_per_image(true, _adjusted(counts, counts.true), counts.pixels)
