"""Neurons on the page: every disentanglement score, Hinton diagrams, generalisation, and what predicts it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.report.charts import Bar, bars, dots, hinton_figure
from alebrije.report.findings import Findings, Group
from alebrije.report.parts import Chart, Section, short, slug
from alebrije.report.sections.tables import (
    MOST_GALLERIES,
    MOST_LINES,
    full_grids,
    published_words,
    titled,
    varied,
    verdicts_of,
)
from alebrije.report.words import Verdict, neurons_verdict, over_settings
from alebrije.results import Estimate
from alebrije.results.estimates import digits
from alebrije.results.rendering import visible

STUDY = "neurons"
QUESTION = "Is each factor held by one neuron, and by that one alone? Does that predict generalisation?"
GENERALISATION = "CG accuracy"
CORRELATION = "correlation with generalisation"
SHUFFLED = "score of shuffled codes"  # a detail: what SNC comes to by luck, with so few rows and so many neurons
_HEADLINES = ("SNC", "NK", "MIG", "SAP", "DCI-D", "MED", "IRS")
_MOST_NEURONS = 16


def neurons_section(findings: Findings) -> Section:
    """Scores, diagrams and generalisation."""
    groups = findings.of(STUDY)
    scored = [group for group in groups if any(group.estimate(name) is not None for name in _HEADLINES)]
    return Section(
        STUDY,
        "Neurons",
        QUESTION,
        verdicts_of(findings, STUDY, judged),
        charts=[
            *_score_charts(findings, scored),
            *_hintons(findings, scored),
            *_generalisation(findings, groups),
            *_correlations(findings, groups),
        ],
        grids=full_grids(findings, STUDY),
        remarks=(
            "SNC says how well each factor can be read from the one neuron that is aligned with it, chance taken off. "
            "NK says how much is lost when that neuron is taken away. In a Hinton diagram a square grows with the "
            "information between a neuron (column) and a factor (row); the outlined one is the aligned neuron. "
            "Generalisation holds out pairs of values in training and asks for them in the test.",
        ),
    )


def judged(groups: Sequence[Group]) -> Verdict:
    """The verdict on one subject: means over its worlds."""
    found = {name: [one for group in groups if (one := group.known(name)) is not None] for name in ("SNC", "NK")}
    shuffled = [one for group in groups if isinstance(one := group.detail(SHUFFLED, "SNC"), float)]
    reasons = [one.reason for group in groups if (one := group.estimate("SNC")) is not None and one.reason]
    return neurons_verdict(
        over_settings(found["SNC"]),
        over_settings(found["NK"]),
        _mean_accuracy(groups, "CG"),
        _mean_accuracy(groups, "normal test set"),
        chance=float(np.mean(shuffled)) if shuffled else 0.0,
        settings=len(found["SNC"]),
        missing=visible(reasons[0]) if reasons else "",
    )


def _mean_accuracy(groups: Sequence[Group], setting: str) -> Estimate | None:
    own = [group for group in groups if group.get("setting") == setting]
    both = [group for group in own if group.get("feature") == "both"] or own
    return over_settings([found for group in both if (found := group.known(GENERALISATION)) is not None])


def _score_charts(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """SNC and NK of every subject in each world."""
    charts = []
    for world in dict.fromkeys(str(group.get("world", "")) for group in groups):
        own = [group for group in groups if str(group.get("world", "")) == world]
        given = []
        for group in own[:MOST_LINES]:
            name = short(titled(group, *varied(own, "variant", "pixels")), 28)
            for metric in ("SNC", "NK", "MIG"):
                found = group.estimate(metric)
                if found is not None:
                    one = group.one_published(metric)
                    given.append(Bar(name, metric, found, one.estimate if one is not None else None))
        if given:
            title = f"Single neurons: {world}" if world else "Single neurons"
            words = "1 is perfect; chance is near 0 (for SNC the score of shuffled codes). Whiskers are 95 % intervals."
            words += published_words(given, groups)
            draw = partial(bars, given, "score", 0.0, 1.02)
            charts.append(
                Chart(slug(STUDY, "scores", world), title, words, draw, findings.command(STUDY, own[0].labels))
            )
    return charts


def _hintons(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    charts: list[Chart] = []
    for group in groups:
        information = _matrix(group.detail("information", "SNC", "MIG"))
        if information is None or len(charts) >= MOST_GALLERIES:
            continue
        alignment = _indices(group.detail("alignment", "SNC", "MIG"), *information.shape)
        names = group.detail("factor_names", "SNC", "MIG") or []
        factors = [
            short(names[at], 18) if at < len(names) else f"factor {at + 1}" for at in range(information.shape[1])
        ]
        kept = informative(information, alignment)
        places = {neuron: place for place, neuron in enumerate(kept)}
        numbers = group.detail("neurons", "SNC", "MIG") or []
        known = _entropies(group.detail("entropies", "SNC", "MIG"), len(factors))
        information = information / known if known is not None else information
        full = 1.0 if known is not None else float(information.max())
        title = titled(group, *varied(groups, "world", "variant"))
        words = (
            "A full square knows all of its factor." if known is not None else f"A full square is {digits(full)} nats."
        )
        words += " Outlined: the neuron that is aligned with the factor."
        if len(kept) < len(information) or (numbers and max(numbers) >= len(information)):
            words += " The aligned and the most informative neurons alone are shown."
        draw = partial(
            hinton_figure,
            information[kept],
            [places[neuron] for neuron in alignment],
            factors,
            [f"z{numbers[neuron] if neuron < len(numbers) else neuron}" for neuron in kept],
            full,
        )
        command = findings.command(STUDY, group.labels)
        charts.append(Chart(slug(STUDY, "hinton", title), f"What the neurons know: {title}", words, draw, command))
    return charts


def informative(information: Any, alignment: Sequence[int], most: int = _MOST_NEURONS) -> list[int]:
    """The neurons that are shown, in their order: the aligned ones, then those with the most information.

    >>> informative(np.array([[0.1], [0.9], [0.5], [0.0]]), [3], most=2)
    [1, 3]
    """
    order = [*dict.fromkeys(alignment), *np.argsort(-information.max(1), kind="stable").tolist()]
    return sorted(list(dict.fromkeys(order))[: max(most, len(set(alignment)))])


def _generalisation(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """Accuracy on held-out combinations beside the normal test set."""
    charts = []
    cells = [group for group in groups if group.estimate(GENERALISATION) is not None]
    for place in dict.fromkeys((str(group.get("world", "")), str(group.get("feature", ""))) for group in cells):
        own = [group for group in cells if (str(group.get("world", "")), str(group.get("feature", ""))) == place]
        given = [
            Bar(
                short(group.subject, 28),
                short(group.get("setting", ""), 24),
                found,
                one.estimate if (one := group.one_published(GENERALISATION)) is not None else None,
            )
            for group in own[: 4 * MOST_LINES]
            if (found := group.estimate(GENERALISATION)) is not None
        ]
        where = ", ".join(part for part in place if part)
        words = "Accuracy of heads on the code, chance taken off, on combinations that training held out, and on the "
        words += "normal test set."
        words += published_words(given, groups)
        draw = partial(bars, given, "accuracy above chance", 0.0, 1.02)
        name = slug(STUDY, "generalisation", where)
        charts.append(Chart(name, f"Generalisation: {where}", words, draw, findings.command(STUDY, own[0].labels)))
    return charts


def _correlations(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """How well each metric predicts generalisation."""
    given = []
    for group in groups:
        found = group.known(CORRELATION)
        if found is not None:
            one = group.one_published(CORRELATION)
            name, kind = short(group.get("predictor", ""), 24), short(group.get("scope", ""), 24)
            given.append(Bar(name, kind, found, one.estimate if one is not None else None))
    if not given:
        return []
    words = "Pearson correlation of each metric with the accuracy on held-out combinations, with 95 % intervals."
    words += published_words(given, groups)
    draw = partial(dots, given, "correlation with generalisation")
    return [Chart(slug(STUDY, "correlations"), "What predicts generalisation", words, draw, findings.command(STUDY))]


def _matrix(found: Any) -> Any:
    """Information [L, F] as stored; None where it is something else."""
    try:
        matrix = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if matrix.ndim != 2 or not matrix.size:
        return None
    return np.nan_to_num(matrix, nan=0.0)


def _entropies(found: Any, factors: int) -> Any:
    """What there is to know of each factor [F], in nats; None where it was not stored."""
    fits = isinstance(found, list) and len(found) == factors
    return np.array(found, float) if fits and all(isinstance(one, float) and one > 0 for one in found) else None


def _indices(found: Any, neurons: int, factors: int) -> list[int]:
    """The aligned neuron of each factor; none where what is stored does not fit."""
    fits = isinstance(found, list) and len(found) == factors
    good = fits and all(isinstance(one, int) and 0 <= one < neurons for one in found)
    return [int(one) for one in found] if good else []
