"""SNC: single-neuron classification, and the alignment of neurons with factors (Mahon et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
import torch

from alebrije.arrays import ArrayOrTensor, Floats, Integers
from alebrije.checks import checked, usable_device
from alebrije.errors import InputError
from alebrije.metrics.inputs import answer_like, check_codes_and_classes, check_rows
from alebrije.metrics.mutual_information import equal_count_information, equal_count_table, mutual_information
from alebrije.metrics.reasons import which_vary
from alebrije.metrics.record import PerFactorScore, neuron_metric

Bins = Literal["classes", "gcd"]
LEAST_ROWS = 3  # any neuron that varies fits two rows perfectly


@dataclass(frozen=True, eq=False, kw_only=True)
class SingleNeuronScore(PerFactorScore):
    """SNC by Equations 3 and 4; every array has one entry per factor.

    A factor with a single value has accuracy and chance 1, and no neuron: its alignment is -1.
    """

    accuracy: Any
    chance: Any
    alignment: Any

    @property
    def excess(self) -> float:
        """Mean accuracy above chance, a - r, without the division by 1 - r, as in the paper's Table 1."""
        varied = self.chance < 1
        return float((self.accuracy - self.chance)[varied].mean())


@checked
def align_neurons(codes: ArrayOrTensor, factors: ArrayOrTensor, device: str = "cpu") -> Any:
    """The neuron of each factor [F]: distinct neurons with the largest total mutual information (Equation 2).

    Neurons are cut into as many equal-count bins as the factor has values, as for the published numbers. A factor with
    a single value needs no neuron: its entry is -1. A GPU as `device` is faster for many neurons.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> align_neurons(factors[:, ::-1].astype(float), factors)
    array([1, 0])
    """
    return answer_like(codes, align(*check_codes_and_classes(codes, factors, "alignment"), device))


def align(codes: Floats, factors: Integers, device: str = "cpu") -> Integers:
    """`align_neurons` on checked arrays."""
    varied, _ = which_vary(factors)
    if varied.sum() > codes.shape[1]:
        raise InputError(
            f"each factor needs its own neuron: {varied.sum()} factors cannot be aligned to {codes.shape[1]} neurons"
        )
    alignment = np.full(len(varied), -1, dtype=np.int64)
    if varied.any():
        if (where := usable_device(device)).type == "cuda":
            information = _information_on(where, codes, factors[:, varied])
        else:
            information = np.array([_information(z, factors.T[varied]) for z in codes.T]).T
        alignment[varied] = scipy.optimize.linear_sum_assignment(information, maximize=True)[1]
    return alignment


def _information_on(device: torch.device, codes: Floats, factors: Integers) -> Floats:
    """`_information` of all neurons [N, L] at once: [F, L]."""
    on_device = (torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in (codes, factors))
    return np.asarray(equal_count_information(*on_device).cpu().numpy(), dtype=np.float64)


def _information(code: Floats, factors: Integers) -> list[float]:
    """The information of one neuron [N] about each factor [F, N]."""
    order = np.argsort(code, kind="stable")
    return [mutual_information(equal_count_table(code, g, int(g.max()) + 1, order)) for g in factors]


@neuron_metric(
    "snc",
    title="Single-neuron classification",
    cites="Mahon et al. 2024, Equations 3-4",
    invariances=("sample order", "neuron permutation", "label permutation", "scaling", "dtype", "device"),
    version=2,
)
def single_neuron_classification(
    codes: ArrayOrTensor, factors: ArrayOrTensor, bins: Bins = "classes", minimum_bin_size: int | None = None
) -> SingleNeuronScore:
    """Accuracy a of predicting each factor from one binned neuron, above chance r: mean of max(0, (a - r) / (1 - r)).

    ``bins="classes"`` cuts the aligned neuron into as many equal-count bins as the factor has values, as for the
    published numbers. ``bins="gcd"`` follows the paper's text: the bin size is the greatest common divisor of the class
    sizes, but at least `minimum_bin_size` rows (by default a hundredth of the rows; the paper does not specify it), and
    each class gets its share of bins. Bins are matched to classes by the Hungarian method. A constant code scores 0. A
    factor with a single value gets NaN and is left out of the mean; no neuron is aligned with it (version 2). Needs at
    least 3 rows.

    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50)
    >>> single_neuron_classification(factors + 0.5, factors).score
    1.0
    """
    values, classes = check_codes_and_classes(codes, factors, "single-neuron classification")
    check_rows(values, LEAST_ROWS, "single-neuron classification")
    if bins not in ("classes", "gcd"):
        raise InputError(f"bins must be 'classes' or 'gcd', got {bins!r}")
    if minimum_bin_size is not None and minimum_bin_size < 1:
        raise InputError(f"minimum_bin_size must be at least 1, got {minimum_bin_size}")
    alignment = align(values, classes)
    accuracy, chance = np.ones(len(alignment)), np.ones(len(alignment))
    least = minimum_bin_size if minimum_bin_size is not None else max(1, len(values) // 100)
    for factor, neuron in enumerate(alignment):
        if neuron < 0:
            continue
        sizes = np.bincount(classes[:, factor])
        quotas = np.ones(len(sizes), dtype=np.int64) if bins == "classes" else _bins_per_class(sizes, least)
        table = equal_count_table(values[:, neuron], classes[:, factor], int(quotas.sum()))
        hits = np.repeat(table, quotas, axis=1)
        accuracy[factor] = hits[scipy.optimize.linear_sum_assignment(hits, maximize=True)].sum() / len(values)
        chance[factor] = np.square(sizes / len(values)).sum()
    per_factor = _above_chance(accuracy, chance)
    settings = {"bins": bins, **({"minimum_bin_size": least} if bins == "gcd" else {})}
    return SingleNeuronScore.mean(codes, per_factor, settings, accuracy=accuracy, chance=chance, alignment=alignment)


def _above_chance(accuracy: Floats, chance: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        adjusted = np.maximum(0.0, (accuracy - chance) / (1.0 - chance))
    return np.where(chance >= 1.0, np.nan, adjusted)


def _bins_per_class(sizes: Integers, least: int) -> Integers:
    """The number of bins of each class: exact if the divisor is used, else by largest remainder."""
    size = max(int(np.gcd.reduce(sizes)), least)
    wanted = sizes / size
    quotas = np.maximum(np.floor(wanted).astype(np.int64), 1)
    missing = max(round(sizes.sum() / size) - int(quotas.sum()), 0)
    quotas[np.argsort(quotas - wanted, kind="stable")[:missing]] += 1
    return quotas
