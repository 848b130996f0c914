"""Which metrics predict generalisation, how metrics correlate with each other, and which differences are significant.

The counterparts of Tables 4 and 6, Figures 14 to 16 and Appendix E of Mahon et al. 2024, from the points that the
correlations of a study have stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from alebrije.arrays import Floats
from alebrije.instruments.neurons.correlation import CORRELATION
from alebrije.instruments.neurons.significance import (
    LEVEL,
    Comparison,
    correlation_test,
    correlations_between,
    p_stronger,
)
from alebrije.instruments.neurons.values import METRICS
from alebrije.report.charts import dots, heat_map
from alebrije.report.findings import Finding
from alebrije.report.grids import compared_entry
from alebrije.report.parts import Chart, Entry, ReportTable, short, slug
from alebrije.report.sections import published_words, score_bars
from alebrije.results.estimates import format_number
from alebrije.results.formats import visible

_NAME = "neurons"
_FEWEST = 5  # points; with four, the standard error of Fisher's z is 1
_ACCURACIES = ("MLP accuracy", "linear accuracy")
_WORDS: Mapping[Comparison, str] = {
    "paper": (
        "The p-value for the null hypothesis that the metric of the row is not more strongly correlated with "
        "generalisation than that of the column, by Fisher's z as if the correlation of the column were known exactly: "
        "the form that gives what Mahon et al. say of Figures 15 and 16. They call a difference significant below "
        f"{LEVEL:g} (framed)."
    ),
    "dependent": (
        "The same question with a test for two metrics on the same points (Meng, Rosenthal and Rubin 1992), which "
        "takes their correlation with each other and the uncertainty of both into account. Framed: below "
        f"{LEVEL:g}."
    ),
}


@dataclass(frozen=True)
class Points:
    """Metrics at the points of one scope: `scores` [P, M], and the accuracy on held-out combinations [P]."""

    scope: str
    metrics: tuple[str, ...]
    scores: Floats
    accuracy: Floats

    @property
    def correlations(self) -> Floats:
        """Pearson's r of each metric with the accuracy [M]."""
        return correlations_between(np.column_stack((self.scores, self.accuracy)))[-1, :-1]

    def p_values(self, comparison: Comparison) -> Floats:
        """The p-value that each metric (row) is no better than each other (column) [M, M]; NaN on the diagonal."""
        r, between = self.correlations, correlations_between(self.scores)
        found = np.full(between.shape, np.nan)
        for row, column in np.ndindex(found.shape):
            if row != column:
                together = float(between[row, column])
                found[row, column] = p_stronger(
                    float(r[row]), float(r[column]), len(self.accuracy), comparison, together
                )
        return found


def correlation_charts(findings: Sequence[Finding]) -> list[Chart]:
    """How well each metric predicts generalisation; for the widest scope, metrics compared with each other."""
    known = [finding for finding in findings if finding.known(CORRELATION) is not None]
    shown = score_bars(
        known, [CORRELATION], lambda f, _: (short(f.get("predictor", ""), 24), short(f.get("scope", ""), 24))
    )
    if not shown:
        return []
    words = "Pearson correlation of each metric with the accuracy on held-out combinations, with 95 % intervals."
    words += published_words(shown, findings)
    draw = partial(dots, shown, "correlation with generalisation")
    first = Chart(slug(_NAME, "correlations"), "Which metrics predict generalisation", words, draw)
    return [first, *(chart for points in points_of(known) for chart in _compared(points))]


def _compared(points: Points) -> list[Chart]:
    """Correlations between metrics, and the significance of the differences of their correlations."""
    over = f"{points.scope}, {len(points.accuracy)} points"
    between = correlations_between(points.scores)
    words = "Pearson correlation of the metrics with each other over all points (models, seeds and worlds)."
    upwards = points.metrics[::-1]  # rows are drawn from below
    draw = partial(heat_map, between[::-1], upwards, points.metrics, "", "", "correlation")
    charts = [Chart(slug(_NAME, "metrics", points.scope), f"Metrics correlated with each other: {over}", words, draw)]
    for comparison, words in _WORDS.items():
        p = points.p_values(comparison)[::-1]
        draw = partial(heat_map, p, upwards, points.metrics, "this metric", "than this", "p", p < LEVEL)
        title = f"Is a metric a better predictor: {over}" + (
            ", the paper's test" if comparison == "paper" else ", dependent test"
        )
        charts.append(Chart(slug(_NAME, "significance", points.scope, comparison), title, words, draw))
    return charts


def points_of(findings: Sequence[Finding]) -> list[Points]:
    """The points of each scope at which every metric is known, if there are enough; no variants of metrics."""
    scopes: dict[str, dict[str, dict[tuple[str, ...], tuple[float, float]]]] = {}
    for finding in findings:
        predictor, points = str(finding.get("predictor")), finding.detail("points", CORRELATION)
        if predictor in METRICS and predictor not in _ACCURACIES and isinstance(points, list):
            own = scopes.setdefault(str(finding.get("scope")), {})
            own[predictor] = {
                tuple(str(point.get(name)) for name in ("world", "model", "seed")): (point["metric"], point["accuracy"])
                for point in points
                if isinstance(point, Mapping)
                and all(isinstance(point.get(name), (int, float)) for name in ("metric", "accuracy"))
            }
    found = []
    for scope, metrics in scopes.items():
        metrics = {name: metrics[name] for name in METRICS if name in metrics}
        first = next(iter(metrics.values()))
        shared = [key for key in first if all(key in points for points in metrics.values())]
        if len(metrics) < 2 or len(shared) < _FEWEST:
            continue
        scores = np.array([[points[key][0] for points in metrics.values()] for key in shared])
        accuracy = np.array([first[key][1] for key in shared])
        varied = np.ptp(scores, axis=0) > 0
        if np.ptp(accuracy) > 0 and varied.sum() > 1:
            names = tuple(name for name, varies in zip(metrics, varied, strict=True) if varies)
            found.append(Points(scope, names, scores[:, varied], accuracy))
    return found


def correlation_table(findings: Sequence[Finding]) -> ReportTable | None:
    """Correlations with generalisation and whether they are significant: Tables 4 and 6, Appendix E."""
    known = [finding for finding in findings if finding.known(CORRELATION) is not None]
    scopes = list(dict.fromkeys(str(finding.get("scope")) for finding in known))
    by_cell = {(str(finding.get("predictor")), str(finding.get("scope"))): finding for finding in known}
    rows = []
    for predictor in dict.fromkeys(predictor for predictor, _ in by_cell):
        row = [Entry(visible(predictor), visible(predictor).lower())]
        for scope in scopes:
            row += _correlation_entries(by_cell.get((predictor, scope)))
        rows.append(tuple(row))
    if not rows:
        return None
    columns = ("metric", *(name for scope in scopes for name in (visible(scope), f"p, {visible(scope)}")))
    note = (
        "Pearson correlation with the accuracy on held-out combinations, its 95 % interval by Fisher's z, and the "
        "two-sided p-value of Student's t that there is none."
    )
    return ReportTable(
        slug(_NAME, "tables-4-and-6"), "Correlation with generalisation (Tables 4 and 6)", columns, tuple(rows), note
    )


def _correlation_entries(finding: Finding | None) -> list[Entry]:
    """A correlation with the published one below it, and its p-value."""
    found = None if finding is None else finding.known(CORRELATION)
    if finding is None or found is None or found.value is None:
        return [Entry(""), Entry("")]
    points = finding.detail("points", CORRELATION)
    count = len(points) if isinstance(points, list) else 0
    entry = compared_entry(found, finding.one_published(CORRELATION))
    if count < 3:
        return [entry, Entry("")]
    t, p = correlation_test(found.value, count)
    return [entry, Entry(format_number(p), p, (f"t = {format_number(t)}, {count} points",))]
