"""What the sections of all instruments share: tables, titles, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from alebrije.arrays import Array, Bytes
from alebrije.report.charts import Bar
from alebrije.report.findings import Finding, Findings
from alebrije.report.grids import ScoreWords, published_grid, score_grids
from alebrije.report.parts import MOST_SIDE, Gallery, ReportTable, Shot, Strip, short, slug
from alebrije.report.verdict import JUDGED, NOT_REQUESTED, Verdict, listed, over_settings
from alebrije.results import Estimate
from alebrije.sheets.sheet import picture_of

MOST_GALLERIES = 24  # in one section
MOST_LINES = 12  # in one chart
CASES = 3  # in one gallery


def full_grids(findings: Findings, study: str, words: ScoreWords = ScoreWords()) -> list[ReportTable]:  # noqa: B008
    """The published numbers, if there are any, and all scores."""
    beside = published_grid(findings, study)
    return [*([beside] if beside is not None else []), *score_grids(findings, study, words)]


def verdicts_of(
    findings: Findings, study: str, judge: Callable[[Sequence[Finding]], Verdict]
) -> list[tuple[str, Verdict]]:
    """The verdict on every model, including those whose cells failed and those without cells."""
    verdicts = []
    for model in findings.models:
        own = findings.of(study, model)
        failures = findings.failures(study, model)
        if own:
            verdict = judge(own)
            tiny = {finding.get("size") for finding in own} == {"tiny"}
            verdict = replace(verdict, try_out=tiny and verdict.mark in JUDGED)
            if failures:
                text = verdict.text.replace(NOT_REQUESTED, "which was not computed")
                verdict = replace(verdict, text=f"{text} {_failed(failures)}")
        elif failures:
            verdict = Verdict("failed", _failed(failures))
        else:
            verdict = Verdict("none", "Not examined.")
        verdicts.append((model, verdict))
    return verdicts


def titled(finding: Finding, *labels: str) -> str:
    """The model and some of its labels: "vae: occluded, iid"."""
    text = ", ".join(_label_words(name, finding.get(name)) for name in labels if finding.get(name) is not None)
    model = short(finding.model, 60)
    return f"{model}: {text}" if text and model else model or text


def varied(findings: Sequence[Finding], *labels: str) -> list[str]:
    """The labels that have more than one value among the findings."""
    values = {name: {str(f.get(name)) for f in findings if f.get(name) is not None} for name in labels}
    return [name for name in labels if len(values[name]) > 1]


def mean_known(findings: Sequence[Finding], metric: str) -> Estimate | None:
    """The mean of a value over the findings in which it is not null."""
    return over_settings([found for finding in findings if (found := finding.known(metric)) is not None])


def score_bars(
    findings: Iterable[Finding], metrics: Iterable[str], words: Callable[[Finding, str], tuple[str, str]]
) -> list[Bar]:
    """A bar for each of these values with the paper's number, if there is one. `words` are its name and its kind."""
    return [
        Bar(*words(finding, metric), found, None if (one := finding.one_published(metric)) is None else one.estimate)
        for finding in findings
        for metric in metrics
        if (found := finding.estimate(metric)) is not None
    ]


def galleries(name: str, words: str, side: float, cases: Iterable[tuple[str, tuple[Strip, ...]]]) -> list[Gallery]:
    """A gallery for each title that has strips, up to the most that a section shows."""
    shown = ((title, strips) for title, strips in cases if strips)
    made = (Gallery(slug(name, title), title, words, strips, side=side) for title, strips in shown)
    return list(islice(made, MOST_GALLERIES))


def published_words(shown: Sequence[Bar] | bool, findings: Sequence[Finding], mark: str = "Diamonds") -> str:
    """The sentence about published numbers in a chart; empty if it has none."""
    if not (shown if isinstance(shown, bool) else any(bar.published for bar in shown)):
        return ""
    sizes = [str(size) for size in dict.fromkeys(f.get("size") for f in findings) if size not in (None, "paper")]
    note = f"; ours were computed at the size {listed(sizes)}" if sizes else ""
    return f" {mark} are published numbers{note}."


def images_in(samples: dict[str, Array], *names: str) -> list[Array] | None:
    """Arrays of images uint8 [n, 3, H, W] under these names; None if one is missing or has another form."""
    found = [samples.get(name) for name in names]
    good = [
        array for array in found
        if array is not None and array.dtype == np.uint8 and array.ndim == 4 and array.shape[1] == 3 and array.size
    ]  # fmt: skip
    return good if len(good) == len(names) and len({len(array) for array in good}) == 1 else None


def shot(label: str, image: Array, alt: str, mark: Any = "", most: int = MOST_SIDE) -> Shot:
    """An image [3, H, W] as a picture of at most `most` pixels a side."""
    return Shot(label, picture_of(image), alt, mark=mark, most=most)


def difference_picture(left: Array, right: Array) -> Bytes:
    """The difference of two images uint8 [3, H, W] as a picture [H, W, 3]: white if equal, black from 128 on."""
    apart = np.abs(np.asarray(left, np.int16) - np.asarray(right, np.int16)).max(0)
    shade = (255 - np.minimum(2 * apart, 255)).astype(np.uint8)
    return np.repeat(shade[..., None], 3, 2)


def _label_words(name: str, value: Any) -> str:
    words = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
    shown = f"{words:g}" if isinstance(words, float) else short(words, 40)
    return shown if isinstance(value, str) else f"{name.replace('_', ' ')} {shown}"


def _failed(count: int) -> str:
    return f"{count} of its cells failed." if count > 1 else "One of its cells failed."
