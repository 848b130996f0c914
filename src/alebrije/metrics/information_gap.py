"""MIG and modularity: metrics that need only the mutual information of each neuron with each factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.metrics.arrays import Array, answer_like, check_classes, check_codes, mean_of_defined, which_vary
from alebrije.metrics.information import entropy, information_matrix
from alebrije.metrics.record import Score, register


@dataclass(frozen=True, eq=False, kw_only=True)
class InformationScore(Score):
    """`information` [L, F] is the mutual information in nats that the score was read from."""

    information: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class InformationGapScore(InformationScore):
    """The mutual information gap: `per_factor` [F], not a number for factors with a single value."""

    per_factor: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class ModularityScore(InformationScore):
    """Modularity: `per_neuron` [L], 0 for neurons that tell nothing."""

    per_neuron: Any


@register(
    "mig",
    title="Mutual information gap",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Chen et al. 2018",
    invariances=("sample order", "neuron permutation", "label permutation", "scaling", "dtype", "device"),
)
def mutual_information_gap(codes: Array, factors: Array, bins: int = 20) -> InformationGapScore:
    """How much more the best neuron knows of a factor than the second best, as a share of the factor's entropy.

    Neurons are cut into `bins` of equal width, information is counted, and gaps are averaged over factors. A
    constant code scores 0. A factor with a single value has no entropy to share: it gets not-a-number and is left out.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> mutual_information_gap(factors.astype(float), factors).score
    1.0
    """
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "the mutual information gap")
    information = information_matrix(values, classes, bins)
    best = np.sort(np.pad(information, ((1, 0), (0, 0))), axis=0)  # a second neuron that knows nothing, if need be
    entropies = np.array([entropy(np.bincount(g).astype(np.float64)) for g in classes.T])
    constant = entropies == 0
    gaps = np.where(constant, np.nan, (best[-1] - best[-2]) / np.where(constant, 1.0, entropies))
    score, reason = mean_of_defined(gaps)
    return InformationGapScore(
        score=score,
        reason=reason,
        per_factor=answer_like(codes, gaps),
        information=answer_like(codes, information),
        settings={"bins": bins},
    )


@register(
    "modularity",
    title="Modularity",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Ridgeway & Mozer 2018",
    invariances=("sample order", "neuron permutation", "label permutation", "scaling", "dtype", "device"),
    version=2,
)
def modularity(codes: Array, factors: Array, bins: int = 20) -> ModularityScore:
    """How far each neuron informs about one factor alone: 1 - sum of other MI^2 / (best MI^2 x (F - 1)), averaged.

    Neurons that inform about nothing count 0. A factor with a single value has nothing to inform about: it is left out,
    of F too. With a single factor there is nothing to mix: not a number.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> modularity(factors.astype(float), factors).score
    1.0
    """
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "modularity")
    information = information_matrix(values, classes, bins)
    varied, reason = which_vary(classes)
    squares = np.square(information[:, varied])
    best, others = squares.max(1, initial=0.0), squares.shape[1] - 1
    alive = best > 0
    spread = (squares.sum(1) - best) / np.where(alive, best, 1.0) / max(others, 1)
    per_neuron = np.where(alive, 1.0 - spread, 0.0) if others > 0 else np.full(len(best), np.nan)
    if others == 0:
        reason = f"{reason}, which leaves only one" if reason else "modularity compares factors and there is only one"
    return ModularityScore(
        score=float(per_neuron.mean()),
        reason=reason,
        per_neuron=answer_like(codes, per_neuron),
        information=answer_like(codes, information),
        settings={"bins": bins},
    )
