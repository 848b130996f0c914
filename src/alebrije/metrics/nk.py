"""NK: neuron knockout, the accuracy lost without a factor's own neuron (Mahon et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.arrays import ArrayOrTensor, to_numpy
from alebrije.checks import usable_device
from alebrije.errors import InputError
from alebrije.metrics.inputs import check_codes_and_classes
from alebrije.metrics.reasons import which_vary
from alebrije.metrics.record import PerFactorScore, neuron_metric
from alebrije.metrics.snc import align
from alebrije.probes import knockout_accuracy, split_rows


@dataclass(frozen=True, eq=False, kw_only=True)
class KnockoutScore(PerFactorScore):
    """NK per factor [F], the two accuracies it compares, and the drop of each held-out row [M, F]: -1, 0 or 1."""

    full_accuracy: Any
    knockout_accuracy: Any
    alignment: Any
    drops: Any

    @property
    def cases(self) -> Any:
        """The drop of each held-out row, averaged over the factors that vary."""
        varied = to_numpy(self.per_factor == self.per_factor)
        return to_numpy(self.drops)[:, varied].mean(1) if varied.any() else np.zeros(0)


@neuron_metric(
    "nk",
    title="Neuron knockout",
    range=(-1.0, 1.0),
    cites="Mahon et al. 2024, Section 4.3",
    invariances=("dtype", "device", "scaling"),
    version=2,
)
def neuron_knockout(
    codes: ArrayOrTensor,
    factors: ArrayOrTensor,
    seed: int = 0,
    hidden: int = 256,
    epochs: int = 75,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    held_out: float = 1 / 3,
    device: str = "cpu",
) -> KnockoutScore:
    """Accuracy of an MLP on all neurons minus its accuracy without the factor's neuron, averaged over factors.

    The MLP is the paper's: one hidden layer of 256, Adam at 1e-3, 75 epochs (the released code decays from 1e-2). The
    paper does not specify the batch size or the split. Codes are standardised, so their scale does not matter. Scores
    are measured on held-out rows and not clipped, as published. `align_neurons` chooses the neuron of each factor.
    Factors with a single value get NaN, and no neuron or MLP: they do not change the score (version 2).

    `device` is where the MLPs are trained. A GPU takes the same steps and rounds differently, so its accuracies differ
    by as much as those of other seeds.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(0, 2, (600, 2))
    >>> result = neuron_knockout(factors + 0.1 * rng.normal(size=(600, 2)), factors, epochs=10)
    >>> result.alignment, bool(result.score > 0.4)
    (array([0, 1]), True)
    """
    if min(hidden, epochs, batch_size) < 1:
        raise InputError(f"hidden, epochs and batch_size must be at least 1, got {hidden}, {epochs} and {batch_size}")
    values, classes = check_codes_and_classes(codes, factors, "neuron knockout")
    alignment = align(values, classes, device)
    varied, _ = which_vary(classes)
    fit, test = split_rows(len(values), held_out, seed)
    training = {"hidden": hidden, "epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
    full = np.ones((len(test), len(varied)), dtype=bool)
    knockout = full.copy()
    if varied.any():
        part = classes[:, varied]
        settings = {**training, "seed": seed, "device": usable_device(device)}
        correct = knockout_accuracy(values[fit], part[fit], alignment[varied], values[test], part[test], **settings)
        full[:, varied], knockout[:, varied] = correct.full, correct.knockout
    drops = full.astype(np.int64) - knockout
    per_factor = np.where(varied, drops.mean(0), np.nan)
    return KnockoutScore.mean(
        codes,
        per_factor,
        settings={**training, "held_out": held_out, "seed": seed},
        full_accuracy=full.mean(0),
        knockout_accuracy=knockout.mean(0),
        alignment=alignment,
        drops=drops,
    )
