"""Segmentations in the report, those of videos playing, and those of a grid by slots in training and at test time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from alebrije.arrays import Array, Bytes
from alebrije.instruments.grouping.pictures import Faults, marked_frames
from alebrije.instruments.grouping.slot_charts import grids_of
from alebrije.instruments.grouping.slots import VARIANTS
from alebrije.instruments.grouping.verdict import CLUSTERS, OBJECTS, tested_as_trained
from alebrije.report import sections
from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Gallery, Shot, Strip
from alebrije.report.sections import titled
from alebrije.sheets.sheet import colored_mask, picture_of

_LEGEND = (
    "The image, its objects, and the groups in the colours of the objects they match best. A dashed black and white "
    "line marks split objects: no group covers three quarters of them (oversegmentation). A solid red line marks "
    "groups that cover at least half of several objects (undersegmentation). In videos and views, an object is split "
    "if no group covers three quarters of its pixels in all of them together."
)
_GRID_LEGEND = (
    "The groups of one image by the number of slots in training (rows) and at test time (columns). Lines mark split "
    "and merged objects as below."
)
_MILLISECONDS = 160.0  # per frame
T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """The pictures of one image or video, or of each view of a scene: the image, its objects, its groups."""

    rows: Mapping[str, tuple[Shot, ...]]
    faults: Faults


def galleries(findings: Findings, scored: Sequence[Finding]) -> list[Gallery]:
    """The segmentations of a grid of slots, then those of each model."""
    labels = ("world", "corpus", *VARIANTS, "train_slots", "test_slots")
    cases = ((titled(finding, *labels), _strips(findings, finding)) for finding in _pictured(scored))
    grids = ((f"{title}, by slots", _grid_strips(findings, grid)) for title, grid in grids_of(scored).items())
    return [
        *sections.galleries("grouping-by-slots", _GRID_LEGEND, 8.0, grids),
        *sections.galleries("grouping-segments", _LEGEND, 8.0, cases),
    ]


def _pictured(findings: Sequence[Finding]) -> list[Finding]:
    """All findings; of a grid, only those tested as trained with the fewest, middle and most slots."""
    grids = grids_of(findings)
    in_grids = {id(finding) for grid in grids.values() for finding in grid}
    chosen = [one for one in findings if id(one) not in in_grids and one.get(CLUSTERS) in (None, OBJECTS)]
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
            shown = _cases(findings, cells[train, test], 1) if (train, test) in cells else []
            for case in shown:
                image, objects, groups = (case.rows[name][0] for name in ("image", "objects", "groups"))
                strips += [] if strips else [Strip("", (image, objects))]
                pictures.append(replace(groups, label=f"tested with {test}"))
        strips += [Strip(f"trained with {train}", tuple(pictures))] if pictures else []
    return tuple(strips) if len(strips) > 2 else ()


def _fewest_middle_most(items: Sequence[T]) -> list[T]:
    return [items[at] for at in dict.fromkeys([0, len(items) // 2, len(items) - 1])]


def _strips(findings: Findings, finding: Finding) -> tuple[Strip, ...]:
    strips: list[Strip] = []
    for case in _cases(findings, finding, sections.CASES):
        if all(len(row) == 1 for row in case.rows.values()):
            strips.append(Strip("", tuple(row[0] for row in case.rows.values()), f"{case.faults}."))
        else:
            notes = {"groups": f"{case.faults}."}
            strips += [Strip(name, row, notes.get(name, "")) for name, row in case.rows.items()]
    return tuple(strips)


def _cases(findings: Findings, finding: Finding, most: int) -> list[Case]:
    """The first images, videos or scenes among the samples of a finding; none if they cannot be shown."""
    samples = findings.samples(finding)
    images, true, groups = _images(samples, "images"), _label_maps(samples, "true"), _label_maps(samples, "groups")
    if images is None or true is None or groups is None or true.shape != groups.shape:
        return []
    if images.shape[:-3] != true.shape[:-2] or images.shape[-2:] != true.shape[-2:]:
        return []
    found = _images(samples, "reconstruction")
    parts = [images, true, groups]
    parts += [found] if found is not None and found.shape[:-3] == images.shape[:-3] else []
    if images.ndim == 4:
        parts = [part[:, None] for part in parts]  # one frame
    plays = finding.detail("videos", "fg-ari") is not None
    return [_case(plays, *(part[at] for part in parts)) for at in range(min(most, len(images)))]


def _case(plays: bool, images: Array, true: Array, groups: Array, found: Array | None = None) -> Case:
    """The pictures of T frames or views."""
    pictures = [picture_of(image) for image in images]
    marked, what = marked_frames(pictures, true, groups)
    rows = {
        "image": _row("video" if plays else "image", pictures, "the video" if plays else "the image", plays),
        "objects": _row("objects", [colored_mask(labels) for labels in true], f"its {what.objects} objects", plays),
        "groups": _row("groups", marked, f"its groups: {what}", plays),
    }
    if found is not None:
        decoded = [picture_of(image) for image in found]
        rows["reconstruction"] = _row("reconstruction", decoded, "the model's reconstruction", plays)
    return Case(rows, what)


def _row(label: str, pictures: Sequence[Bytes], alt: str, plays: bool) -> tuple[Shot, ...]:
    """One picture for each view, or one that plays all frames."""
    if plays:
        return (Shot(label, pictures[0], alt, rest=tuple(pictures[1:]), milliseconds=_MILLISECONDS),)
    if len(pictures) == 1:
        return (Shot(label, pictures[0], alt),)
    return tuple(Shot(f"view {number}", picture, f"{alt}, view {number}") for number, picture in enumerate(pictures, 1))


def _images(samples: Mapping[str, Array], name: str) -> Array | None:
    array = samples.get(name)
    good = array is not None and array.dtype == np.uint8 and array.ndim in (4, 5) and array.shape[-3] == 3
    return array if good and array is not None and array.size else None


def _label_maps(samples: Mapping[str, Array], name: str) -> Array | None:
    array = samples.get(name)
    good = array is not None and array.ndim in (3, 4) and array.size and np.issubdtype(array.dtype, np.integer)
    return array if good else None
