"""Hinton diagrams: what each neuron knows, the neuron aligned with each factor, and the one that an argmax would take.

Metrics such as MIG give each factor the neuron that knows most about it. If one neuron knows most about two factors,
both get the same neuron; the alignment gives each its own (Mahon et al. 2024, Section 3.1, Figures 1 and 3 to 13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.arrays import Floats
from alebrije.instruments.neurons.snc import SHOWN
from alebrije.report import sections
from alebrije.report.charts import hinton_figure
from alebrije.report.findings import Finding
from alebrije.report.parts import Chart, short, slug
from alebrije.report.sections import titled, varied
from alebrije.report.verdict import listed
from alebrije.results.estimates import format_number

_WITH_DIAGRAM = ("SNC", "MIG")  # values that may have the details of a Hinton diagram
_MOST_NEURONS = 16


def hinton_diagrams(findings: Sequence[Finding]) -> list[Chart]:
    """A diagram for each finding that has the information of neurons about factors."""
    labels = varied(findings, "world", "variant")
    known = [(f, found) for f in findings if (found := _matrix(f.detail("information", *_WITH_DIAGRAM))) is not None]
    return [_hinton_diagram(f, found, titled(f, *labels)) for f, found in known[: sections.MOST_GALLERIES]]


def _hinton_diagram(finding: Finding, information: Floats, title: str) -> Chart:
    factor_count = information.shape[1]
    alignment = _indices(finding.detail("alignment", *_WITH_DIAGRAM), *information.shape)
    strongest = _indices(finding.detail("strongest", *_WITH_DIAGRAM), *information.shape)
    if not strongest and len(information) < SHOWN:  # all neurons were kept
        strongest = information.argmax(0).tolist()
    strongest = [-1 if alignment[at : at + 1] == [-1] else neuron for at, neuron in enumerate(strongest)]
    names = finding.detail("factor_names", *_WITH_DIAGRAM) or []
    factors = [short(names[at], 18) if at < len(names) else f"factor {at + 1}" for at in range(factor_count)]
    kept = informative_neurons(information, [*alignment, *strongest])
    columns = {neuron: column for column, neuron in enumerate(kept)}
    numbers = finding.detail("neurons", *_WITH_DIAGRAM) or []
    neurons = {neuron: f"z{numbers[neuron] if neuron < len(numbers) else neuron}" for neuron in kept}
    entropies = _entropies(finding.detail("entropies", *_WITH_DIAGRAM), factor_count)
    if entropies is None:
        full = float(information.max())
        words = f"A full square is {format_number(full)} nats."
    else:
        information, full = information / entropies, 1.0
        words = "A full square is all the information about its factor."
    words += " Outlined: the neuron aligned with the factor."
    words += collision_words(alignment, strongest, factors, neurons)
    if len(kept) < len(information) or (numbers and max(numbers) >= len(information)):
        words += " Only the aligned and the most informative neurons are shown."
    draw = partial(
        hinton_figure,
        information[kept],
        [columns.get(neuron, -1) for neuron in alignment],  # -1: a factor with a single value
        factors,
        [neurons[neuron] for neuron in kept],
        full,
        [columns.get(neuron, -1) for neuron in strongest],
    )
    return Chart(slug("neurons", "hinton", title), f"What the neurons know: {title}", words, draw)


def collision_words(
    alignment: Sequence[int], strongest: Sequence[int], factors: Sequence[str], neurons: Mapping[int, str]
) -> str:
    """Which factors an argmax would give the same neuron, and the neurons that the alignment gives them.

    >>> collision_words([0, 1], [1, 1], ["x", "y"], {0: "z0", 1: "z7"})
    ' Dashed, shaded: an argmax would give x and y the same neuron, z7; the alignment gives x z0 and y z7.'
    """
    words = ""
    for neuron in dict.fromkeys(strongest):
        together = [at for at, one in enumerate(strongest) if one == neuron]
        if neuron < 0 or len(together) < 2:
            continue
        given = [f"{factors[at]} {neurons[alignment[at]]}" for at in together if at < len(alignment)]
        same = f"an argmax would give {listed([factors[at] for at in together])} the same neuron, {neurons[neuron]}"
        words += f"{'; ' if words else ' Dashed, shaded: '}{same}"
        words += f"; the alignment gives {listed(given)}" if given else ""
    return f"{words}." if words else ""


def informative_neurons(information: Floats, alignment: Sequence[int], most: int = _MOST_NEURONS) -> list[int]:
    """The neurons to show, in order: those of `alignment`, and those with the most information.

    >>> informative_neurons(np.array([[0.1], [0.9], [0.5], [0.0]]), [3], most=2)
    [1, 3]
    """
    aligned = [neuron for neuron in dict.fromkeys(alignment) if neuron >= 0]
    order = [*aligned, *np.argsort(-information.max(1), kind="stable").tolist()]
    return sorted(list(dict.fromkeys(order))[: max(most, len(aligned))])


def _matrix(found: Any) -> Floats | None:
    """Stored information [L, F]; None if it has another form."""
    try:
        matrix = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if matrix.ndim != 2 or not matrix.size:
        return None
    return np.nan_to_num(matrix, nan=0.0)


def _entropies(found: Any, factors: int) -> Floats | None:
    """Stored entropies of the factors [F] in nats; None if they have another form."""
    fits = isinstance(found, list) and len(found) == factors
    return np.array(found, float) if fits and all(isinstance(one, float) and one > 0 for one in found) else None


def _indices(found: Any, neurons: int, factors: int) -> list[int]:
    """A stored index of a neuron for each factor; none if they do not fit."""
    fits = isinstance(found, list) and len(found) == factors
    good = fits and all(isinstance(one, int) and -1 <= one < neurons for one in found)
    return [int(one) for one in found] if good else []
