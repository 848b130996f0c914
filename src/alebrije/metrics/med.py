"""MED: DCI with mutual information as the importance of neurons (Cao et al. 2022)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from alebrije.arrays import ArrayOrTensor
from alebrije.errors import InputError
from alebrije.metrics.dci import ImportanceScore, importance_score, linear_importance
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.mutual_information import information_matrix
from alebrije.metrics.record import neuron_metric
from alebrije.probes import split_rows

Rows = Literal["all", "training"]


@neuron_metric(
    "med",
    title="Mutual-information-based entropy disentanglement",
    cites="Cao et al. 2022",
    invariances=("neuron permutation", "label permutation", "scaling", "dtype", "device"),
    version=2,
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
    information_rows: Rows = "all",
    held_out: float = 1 / 2,
    seed: int = 0,
) -> ImportanceScore:
    """DCI with mutual information as importance, and I from logistic regression on standardised codes.

    With `normalise` the information of each factor sums to 1 over neurons (Cao et al.). Without it the raw information
    is used, as in Mahon et al. 2024.

    ``information_rows="all"`` counts the information on all rows: nothing is predicted, so no rows are held out, and
    more rows find less information by chance. ``"training"`` counts it on the rows that the classifiers are fitted to,
    as Cao et al. do. Only I is measured on held-out rows. Factors with a single value change no score.

    Version 2: constant factors no longer raise D.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 100)
    >>> round(med(factors * 10.0, factors).score, 6)
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "MED")
    if information_rows not in ("all", "training"):
        raise InputError(f"information_rows must be 'all' or 'training', got {information_rows!r}")
    fit, test = split_rows(len(values), held_out, seed)
    counted = fit if information_rows == "training" else slice(None)
    information = information_matrix(values[counted], classes[counted], bins)
    if normalise:
        total = information.sum(0)
        information = information / np.where(total > 0, total, 1.0)
    _, predicted = linear_importance(values[fit], [*classes[fit].T], values[test])
    settings = {
        "normalise": normalise, "bins": bins, "information_rows": information_rows, "held_out": held_out, "seed": seed
    }  # fmt: skip
    return importance_score(codes, information, [*classes.T], test, predicted, settings)
