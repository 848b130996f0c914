"""Tables shaped like Tables 1 and 5 of Kim et al. 2023, with the published numbers below ours."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from alebrije.instruments.imagination.rule_graphs import rule_title
from alebrije.instruments.imagination.scene_reader import ACCURACIES
from alebrije.instruments.imagination.values import LPIPS, OUT_ERROR
from alebrije.report.findings import Finding
from alebrije.report.grids import compared_entry
from alebrije.report.parts import Entry, ReportTable, slug
from alebrije.report.verdict import over_settings
from alebrije.results import published_for
from alebrije.results.formats import visible
from alebrije.results.published import Published
from alebrije.scenes.rules import BENCHMARK_RULES

_NAME = "imagination"
_DIFFICULTY = {0.6: "easy", 0.4: "medium", 0.2: "hard"}  # the paper's words for alpha
_Cell = tuple[str, float]  # world and alpha


def tables(findings: Sequence[Finding]) -> list[ReportTable]:
    """The tables that have rows."""
    means = [_means(findings, LPIPS, "LPIPS"), _means(findings, OUT_ERROR, "error, summed over an image")]
    return [table for table in (*means, _read_factors(findings)) if table is not None]


def _means(findings: Sequence[Finding], metric: str, words: str) -> ReportTable | None:
    """A row for each model, a column for each world and alpha: the mean over the rules of the benchmark."""
    groups: dict[str, dict[_Cell, list[Finding]]] = {}
    for finding in findings:
        alpha = finding.get("alpha")
        if _task(finding) in BENCHMARK_RULES and isinstance(alpha, (int, float)) and finding.known(metric) is not None:
            cell = str(finding.get("world", "")), float(alpha)
            groups.setdefault(finding.model, {}).setdefault(cell, []).append(finding)
    cells = sorted({cell for by_cell in groups.values() for cell in by_cell}, key=lambda cell: (cell[0], -cell[1]))
    if not any(len({_task(f) for f in own}) > 1 for by_cell in groups.values() for own in by_cell.values()):
        return None
    rows = tuple(
        (Entry(visible(model), visible(model).lower()), *(_mean(by_cell.get(cell, []), metric) for cell in cells))
        for model, by_cell in groups.items()
    )
    columns = tuple(f"{world}, {_DIFFICULTY.get(alpha, 'core only' if alpha == 0 else 'alpha')} ({alpha:g})"
                    for world, alpha in cells)  # fmt: skip
    note = f"Means over the rules {', '.join(BENCHMARK_RULES)}; in parentheses, alpha. Small print: the published mean."
    title = f"Means over the rules by difficulty{' (Table 1)' if metric == LPIPS else ''}: {words}"
    return ReportTable(slug(_NAME, "means", metric), title, ("model", *columns), rows, note)


def _task(finding: Finding) -> str:
    """The task of the benchmark that a rule is, under its own name or that of the analysis."""
    title = rule_title(str(finding.get("rule", "")))
    return title[title.index("(") + 1 : -1] if title.endswith(")") else title


def _mean(findings: Sequence[Finding], metric: str) -> Entry:
    """The mean over rules; each rule counts once."""
    by_rule = {_task(finding): finding for finding in findings}
    known = [found for finding in by_rule.values() if (found := finding.known(metric)) is not None]
    if not known:
        return Entry("")
    small = "" if len(known) == len(BENCHMARK_RULES) else f"{', '.join(by_rule)} only"
    whole = len(by_rule) == len(BENCHMARK_RULES)
    entry = compared_entry(over_settings(known), _published_mean(list(by_rule.values()), metric) if whole else None)
    return replace(entry, small=(*entry.small, small)) if small else entry


def _published_mean(findings: Sequence[Finding], metric: str) -> Published | None:
    """The published mean over the rules: Table 1 has that of LPIPS; of errors it is computed from Table 11."""
    first = findings[0]
    if not first.with_published:
        return None
    if metric == LPIPS:
        found = published_for(
            {name: label for name, label in first.labels.items() if name != "rule"}, "mean lpips over rules"
        )
        return found[0] if len(found) == 1 else None
    each = [one for finding in findings if (one := finding.one_published(metric)) is not None]
    if len(each) < len(BENCHMARK_RULES):
        return None
    return replace(each[0], value=statistics.fmean(one.value for one in each))


def _read_factors(findings: Sequence[Finding]) -> ReportTable | None:
    """A row for each world whose whole scenes are read, a column for each factor."""
    own = [finding for finding in findings if any(finding.known(name) is not None for name in ACCURACIES)]
    shown = [name for name in ACCURACIES if any(finding.known(name) is not None for finding in own)]
    rows = tuple(
        (
            Entry(visible(str(finding.get("world", "")))),
            Entry(visible(str(finding.get("pixels", "")))),
            *(compared_entry(finding.known(name), finding.one_published(name)) for name in shown),
        )
        for finding in own
    )
    if not rows:
        return None
    note = (
        "How often a network of four convolutions reads a factor correctly from true images. Object 1 is nearer to the "
        "camera. The paper gives neither the number of images nor how its network is trained."
    )
    title = "Factors read from true images (Table 5)"
    return ReportTable(slug(_NAME, "table-5"), title, ("world", "pixels", *shown), rows, note)
