"""Tables of the report: every score with its interval, and the papers' numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Entry, ReportTable, slug
from alebrije.results import Estimate
from alebrije.results.compare import SIZE
from alebrije.results.estimates import difference, includes_zero
from alebrije.results.formats import visible
from alebrije.results.published import Published

_MOST_ROWS = 1_500
_ROUNDING = 1e-7  # smaller standard errors are rounding
_FIRST = ("model", "trained_on", "corpus", "world", "rule", "alpha", "train_set", "variant")


@dataclass(frozen=True)
class ScoreWords:
    """What an instrument adds to its table of scores.

    `baselines` are values that say nothing about the model, `note` is a sentence for some columns, and `small_print`
    is a line below a score.
    """

    baselines: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # shown beside the published numbers only
    note: Callable[[Sequence[str]], str] = lambda metrics: ""
    small_print: Callable[[Finding, str], str] = lambda finding, metric: ""


def score_grids(findings: Findings, study: str, words: ScoreWords) -> list[ReportTable]:
    """One table for each family of values. Rows are findings; columns are labels and metrics."""
    grids = []
    for number, (every, family) in enumerate(_families(findings.of(study)), 1):
        metrics = [metric for metric in every if metric not in words.hidden]
        labels = _labels(family)
        rows = [
            tuple(
                [_label_entry(finding, name) for name in labels]
                + [estimate_entry(finding.estimate(m), words.small_print(finding, m)) for m in metrics]
            )
            for finding in family[:_MOST_ROWS]
        ]
        left = len(family) - len(rows)
        note = "Mean over seeds. Below it, the 95 % interval over seeds, or over cases if there is one seed."
        note += words.note(metrics)
        if left:
            note += f" {left:,} more rows are not shown; `alebrije results` prints them all."
        hints = {metric: _hint(family, metric, words) for metric in metrics}
        title = "Scores" if number == 1 else _named(metrics)
        hints = {name: hint for name, hint in hints.items() if hint}
        grids.append(ReportTable(slug(study, "scores", number), title, (*labels, *metrics), tuple(rows), note, hints))
    return grids


def published_grid(findings: Findings, study: str) -> ReportTable | None:
    """Our values beside the papers' numbers for the same thing; None if there are none."""
    own = findings.of(study)
    labels = _labels(own)
    rows, footnotes = [], dict[str, int]()
    for finding in own:
        for metric in finding.metrics:
            ours, theirs = finding.known(metric), finding.published(metric)
            if ours is not None and theirs:
                row = [_label_entry(finding, name) for name in labels]
                beside, notes = _beside(finding, ours, theirs)
                numbers = [str(footnotes.setdefault(note, len(footnotes) + 1)) for note in notes]
                rows.append((*row, _entry(metric), *beside, Entry(", ".join(numbers))))
    if not rows:
        return None
    names = (*labels, "metric", "ours", "published", "ours - published", "may be chance", "source", "notes")
    used = [at for at, name in enumerate(names) if name == "ours" or any(row[at].text for row in rows)]
    return ReportTable(
        slug(study, "published"),
        "Beside the published numbers",
        tuple(names[at] for at in used),
        tuple(tuple(row[at] for at in used) for row in rows[:_MOST_ROWS]),
        "A difference may be chance if its 95 % interval contains zero (Welch's t). If several published numbers "
        "fit, the notes list them and none is chosen.",
        footnotes=tuple(footnotes),
    )


def estimate_entry(found: Estimate | None, small_print: str = "") -> Entry:
    """A score with its interval below; for a null score, its reason."""
    if found is None:
        return Entry("")
    if found.value is None:
        return Entry("n/a", None, (visible(found.reason or ""),), "null")
    small = [found.interval] if found.interval else []
    if found.left_out:
        small.append(f"{found.left_out} without a value")
    small += [small_print] if small_print else []
    shown = replace(found, n=None) if found.n == 1 else found
    if shown.standard_error is not None and shown.standard_error < _ROUNDING:
        shown = replace(shown, standard_error=0.0)
    return Entry(str(shown), float(found.value), tuple(small))


def compared_entry(found: Estimate | None, theirs: Published | None, small_print: str = "") -> Entry:
    """A score with its interval and the published number below."""
    mine = estimate_entry(found, small_print)
    return mine if theirs is None else replace(mine, small=(*mine.small, f"published {theirs.estimate}"))


def _beside(finding: Finding, ours: Estimate, theirs: Sequence[Any]) -> tuple[list[Entry], list[str]]:
    """The cells of a row from "ours" on, and its notes."""
    mine = estimate_entry(ours)
    if len({(one.value, one.standard_error) for one in theirs}) > 1:
        several = "; ".join(f"{one.estimate} ({_words(one.row)})" for one in theirs[:6])
        more = f"; and {len(theirs) - 6} more" if len(theirs) > 6 else ""
        return [mine, Entry("several"), Entry(""), Entry(""), Entry(theirs[0].paper)], [several + more]
    paper = theirs[0]
    apart = difference(ours, paper.estimate)
    chance = includes_zero(apart)
    notes = list(dict.fromkeys(paper.notes))
    if finding.get(SIZE) not in (None, "paper"):
        notes.append(f"ours was computed at the size {finding.get(SIZE)}")
    if paper.unit != "as printed":
        notes.append(paper.unit)
    source = f"{paper.paper}, {paper.source}"
    may_be = "" if chance is None else "yes" if chance else "no"
    entries = [mine, estimate_entry(paper.estimate), estimate_entry(apart)]
    return [*entries, Entry(may_be, may_be or None), Entry(source, source)], notes


def _families(findings: Sequence[Finding]) -> list[tuple[list[str], list[Finding]]]:
    """Findings that share a metric, directly or through others, and the metrics of each family."""
    families: list[tuple[dict[str, None], list[Finding]]] = []
    for finding in findings:
        own, members = dict.fromkeys(finding.metrics), [finding]
        apart = []
        for metrics, others in families:
            if metrics.keys() & own.keys():
                own, members = metrics | own, others + members
            else:
                apart.append((metrics, others))
        families = [*apart, (own, members)]
    families.sort(key=lambda family: -len(family[0]))
    return [(list(metrics), members) for metrics, members in families]


def _labels(findings: Sequence[Finding]) -> list[str]:
    """The labels that distinguish these findings, the most familiar first, and always the model."""
    names = dict.fromkeys(name for finding in findings for name in finding.labels)
    order = [*(name for name in _FIRST if name in names), *(name for name in names if name not in _FIRST)]
    varied = {name for name in order if len({repr(finding.get(name)) for finding in findings}) > 1}
    return [name for name in order if name in varied or (name == "model" and any(f.model for f in findings))]


def _label_entry(finding: Finding, name: str) -> Entry:
    return _entry(finding.model if name == "model" else finding.get(name))


def _entry(label: Any) -> Entry:
    if label is None or label == "":
        return Entry("")
    if isinstance(label, bool):
        return Entry("yes" if label else "no", "yes" if label else "no")
    if isinstance(label, (int, float)):
        return Entry(f"{label:g}", float(label))
    return Entry(visible(str(label)), visible(str(label)).lower())


def _hint(findings: Sequence[Finding], metric: str, words: ScoreWords) -> str:
    if metric in words.baselines:
        return "baseline, not the model"
    value = next((found[0] for finding in findings if (found := finding.values(metric))), None)
    return f"{value.direction} is better" if value is not None and value.direction else ""


def _named(metrics: Sequence[str]) -> str:
    text = ", ".join(visible(metric) for metric in metrics[:3])
    text += " and others" if len(metrics) > 3 else ""
    return text[0].upper() + text[1:]


def _words(row: Mapping[str, Any]) -> str:
    return ", ".join(str(cell) for name, cell in row.items() if isinstance(cell, str) and name != "source")
