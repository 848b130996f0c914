"""Tables shaped like those of Mahon et al. 2024, with the published numbers below ours.

Tables 2 and 5 (heads and the paper's metrics), 3 (generalisation), 7 and 8 (all metrics and their variants), 9 to 26
(every factor on random test sets) and 27 to 44 (every factor on held-out pairs); 4 and 6 are in `correlation_charts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from alebrije.instruments.neurons.accuracies import BOTH, HEADS, MEANS, ONE_SPLIT, Head
from alebrije.instruments.neurons.correlation_charts import correlation_table
from alebrije.instruments.neurons.generalisation import ACCURACY, FEATURES, SETTINGS
from alebrije.instruments.neurons.variants import VARIANTS
from alebrije.report.findings import Finding
from alebrije.report.grids import compared_entry
from alebrije.report.parts import Entry, ReportTable, slug
from alebrije.results import Estimate
from alebrije.results.estimates import format_number, mean_over_seeds
from alebrije.results.formats import visible
from alebrije.results.published import Published
from alebrije.results.published_tables import FACTORS

_NAME = "neurons"
_HEADS = ("SNC", "linear accuracy", "MLP accuracy", "NK")
_METRICS = ("SNC", "NK", "MIG", "SAP", "IRS", "DCI-D", "DCI-C", "DCI-I", "DCI", "MED")
_NOTE = "The published number is below ours, where there is one; accuracies are fractions, not adjusted for chance."
_MOST_ROWS = 400


def tables(findings: Sequence[Finding]) -> list[ReportTable]:
    """The tables that have rows."""
    heads = _by_model("tables-2-and-5", "Single neurons and heads (Tables 2 and 5)", findings, _HEADS)
    metrics = _by_model(
        "tables-7-and-8", "Metrics and their variants (Tables 7 and 8)", findings, (*_METRICS, *VARIANTS)
    )
    first = [heads, _generalisation(findings), correlation_table(findings), metrics]
    return [*(table for table in first if table is not None), *_accuracies(findings)]


def _by_model(name: str, title: str, findings: Iterable[Finding], metrics: Sequence[str]) -> ReportTable | None:
    """A row for each model in each world, a column for each metric that one of them has."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.model and any(finding.known(metric) is not None for metric in metrics):
            groups.setdefault((str(finding.get("world", "")), finding.model), []).append(finding)
    own = {key: _known(group, metrics) for key, group in groups.items()}
    shown = [metric for metric in metrics if any(metric in known for known in own.values())]
    rows = tuple(
        (*map(_label, key), *(_number(known.get(metric), metric) for metric in shown)) for key, known in own.items()
    )
    if not rows:
        return None
    note = "Variants are over shape and size alone. " if set(VARIANTS) & set(shown) else ""
    note += "The published number is below ours, where there is one."
    return ReportTable(slug(_NAME, name), title, ("world", "model", *shown), rows, note)


def _known(findings: Iterable[Finding], metrics: Sequence[str]) -> dict[str, Finding]:
    """The finding that has each metric."""
    return {metric: finding for finding in findings for metric in metrics if finding.known(metric) is not None}


def _number(finding: Finding | None, metric: str) -> Entry:
    if finding is None:
        return Entry("")
    return compared_entry(finding.known(metric), finding.one_published(metric))


def _generalisation(findings: Sequence[Finding]) -> ReportTable | None:
    """A row for each model, world and setting, a column for each feature: Table 3."""
    rows: dict[tuple[str, str, str], dict[str, Finding]] = {}
    for finding in findings:
        if finding.known(ACCURACY) is not None:
            key = str(finding.get("world", "")), finding.model, str(finding.get("setting", ""))
            rows.setdefault(key, {})[str(finding.get("feature"))] = finding
    ordered = sorted(rows, key=lambda key: (key[:2], SETTINGS.index(key[2]) if key[2] in SETTINGS else 0))
    entries = tuple(
        (*map(_label, key), *(_number(rows[key].get(feature), ACCURACY) for feature in FEATURES)) for key in ordered
    )
    if not entries:
        return None
    note = (
        "Accuracy of heads, adjusted for chance. CG: on held-out pairs of a size and a shape, with an MLP; linear CG: "
    )
    note += "with a linear head. The published number is below ours, where there is one."
    title = "Generalisation to held-out combinations (Table 3)"
    return ReportTable(slug(_NAME, "table-3"), title, ("world", "model", "setting", *FEATURES), entries, note)


def _accuracies(findings: Sequence[Finding]) -> list[ReportTable]:
    """For each world, a table of random test sets and one of held-out pairs: Tables 9 to 26 and 27 to 44."""
    made = []
    for world in dict.fromkeys(str(f.get("world", "")) for f in findings if f.get("test_set") is not None):
        own = [f for f in findings if f.get("test_set") is not None and str(f.get("world", "")) == world]
        random = _widest(f for f in own if _is_random(f))
        pairs = [f for f in own if not _is_random(f)]
        for name, title, rows in (
            ("tables-9-to-26", "Accuracy of each factor on random test sets (Tables 9 to 26)", random),
            ("tables-27-to-44", "Accuracy of each factor on held-out pairs (Tables 27 to 44)", pairs),
        ):
            table = _accuracy_table(slug(_NAME, name, world), f"{title}: {visible(world)}", rows)
            made += [] if table is None else [table]
    return made


def _is_random(finding: Finding) -> bool:
    return "split" in str(finding.get("test_set"))


def _widest(findings: Iterable[Finding]) -> list[Finding]:
    """Of each model, its accuracies on several splits if they are known, or else on one."""
    found: dict[str, Finding] = {}
    for finding in findings:
        several = finding.get("test_set") != ONE_SPLIT
        known = any(finding.known(metric) is not None for metric in MEANS.values())
        if known and (several or finding.model not in found):
            found[finding.model] = finding
    return list(found.values())


def _accuracy_table(name: str, title: str, findings: Sequence[Finding]) -> ReportTable | None:
    """A row for each model, test set and head, a column for each factor and one for shape and size together."""
    rows: list[tuple[Entry, ...]] = []
    notes: dict[str, int] = {}
    factors = dict.fromkeys(name for finding in findings for name in _factors(finding, *MEANS.values()))
    for finding in findings:
        for head in HEADS:
            if finding.known(MEANS[head]) is not None:
                published = {str(one.row["factor"]): one for one in finding.published(f"{head} of each factor")}
                labels = (_label(finding.model), _label(str(finding.get("test_set"))), _label(head))
                each = (_factor_entry(finding, head, factor, published, notes) for factor in factors)
                rows.append((*labels, *each, _both_entry(finding, head, published, notes)))
    if not rows:
        return None
    note = (
        f"{_NOTE} knockout is the paper's NK1, an MLP without the factor's own neuron; both: shape and size are right."
    )
    if len(rows) > _MOST_ROWS:
        note += f" {len(rows) - _MOST_ROWS} more rows are not shown."
    columns = ("model", "test set", "head", *factors, "both")
    return ReportTable(name, title, columns, tuple(rows[:_MOST_ROWS]), note, footnotes=tuple(notes))


def _factor_entry(
    finding: Finding, head: Head, factor: str, published: Mapping[str, Published], notes: dict[str, int]
) -> Entry:
    """The accuracy of one factor: the mean over seeds and test sets, and its range over test sets."""
    stored = [value.details.get("per_factor") for value in finding.values(MEANS[head])]
    values = [each.get(factor) for each in stored if isinstance(each, Mapping)]
    known = [Estimate(float(value)) for value in values if isinstance(value, (int, float))]
    if not known:
        return Entry("")
    over = _range(finding, head, factor)
    return _with_published(
        compared_entry(mean_over_seeds(known), None, over), published.get(FACTORS.get(factor, "")), notes
    )


def _factors(finding: Finding, *metrics: str) -> list[str]:
    """The factors with a stored accuracy."""
    stored = finding.detail("per_factor", *metrics)
    return [str(name) for name in stored] if isinstance(stored, Mapping) else []


def _range(finding: Finding, head: Head, factor: str) -> str:
    """The smallest and the largest accuracy over the test sets of one training; empty for one test set."""
    names, each = _factors(finding, MEANS[head]), finding.detail("per test set", MEANS[head])
    rows = [row for row in each if isinstance(row, list) and len(row) == len(names)] if isinstance(each, list) else []
    if len(rows) < 2 or factor not in names:
        return ""
    numbers = [float(row[names.index(factor)]) for row in rows if isinstance(row[names.index(factor)], (int, float))]
    if not numbers:
        return ""
    return f"{format_number(min(numbers))} to {format_number(max(numbers))} over {len(numbers)} splits"


def _both_entry(finding: Finding, head: Head, published: Mapping[str, Published], notes: dict[str, int]) -> Entry:
    found = None if head not in BOTH else finding.known(BOTH[head])
    return Entry("") if found is None else _with_published(compared_entry(found, None), published.get("both"), notes)


def _with_published(entry: Entry, theirs: Published | None, notes: dict[str, int]) -> Entry:
    """An entry with the published number below it, and the numbers of the footnotes that doubt it."""
    if theirs is None:
        return entry
    numbers = [str(notes.setdefault(note, len(notes) + 1)) for note in theirs.notes]
    doubts = f" (note {', '.join(numbers)})" if numbers else ""
    return Entry(entry.text, entry.by, (*entry.small, f"published {theirs.estimate}{doubts}"), entry.mark)


def _label(text: str) -> Entry:
    return Entry(visible(text), visible(text).lower())
