"""MED: DCI with mutual information as the importance of neurons (Cao et al. 2022)."""

from __future__ import annotations

import numpy as np

from alebrije.arrays import ArrayOrTensor
from alebrije.metrics.dci import ImportanceScore, importance_score, linear_importance
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.mutual_information import information_matrix
from alebrije.metrics.record import neuron_metric
from alebrije.probes import split_rows


@neuron_metric(
    "med",
    title="Mutual-information-based entropy disentanglement",
    cites="Cao et al. 2022",
    invariances=("neuron permutation", "label permutation", "scaling", "dtype", "device"),
    also={
        "med-raw": {
            "title": "MED without normalisation",
            "settings": {"normalise": False},
            "cites": "Cao et al. 2022, as used by Mahon et al. 2024",
        }
    },
)
def med(
    codes: ArrayOrTensor,
    factors: ArrayOrTensor,
    normalise: bool = True,
    bins: int = 20,
    held_out: float = 1 / 2,
    seed: int = 0,
) -> ImportanceScore:
    """DCI with mutual information as importance, and I from logistic regression on standardised codes.

    With `normalise` the information of each factor sums to 1 over neurons (Cao et al.). Without it the raw information
    is used, as in Mahon et al. 2024.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 100)
    >>> round(med(factors * 10.0, factors).score, 6)
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "MED")
    information = information_matrix(values, classes, bins)
    if normalise:
        total = information.sum(0)
        information = information / np.where(total > 0, total, 1.0)
    fit, test = split_rows(len(values), held_out, seed)
    _, predicted = linear_importance(values[fit], classes[fit], values[test])
    settings = {"normalise": normalise, "bins": bins, "held_out": held_out, "seed": seed}
    return importance_score(codes, information, classes, test, predicted, settings)
