"""Yardsticks: pixels and a model's untrained twins. A verdict compares the model with both."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Entry, ReportTable, slug
from alebrije.report.sections import mean_known
from alebrije.report.thresholds import THRESHOLDS
from alebrije.report.verdict import Verdict, rounded, signed
from alebrije.results import Estimate
from alebrije.results.estimates import t_quantile
from alebrije.results.formats import visible
from alebrije.studies.references import POSITIONS, REFERENCES
from alebrije.studies.untrained import PROJECTION, kind_of_twin

TWIN, PIXELS = "its untrained twin", "pixels"
_PIXELS = (PIXELS, POSITIONS)
NONE = "no yardstick"  # of scores of a file
YARDSTICK_RULE = (
    "A model is better than a yardstick if the 95 % interval of the difference lies above 0 and the difference is "
    f"larger than {THRESHOLDS['margin'].value:g}, or than half of what the yardstick lacks to 1 if that is less. "
    f"Clearly better: at least {THRESHOLDS['clear margin'].value:g}, or half of what it lacks. The interval covers the "
    "cases of both and, for the twin, a new draw of its weights (Student's t over its seeds)."
)
_SHARED = (
    "size", "world", "corpus", "rule", "alpha", "pixels", "variant", "train_slots", "test_slots", "initial", "inputs",
    "clusters",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """A model beside a yardstick."""

    yardstick: str
    score: Estimate  # of the yardstick
    difference: Estimate  # the model minus the yardstick
    kind: str = ""  # what an untrained twin is
    seeds: int = 1

    @property
    def better(self) -> bool:
        """Whether the model is better than the yardstick."""
        return self._above("margin")

    @property
    def clearly_better(self) -> bool:
        """Whether the model is clearly better than the yardstick."""
        return self._above("clear margin")

    @property
    def surely_above(self) -> bool:
        """Whether the interval of the difference lies above 0."""
        return self.difference.low is not None and self.difference.low > 0

    @property
    def words(self) -> str:
        """The score of the yardstick, and the difference with its interval."""
        gap = self.difference
        known = gap.low is not None and gap.high is not None
        interval = f", 95 % interval {signed(gap.low or 0.0)} to {signed(gap.high or 0.0)}" if known else ""
        about = ["a random projection"] if self.kind == PROJECTION else []
        about += [f"{self.seeds} seeds"] if self.seeds > 1 else []
        name = f"{self.yardstick} ({', '.join(about)})" if about else self.yardstick
        return f"{name} {rounded(self.score.value or 0.0)}, difference {signed(gap.value or 0.0)}{interval}"

    def _above(self, margin: str) -> bool:
        gap, score = self.difference.value, self.score.value
        if gap is None or score is None or (self.difference.low is not None and self.difference.low <= 0):
            return False
        rest = THRESHOLDS["share of the rest"].value * (1 - score)
        return gap > 0 and gap >= min(THRESHOLDS[margin].value, rest) - 1e-9


@dataclass(frozen=True)
class Lacking:
    """A yardstick that a model cannot be compared with; without a reason, it was not computed."""

    yardstick: str
    reason: str | None = None


def compare_with_yardsticks(findings: Findings, decisive: Sequence[Finding], metric: str) -> list[Comparison | Lacking]:
    """A model beside its untrained twin and beside pixels, by the mean of a value over its decisive findings.

    References have no twin, and pixels no yardstick. Clustered tokens are also compared with pixels that are clustered
    with their positions.
    """
    own = [finding for finding in decisive if finding.known(metric)]
    name = str(own[0].get("model")) if own else ""
    if not own or name in _PIXELS:
        return []
    if own[0].is_file:
        return [Lacking(NONE, "a file of arrays has neither a network nor images")]
    beside = [] if name in REFERENCES else [_beside(own, findings.twins_of, TWIN, metric)]
    names = _PIXELS if any(finding.get("clusters") for finding in own) else (PIXELS,)
    found = {each: [one for one in findings.of(own[0].study) if one.get("model") == each] for each in names}
    return [*beside, *(_beside(own, _always(candidates), each, metric) for each, candidates in found.items())]


def judge_beside(verdict: Verdict, comparisons: Sequence[Comparison | Lacking], model: str) -> Verdict:
    """The verdict of an instrument, lowered if the model is no better, or not clearly better, than a yardstick."""
    if model in _PIXELS and verdict.mark in ("good", "partly", "unclear", "chance"):
        return replace(verdict, mark="yardstick", text=f"{verdict.text} Other models are compared with it.")
    if verdict.mark not in ("good", "partly"):
        return verdict
    if any(one.yardstick == NONE for one in comparisons):
        text = f"{verdict.text} It was compared with no yardstick: a file of arrays has neither a network nor images."
        return replace(verdict, mark="partly", text=text)
    found = [one for one in comparisons if isinstance(one, Comparison)]
    beside = f" Beside it: {'; '.join(one.words for one in found)}." if found else ""
    lacking = [one for one in comparisons if isinstance(one, Lacking)]
    beside += "".join(f" {one.yardstick.capitalize()} has no score: {one.reason}." for one in lacking if one.reason)
    text = f"{verdict.text}{beside}"
    unknown = [one.yardstick for one in lacking if one.reason is None]
    if unknown:
        missing = f"{' and '.join(unknown)} {'was' if len(unknown) == 1 else 'were'} not computed"
        return Verdict("none", f"No verdict: {missing}; the same command computes it. {text}")
    for one in found:
        if not one.better:
            slightly = f" It is better than {one.yardstick}, but by too little to count." if one.surely_above else ""
            return Verdict("below", f"{text}{slightly}", than=one.yardstick)
    unclear = [one.yardstick for one in found if not one.clearly_better]
    if verdict.mark == "good" and unclear:
        return Verdict("partly", f"{text} It is better than {' and '.join(unclear)}, but not clearly.")
    return replace(verdict, text=text)


def yardsticks_table(findings: Findings, metric: str, decisive: Mapping[str, Sequence[Finding]]) -> list[ReportTable]:
    """A row for each model and yardstick: both scores, and the difference with its interval."""
    rows = []
    for model, own in decisive.items():
        score = mean_known(own, metric)
        name = Entry(visible(model), visible(model).lower())
        for one in compare_with_yardsticks(findings, own, metric) if score is not None and not own[0].is_file else ():
            assert score is not None
            rows.append((name, _score_entry(score), Entry(one.yardstick, one.yardstick), *_beside_entries(one)))
    if not rows:
        return []
    study = next(own[0].study for own in decisive.values() if own)
    columns = ("model", metric, "yardstick", "its score", "difference")
    note = f"What the verdicts compare. {YARDSTICK_RULE}"
    return [ReportTable(slug(study, "yardsticks"), "Beside the yardsticks", columns, tuple(rows), note)]


def _beside_entries(one: Comparison | Lacking) -> tuple[Entry, Entry]:
    """The score of a yardstick, and the difference to it."""
    if isinstance(one, Lacking):
        return Entry("n/a", None, (visible(one.reason or "not computed"),), "null"), Entry("")
    gap = one.difference
    known = gap.low is not None and gap.high is not None
    interval = (f"{signed(gap.low or 0.0)} to {signed(gap.high or 0.0)}",) if known else ()
    about = [*([one.kind] if one.kind else []), *([f"{one.seeds} seeds"] if one.seeds > 1 else [])]
    mark: Literal["good", "bad"] = "good" if one.better else "bad"
    return _score_entry(one.score, about), Entry(signed(gap.value or 0.0), gap.value, interval, mark)


def _score_entry(score: Estimate, more: Sequence[str] = ()) -> Entry:
    interval = [score.interval] if score.interval else []
    return Entry(rounded(score.value or 0.0), score.value, (*interval, *more))


def _beside(
    own: Sequence[Finding], candidates: Callable[[Finding], Sequence[Finding]], name: str, metric: str
) -> Comparison | Lacking:
    """A model beside one yardstick, over the settings in which both have a score."""
    pairs = [(finding, match) for finding in own for match in [_matching(finding, candidates(finding))] if match]
    if not pairs:
        return Lacking(name)
    known = [(finding, match) for finding, match in pairs if match.known(metric)]
    if not known:
        return Lacking(name, visible(pairs[0][1].reason(metric) or "it is null"))
    ours = mean_known([finding for finding, _ in known], metric)
    theirs = mean_known([match for _, match in known], metric)
    assert ours is not None
    assert ours.value is not None
    assert theirs is not None
    by_seed = _means_by_seed([match for _, match in known], metric)
    mean = statistics.fmean(by_seed)
    parts = [_half(ours), _half_over_cases([match for _, match in known], metric), _half_over_draws(by_seed)]
    half = math.sqrt(sum(part**2 for part in parts if part is not None))
    gap = ours.value - mean
    certain = all(part is None for part in parts)
    difference = Estimate(gap) if certain else Estimate(gap, low=gap - half, high=gap + half)
    kind = kind_of_twin(known[0][1].results[0].cell) or ""
    return Comparison(name, replace(theirs, value=mean), difference, kind, len(by_seed))


def _always(found: Sequence[Finding]) -> Callable[[Finding], Sequence[Finding]]:
    """The same candidates for every finding."""
    return lambda finding: found


def _matching(finding: Finding, candidates: Sequence[Finding]) -> Finding | None:
    """The candidate examined in the same setting."""
    for other in candidates:
        both = [label for label in _SHARED if finding.get(label) is not None and other.get(label) is not None]
        if all(finding.get(label) == other.get(label) for label in both):
            return other
    return None


def _means_by_seed(findings: Sequence[Finding], metric: str) -> list[float]:
    """The mean over settings for each seed that has a score in all of them; else all scores."""
    scores: dict[str, list[float]] = {}
    for finding in findings:
        for result, value in zip(finding.results, finding.values(metric), strict=False):
            if value.score is not None:
                scores.setdefault(str(result.cell.labels.get("seed")), []).append(value.score)
    whole = [statistics.fmean(each) for each in scores.values() if len(each) == len(findings)]
    return whole or [score for each in scores.values() for score in each]


def _half(score: Estimate) -> float | None:
    """Half the width of an interval."""
    return None if score.low is None or score.high is None else (score.high - score.low) / 2


def _half_over_cases(findings: Sequence[Finding], metric: str) -> float | None:
    """Half the interval over cases of a mean over settings. All seeds see the same cases."""
    halves = []
    for finding in findings:
        own = [half for value in finding.values(metric) if (half := _half(Estimate.from_value(value))) is not None]
        halves += [statistics.fmean(own)] if own else []
    return math.sqrt(sum(half**2 for half in halves)) / len(findings) if halves else None


def _half_over_draws(scores: Sequence[float]) -> float | None:
    """Half the 95 % prediction interval of one more draw of the weights."""
    if len(scores) < 2:
        return None
    spread = statistics.stdev(scores) * math.sqrt(1 + 1 / len(scores))
    return t_quantile(len(scores) - 1) * spread
