"""Imagination in the report: errors by alpha, the factors that are right, and predictions beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from alebrije.arrays import Array
from alebrije.instruments.imagination.examination import ENCODER_SAW, TRAINING_COMBINATIONS
from alebrije.instruments.imagination.values import BASELINES, IN_ERROR, OUT_ERROR, UNCHANGED
from alebrije.instruments.imagination.verdict import factor_accuracy, factor_names
from alebrije.report import sections
from alebrije.report.charts import Bar, Point, bars, lines
from alebrije.report.findings import Finding, Findings
from alebrije.report.grids import ScoreWords
from alebrije.report.parts import Chart, Gallery, Section, Shot, Strip, short, slug
from alebrije.report.sections import images_in, shot, titled, varied
from alebrije.report.verdict import listed, means_over
from alebrije.studies.references import REFERENCES

_NAME = "imagination"
_SEEN, _NEW = "seen combinations", "new combinations"
_ERROR = "error, summed over an image"
_REMARK = (
    "A rule turns each scene into the next one. Training shows some combinations of factors, more with a larger alpha; "
    "the test uses others. Skill is 1 minus the error on new combinations divided by the error of the best constant "
    "image. A classifier trained on rendered scenes reads the factors from the predicted images; its accuracy on true "
    "images is the most that can be expected."
)
_LEGEND = (
    "The given scene, the true next scene, the predicted one, and their difference (darker is larger). New "
    "combinations first, then one that training showed."
)


def section(findings: Findings) -> Section:
    """The charts, tables and predictions of imagination."""
    everything = findings.of(_NAME)
    shown = [finding for finding in everything if finding.estimate(OUT_ERROR) is not None]
    return Section(
        charts=[*_error_charts(shown), *_factor_charts(shown)],
        galleries=_galleries(findings, shown),
        grids=sections.full_grids(findings, _NAME, ScoreWords(baselines=BASELINES)),
        remarks=(_REMARK, *_encoder_remarks(everything)),
    )


def _encoder_remarks(findings: Sequence[Finding]) -> list[str]:
    """What the encoders under heads were trained on; nothing if all saw the training combinations only."""
    models: dict[str, list[str]] = {}
    for finding in findings:
        with_head = finding.get("drawn_by") == "head" and finding.get("alpha") is not None
        if with_head and finding.get("model") not in REFERENCES:
            names = models.setdefault(str(finding.get(ENCODER_SAW, "unknown")), [])
            names += [] if finding.model in names else [finding.model]
    if not models.keys() - {TRAINING_COMBINATIONS}:
        return []
    parts = [f"{saw} ({listed([short(name, 60) for name in names])})" for saw, names in models.items()]
    return [
        f"Combinations that the encoders were trained on, before a head was trained on their codes: {'; '.join(parts)}."
    ]


def _world_and_rule(finding: Finding) -> tuple[str, str]:
    return str(finding.get("world", "")), str(finding.get("rule", ""))


def _error_charts(findings: Sequence[Finding]) -> list[Chart]:
    """For each world and rule, the errors over alpha, or side by side if there is one alpha."""
    charts = []
    for task in dict.fromkeys(map(_world_and_rule, findings)):
        own = [finding for finding in findings if _world_and_rule(finding) == task]
        alphas = {finding.get("alpha") for finding in own if finding.get("alpha") is not None}
        title = " ".join(part for part in task if part)
        charts.append(_error_curves(own, title) if len(alphas) > 1 else _error_bars(own, title))
    return charts


def _line_name(finding: Finding, findings: Sequence[Finding]) -> str:
    return short(titled(finding, *varied(findings, "variant", "initial", "pixels", "drawn_by")), 28)


def _error_curves(findings: Sequence[Finding], task: str) -> Chart:
    series: dict[str, list[Point]] = {}
    published: dict[str, list[Point]] = {}
    for finding in findings:
        found, alpha = finding.known(OUT_ERROR), finding.get("alpha")
        if found is not None and isinstance(alpha, (int, float)):
            name = _line_name(finding, findings)
            series.setdefault(name, []).append(Point(float(alpha), found))
            if (one := finding.one_published(OUT_ERROR)) is not None:
                published.setdefault(name, []).append(Point(float(alpha), one.estimate))
    some = dict(list(series.items())[: sections.MOST_LINES])
    unchanged = [found.value for finding in findings if (found := finding.known(UNCHANGED)) is not None]
    line = ("the unchanged source", float(np.mean(np.array(unchanged, float)))) if unchanged else None
    words = "Lower is better. The larger alpha is, the more combinations training shows."
    words += sections.published_words(bool(published), findings, "Hollow marks")
    draw = partial(lines, some, "alpha", _ERROR, published, True, line)
    return Chart(slug(_NAME, "error", task), f"Error on new combinations over alpha: {task}", words, draw)


def _error_bars(findings: Sequence[Finding], task: str) -> Chart:
    kinds = {IN_ERROR: _SEEN, OUT_ERROR: _NEW}
    drawn = sections.score_bars(
        findings[: sections.MOST_LINES], kinds, lambda finding, metric: (_line_name(finding, findings), kinds[metric])
    )
    words = f"Lower is better; whiskers are 95 % intervals.{sections.published_words(drawn, findings)}"
    draw = partial(bars, drawn, _ERROR, 0.0, None)
    return Chart(slug(_NAME, "error", task), f"Error on seen and on new combinations: {task}", words, draw)


def _factor_charts(findings: Sequence[Finding]) -> list[Chart]:
    """The accuracy of each factor: means over the settings of each model."""
    charts = []
    for model in dict.fromkeys(finding.model for finding in findings):
        own = [finding for finding in findings if finding.model == model]
        drawn = []
        for name in factor_names(own):
            accuracy = factor_accuracy(own, name)
            if accuracy is not None:
                drawn += [Bar(name, _SEEN, accuracy.seen)] if accuracy.seen is not None else []
                drawn.append(Bar(name, _NEW, accuracy.new))
        if drawn:
            words = "The share of objects whose factor a classifier reads correctly from the predicted image."
            draw = partial(bars, drawn, "share that is right", None, 1.02)
            title = f"Factors that are right: {short(model, 40)}"
            charts.append(Chart(slug(_NAME, "factors", model), title, words + means_over(len(own)), draw))
    return charts


def _galleries(findings: Findings, shown: Sequence[Finding]) -> list[Gallery]:
    """Predictions of each model in each world and rule, at the smallest alpha, where training shows the least."""
    chosen: dict[tuple[str, ...], Finding] = {}
    for finding in shown:
        task = (finding.model, *_world_and_rule(finding))
        kept = chosen.get(task)
        if kept is None or float(finding.get("alpha", 1)) < float(kept.get("alpha", 1)):
            chosen[task] = finding
    cases = (
        (titled(finding, "world", "rule", "alpha"), _strips(findings.samples(finding))) for finding in chosen.values()
    )
    return sections.galleries(f"{_NAME}-predictions", _LEGEND, 6.5, cases)


def _strips(samples: dict[str, Array]) -> tuple[Strip, ...]:
    seen = _strips_of(samples, "_in", "seen combination")[:1]
    return (*_strips_of(samples, "", "new combination"), *seen)


def _strips_of(samples: dict[str, Array], ending: str, title: str) -> tuple[Strip, ...]:
    found = images_in(samples, f"source{ending}", f"target{ending}", f"predicted{ending}")
    if found is None or found[1].shape != found[2].shape:
        return ()
    strips = []
    for source, target, predicted in list(zip(*found, strict=True))[: sections.CASES]:
        pictures = (
            shot("source", source, "the given scene"),
            shot("target", target, "the true next scene"),
            shot("predicted", predicted, "the predicted next scene"),
            Shot("difference", sections.difference_picture(target, predicted), "the difference of the two"),
        )
        strips.append(Strip(title, pictures))
    return tuple(strips)
