"""Errors, LPIPS and gaps over alpha: the counterparts of Figures 4, 10, 11 and 15 of Kim et al. 2023."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from alebrije.instruments.imagination.rule_graphs import rule_title
from alebrije.instruments.imagination.values import GAP, IN_ERROR, LPIPS, OUT_ERROR, UNCHANGED
from alebrije.report import sections
from alebrije.report.charts import Point
from alebrije.report.findings import Finding
from alebrije.report.panels import MOST_NARROW, Panel, line_panels
from alebrije.report.parts import Chart, short, slug
from alebrije.report.sections import titled, varied
from alebrije.scenes.rules import RULES

_NAME = "imagination"
ERROR = "error, summed over an image"


@dataclass(frozen=True)
class _Curves:
    """What a chart shows: the value, the words around it, and the value of a horizontal line."""

    value: str
    name: str
    title: str
    axis: str
    words: str
    log: bool = True
    line: str | None = None


_LOWER = "Lower is better. The larger alpha is, the more combinations training shows."
CURVES = (
    _Curves(OUT_ERROR, "error", "Error on new combinations over alpha", ERROR, _LOWER, line=UNCHANGED),
    _Curves(IN_ERROR, "seen-error", "Error on seen combinations over alpha", ERROR, _LOWER),
    _Curves(LPIPS, "lpips", "LPIPS on new combinations over alpha", "LPIPS", _LOWER, log=False),
    _Curves(
        GAP, "gap", "Gap over alpha", "gap",
        "How much larger the error on new combinations is, as the difference of logarithms; 0 is no gap.", log=False,
    ),
)  # fmt: skip


def curve_charts(findings: Sequence[Finding]) -> list[Chart]:
    """For each world with several alphas, a chart of each value, with a panel for each rule."""
    charts = []
    for world in dict.fromkeys(str(finding.get("world", "")) for finding in findings):
        own = [finding for finding in findings if str(finding.get("world", "")) == world]
        rules = sorted({str(finding.get("rule", "")) for finding in own}, key=_rule_order)
        by_rule = {rule: [finding for finding in own if str(finding.get("rule", "")) == rule] for rule in rules}
        several = {rule: group for rule, group in by_rule.items() if len(alphas_of(group)) > 1}
        charts += [chart for curves in CURVES for chart in _chart(curves, world, several)]
    return charts


def alphas_of(findings: Sequence[Finding]) -> set[float]:
    """The alphas of findings."""
    return {float(alpha) for finding in findings if isinstance(alpha := finding.get("alpha"), (int, float))}


def line_name(finding: Finding, findings: Sequence[Finding]) -> str:
    """The name of a model in a chart, with the labels that vary among the findings."""
    return short(titled(finding, *varied(findings, "variant", "initial", "pixels", "drawn_by")), 28)


def _chart(curves: _Curves, world: str, by_rule: Mapping[str, Sequence[Finding]]) -> list[Chart]:
    """The chart of a value in a world; none if it is unknown everywhere."""
    panels = {rule_title(rule): _panel(curves, findings) for rule, findings in by_rule.items()}
    panels = {title: panel for title, panel in panels.items() if panel.lines}
    if not panels:
        return []
    everything = [finding for findings in by_rule.values() for finding in findings]
    about = " ".join(part for part in (world, next(iter(panels)) if len(panels) == 1 else "") if part)
    published = any(points for panel in panels.values() for points in panel.published.values())
    words = curves.words + sections.published_words(published, everything, "Hollow marks")
    draw = partial(line_panels, panels, "alpha", curves.axis, curves.log)
    return [Chart(slug(_NAME, curves.name, about), f"{curves.title}: {about}", words, draw, len(panels) > MOST_NARROW)]


def _panel(curves: _Curves, findings: Sequence[Finding]) -> Panel:
    lines: dict[str, list[Point]] = {}
    published: dict[str, list[Point]] = {}
    for finding in findings:
        found, alpha = finding.known(curves.value), finding.get("alpha")
        if found is not None and isinstance(alpha, (int, float)):
            name = line_name(finding, findings)
            lines.setdefault(name, []).append(Point(float(alpha), found))
            if (one := finding.one_published(curves.value)) is not None:
                published.setdefault(name, []).append(Point(float(alpha), one.estimate))
    some = dict(list(lines.items())[: sections.MOST_LINES])
    compared = [] if curves.line is None else [found.value for f in findings if (found := f.known(curves.line))]
    line = ("the unchanged source", float(np.mean(np.array(compared, float)))) if compared else None
    return Panel(some, {name: points for name, points in published.items() if name in some}, line)


def _rule_order(rule: str) -> int:
    return list(RULES).index(rule) if rule in RULES else len(RULES)
