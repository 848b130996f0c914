"""Charts over the number of slots: lines, heat maps, scores by number of objects, as in Zimmermann et al. 2023."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from alebrije.instruments.grouping.parts import EACH
from alebrije.instruments.grouping.slots import VARIANTS
from alebrije.instruments.grouping.verdict import tested_as_trained
from alebrije.report import sections
from alebrije.report.bands import Band, band_panels, numbered
from alebrije.report.charts import COLORS, Point, heat_map
from alebrije.report.findings import Finding
from alebrije.report.parts import Chart, short, slug
from alebrije.report.sections import titled, varied
from alebrije.results import Estimate
from alebrije.results.estimates import mean_over_seeds

LINES = {"fg-ari": "FG-ARI", "fg-arp": "FG-ARP", "fg-arr": "FG-ARR"}
MAPS = {"fg-ari": "FG-ARI", "fg-arp": "FG-ARP (precision)", "fg-arr": "FG-ARR (recall)", "psnr": "PSNR, dB"}
_NAME = "grouping"
_FEW = 3  # numbers of slots that a chart of bars can show
_BANDS = "Bands are one standard deviation over seeds; with one seed, 95 % intervals over images."
_NEEDED = "slots that the scenes need"
_MOST_BANDS = 6  # in one panel

Group = dict[str, list[Finding]]


def slot_charts(findings: Sequence[Finding]) -> list[Chart]:
    """All charts over the number of slots, for models that were tested with several."""
    same = [finding for finding in tested_as_trained(findings) if is_number(finding.get("train_slots"))]
    return [*_lines_of_scores(same), *_lines_of_models(same), *heat_maps(findings)]


def grids_of(findings: Sequence[Finding]) -> Group:
    """Findings that differ only in their slots, if some training was tested with several numbers of slots."""
    numbers = (f for f in findings if is_number(f.get("train_slots")) and is_number(f.get("test_slots")))
    grids = _groups(list(numbers), "world", *VARIANTS, "pixels")
    return {title: grid for title, grid in grids.items() if len(grid) > len({f.get("train_slots") for f in grid})}


def without_most_slots(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, but of a model with many numbers of slots only those nearest to what its scenes need."""
    left_out: set[int] = set()
    for group in _swept(findings).values():
        if _numbers(group) > _FEW:
            needed = _needed({"": group}).get("", 0.0)
            nearest = min((finding.get("train_slots") for finding in group), key=lambda slots: abs(slots - needed))
            left_out |= {id(finding) for finding in group if finding.get("train_slots") != nearest}
    return [finding for finding in findings if id(finding) not in left_out]


def heat_maps(findings: Sequence[Finding]) -> list[Chart]:
    """Scores by slots in training and at test time (Figure 4)."""
    charts = []
    for title, grid in grids_of(findings).items():
        rows = sorted({finding.get("train_slots") for finding in grid})
        columns = sorted({finding.get("test_slots") for finding in grid})
        for metric, name in MAPS.items():
            values = np.full((len(rows), len(columns)), np.nan)
            for finding in grid:
                found = finding.known(metric)
                if found is not None:
                    row, column = rows.index(finding.get("train_slots")), columns.index(finding.get("test_slots"))
                    values[row, column] = found.value
            if np.isfinite(values).any():
                draw = partial(heat_map, values, rows, columns, "slots in training", "slots at test time", name)
                words = f"{name} by the number of slots in training and at test time. Brighter is better."
                charts.append(Chart(slug(_NAME, metric, title), f"{name}: {title}", words, draw))
    return charts


def object_charts(findings: Sequence[Finding]) -> list[Chart]:
    """FG-ARI by number of objects; models with several numbers of slots have charts of their own (Figure 13)."""
    shown = tested_as_trained(findings)
    swept = _swept(shown, *VARIANTS)
    own = {id(finding) for group in swept.values() for finding in group}
    rest = [finding for finding in shown if id(finding) not in own]
    labels = varied(rest, "world", *VARIANTS, "train_slots", "pixels")
    charts = [_object_chart("By number of objects", "objects", {short(titled(f, *labels), 28): f for f in rest})]
    for title, group in swept.items():
        lines = {f"{finding.get('train_slots')} slots": finding for finding in group}
        kept = dict(list(lines.items())[:: -(-len(lines) // _MOST_BANDS)])
        charts.append(_object_chart(f"By number of objects: {title}", slug("objects", title), kept))
    return [chart for chart in charts if chart is not None]


def _lines_of_scores(findings: Sequence[Finding]) -> list[Chart]:
    """The three scores of each model over its number of slots (Figures 5, 8, 10 and 11)."""
    swept = _swept(findings)
    if not swept:
        return []
    metrics, panels = numbered(LINES), dict[str, list[Band]]()
    varying = varied(findings, *VARIANTS)
    ways = numbered(sorted({_way(finding, varying) for finding in findings}, reverse=True))
    for title, group in swept.items():
        panels[title] = [
            Band(f"{LINES[metric]}, {way}" if len(ways) > 1 and way else LINES[metric], points, metrics[metric], dash)
            for way, dash in ways.items()
            for metric in LINES
            if (points := _over_slots([f for f in group if _way(f, varying) == way], metric))
        ]
    words = "Scores by the number of slots, the same in training and at test time. FG-ARP is precision, FG-ARR recall. "
    words += f"{_BANDS} The scenes need a slot for each of the most objects and one for the background."
    draw = partial(band_panels, panels, "slots", "score", 1.02, _needed(swept), _NEEDED, True)
    return [Chart(slug(_NAME, "over-slots"), "Scores over the number of slots", words, draw)]


def _lines_of_models(findings: Sequence[Finding]) -> list[Chart]:
    """Several models of one world beside each other, in one panel for each score (Figures 6, 7, 8 and 12).

    Models of single images and of several views are compared by the score of each view alone.
    """
    charts = []
    for world, group in _by(findings, "world").items():
        labels = varied(group, *VARIANTS)
        lines = {title: own for title, own in _groups(group, *labels).items() if _numbers(own) > 1}
        if len(lines) < 2:
            continue
        colors, alone = numbered(lines), any(finding.get("corpus") is not None for finding in group)
        panels = {
            name: [Band(title, _over_slots(own, metric, alone), colors[title]) for title, own in lines.items()]
            for metric, name in LINES.items()
        }
        panels = {name: [band for band in bands if band.points] for name, bands in panels.items()}
        most = max(_needed({world: group}).values(), default=None)
        marks = {} if most is None else dict.fromkeys(panels, most)
        words = f"Models on {world} by their number of slots, the same in training and at test time. {_BANDS}"
        words += " Each view is scored alone, because some of the models see only one." if alone else ""
        draw = partial(band_panels, panels, "slots", "score", 1.02, marks, _NEEDED, True)
        charts.append(Chart(slug(_NAME, "models-over-slots", world), f"Models over slots: {world}", words, draw))
    return charts


def _way(finding: Finding, labels: Sequence[str]) -> str:
    """The variant of a model in words; empty if it has none."""
    return titled(finding, *labels).removeprefix(titled(finding)).removeprefix(": ")


def _object_chart(title: str, name: str, findings: Mapping[str, Finding]) -> Chart | None:
    """A line for each of these findings by name."""
    series = {words: points for words, finding in findings.items() if len(points := _by_objects(finding)) > 1}
    bands = [Band(words, points, at, at // len(COLORS)) for at, (words, points) in enumerate(series.items())]
    if not bands:
        return None
    words = (
        f"FG-ARI by number of objects in the scene. {_BANDS if any(_spread(band) for band in bands) else ''}".strip()
    )
    draw = partial(band_panels, {"": bands[: sections.MOST_LINES]}, "objects in the scene", "FG-ARI")
    return Chart(slug(_NAME, name), title, words, draw)


def _by_objects(finding: Finding) -> list[Point]:
    """The mean over seeds of FG-ARI for each number of objects."""
    seeds: dict[float, list[Estimate]] = {}
    for value in finding.values("fg-ari"):
        table = value.details.get("by objects")
        for count, score in (table if isinstance(table, dict) else {}).items():
            if is_number(score):
                seeds.setdefault(float(count), []).append(Estimate(float(score)))
    return [_point(count, mean_over_seeds(scores)) for count, scores in sorted(seeds.items())]


def _point(x: float, score: Estimate) -> Point:
    """A point whose band is one standard deviation over seeds, as in the paper, if there are several."""
    if score.spread == "seeds" and None not in (score.value, score.standard_error, score.n):
        wide = (score.standard_error or 0.0) * math.sqrt(score.n or 1)
        score = replace(score, low=(score.value or 0.0) - wide, high=(score.value or 0.0) + wide)
    return Point(x, score)


def _spread(band: Band) -> bool:
    return any(point.score.low is not None for point in band.points)


def _swept(findings: Sequence[Finding], *labels: str) -> Group:
    """The findings of each model in each world, if it has several numbers of slots."""
    groups = _groups(findings, *varied(findings, "world", "pixels", *labels))
    return {title: group for title, group in groups.items() if _numbers(group) > 1}


def _over_slots(findings: Sequence[Finding], metric: str, alone: bool = False) -> list[Point]:
    names = (f"{metric}{EACH}", metric) if alone else (metric,)
    known = ((finding.get("train_slots"), finding.known(*names)) for finding in findings)
    return sorted((_point(float(slots), found) for slots, found in known if found is not None), key=lambda p: p.x)


def _needed(groups: Group) -> dict[str, float]:
    """One slot for each object of the scene with the most objects, and one for the background."""
    counts = {
        title: [point.x for finding in group for point in _by_objects(finding)] for title, group in groups.items()
    }
    return {title: max(each) + 1 for title, each in counts.items() if each}


def _numbers(findings: Sequence[Finding]) -> int:
    return len({finding.get("train_slots") for finding in findings if is_number(finding.get("train_slots"))})


def _groups(findings: Sequence[Finding], *labels: str) -> Group:
    """Findings by model and those of the labels that vary."""
    groups: Group = {}
    names = varied(findings, *labels)
    for finding in findings:
        groups.setdefault(titled(finding, *names), []).append(finding)
    return groups


def _by(findings: Sequence[Finding], label: str) -> Group:
    groups: Group = {}
    for finding in findings:
        groups.setdefault(str(finding.get(label)), []).append(finding)
    return groups


def is_number(value: Any) -> bool:
    """Whether a label or detail is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
