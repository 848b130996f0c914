"""Tables of analogy in the report: hard negatives by distance and by angle, and the white ground."""

from __future__ import annotations

from collections.abc import Sequence

from alebrije.instruments.analogy.images import WHITE
from alebrije.instruments.analogy.verdict import NegativeTest, last_checkpoints, negative_tests
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.report.findings import Finding
from alebrije.report.grids import estimate_entry
from alebrije.report.parts import Entry, ReportTable, short, slug
from alebrije.report.verdict import listed, percent
from alebrije.results.estimates import difference
from alebrije.results.formats import visible
from alebrije.results.published import published_words

LABELS = ("corpus", "train_set", "variant", "beta", "step", "size")
LOSSES = {"coat": "squared distance", "coat-acos": "angle"}
_PUBLISHED = {"coat": "hn_l2", "coat-acos": "hn_acos"}  # columns of Table 1
_NEGATIVES = (
    "The share of cases in which the true D is nearer than the wrong one, by the squared distance and by the angle; ✓ "
    "if it is significantly more than half. With several seeds, the mean share, and ✓ if most seeds pass. A model "
    "passes if it passes all of them. References that read scenes have no code for the negative pixel, which is "
    "computed from pixels."
)
_WHITE = (
    "The cases of the occluded corpus, with a white ground also in A and B (Xie et al. 2022, Appendix C.3). The paper "
    "prints no table: models without slots improve by about 0.03 there and still fail the hard negatives, models with "
    "slots change little. The intervals of differences ignore that both corpora have the same cases."
)


def negatives_table(findings: Sequence[Finding]) -> list[ReportTable]:
    """The hard negatives that each model passes, by each loss."""
    tested = [
        (finding, metric, tests)
        for finding in last_checkpoints(findings)
        for metric in LOSSES
        if (tests := negative_tests(finding, metric))
    ]
    if not tested:
        return []
    names = [name for name in HARD_NEGATIVES if any(name in tests for _, _, tests in tested)]
    labels = _varied([finding for finding, _, _ in tested])
    printed = [
        published_words(f.labels, metric, _PUBLISHED[metric]) if f.with_published else () for f, metric, _ in tested
    ]
    rows = []
    for (finding, metric, tests), words in zip(tested, printed, strict=True):
        own = [*_label_entries(finding, labels), Entry(LOSSES[metric], LOSSES[metric]), _passed(tests)]
        own += [Entry(", ".join(words), ", ".join(words) or None)] if any(printed) else []
        rows.append((*own, *(_test_entry(tests.get(name)) for name in names)))
    columns = ("model", *labels, "loss", "all", *(["published"] if any(printed) else []), *map(visible, names))
    return [ReportTable(slug("analogy", "negatives"), "Hard negatives", columns, tuple(rows), _NEGATIVES)]


def white_table(findings: Sequence[Finding]) -> list[ReportTable]:
    """COAT on the white ground beside the coloured one, for each model with both."""
    coloured = {_but_the_corpus(f): f for f in findings if f.get("corpus") == "occluded"}
    pairs = [
        (coloured[own], f) for f in findings if f.get("corpus") == WHITE and (own := _but_the_corpus(f)) in coloured
    ]
    labels = [name for name in _varied([f for _, f in pairs]) if name != "corpus"]
    rows = []
    for before, after in pairs:
        for metric, loss in LOSSES.items():
            known = before.known(metric), after.known(metric)
            if known[0] is None or known[1] is None:
                continue
            scores = [estimate_entry(one) for one in (*known, difference(known[1], known[0]))]
            failed = [_failed(negative_tests(f, metric)) for f in (before, after)]
            rows.append((*_label_entries(before, labels), Entry(loss, loss), *scores, *failed))
    if not rows:
        return []
    columns = ("model", *labels, "loss", "coloured", "white", "white - coloured", "fails, coloured", "fails, white")
    return [ReportTable(slug("analogy", "white"), "On white ground", columns, tuple(rows), _WHITE)]


def _varied(findings: Sequence[Finding]) -> list[str]:
    return [label for label in LABELS if len({str(finding.get(label)) for finding in findings}) > 1]


def _label_entries(finding: Finding, labels: Sequence[str]) -> list[Entry]:
    words = [short(finding.model, 60), *(_word(finding.get(label, "")) for label in labels)]
    return [Entry(text, text.lower() or None) for text in words]


def _word(label: object) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


def _but_the_corpus(finding: Finding) -> tuple[object, ...]:
    return (finding.model, *sorted((name, str(value)) for name, value in finding.labels.items() if name != "corpus"))


def _test_entry(test: NegativeTest | None) -> Entry:
    if test is None:
        return Entry("n/a", None, (), "null")
    small = (f"{test.passes} of {test.seeds} seeds pass",) if test.seeds > 1 else ()
    sign = "✓" if test.passed else "✕"
    return Entry(f"{sign} {percent(test.share)}", test.share, small, "good" if test.passed else "bad")


def _passed(tests: dict[str, NegativeTest]) -> Entry:
    passed = all(test.passed for test in tests.values())
    return Entry("pass" if passed else "fail", "pass" if passed else "fail", (), "good" if passed else "bad")


def _failed(tests: dict[str, NegativeTest]) -> Entry:
    names = [visible(name) for name, test in tests.items() if not test.passed]
    return Entry(listed(names) if names else "none", listed(names) if names else "", (), "bad" if names else "good")
