"""MIG: mutual information gap (Chen et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.mutual_information import entropy, information_matrix
from alebrije.metrics.record import PerFactorScore, neuron_metric


@dataclass(frozen=True, eq=False, kw_only=True)
class InformationGapScore(PerFactorScore):
    """`per_factor` [F], NaN for factors with a single value, and the mutual information in nats [L, F]."""

    information: Any


@neuron_metric(
    "mig",
    title="Mutual information gap",
    cites="Chen et al. 2018",
    invariances=("sample order", "neuron permutation", "label permutation", "scaling", "dtype", "device"),
)
def mutual_information_gap(codes: ArrayOrTensor, factors: ArrayOrTensor, bins: int = 20) -> InformationGapScore:
    """Mutual information of a factor with its best neuron minus the second best, over the factor's entropy.

    Neurons are cut into `bins` of equal width; gaps are averaged over factors. A constant code scores 0. A factor with
    a single value has no entropy: it gets NaN and is left out of the mean.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> mutual_information_gap(factors.astype(float), factors).score
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "the mutual information gap")
    information = information_matrix(values, classes, bins)
    best = np.sort(np.pad(information, ((1, 0), (0, 0))), axis=0)  # a row of 0, so that a second best exists
    entropies = np.array([entropy(np.bincount(g).astype(np.float64)) for g in classes.T])
    constant = entropies == 0
    gaps = np.where(constant, np.nan, (best[-1] - best[-2]) / np.where(constant, 1.0, entropies))
    return InformationGapScore.mean(codes, gaps, {"bins": bins}, information=information)
