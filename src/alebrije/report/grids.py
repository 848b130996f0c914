"""Tables of the page: every score with its interval, and the papers' numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from alebrije.report.findings import Findings, Group
from alebrije.report.parts import Entry, Grid, slug
from alebrije.report.words import listed
from alebrije.results import Estimate
from alebrije.results.compare import SIZE
from alebrije.results.estimates import difference, within
from alebrije.results.rendering import visible

_MOST_ROWS = 1_500
_ROUNDING = 1e-7  # standard errors below this are of rounding alone
_YARDSTICKS = (  # values that say nothing of the model, so that none is better
    "error of an unchanged image",
    "error of the best constant image",
    "factor accuracy of true images",
)
_CORRECTED = "CG accuracy"
_PLAIN = tuple(f"{setting} {feature}" for setting in ("CG", "linear CG") for feature in ("shape", "size", "both"))
_FIRST = ("model", "corpus", "world", "rule", "alpha", "train_set", "variant")


def score_grids(findings: Findings, study: str) -> list[Grid]:
    """One table for each family of values: rows are cells over their seeds, columns their labels and metrics."""
    grids = []
    for number, (metrics, groups) in enumerate(_families(findings.of(study)), 1):
        labels = _labels(groups)
        rows = [
            tuple(
                [_label_entry(group.subject if name == "model" else group.get(name)) for name in labels]
                + [estimate_entry(group.estimate(metric), group, metric) for metric in metrics]
            )
            for group in groups[:_MOST_ROWS]
        ]
        left = len(groups) - len(rows)
        note = "Mean over seeds; below it the 95 % interval, over seeds where there are several, else over cases."
        note += _kinds_of_accuracy(metrics)
        if left:
            note += f" {left:,} more rows are left out: alebrije results prints them all."
        hints = {metric: _hint(groups, metric) for metric in metrics}
        title = "Scores" if number == 1 else _named(metrics)
        grids.append(
            Grid(slug(study, "scores", number), title, (*labels, *metrics), tuple(rows), note,
                 findings.command(study, groups[0].labels), {name: hint for name, hint in hints.items() if hint})
        )  # fmt: skip
    return grids


def published_grid(findings: Findings, study: str) -> Grid | None:
    """Ours beside the papers', where there is a number for the same thing."""
    groups = findings.of(study)
    labels = _labels(groups)
    rows = []
    for group in groups:
        for metric in group.metrics:
            ours, theirs = group.known(metric), group.published(metric)
            if ours is not None and theirs:
                row = [_label_entry(group.subject if name == "model" else group.get(name)) for name in labels]
                rows.append((*row, _label_entry(metric), *_beside(group, ours, theirs)))
    if not rows:
        return None
    names = (*labels, "metric", "ours", "published", "ours - published", "may be chance", "source", "notes")
    used = [at for at, name in enumerate(names) if name == "ours" or any(row[at].text for row in rows)]
    return Grid(
        slug(study, "published"),
        "Beside the published numbers",
        tuple(names[at] for at in used),
        tuple(tuple(row[at] for at in used) for row in rows[:_MOST_ROWS]),
        "A difference may be chance if zero lies in its 95 % interval (Welch's t). Where several published numbers "
        "fit, they are named and none is chosen.",
        findings.command(study),
    )


def estimate_entry(found: Estimate | None, group: Group | None = None, metric: str = "") -> Entry:
    """A score with its interval below; where there is none, why."""
    if found is None:
        return Entry("")
    if found.value is None:
        return Entry("n/a", None, (visible(found.reason or ""),), "null")
    small = [found.interval] if found.interval else []
    if found.left_out:
        small.append(f"{found.left_out} without a value")
    if group is not None and (passed := group.detail("passed", metric)) is not None:
        small.append("passes the hard negatives" if passed else "fails hard negatives")
    shown = replace(found, n=None) if found.n == 1 else found
    if shown.standard_error is not None and shown.standard_error < _ROUNDING:
        shown = replace(shown, standard_error=0.0)
    return Entry(str(shown), float(found.value), tuple(small))


def _beside(group: Group, ours: Estimate, theirs: Sequence[Any]) -> list[Entry]:
    mine = estimate_entry(ours)
    if len({(one.value, one.standard_error) for one in theirs}) > 1:
        told = "; ".join(f"{one.estimate} ({_words(one.row)})" for one in theirs[:6])
        more = f"; and {len(theirs) - 6} more" if len(theirs) > 6 else ""
        return [mine, Entry("several"), Entry(""), Entry(""), Entry(theirs[0].paper), Entry(told + more)]
    paper = theirs[0]
    apart = difference(ours, paper.estimate)
    chance = within(apart)
    notes = list(dict.fromkeys(paper.notes))
    if group.get(SIZE) not in (None, "paper"):
        notes.append(f"ours is of the size {group.get(SIZE)}, not the paper's")
    if paper.unit != "as printed":
        notes.append(paper.unit)
    source = f"{paper.paper}, {paper.source}"
    verdict = "" if chance is None else "yes" if chance else "no"
    return [
        mine,
        estimate_entry(paper.estimate),
        estimate_entry(apart),
        Entry(verdict, verdict or None),
        Entry(source, source),
        Entry("; ".join(notes), "; ".join(notes) or None),
    ]


def _families(groups: Sequence[Group]) -> list[tuple[list[str], list[Group]]]:
    """Groups that share a metric, directly or through others, and the metrics of each family."""
    families: list[tuple[dict[str, None], list[Group]]] = []
    for group in groups:
        own, members = dict.fromkeys(group.metrics), [group]
        apart = []
        for metrics, others in families:
            if metrics.keys() & own.keys():
                own, members = metrics | own, others + members
            else:
                apart.append((metrics, others))
        families = [*apart, (own, members)]
    families.sort(key=lambda family: -len(family[0]))
    return [(list(metrics), members) for metrics, members in families]


def _labels(groups: Sequence[Group]) -> list[str]:
    """The labels that tell these groups apart, the best known first; the model always, the size where there are two."""
    names = dict.fromkeys(name for group in groups for name in group.labels)
    order = [*(name for name in _FIRST if name in names), *(name for name in names if name not in _FIRST)]
    varied = {name for name in order if len({repr(group.get(name)) for group in groups}) > 1}
    return [name for name in order if name in varied or (name == "model" and any(group.subject for group in groups))]


def _label_entry(label: Any) -> Entry:
    if label is None or label == "":
        return Entry("")
    if isinstance(label, bool):
        return Entry("yes" if label else "no", "yes" if label else "no")
    if isinstance(label, (int, float)):
        return Entry(f"{label:g}", float(label))
    return Entry(visible(str(label)), visible(str(label)).lower())


def _kinds_of_accuracy(metrics: Sequence[str]) -> str:
    """Which accuracies on held-out combinations are corrected for chance, and which are not."""
    plain = [metric for metric in metrics if metric in _PLAIN]
    corrected = f" {_CORRECTED} is corrected for chance: 0 is chance, 1 all right." if _CORRECTED in metrics else ""
    return corrected + (f" {listed(plain)}: plain shares that are right, in which chance is left." if plain else "")


def _hint(groups: Sequence[Group], metric: str) -> str:
    if metric in _YARDSTICKS:
        return "a yardstick, not the model's"
    value = next((found[0] for group in groups if (found := group.values(metric))), None)
    return f"{value.direction} is better" if value is not None and value.direction else ""


def _named(metrics: Sequence[str]) -> str:
    text = ", ".join(visible(metric) for metric in metrics[:3])
    text += " and others" if len(metrics) > 3 else ""
    return text[0].upper() + text[1:]


def _words(row: Mapping[str, Any]) -> str:
    return ", ".join(str(cell) for name, cell in row.items() if isinstance(cell, str) and name != "source")
