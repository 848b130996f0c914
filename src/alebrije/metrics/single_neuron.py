"""SNC and the alignment it rests on: is each factor held by one neuron of its own? (Mahon et al. 2024)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from alebrije.errors import InputError
from alebrije.metrics.arrays import Array, Floats, Integers, answer_like, check_classes, check_codes, mean_of_defined
from alebrije.metrics.information import equal_count_table, mutual_information
from alebrije.metrics.record import Score, register

Bins = Literal["classes", "gcd"]


@dataclass(frozen=True, eq=False, kw_only=True)
class SingleNeuronScore(Score):
    """SNC by Equations 3 and 4; each field after `score` has one entry per factor."""

    per_factor: Any
    accuracy: Any
    chance: Any
    alignment: Any

    @property
    def excess(self) -> float:
        """Mean accuracy above chance, a - r without the division by 1 - r: the convention of the paper's Table 1."""
        varied = self.chance < 1
        return float((self.accuracy - self.chance)[varied].mean())


def align_neurons(codes: Array, factors: Array) -> Any:
    """The neuron of each factor [F]: distinct neurons with the greatest total mutual information (Equation 2).

    Information is counted over as many equal-count bins as the factor has values, as the published numbers were.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> align_neurons(factors[:, ::-1].astype(float), factors)
    array([1, 0])
    """
    values = check_codes(codes)
    return answer_like(codes, align(values, check_classes(factors, len(values), "alignment")))


def align(codes: Floats, factors: Integers) -> Integers:
    """`align_neurons` on checked arrays."""
    if factors.shape[1] > codes.shape[1]:
        raise InputError(
            f"each factor needs a neuron of its own: {factors.shape[1]} factors cannot be aligned "
            f"to {codes.shape[1]} neurons"
        )
    information = [[mutual_information(equal_count_table(z, g, int(g.max()) + 1)) for z in codes.T] for g in factors.T]
    return np.asarray(scipy.optimize.linear_sum_assignment(np.array(information), maximize=True)[1], dtype=np.int64)


@register(
    "snc",
    title="Single-neuron classification",
    instrument="neurons",
    inputs=("codes", "factors"),
    cites="Mahon et al. 2024, Equations 3-4",
    invariances=("sample order", "neuron permutation", "label permutation", "scaling", "dtype", "device"),
)
def single_neuron_classification(
    codes: Array, factors: Array, bins: Bins = "classes", minimum_bin_size: int | None = None
) -> SingleNeuronScore:
    """How well one neuron, cut into bins, tells each factor: max(0, (a - r) / (1 - r)), averaged over factors.

    ``bins="classes"`` cuts the aligned neuron into as many equal-count bins as the factor has values, as the
    published numbers were made. ``bins="gcd"`` is the paper's text: bins as large as the greatest common divisor of
    the class sizes, but at least `minimum_bin_size` rows (a hundredth of the rows unless given: the paper leaves it
    open), each class receiving its share of bins. Bins are matched to classes by the Hungarian method.
    A constant code scores 0. A factor with a single value cannot be told apart: it gets not-a-number and is left out.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50)
    >>> single_neuron_classification(factors + 0.5, factors).score
    1.0
    """
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "single-neuron classification")
    if bins not in ("classes", "gcd"):
        raise InputError(f"bins must be 'classes' or 'gcd', got {bins!r}")
    if minimum_bin_size is not None and minimum_bin_size < 1:
        raise InputError(f"minimum_bin_size must be at least 1, got {minimum_bin_size}")
    alignment = align(values, classes)
    accuracy, chance = np.empty(len(alignment)), np.empty(len(alignment))
    least = minimum_bin_size if minimum_bin_size is not None else max(1, len(values) // 100)
    for factor, neuron in enumerate(alignment):
        sizes = np.bincount(classes[:, factor])
        quotas = np.ones(len(sizes), dtype=np.int64) if bins == "classes" else _bins_per_class(sizes, least)
        table = equal_count_table(values[:, neuron], classes[:, factor], int(quotas.sum()))
        rights = np.repeat(table, quotas, axis=1)
        accuracy[factor] = rights[scipy.optimize.linear_sum_assignment(rights, maximize=True)].sum() / len(values)
        chance[factor] = np.square(sizes / len(values)).sum()
    per_factor = _above_chance(accuracy, chance)
    score, reason = mean_of_defined(per_factor)
    return SingleNeuronScore(
        score=score,
        reason=reason,
        per_factor=answer_like(codes, per_factor),
        accuracy=answer_like(codes, accuracy),
        chance=answer_like(codes, chance),
        alignment=answer_like(codes, alignment),
        settings={"bins": bins, **({"minimum_bin_size": least} if bins == "gcd" else {})},
    )


def _above_chance(accuracy: Floats, chance: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        adjusted = np.maximum(0.0, (accuracy - chance) / (1.0 - chance))
    return np.where(chance >= 1.0, np.nan, adjusted)


def _bins_per_class(sizes: Integers, least: int) -> Integers:
    """How many bins each class receives: exact when the divisor is used, by largest remainder otherwise."""
    size = max(int(np.gcd.reduce(sizes)), least)
    wanted = sizes / size
    quotas = np.maximum(np.floor(wanted).astype(np.int64), 1)
    missing = max(round(sizes.sum() / size) - int(quotas.sum()), 0)
    quotas[np.argsort(quotas - wanted, kind="stable")[:missing]] += 1
    return quotas
