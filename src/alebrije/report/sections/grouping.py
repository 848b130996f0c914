"""Grouping on the page: scores, the grid of training by test slots, scores by number of objects, segmentations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.report.charts import Bar, Point, bars, dots, heat_map, lines
from alebrije.report.findings import Findings, Group
from alebrije.report.parts import Chart, Gallery, Section, Shot, Strip, short, slug
from alebrije.report.sections.tables import (
    CASES,
    MOST_GALLERIES,
    MOST_LINES,
    Array,
    full_grids,
    images_in,
    published_words,
    shot,
    titled,
    varied,
    verdicts_of,
)
from alebrije.report.segments import faults, marked_picture
from alebrije.report.sheets import colored_mask, picture_of
from alebrije.report.words import Verdict, grouping_verdict, listed, over_settings
from alebrije.results import Estimate
from alebrije.results.rendering import visible

STUDY = "grouping"
QUESTION = "Are pixels grouped into objects: too coarse, right, or too fine?"
MAPS = {"fg-ari": "FG-ARI", "fg-arp": "FG-ARP (precision)", "fg-arr": "FG-ARR (recall)", "psnr": "PSNR, dB"}
_KINDS = {"fg-ari": "FG-ARI", "fg-arp": "precision, FG-ARP", "fg-arr": "recall, FG-ARR"}


def grouping_section(findings: Findings) -> Section:
    """Scores and segmentations."""
    everything = findings.of(STUDY)
    groups = [group for group in everything if group.estimate("fg-ari", "ari") is not None]
    return Section(
        STUDY,
        "Grouping",
        QUESTION,
        verdicts_of(findings, STUDY, judged),
        charts=[
            *_score_charts(findings, groups),
            *_heat_maps(findings, groups),
            *_object_charts(findings, groups),
            *_correlations(findings, everything),
        ],
        galleries=_galleries(findings, groups),
        grids=full_grids(findings, STUDY),
        remarks=(
            "FG-ARI counts pairs of pixels of objects that are rightly together or apart, corrected for chance: 1 is "
            "perfect, 0 chance. Its precision (FG-ARP) falls when objects are merged, its recall (FG-ARR) when they "
            "are split.",
        ),
    )


def judged(groups: Sequence[Group]) -> Verdict:
    """The verdict on one subject: the mean over its cells, of a grid of slots only those trained as they are tested."""
    cells = diagonal([group for group in groups if group.estimate("fg-ari", "ari") is not None])
    ari, precision, recall = (over_settings(_known(cells, metric)) for metric in _KINDS)
    reasons = [found.reason for group in cells if (found := group.estimate("fg-ari")) is not None and found.reason]
    known = [(found.value, group) for group in cells if (found := group.known("fg-ari")) is not None and found.value]
    best = None
    told = varied([group for _, group in known], "world", "initial", "train_slots", "pixels")
    told = told or varied([group for _, group in known], "test_slots")
    if told:
        score, group = max(known, key=lambda one: one[0] or 0.0)
        best = titled(group, *told).removeprefix(f"{short(group.subject, 60)}: "), float(score or 0.0)
    missing = visible(reasons[0]) if reasons else ""
    return grouping_verdict(ari, precision, recall, len(_known(cells, "fg-ari")), missing, best, _slots(groups, cells))


def _slots(groups: Sequence[Group], cells: Sequence[Group]) -> str:
    """How many slots the cells that count have in the test, where there are several numbers of them."""
    if not varied(groups, "test_slots"):
        return ""
    numbers = list(dict.fromkeys(str(group.get("test_slots")) for group in cells if group.get("test_slots")))
    same = all(group.get("train_slots") == group.get("test_slots") for group in cells)
    return f"{listed(numbers)}{', as in training' if same else ''}" if numbers else ""


def diagonal(groups: Sequence[Group]) -> list[Group]:
    """The cells of a grid whose slots are as many as in training; all where there is no grid."""
    same = [group for group in groups if group.get("train_slots") == group.get("test_slots", group.get("train_slots"))]
    return same or list(groups)


def _known(groups: Sequence[Group], metric: str) -> list[Estimate]:
    return [found for group in groups if (found := group.known(metric)) is not None]


def _score_charts(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """The three scores of every subject beside each other."""
    given, shown = [], diagonal(groups)[: 2 * MOST_LINES]
    told = varied(shown, "world", "initial", "train_slots", "pixels")
    for group in shown:
        name = short(titled(group, *told), 34)
        for metric, kind in _KINDS.items():
            found = group.estimate(metric)
            if found is not None:
                one = group.one_published(metric)
                given.append(Bar(name, kind, found, one.estimate if one is not None else None))
    if not given:
        return []
    words = "1 is perfect, 0 chance; whiskers are 95 % intervals. Precision alone is high where objects are split, "
    words += "recall alone where they are merged."
    draw = partial(bars, given, "score", 0.0, 1.02)
    return [Chart(slug(STUDY, "scores"), "Foreground scores", words, draw, findings.command(STUDY, groups[0].labels))]


def _grids_of(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Groups that differ in their slots alone, where some training was tested with several numbers of them."""
    grids: dict[str, list[Group]] = {}
    told = varied(groups, "world", "initial", "pixels")
    for group in groups:
        if _is_number(group.get("train_slots")) and _is_number(group.get("test_slots")):
            grids.setdefault(titled(group, *told), []).append(group)
    return {title: own for title, own in grids.items() if len(own) > len({group.get("train_slots") for group in own})}


def _heat_maps(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    charts = []
    for title, own in _grids_of(groups).items():
        rows = sorted({group.get("train_slots") for group in own})
        columns = sorted({group.get("test_slots") for group in own})
        for metric, name in MAPS.items():
            values = np.full((len(rows), len(columns)), np.nan)
            for group in own:
                found = group.known(metric)
                if found is not None:
                    place = rows.index(group.get("train_slots")), columns.index(group.get("test_slots"))
                    values[place] = found.value
            if np.isfinite(values).any():
                draw = partial(heat_map, values, rows, columns, "slots in training", "slots in the test", name)
                words = f"{name} by the number of slots in training and in the test; the brighter the better."
                command = findings.command(STUDY, own[0].labels)
                charts.append(Chart(slug(STUDY, metric, title), f"{name}: {title}", words, draw, command))
    return charts


def _object_charts(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """FG-ARI by the number of objects in the scene."""
    series: dict[str, list[Point]] = {}
    told = varied(diagonal(groups), "world", "initial", "train_slots", "pixels")
    for group in diagonal(groups):
        table = group.detail("by objects", "fg-ari")
        points = _points(table)
        if len(points) > 1:
            series[short(titled(group, *told), 28)] = points
    if not series:
        return []
    draw = partial(lines, dict(list(series.items())[:MOST_LINES]), "objects in the scene", "FG-ARI")
    words = "FG-ARI of the images with so many objects."
    command = findings.command(STUDY, groups[0].labels)
    return [Chart(slug(STUDY, "objects"), "By number of objects", words, draw, command)]


def _points(table: Any) -> list[Point]:
    if not isinstance(table, dict):
        return []
    found = []
    for count, score in table.items():
        value = score.get("score", score.get("mean")) if isinstance(score, dict) else score
        if str(count).isdigit() and value is not None and _is_number(value):
            found.append(Point(float(count), Estimate(float(value))))
    return found


def _correlations(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """Correlations over the whole grid, beside the papers'."""
    given, told = [], varied(groups, "world", "initial", "pixels")
    for group in groups:
        for metric in group.metrics:
            found = group.known(metric)
            if metric.lower().startswith("pearson") and found is not None:
                one = group.one_published(metric)
                kind = short(titled(group, *told), 24)
                given.append(Bar(short(metric, 30), kind, found, one.estimate if one is not None else None))
    if not given:
        return []
    words = "Pearson correlations over the grid of slots, with 95 % intervals where there are some."
    words += published_words(given, groups)
    draw = partial(dots, given, "correlation")
    return [Chart(slug(STUDY, "correlations"), "Correlations over the grid", words, draw, findings.command(STUDY))]


# --------------------------------------------------------------------------------------------------------- pictures


def _galleries(findings: Findings, groups: Sequence[Group]) -> list[Gallery]:
    made: list[Gallery] = []
    for group in _shown(groups):
        strips = _strips(findings.samples(group))
        if strips and len(made) < MOST_GALLERIES:
            title = titled(group, "world", "initial", "train_slots", "test_slots")
            words = (
                "The image, its objects, and the groups in the colours of the objects that they fit best. A broken "
                "black and white line is drawn round objects that are split: no group holds three quarters of them "
                "(oversegmentation). A solid red line is drawn round groups that cover several objects, holding half "
                "of each or more (undersegmentation)."
            )
            command = findings.command(STUDY, group.labels)
            made.append(Gallery(slug(STUDY, "segments", title), title, words, strips, command, side=8.0))
    return made


def _shown(groups: Sequence[Group]) -> list[Group]:
    """All groups, but of a grid only the diagonal's: fewest, middle and most slots."""
    grids = _grids_of(groups)
    among = {id(group) for own in grids.values() for group in own}
    chosen = [group for group in groups if id(group) not in among]
    for own in grids.values():
        line = sorted(diagonal(own), key=lambda group: group.get("test_slots"))
        chosen += [line[place] for place in dict.fromkeys([0, len(line) // 2, len(line) - 1])]
    return sorted(chosen, key=list(groups).index)


def _strips(samples: dict[str, Array]) -> tuple[Strip, ...]:
    images, true, found = images_in(samples, "images"), _maps(samples, "true"), _maps(samples, "groups")
    if images is None or true is None or found is None or true.shape != found.shape:
        return ()
    if len(images[0]) != len(true) or images[0].shape[-2:] != true.shape[-2:]:
        return ()
    drawn = images_in(samples, "reconstruction")
    strips = []
    for at in range(min(CASES, len(true))):
        what = faults(true[at], found[at])
        pictures = [
            shot("image", images[0][at], "the image"),
            Shot("objects", colored_mask(true[at]), f"its {what.objects} objects"),
            Shot("groups", marked_picture(picture_of(images[0][at]), true[at], found[at]), f"its groups: {what}"),
        ]
        if drawn is not None and len(drawn[0]) > at:
            pictures.append(shot("reconstruction", drawn[0][at], "what the model draws of it"))
        strips.append(Strip("", tuple(pictures), f"{what}."))
    return tuple(strips)


def _maps(samples: dict[str, Array], name: str) -> Array | None:
    array = samples.get(name)
    good = array is not None and array.ndim == 3 and array.size and np.issubdtype(array.dtype, np.integer)
    return array if good else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
