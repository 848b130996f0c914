"""The section on neurons: disentanglement scores, Hinton diagrams, generalisation, and which metrics predict it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.arrays import Floats
from alebrije.instruments.neurons.codes import ATTRIBUTES
from alebrije.instruments.neurons.correlation import CORRELATION
from alebrije.instruments.neurons.generalisation import ACCURACY, PAIR_ACCURACIES
from alebrije.report import sections
from alebrije.report.charts import bars, dots, hinton_figure
from alebrije.report.findings import Finding, Findings
from alebrije.report.grids import ScoreWords
from alebrije.report.parts import Chart, Section, short, slug
from alebrije.report.sections import published_words, score_bars, titled, varied
from alebrije.report.verdict import listed
from alebrije.results.estimates import format_number
from alebrije.results.formats import visible

_NAME = "neurons"
_DISENTANGLEMENT = ("SNC", "NK", "MIG", "SAP", "DCI-D", "MED", "IRS")
_CHARTED = ("SNC", "NK", "MIG")
_WITH_DIAGRAM = ("SNC", "MIG")  # values that may have the details of a Hinton diagram
_MOST_NEURONS = 16


def section(findings: Findings) -> Section:
    """Scores, Hinton diagrams and generalisation."""
    own = findings.of(_NAME)
    scored = [finding for finding in own if any(finding.estimate(name) is not None for name in _DISENTANGLEMENT)]
    return Section(
        charts=[*_score_charts(scored), *_hinton_diagrams(scored), *_generalisation(own), *_correlations(own)],
        grids=sections.full_grids(findings, _NAME, ScoreWords(note=_accuracy_note)),
        remarks=(
            "SNC says how well each factor can be read from the neuron aligned with it, adjusted for chance. NK says "
            "how much accuracy is lost without that neuron. In a Hinton diagram, the area of a square is the "
            "information of a neuron (column) about a factor (row); the aligned neuron is outlined. Generalisation is "
            "tested on pairs of values that are held out of training.",
            *_attribute_notes(scored),
        ),
    )


def _attribute_notes(findings: Sequence[Finding]) -> list[str]:
    """What was left out of a user's attributes or divided into bins, once per folder."""
    found: dict[str, str] = {}
    for finding in findings:
        notes = finding.detail(ATTRIBUTES, *_DISENTANGLEMENT)
        if isinstance(notes, list) and notes:
            found[str(finding.get("world", ""))] = "; ".join(str(note) for note in notes)
    return [f"Attributes of {visible(world)}: {visible(short(text, 400))}." for world, text in found.items()]


def _accuracy_note(metrics: Sequence[str]) -> str:
    """Which accuracies on held-out combinations are adjusted for chance."""
    plain = [metric for metric in metrics if metric in PAIR_ACCURACIES]
    adjusted = f" {ACCURACY} is adjusted for chance: 0 is chance, 1 is perfect." if ACCURACY in metrics else ""
    return adjusted + (f" Not adjusted for chance: {listed(plain)}." if plain else "")


def _score_charts(findings: Sequence[Finding]) -> list[Chart]:
    """SNC, NK and MIG of every model, one chart per world."""
    charts = []
    for world in dict.fromkeys(str(finding.get("world", "")) for finding in findings):
        own = [finding for finding in findings if str(finding.get("world", "")) == world]
        labels = varied(own, "variant", "pixels")
        shown = score_bars(own[: sections.MOST_LINES], _CHARTED, partial(_score_words, labels))
        if shown:
            title = f"Single neurons: {world}" if world else "Single neurons"
            words = "1 is perfect; chance is near 0 (for SNC, the score of shuffled codes). Whiskers: 95 % intervals."
            words += published_words(shown, findings)
            draw = partial(bars, shown, "score", 0.0, 1.02)
            charts.append(Chart(slug(_NAME, "scores", world), title, words, draw))
    return charts


def _score_words(labels: Sequence[str], finding: Finding, metric: str) -> tuple[str, str]:
    return short(titled(finding, *labels), 28), metric


def _hinton_diagrams(findings: Sequence[Finding]) -> list[Chart]:
    labels = varied(findings, "world", "variant")
    known = [(f, found) for f in findings if (found := _matrix(f.detail("information", *_WITH_DIAGRAM))) is not None]
    return [_hinton_diagram(f, found, titled(f, *labels)) for f, found in known[: sections.MOST_GALLERIES]]


def _hinton_diagram(finding: Finding, information: Floats, title: str) -> Chart:
    alignment = _indices(finding.detail("alignment", *_WITH_DIAGRAM), *information.shape)
    names = finding.detail("factor_names", *_WITH_DIAGRAM) or []
    factors = [short(names[at], 18) if at < len(names) else f"factor {at + 1}" for at in range(information.shape[1])]
    kept = informative_neurons(information, alignment)
    columns = {neuron: column for column, neuron in enumerate(kept)}
    numbers = finding.detail("neurons", *_WITH_DIAGRAM) or []
    entropies = _entropies(finding.detail("entropies", *_WITH_DIAGRAM), len(factors))
    if entropies is None:
        full = float(information.max())
        words = f"A full square is {format_number(full)} nats."
    else:
        information, full = information / entropies, 1.0
        words = "A full square is all the information about its factor."
    words += " Outlined: the neuron aligned with the factor."
    if len(kept) < len(information) or (numbers and max(numbers) >= len(information)):
        words += " Only the aligned and the most informative neurons are shown."
    draw = partial(
        hinton_figure,
        information[kept],
        [columns.get(neuron, -1) for neuron in alignment],  # -1: a factor with a single value
        factors,
        [f"z{numbers[neuron] if neuron < len(numbers) else neuron}" for neuron in kept],
        full,
    )
    return Chart(slug(_NAME, "hinton", title), f"What the neurons know: {title}", words, draw)


def informative_neurons(information: Floats, alignment: Sequence[int], most: int = _MOST_NEURONS) -> list[int]:
    """The neurons to show, in order: the aligned ones, and those with the most information.

    >>> informative_neurons(np.array([[0.1], [0.9], [0.5], [0.0]]), [3], most=2)
    [1, 3]
    """
    aligned = [neuron for neuron in dict.fromkeys(alignment) if neuron >= 0]
    order = [*aligned, *np.argsort(-information.max(1), kind="stable").tolist()]
    return sorted(list(dict.fromkeys(order))[: max(most, len(aligned))])


def _generalisation(findings: Sequence[Finding]) -> list[Chart]:
    """Accuracy on held-out combinations beside the normal test set, one chart per world and feature."""
    charts: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.estimate(ACCURACY) is not None:
            charts.setdefault((str(finding.get("world", "")), str(finding.get("feature", ""))), []).append(finding)
    return [_generalisation_chart(labels, own, findings) for labels, own in charts.items()]


def _generalisation_chart(labels: Sequence[str], own: Sequence[Finding], findings: Sequence[Finding]) -> Chart:
    few = own[: 4 * sections.MOST_LINES]
    shown = score_bars(few, [ACCURACY], lambda f, _: (short(f.model, 28), short(f.get("setting", ""), 24)))
    name = ", ".join(label for label in labels if label)
    words = "Accuracy of heads on the codes, adjusted for chance, on held-out combinations and on the normal test set."
    words += published_words(shown, findings)
    draw = partial(bars, shown, "accuracy, adjusted for chance", 0.0, 1.02)
    return Chart(slug(_NAME, "generalisation", name), f"Generalisation: {name}", words, draw)


def _correlations(findings: Sequence[Finding]) -> list[Chart]:
    """How well each metric predicts generalisation."""
    known = [finding for finding in findings if finding.known(CORRELATION) is not None]
    shown = score_bars(
        known, [CORRELATION], lambda f, _: (short(f.get("predictor", ""), 24), short(f.get("scope", ""), 24))
    )
    if not shown:
        return []
    words = "Pearson correlation of each metric with the accuracy on held-out combinations, with 95 % intervals."
    words += published_words(shown, findings)
    draw = partial(dots, shown, "correlation with generalisation")
    return [Chart(slug(_NAME, "correlations"), "Which metrics predict generalisation", words, draw)]


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
    """The stored index of the neuron aligned with each factor; none if they do not fit."""
    fits = isinstance(found, list) and len(found) == factors
    good = fits and all(isinstance(one, int) and -1 <= one < neurons for one in found)
    return [int(one) for one in found] if good else []
