"""Modularity: how far each neuron informs about a single factor (Ridgeway & Mozer 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.mutual_information import information_matrix
from alebrije.metrics.reasons import which_vary
from alebrije.metrics.record import Score, neuron_metric


@dataclass(frozen=True, eq=False, kw_only=True)
class ModularityScore(Score):
    """`per_neuron` [L], 0 for neurons without information, and the mutual information in nats [L, F]."""

    per_neuron: Any
    information: Any


@neuron_metric(
    "modularity",
    title="Modularity",
    cites="Ridgeway & Mozer 2018",
    invariances=("sample order", "neuron permutation", "label permutation", "scaling", "dtype", "device"),
    version=2,
)
def modularity(codes: ArrayOrTensor, factors: ArrayOrTensor, bins: int = 20) -> ModularityScore:
    """Mean over neurons of 1 - (sum of the other factors' MI^2) / (best MI^2 x (F - 1)).

    A neuron without information counts as 0. A factor with a single value is left out and does not count in F. With a
    single factor there is nothing to compare: NaN.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> modularity(factors.astype(float), factors).score
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "modularity")
    information = information_matrix(values, classes, bins)
    varied, reason = which_vary(classes)
    squares = np.square(information[:, varied])
    best, others = squares.max(1, initial=0.0), squares.shape[1] - 1
    informed = best > 0
    spread = (squares.sum(1) - best) / np.where(informed, best, 1.0) / max(others, 1)
    per_neuron = np.where(informed, 1.0 - spread, 0.0) if others > 0 else np.full(len(best), np.nan)
    if others == 0:
        reason = f"{reason}, which leaves only one" if reason else "modularity compares factors and there is only one"
    score, details = float(per_neuron.mean()), {"per_neuron": per_neuron, "information": information}
    return ModularityScore.like(codes, score, reason, {"bins": bins}, **details)
