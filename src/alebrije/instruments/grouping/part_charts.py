"""Charts about the frames of videos and the views of scenes: jointly, without the first, each alone, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from alebrije.instruments.grouping.parts import AFTER_FIRST, EACH
from alebrije.instruments.grouping.slot_charts import is_number, without_most_slots
from alebrije.instruments.grouping.slots import VARIANTS
from alebrije.instruments.grouping.verdict import tested_as_trained
from alebrije.report import sections
from alebrije.report.bands import Band, band_panels
from alebrije.report.charts import Bar, Point, bars
from alebrije.report.findings import Finding
from alebrije.report.parts import Chart, short, slug
from alebrije.report.sections import titled, varied
from alebrije.results import Estimate

_KINDS = {"": "all jointly", AFTER_FIRST: "without the first", EACH: "each alone"}
_LABELS = ("world", "corpus", *VARIANTS, "train_slots", "pixels")


def part_charts(findings: Sequence[Finding]) -> list[Chart]:
    """FG-ARI of all frames or views jointly, without the first, and of each alone; and of each frame over time."""
    shown = [f for f in without_most_slots(tested_as_trained(findings)) if f.known(f"fg-ari{EACH}") is not None]
    shown = shown[: sections.MOST_LINES]
    if not shown:
        return []
    labels = varied(shown, *_LABELS)
    names = [short(titled(finding, *labels), 34) for finding in shown]
    given = [
        Bar(name, kind, found)
        for name, finding in zip(names, shown, strict=True)
        for part, kind in _KINDS.items()
        if (found := finding.estimate(f"fg-ari{part}")) is not None
    ]
    words = "FG-ARI of all frames of a video, or all views of a scene, as one labelling; the same without the first, "
    words += "which some models get hints for; and the mean over frames or views that are scored alone. Where the last "
    words += "is higher, objects change their slots."
    draw = partial(bars, given, "FG-ARI", 0.0, 1.02)
    return [Chart(slug("grouping", "frames"), "Frames and views", words, draw), *_over_frames(names, shown)]


def _over_frames(names: Sequence[str], findings: Sequence[Finding]) -> list[Chart]:
    lines = [_frames(finding.detail("by frame", f"fg-ari{EACH}")) for finding in findings]
    known = [(name, points) for name, points in zip(names, lines, strict=True) if len(points) > 1]
    if not known:
        return []
    bands = [Band(name, points, at, at // 8) for at, (name, points) in enumerate(known)]
    draw = partial(band_panels, {"": bands}, "frame or view", "FG-ARI of it alone")
    words = "FG-ARI of each frame or view alone, in the first of its trainings."
    return [Chart(slug("grouping", "by-frame"), "Over the frames", words, draw)]


def _frames(scores: Any) -> list[Point]:
    each = enumerate(scores if isinstance(scores, list) else [], 1)
    return [Point(float(at), Estimate(float(score))) for at, score in each if is_number(score)]
