"""Grouping in the report: scores, the grid of training by test slots, scores by number of objects, segmentations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.arrays import Array
from alebrije.instruments.grouping.pictures import faults, marked_picture
from alebrije.instruments.grouping.verdict import CLUSTERS, OBJECTS, SCORES, tested_as_trained
from alebrije.report import sections
from alebrije.report.charts import Point, bars, dots, heat_map, lines
from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Chart, Gallery, Section, Shot, Strip, short, slug
from alebrije.report.sections import images_in, shot, titled, varied
from alebrije.results import Estimate
from alebrije.sheets.sheet import colored_mask, picture_of

_NAME = "grouping"
_MAPS = {"fg-ari": "FG-ARI", "fg-arp": "FG-ARP (precision)", "fg-arr": "FG-ARR (recall)", "psnr": "PSNR, dB"}
_REMARK = (
    "FG-ARI counts the pairs of object pixels that are correctly grouped together or apart, corrected for chance: 1 is "
    "perfect, 0 is chance. Its precision (FG-ARP) drops when objects are merged, its recall (FG-ARR) when they are "
    "split."
)
_LEGEND = (
    "The image, its objects, and the groups in the colours of the objects they match best. A dashed black and white "
    "line marks split objects: no group covers three quarters of them (oversegmentation). A solid red line marks "
    "groups that cover at least half of several objects (undersegmentation)."
)


def section(findings: Findings) -> Section:
    """The charts, tables and segmentations of grouping."""
    everything = findings.of(_NAME)
    scored = [finding for finding in everything if finding.estimate("fg-ari", "ari") is not None]
    return Section(
        charts=[
            *_score_charts(scored),
            *_heat_maps(scored),
            *_cluster_charts(scored),
            *_object_charts(scored),
            *_correlations(everything),
        ],
        galleries=_galleries(findings, scored),
        grids=sections.full_grids(findings, _NAME),
        remarks=(_REMARK,),
    )


def _score_charts(findings: Sequence[Finding]) -> list[Chart]:
    """The three scores of every model side by side."""
    shown = tested_as_trained(findings)[: 2 * sections.MOST_LINES]
    labels = varied(shown, "world", "initial", "train_slots", "pixels")
    drawn = sections.score_bars(
        shown, SCORES, lambda finding, metric: (short(titled(finding, *labels), 34), SCORES[metric])
    )
    if not drawn:
        return []
    words = "1 is perfect, 0 is chance; whiskers are 95 % intervals. High precision with low recall means split "
    words += "objects; high recall with low precision means merged objects."
    return [Chart(slug(_NAME, "scores"), "Foreground scores", words, partial(bars, drawn, "score", 0.0, 1.02))]


def _grids_of(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Findings that differ only in their slots, if some training was tested with several numbers of slots."""
    grids: dict[str, list[Finding]] = {}
    labels = varied(findings, "world", "initial", "pixels")
    for finding in findings:
        if _is_number(finding.get("train_slots")) and _is_number(finding.get("test_slots")):
            grids.setdefault(titled(finding, *labels), []).append(finding)
    return {title: grid for title, grid in grids.items() if len(grid) > len({f.get("train_slots") for f in grid})}


def _heat_maps(findings: Sequence[Finding]) -> list[Chart]:
    charts = []
    for title, grid in _grids_of(findings).items():
        rows = sorted({finding.get("train_slots") for finding in grid})
        columns = sorted({finding.get("test_slots") for finding in grid})
        for metric, name in _MAPS.items():
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


def _object_charts(findings: Sequence[Finding]) -> list[Chart]:
    """FG-ARI by number of objects."""
    shown = tested_as_trained(findings)
    labels = varied(shown, "world", "initial", "train_slots", "pixels")
    series: dict[str, list[Point]] = {}
    for finding in shown:
        points = _points(finding.detail("by objects", "fg-ari"))
        if len(points) > 1:
            series[short(titled(finding, *labels), 28)] = points
    if not series:
        return []
    draw = partial(lines, dict(list(series.items())[: sections.MOST_LINES]), "objects in the scene", "FG-ARI")
    words = "FG-ARI by number of objects in the scene."
    return [Chart(slug(_NAME, "objects"), "By number of objects", words, draw)]


def _cluster_charts(findings: Sequence[Finding]) -> list[Chart]:
    """FG-ARI of clustered tokens by the number of clusters."""
    series: dict[str, list[Point]] = {}
    fixed = [finding for finding in findings if _is_number(finding.get(CLUSTERS))]
    labels = varied(fixed, "world", "pixels")
    for finding in sorted(fixed, key=lambda finding: float(finding.get(CLUSTERS))):
        if (found := finding.known("fg-ari")) is not None:
            series.setdefault(short(titled(finding, *labels), 28), []).append(Point(finding.get(CLUSTERS), found))
    if not any(len(points) > 1 for points in series.values()):
        return []
    draw = partial(lines, dict(list(series.items())[: sections.MOST_LINES]), "clusters in every image", "FG-ARI")
    words = "FG-ARI of models without masks, whose tokens are clustered by k-means, by the number of clusters."
    return [Chart(slug(_NAME, CLUSTERS), "By number of clusters", words, draw)]


def _points(table: Any) -> list[Point]:
    scores = table if isinstance(table, dict) else {}
    return [Point(float(count), Estimate(float(score))) for count, score in scores.items() if _is_number(score)]


def _correlations(findings: Sequence[Finding]) -> list[Chart]:
    """Correlations over the grid of slots, beside the papers'."""
    labels = varied(findings, "world", "initial", "pixels")
    metrics = dict.fromkeys(name for f in findings for name in f.metrics if name.lower().startswith("pearson"))
    found = sections.score_bars(
        findings, metrics, lambda finding, metric: (short(metric, 30), short(titled(finding, *labels), 24))
    )
    drawn = [bar for bar in found if bar.score.value is not None]
    if not drawn:
        return []
    words = "Pearson correlations over the grid of slots, with 95 % intervals if known."
    words += sections.published_words(drawn, findings)
    return [
        Chart(slug(_NAME, "correlations"), "Correlations over the grid", words, partial(dots, drawn, "correlation"))
    ]


def _galleries(findings: Findings, scored: Sequence[Finding]) -> list[Gallery]:
    labels = ("world", "initial", "train_slots", "test_slots")
    cases = ((titled(finding, *labels), _strips(findings.samples(finding))) for finding in _pictured(scored))
    return sections.galleries(f"{_NAME}-segments", _LEGEND, 8.0, cases)


def _pictured(findings: Sequence[Finding]) -> list[Finding]:
    """All findings; of a grid, only those tested as trained with the fewest, middle and most slots."""
    grids = _grids_of(findings)
    in_grids = {id(finding) for grid in grids.values() for finding in grid}
    chosen = [one for one in findings if id(one) not in in_grids and one.get(CLUSTERS) in (None, OBJECTS)]
    for grid in grids.values():
        diagonal = sorted(tested_as_trained(grid), key=lambda finding: finding.get("test_slots"))
        chosen += [diagonal[at] for at in dict.fromkeys([0, len(diagonal) // 2, len(diagonal) - 1])]
    return sorted(chosen, key=list(findings).index)


def _strips(samples: dict[str, Array]) -> tuple[Strip, ...]:
    images, true, groups = images_in(samples, "images"), _label_maps(samples, "true"), _label_maps(samples, "groups")
    if images is None or true is None or groups is None or true.shape != groups.shape:
        return ()
    if len(images[0]) != len(true) or images[0].shape[-2:] != true.shape[-2:]:
        return ()
    reconstructions = images_in(samples, "reconstruction")
    strips = []
    for at in range(min(sections.CASES, len(true))):
        found = faults(true[at], groups[at])
        pictures = [
            shot("image", images[0][at], "the image"),
            Shot("objects", colored_mask(true[at]), f"its {found.objects} objects"),
            Shot("groups", marked_picture(picture_of(images[0][at]), true[at], groups[at]), f"its groups: {found}"),
        ]
        if reconstructions is not None and len(reconstructions[0]) > at:
            pictures.append(shot("reconstruction", reconstructions[0][at], "the model's reconstruction"))
        strips.append(Strip("", tuple(pictures), f"{found}."))
    return tuple(strips)


def _label_maps(samples: dict[str, Array], name: str) -> Array | None:
    array = samples.get(name)
    good = array is not None and array.ndim == 3 and array.size and np.issubdtype(array.dtype, np.integer)
    return array if good else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
