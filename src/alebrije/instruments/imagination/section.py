"""Imagination in the report: errors by alpha, the factors that are right, and predictions beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from alebrije.instruments.imagination.curves import ERROR, alphas_of, curve_charts, line_name
from alebrije.instruments.imagination.examination import ENCODER_SAW, TRAINING_COMBINATIONS
from alebrije.instruments.imagination.pictures import galleries, sheets
from alebrije.instruments.imagination.rule_graphs import rule_charts
from alebrije.instruments.imagination.tables import tables
from alebrije.instruments.imagination.values import BASELINES, IN_ERROR, OUT_ERROR
from alebrije.instruments.imagination.verdict import factor_accuracy, factor_names
from alebrije.report import sections
from alebrije.report.charts import Bar, bars
from alebrije.report.findings import Finding, Findings
from alebrije.report.grids import ScoreWords
from alebrije.report.parts import Chart, Section, short, slug
from alebrije.report.verdict import listed, means_over
from alebrije.studies.references import REFERENCES

_NAME = "imagination"
_SEEN, _NEW = "seen combinations", "new combinations"
_REMARK = (
    "A rule turns each scene into the next one. Training shows some combinations of factors, more with a larger alpha; "
    "the test uses others. Skill is 1 minus the error on new combinations divided by the error of the best constant "
    "image. A classifier trained on rendered scenes reads the factors from the predicted images; its accuracy on true "
    "images is the most that can be expected."
)


def section(findings: Findings) -> Section:
    """The charts, tables and predictions of imagination."""
    everything = findings.of(_NAME)
    shown = [finding for finding in everything if finding.estimate(OUT_ERROR) is not None]
    pictured = [*shown, *(finding for finding in everything if finding.is_file)]
    return Section(
        charts=[*_error_charts(shown), *_factor_charts(shown), *rule_charts(findings.label_values("rule", _NAME))],
        galleries=[*sheets(findings, shown), *galleries(findings, pictured)],
        grids=[*tables(everything), *sections.full_grids(findings, _NAME, ScoreWords(baselines=BASELINES))],
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
    """Curves over alpha for rules with several alphas; errors side by side for rules with one."""
    bars_of = []
    for task in dict.fromkeys(map(_world_and_rule, findings)):
        own = [finding for finding in findings if _world_and_rule(finding) == task]
        if len(alphas_of(own)) < 2:
            bars_of.append(_error_bars(own, " ".join(part for part in task if part)))
    return [*curve_charts(findings), *bars_of]


def _error_bars(findings: Sequence[Finding], task: str) -> Chart:
    kinds = {IN_ERROR: _SEEN, OUT_ERROR: _NEW}
    drawn = sections.score_bars(
        findings[: sections.MOST_LINES], kinds, lambda finding, metric: (line_name(finding, findings), kinds[metric])
    )
    words = f"Lower is better; whiskers are 95 % intervals.{sections.published_words(drawn, findings)}"
    draw = partial(bars, drawn, ERROR, 0.0, None)
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
