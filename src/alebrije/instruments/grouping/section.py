"""Grouping in the report: scores, the grid of training by test slots, scores by number of objects, segmentations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from alebrije.instruments.grouping.cluster_charts import cluster_charts
from alebrije.instruments.grouping.galleries import galleries
from alebrije.instruments.grouping.part_charts import part_charts
from alebrije.instruments.grouping.slot_charts import object_charts, slot_charts, without_most_slots
from alebrije.instruments.grouping.slots import VARIANTS
from alebrije.instruments.grouping.verdict import SCORES, tested_as_trained
from alebrije.report import sections
from alebrije.report.charts import bars, dots
from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Chart, Section, short, slug
from alebrije.report.sections import titled, varied

_NAME = "grouping"
_REMARK = (
    "FG-ARI counts the pairs of object pixels that are correctly grouped together or apart, corrected for chance: 1 is "
    "perfect, 0 is chance. Its precision (FG-ARP) drops when objects are merged, its recall (FG-ARR) when they are "
    "split."
)


def section(findings: Findings) -> Section:
    """The charts, tables and segmentations of grouping."""
    everything = findings.of(_NAME)
    scored = [finding for finding in everything if finding.estimate("fg-ari", "ari") is not None]
    return Section(
        charts=[
            *_score_charts(scored),
            *part_charts(scored),
            *slot_charts(scored),
            *cluster_charts(scored),
            *object_charts(scored),
            *_correlations(everything),
        ],
        galleries=galleries(findings, scored),
        grids=sections.full_grids(findings, _NAME),
        remarks=(_REMARK,),
    )


def _score_charts(findings: Sequence[Finding]) -> list[Chart]:
    """The three scores of every model side by side."""
    shown = without_most_slots(tested_as_trained(findings))[: 2 * sections.MOST_LINES]
    labels = varied(shown, "world", *VARIANTS, "train_slots", "pixels")
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
    labels = varied(findings, "world", *VARIANTS, "pixels")
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
