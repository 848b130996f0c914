"""The section on neurons: disentanglement scores, Hinton diagrams, generalisation, and which metrics predict it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from alebrije.instruments.neurons.codes import ATTRIBUTES
from alebrije.instruments.neurons.correlation_charts import correlation_charts
from alebrije.instruments.neurons.generalisation import ACCURACY, PAIR_ACCURACIES
from alebrije.instruments.neurons.hinton import hinton_diagrams
from alebrije.instruments.neurons.tables import tables
from alebrije.report import sections
from alebrije.report.charts import bars
from alebrije.report.findings import Finding, Findings
from alebrije.report.grids import ScoreWords
from alebrije.report.parts import Chart, Section, short, slug
from alebrije.report.sections import published_words, score_bars, titled, varied
from alebrije.report.verdict import listed
from alebrije.results.formats import visible

_NAME = "neurons"
_DISENTANGLEMENT = ("SNC", "NK", "MIG", "SAP", "DCI-D", "MED", "IRS")
_CHARTED = ("SNC", "NK", "MIG")


def section(findings: Findings) -> Section:
    """Scores, Hinton diagrams and generalisation."""
    own = findings.of(_NAME)
    scored = [finding for finding in own if any(finding.estimate(name) is not None for name in _DISENTANGLEMENT)]
    return Section(
        charts=[*_score_charts(scored), *hinton_diagrams(scored), *_generalisation(own), *correlation_charts(own)],
        grids=[*tables(own), *sections.full_grids(findings, _NAME, ScoreWords(note=_accuracy_note))],
        remarks=(
            "SNC says how well each factor can be read from the neuron aligned with it, adjusted for chance. NK says "
            "how much accuracy is lost without that neuron. In a Hinton diagram, the area of a square is the "
            "information of a neuron (column) about a factor (row); the aligned neuron is outlined. If an argmax would "
            "take another neuron, that one is dashed, and its column is shaded if several factors would share it. "
            "Generalisation is tested on pairs of values that are held out of training.",
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
