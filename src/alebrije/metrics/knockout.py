"""NK: how much is lost when a factor's own neuron is taken away? (Mahon et al. 2024)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from alebrije.errors import InputError
from alebrije.metrics.arrays import (
    Array,
    answer_like,
    check_classes,
    check_codes,
    mean_of_defined,
    split_rows,
    to_numpy,
)
from alebrije.metrics.record import Score, register
from alebrije.metrics.single_neuron import align
from alebrije.probes import knockout_accuracy


@dataclass(frozen=True, eq=False, kw_only=True)
class KnockoutScore(Score):
    """NK per factor [F], the two accuracies behind it, and the drop on every held-out row [M, F]: -1, 0 or 1."""

    per_factor: Any
    full_accuracy: Any
    knockout_accuracy: Any
    alignment: Any
    drops: Any

    @property
    def cases(self) -> Any:
        """The drop of each held-out row, averaged over the factors that vary."""
        varied = to_numpy(self.per_factor == self.per_factor)
        return to_numpy(self.drops)[:, varied].mean(1) if varied.any() else np.zeros(0)


@register(
    "nk",
    title="Neuron knockout",
    instrument="neurons",
    inputs=("codes", "factors"),
    range=(-1.0, 1.0),
    cites="Mahon et al. 2024, Section 4.3",
    invariances=("dtype", "device", "scaling"),
)
def neuron_knockout(
    codes: Array,
    factors: Array,
    seed: int = 0,
    hidden: int = 256,
    epochs: int = 75,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    held_out: float = 1 / 3,
) -> KnockoutScore:
    """Accuracy of an MLP on all neurons minus that of one without the factor's neuron, averaged over factors.

    The MLP is the paper's: one hidden layer of 256, Adam at 1e-3, 75 epochs (the released code decays from 1e-2).
    Batch size and split are not in the paper; codes are standardised, so their scale does not matter. Scored on rows
    that were not trained on, raw and unclipped, as published. Alignment is that of `align_neurons`. Factors with a
    single value get not-a-number and are left out of the mean.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(0, 2, (600, 2))
    >>> result = neuron_knockout(factors + 0.1 * rng.normal(size=(600, 2)), factors, epochs=10)
    >>> result.alignment, bool(result.score > 0.4)
    (array([0, 1]), True)
    """
    if min(hidden, epochs, batch_size) < 1:
        raise InputError(f"hidden, epochs and batch_size must be at least 1, got {hidden}, {epochs} and {batch_size}")
    values = check_codes(codes)
    classes = check_classes(factors, len(values), "neuron knockout")
    alignment = align(values, classes)
    fit, test = split_rows(len(values), held_out, seed)
    training: dict[str, Any] = {
        "hidden": hidden,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
    }
    right = knockout_accuracy(values[fit], classes[fit], alignment, values[test], classes[test], seed=seed, **training)
    drops = right.full.astype(np.int64) - right.knockout
    constant = (classes == classes[0]).all(0)
    per_factor = np.where(constant, np.nan, drops.mean(0))
    score, reason = mean_of_defined(per_factor)
    return KnockoutScore(
        score=score,
        reason=reason,
        per_factor=answer_like(codes, per_factor),
        full_accuracy=answer_like(codes, right.full.mean(0)),
        knockout_accuracy=answer_like(codes, right.knockout.mean(0)),
        alignment=answer_like(codes, alignment),
        drops=answer_like(codes, drops),
        settings={**training, "held_out": held_out, "seed": seed},
    )
