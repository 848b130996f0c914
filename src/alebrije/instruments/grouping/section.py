"""Grouping in the report: scores, the grid of training by test slots, scores by number of objects, segmentations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from alebrije.arrays import Array
from alebrije.instruments.grouping.pictures import faults, marked_picture
from alebrije.instruments.grouping.slot_charts import grids_of, object_charts, slot_charts, without_most_slots
from alebrije.instruments.grouping.verdict import SCORES, tested_as_trained
from alebrije.report import sections
from alebrije.report.charts import bars, dots
from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Chart, Gallery, Section, Shot, Strip, short, slug
from alebrije.report.sections import images_in, shot, titled, varied
from alebrije.sheets.sheet import colored_mask, picture_of

_NAME = "grouping"
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
_GRID_LEGEND = (
    "The groups of one image by the number of slots in training (rows) and at test time (columns). Lines mark split "
    "and merged objects as below."
)
T = TypeVar("T")


def section(findings: Findings) -> Section:
    """The charts, tables and segmentations of grouping."""
    everything = findings.of(_NAME)
    scored = [finding for finding in everything if finding.estimate("fg-ari", "ari") is not None]
    return Section(
        charts=[*_score_charts(scored), *slot_charts(scored), *object_charts(scored), *_correlations(everything)],
        galleries=_galleries(findings, scored),
        grids=sections.full_grids(findings, _NAME),
        remarks=(_REMARK,),
    )


def _score_charts(findings: Sequence[Finding]) -> list[Chart]:
    """The three scores of every model side by side."""
    shown = without_most_slots(tested_as_trained(findings))[: 2 * sections.MOST_LINES]
    labels = varied(shown, "world", "initial", "train_slots", "pixels")
    drawn = sections.score_bars(
        shown, SCORES, lambda finding, metric: (short(titled(finding, *labels), 34), SCORES[metric])
    )
    if not drawn:
        return []
    words = "1 is perfect, 0 is chance; whiskers are 95 % intervals. High precision with low recall means split "
    words += "objects; high recall with low precision means merged objects."
    if len(shown) < len(tested_as_trained(findings)):
        words += " Of a model with many numbers of slots, the one nearest to what the scenes need is shown."
    return [Chart(slug(_NAME, "scores"), "Foreground scores", words, partial(bars, drawn, "score", 0.0, 1.02))]


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
    grids = ((f"{title}, by slots", _grid_strips(findings, grid)) for title, grid in grids_of(scored).items())
    return [
        *sections.galleries(f"{_NAME}-by-slots", _GRID_LEGEND, 8.0, grids),
        *sections.galleries(f"{_NAME}-segments", _LEGEND, 8.0, cases),
    ]


def _pictured(findings: Sequence[Finding]) -> list[Finding]:
    """All findings; of a grid, only those tested as trained with the fewest, middle and most slots."""
    grids = grids_of(findings)
    in_grids = {id(finding) for grid in grids.values() for finding in grid}
    chosen = [finding for finding in findings if id(finding) not in in_grids]
    for grid in grids.values():
        diagonal = sorted(tested_as_trained(grid), key=lambda finding: finding.get("test_slots"))
        chosen += _fewest_middle_most(diagonal)
    return sorted(chosen, key=list(findings).index)


def _grid_strips(findings: Findings, grid: Sequence[Finding]) -> tuple[Strip, ...]:
    """The groups of the first image with the fewest, middle and most slots in training, and the same at test time."""
    cells = {(finding.get("train_slots"), finding.get("test_slots")): finding for finding in grid}
    trained, tested = (_fewest_middle_most(sorted({cell[at] for cell in cells})) for at in (0, 1))
    strips: list[Strip] = []
    for train in trained:
        pictures: list[Shot] = []
        for test in tested:
            shown = _strips(findings.samples(cells[train, test])) if (train, test) in cells else ()
            if shown:
                strips += [] if strips else [Strip("", shown[0].pictures[:2])]
                pictures.append(replace(shown[0].pictures[2], label=f"tested with {test}"))
        strips += [Strip(f"trained with {train}", tuple(pictures))] if pictures else []
    return tuple(strips) if len(strips) > 2 else ()


def _fewest_middle_most(items: Sequence[T]) -> list[T]:
    return [items[at] for at in dict.fromkeys([0, len(items) // 2, len(items) - 1])]


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
