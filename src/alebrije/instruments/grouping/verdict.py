"""The verdict on grouping, and its thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from alebrije.instruments.grouping.slots import VARIANTS
from alebrije.report.findings import Finding, first_reason
from alebrije.report.parts import short
from alebrije.report.sections import mean_known, titled, varied
from alebrije.report.thresholds import THRESHOLDS
from alebrije.report.verdict import Verdict, at_chance, listed, means_over, no_better_than_chance, no_verdict, rounded
from alebrije.results import Estimate

ARI_GOOD = THRESHOLDS["FG-ARI"].value
ARI_FAIR = THRESHOLDS["FG-ARI to be balanced"].value
APART = THRESHOLDS["precision and recall apart"].value
CLUSTERS, OBJECTS = "clusters", "objects + 1"  # a label, and its value: the objects of each image and the background
TOKENS = "tokens"  # a detail: what was clustered
RULE = (
    f"good: FG-ARI of at least {ARI_GOOD:g}; chance: no better than 0. Too fine or too coarse: precision and "
    f"recall differ by more than {APART:g}. Neither: they do not, and FG-ARI is at least {ARI_FAIR:g}."
)
SCORES = {"fg-ari": "FG-ARI", "fg-arp": "precision, FG-ARP", "fg-arr": "recall, FG-ARR"}


def judge(findings: Sequence[Finding]) -> Verdict:
    """The verdict on one model: the mean over its cells. In a grid of slots, only cells tested as trained count."""
    cells = decisive(findings)
    ari, precision, recall = (mean_known(cells, metric) for metric in SCORES)
    if ari is None or ari.value is None:
        return no_verdict("FG-ARI", first_reason(cells, "fg-ari"))
    score = f"FG-ARI {rounded(ari.value)}"
    known = [cell for cell in cells if cell.known("fg-ari") is not None]
    rest = means_over(len(known), _best(cells)) + _slots(findings, cells) + _clusters(findings, cells)
    if at_chance(ari):
        no, unclear = "Its groups are unrelated to objects", "It is unclear whether its groups are objects"
        return no_better_than_chance(no, unclear, ari, score, rest)
    good = ari.value >= ARI_GOOD
    head = "It groups pixels into objects" if good else "It partly groups pixels into objects"
    return Verdict("good" if good else "partly", f"{head} ({score}).{_side(precision, recall, ari.value)}{rest}")


def decisive(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that the verdict is about."""
    return tested_as_trained([finding for finding in findings if finding.estimate("fg-ari", "ari") is not None])


def tested_as_trained(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with as many test slots as training slots; all if there is no grid.

    Of clustered tokens, those with as many clusters as objects and background.
    """
    whole = [f for f in findings if f.get(CLUSTERS) in (None, OBJECTS)]
    same = [f for f in whole if f.get("train_slots") == f.get("test_slots", f.get("train_slots"))]
    return same or whole or list(findings)


def _best(cells: Sequence[Finding]) -> str:
    """The best of several settings."""
    known = [(found.value, cell) for cell in cells if (found := cell.known("fg-ari")) is not None and found.value]
    labels = varied([cell for _, cell in known], "world", *VARIANTS, "train_slots", "pixels")
    labels = labels or varied([cell for _, cell in known], "test_slots")
    if not labels:
        return ""
    score, best = max(known, key=lambda one: one[0] or 0.0)
    name = titled(best, *labels).removeprefix(f"{short(best.model, 60)}: ")
    return f"; the best is {name} with FG-ARI {rounded(float(score or 0.0))}"


def _slots(findings: Sequence[Finding], cells: Sequence[Finding]) -> str:
    """The numbers of test slots that the verdict is about, if several were tried."""
    if not varied(findings, "test_slots"):
        return ""
    numbers = list(dict.fromkeys(str(cell.get("test_slots")) for cell in cells if cell.get("test_slots")))
    same = all(cell.get("train_slots") == cell.get("test_slots") for cell in cells)
    return f" Test slots: {listed(numbers)}{', as in training' if same else ''}." if numbers else ""


def _clusters(findings: Sequence[Finding], cells: Sequence[Finding]) -> str:
    """That tokens were clustered, with how many clusters, and the best fixed number of them."""
    shown = [cell for cell in cells if cell.get(CLUSTERS) == OBJECTS]
    if not shown:
        return ""
    about = next((str(found) for cell in shown if (found := cell.detail(TOKENS, "fg-ari"))), "colours and positions")
    words = f" It has no masks: k-means clustered its {about}, with K = {OBJECTS}."
    fixed: dict[int, list[Finding]] = {}
    for finding in findings:
        if isinstance(finding.get(CLUSTERS), int):
            fixed.setdefault(finding.get(CLUSTERS), []).append(finding)
    scores = {number: mean_known(own, "fg-ari") for number, own in fixed.items()}
    known = {number: found.value for number, found in scores.items() if found is not None and found.value is not None}
    if not known:
        return words
    best = max(known, key=lambda number: known[number])
    return f"{words} The best K for all images is {best}, with FG-ARI {rounded(known[best])}."


def _side(precision: Estimate | None, recall: Estimate | None, ari: float) -> str:
    """Too fine, too coarse, or neither."""
    if precision is None or recall is None or precision.value is None or recall.value is None:
        return ""
    both = f"precision {rounded(precision.value)}, recall {rounded(recall.value)}"
    apart = precision.value - recall.value
    if apart > APART:
        return f" Too fine: objects are split ({both})."
    if apart < -APART:
        return f" Too coarse: objects are merged ({both})."
    return f" Neither too fine nor too coarse ({both})." if ari >= ARI_FAIR else ""
