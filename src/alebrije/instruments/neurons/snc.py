"""SNC on a sample of images, and the numbers of a Hinton diagram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from alebrije.arrays import Floats, Integers
from alebrije.metrics import align_neurons, single_neuron_classification
from alebrije.metrics.mutual_information import entropy, information_matrix, joint_counts

SHOWN = 32  # neurons in a diagram


def balanced_snc(codes: Floats, factors: Integers, device: str = "cpu") -> tuple[float, dict[str, Any]]:
    """SNC with every value of a factor equally frequent, as in the complete grids of the paper; and its details.

    In a sample some values are more frequent than others, and bins of equal count would not fit even a perfect
    neuron. So each factor is scored on as many rows of each value as its rarest value has. Neurons are aligned on all
    rows, on `device`.

    >>> factors = np.random.default_rng(0).integers(0, 5, (300, 2))
    >>> balanced_snc(factors[:, ::-1] / 5, factors)[0]
    1.0
    """
    alignment = align_neurons(codes, factors, device)
    answers = []
    for column, neuron in zip(factors.T, alignment, strict=True):
        rows = balanced_rows(column)
        answers.append(single_neuron_classification(codes[rows][:, [neuron]], column[rows, None]))
    details = {key: [float(getattr(each, key)[0]) for each in answers] for key in ("per_factor", "accuracy", "chance")}
    return float(np.mean(details["per_factor"])), {**details, "alignment": alignment.tolist()}


def single_neuron_predictions(
    codes: Floats, factors: Integers, new_codes: Floats, alignment: Integers | None = None
) -> Integers:
    """Predict the factors [M, F] of new rows from the one neuron aligned with each, as the released code does for SNC.

    Alignment, bins and the value of each bin come from `codes` [N, L] and `factors` [N, F] alone: each neuron is cut
    into bins of equal count, between rows that show every value equally often, and the Hungarian method gives each bin
    a value. Each factor must vary. `alignment` is that of these codes, if it is known.

    >>> codes, factors = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[7], [7], [5], [5]])
    >>> single_neuron_predictions(codes, factors, np.array([[0.0], [9.0]])).tolist()
    [[7], [5]]
    """
    predicted = []
    aligned = align_neurons(codes, factors) if alignment is None else alignment
    for column, neuron in zip(factors.T, aligned, strict=True):
        rows = balanced_rows(column)
        code, (values, classes) = codes[rows, neuron], np.unique(column[rows], return_inverse=True)
        ranked, each = np.sort(code), len(rows) // len(values)
        borders = (ranked[each::each] + ranked[each - 1 : -1 : each]) / 2
        bins = np.searchsorted(borders, code, side="right")
        matched = scipy.optimize.linear_sum_assignment(joint_counts(bins, classes), maximize=True)[1]
        predicted.append(values[matched[np.searchsorted(borders, new_codes[:, neuron], side="right")]])
    return np.stack(predicted, 1)


def balanced_rows(classes: Integers) -> Integers:
    """The first rows of each class, as many as the rarest class has.

    >>> balanced_rows(np.array([0, 1, 1, 0, 0, 2, 1, 2])).tolist()
    [0, 1, 2, 3, 5, 7]
    """
    rows = [np.flatnonzero(classes == kind) for kind in np.unique(classes)]
    fewest = min(map(len, rows))
    return np.sort(np.concatenate([each[:fewest] for each in rows]))


def hinton_details(codes: Floats, factors: Integers, alignment: Sequence[int], device: str = "cpu") -> dict[str, Any]:
    """The numbers of a Hinton diagram: the information [L][F] of neurons about factors, in nats, and the alignment.

    If there are many neurons, the aligned and the most informative ones are kept. `neurons` are their indices among
    all neurons. `alignment` has the index of each factor's neuron among those kept, and `strongest` that of the neuron
    with the most information about the factor, which metrics without an alignment would choose.
    """
    classes = np.stack([np.unique(column, return_inverse=True)[1] for column in factors.T], 1)
    information = information_matrix(codes, classes, bins=20, device=device)
    kept, strongest = np.arange(len(information)), information.argmax(0)
    chosen = dict.fromkeys([*(neuron for neuron in alignment if neuron >= 0), *strongest.tolist()])
    if len(kept) > SHOWN:
        others = [neuron for neuron in np.argsort(-information.max(1), kind="stable") if neuron not in chosen]
        kept = np.sort(np.array([*chosen, *others])[: max(SHOWN, len(chosen))])
    return {
        "information": information[kept].tolist(),
        "alignment": np.where(np.less(alignment, 0), -1, np.searchsorted(kept, alignment)).tolist(),
        "strongest": np.searchsorted(kept, strongest).tolist(),
        "neurons": kept.tolist(),
        "entropies": [entropy(np.bincount(column)) for column in classes.T],
    }
