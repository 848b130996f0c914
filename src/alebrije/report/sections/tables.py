"""What the sections of all instruments have in common: their tables, their titles and their choice of cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.report.charts import Bar
from alebrije.report.findings import Findings, Group
from alebrije.report.grids import published_grid, score_grids
from alebrije.report.parts import MOST_SIDE, Grid, Shot, short
from alebrije.report.sheets import picture_of
from alebrije.report.words import NOT_ASKED, Verdict, listed

MOST_GALLERIES = 24  # of one instrument
MOST_LINES = 12  # names that fit into one chart
CASES = 3  # of one gallery
Array = npt.NDArray[Any]


def full_grids(findings: Findings, study: str) -> list[Grid]:
    """The published numbers, where there are some, and all scores."""
    beside = published_grid(findings, study)
    return [*([beside] if beside is not None else []), *score_grids(findings, study)]


def verdicts_of(
    findings: Findings, study: str, judge: Callable[[Sequence[Group]], Verdict]
) -> list[tuple[str, Verdict]]:
    """The verdict on every subject; one whose cells all failed, and one without cells, say so."""
    found = []
    for subject in findings.subjects:
        groups = findings.of(study, subject)
        failures = findings.failures(study, subject)
        if groups:
            verdict = judge(groups)
            if failures:
                text = verdict.text.replace(NOT_ASKED, "which was not computed")
                verdict = Verdict(verdict.mark, f"{text} {_failed(failures)}")
        elif failures:
            verdict = Verdict("failed", _failed(failures))
        else:
            verdict = Verdict("none", "Not examined.")
        found.append((subject, verdict))
    return found


def titled(group: Group, *names: str, known: Sequence[str] = ()) -> str:
    """The subject and those of its labels that are asked for: "vae: occluded, iid"."""
    labels = [_told(name, group.get(name), name in known) for name in names if group.get(name) is not None]
    text = ", ".join(labels)
    subject = short(group.subject, 60)
    return f"{subject}: {text}" if text and subject else subject or text


def varied(groups: Sequence[Group], *names: str) -> list[str]:
    """Those of some labels in which the groups differ, though they be of one subject."""
    own: dict[str, set[str]] = {name: set() for name in names}
    for group in groups:
        for name in names:
            if group.get(name) is not None:
                own[name].add(str(group.get(name)))
    return [name for name in names if len(own[name]) > 1]


def published_words(drawn: Sequence[Bar] | bool, groups: Sequence[Group], mark: str = "Diamonds") -> str:
    """What is to be said of the published numbers in a chart; nothing where it has none."""
    if not (drawn if isinstance(drawn, bool) else any(bar.published for bar in drawn)):
        return ""
    sizes = [str(size) for size in dict.fromkeys(group.get("size") for group in groups) if size not in (None, "paper")]
    note = f"; ours are of the size {listed(sizes)}, not the papers'" if sizes else ""
    return f" {mark} are published numbers{note}."


def images_in(samples: dict[str, Array], *names: str) -> list[Array] | None:
    """Arrays of images [n, 3, H, W] of bytes under these names; None where one is missing or something else."""
    found = [samples.get(name) for name in names]
    good = [
        array for array in found
        if array is not None and array.dtype == np.uint8 and array.ndim == 4 and array.shape[1] == 3 and array.size
    ]  # fmt: skip
    return good if len(good) == len(names) and len({len(array) for array in good}) == 1 else None


def shot(label: str, image: Array, alt: str, mark: Any = "", most: int = MOST_SIDE) -> Shot:
    """An image [3, H, W] of a gallery, at most so many pixels a side on the page."""
    return Shot(label, picture_of(image), alt, "", mark, most)


def _told(name: str, value: Any, bare: bool) -> str:
    words = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
    shown = f"{words:g}" if isinstance(words, float) else short(words, 40)
    return shown if bare or isinstance(value, str) else f"{name.replace('_', ' ')} {shown}"


def _failed(count: int) -> str:
    return f"{count} of its cells failed." if count > 1 else "One of its cells failed."
