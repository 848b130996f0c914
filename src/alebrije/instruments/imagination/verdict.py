"""The verdict on imagination, and its thresholds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from alebrije.instruments.imagination.examination import ALL_COMBINATIONS, ENCODER_SAW, TRAINING_COMBINATIONS
from alebrije.instruments.imagination.values import ACCURACY, FACTORS, OUT_ERROR, SKILL, UNCHANGED
from alebrije.report import verdict
from alebrije.report.findings import Finding, first_reason
from alebrije.report.sections import mean_known
from alebrije.report.thresholds import THRESHOLDS
from alebrije.report.verdict import Verdict, at_chance, listed, means_over, over_settings, percent, rounded
from alebrije.results import Estimate
from alebrije.results.estimates import format_number

SKILL_GOOD = THRESHOLDS["skill"].value
FACTOR_RIGHT, FACTOR_WRONG = THRESHOLDS["factor right"].value, THRESHOLDS["factor wrong"].value
UNCHANGED_SOURCE = "the unchanged source image"
RULE = (
    f"good: the factor accuracy on new combinations is at least {FACTOR_RIGHT:.0%} of that on true images (without "
    f"factor accuracies: skill of at least {SKILL_GOOD:g}); chance: no better than the best constant image, whose "
    f"skill is 0. A model with a larger error than {UNCHANGED_SOURCE} is no better than that, whatever its other "
    "scores."
)


@dataclass(frozen=True)
class FactorAccuracy:
    """How often a factor is read correctly: on new combinations, on seen ones, and from true images."""

    new: Estimate
    seen: Estimate | None = None
    true: Estimate | None = None

    @property
    def share(self) -> float:
        """The accuracy on new combinations as a share of the accuracy on true images."""
        most = self.true.value if self.true is not None and self.true.value else 1.0
        return (self.new.value or 0.0) / most

    @property
    def never_right(self) -> bool:
        """Whether the factor is also wrong on seen combinations."""
        seen = self.seen.value if self.seen is not None else None
        return self.share < FACTOR_WRONG and seen is not None and seen < FACTOR_WRONG


@dataclass(frozen=True)
class ImaginationScores:
    """The scores of one model that its verdict depends on: means over worlds, rules and alphas."""

    skill: Estimate | None = None
    factors: Mapping[str, FactorAccuracy] = field(default_factory=dict)
    overall: FactorAccuracy | None = None  # of all factors
    settings: int = 1
    errors: tuple[float, float] | None = None  # on new combinations, and of the unchanged source
    encoder_saw: Sequence[str] = ()
    reason: str | None = None  # why there is no skill


def judge(findings: Sequence[Finding]) -> Verdict:
    """The verdict on one model: means over its worlds, rules and alphas."""
    return verdict_on(_scores(findings))


def decisive(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that the verdict is about."""
    return [f for f in findings if f.estimate(OUT_ERROR, SKILL, ACCURACY) is not None or factor_names([f])]


def _scores(findings: Sequence[Finding]) -> ImaginationScores:
    cells = decisive(findings)
    accuracies = {name: factor_accuracy(cells, name) for name in factor_names(cells)}
    return ImaginationScores(
        skill=mean_known(cells, SKILL),
        factors={name: accuracy for name, accuracy in accuracies.items() if accuracy is not None},
        overall=factor_accuracy(cells, "factor"),
        settings=len(cells),
        errors=_errors(cells),
        encoder_saw=[str(cell.get(ENCODER_SAW)) for cell in cells if cell.get(ENCODER_SAW) is not None],
        reason=first_reason(cells, SKILL, OUT_ERROR),
    )


def factor_names(findings: Sequence[Finding]) -> list[str]:
    """The factors whose accuracy was computed."""
    names = dict.fromkeys(metric.removesuffix(" accuracy") for finding in findings for metric in finding.metrics)
    return [name for name in names if name in FACTORS]


def factor_accuracy(findings: Sequence[Finding], name: str) -> FactorAccuracy | None:
    """The accuracy of one factor, or of all if the name is "factor": means over findings; None if unknown."""
    metric = f"{name} accuracy"
    new = mean_known(findings, metric)
    if new is None:
        return None
    seen, true = (
        over_settings([found for finding in findings if (found := finding.mean_detail(detail, metric)) is not None])
        for detail in ("in-distribution", "of true images")
    )
    return FactorAccuracy(new, seen, true)


def _errors(findings: Sequence[Finding]) -> tuple[float, float] | None:
    """The mean errors on new combinations and of the unchanged source, over the findings that have both."""
    pairs = [[f.known(name) or f.mean_detail(name, SKILL) for name in (OUT_ERROR, UNCHANGED)] for f in findings]
    both = [(new, same) for new, same in pairs if new is not None and same is not None]
    new, same = (over_settings([pair[which] for pair in both]) for which in (0, 1))
    if new is None or same is None or new.value is None or same.value is None:
        return None
    return new.value, same.value


def verdict_on(scores: ImaginationScores) -> Verdict:
    """The verdict on these scores."""
    skill = None if scores.skill is None else scores.skill.value
    factors = [scores.overall] if scores.overall is not None else list(scores.factors.values())
    if skill is None and not factors:
        return verdict.no_verdict("skill", scores.reason)
    rest = f"{_factor_words(scores.factors)}{means_over(scores.settings)}{_encoder_words(scores.encoder_saw)}"
    worse = _worse_than_unchanged(scores)
    if scores.skill is not None and skill is not None and at_chance(scores.skill):
        no, unclear = "It does not imagine new combinations", "It is unclear whether it imagines new combinations"
        constant = "than the best constant image"
        return verdict.no_better_than_chance(
            no, unclear, scores.skill, f"skill {rounded(skill)}", f"{worse}{rest}", constant
        )
    if worse:
        known = "" if skill is None else f" (skill {rounded(skill)})"
        text = f"It does not imagine new combinations{known}.{worse}{rest}"
        return Verdict("below", text, than=UNCHANGED_SOURCE)
    if factors:
        good = statistics.fmean(factor.share for factor in factors) >= FACTOR_RIGHT
    else:
        good = skill is not None and skill >= SKILL_GOOD
    head = "It imagines new combinations" if good else "It partly imagines new combinations"
    if not good and scores.factors and all(factor.never_right for factor in scores.factors.values()):
        head = "It predicts part of the image but not the factors, on new and on seen combinations alike"
    numbers = [*([] if skill is None else [f"skill {rounded(skill)}"]), _accuracy_words(factors, scores.overall)]
    return Verdict("good" if good else "partly", f"{head} ({'; '.join(numbers)}).{rest}")


def _worse_than_unchanged(scores: ImaginationScores) -> str:
    """The sentence about a larger error than that of the unchanged source; empty if it is not larger."""
    if scores.errors is None or scores.errors[0] <= scores.errors[1]:
        return ""
    error, unchanged = map(format_number, scores.errors)
    return f" Its error is larger than that of {UNCHANGED_SOURCE}: {error} against {unchanged}."


def _accuracy_words(factors: Sequence[FactorAccuracy], overall: FactorAccuracy | None) -> str:
    """How many factors are right; on seen combinations and true images too if known."""
    if not factors:
        return "the factors were not read"
    text = f"{percent(statistics.fmean(factor.new.value or 0.0 for factor in factors))} of the factors are right"
    if overall is not None and overall.seen is not None and overall.seen.value is not None:
        text += f" on new combinations, {percent(overall.seen.value)} on seen ones"
    true = None if overall is None or overall.true is None else overall.true.value
    if true is None or true >= 1 - verdict.MARGIN:
        return text
    return f"{text}; {percent(true)} can be read from true images"


def _encoder_words(encoder_saw: Sequence[str]) -> str:
    """A warning if the encoder was not trained on the training combinations of the same tasks."""
    text = ""
    if ALL_COMBINATIONS in encoder_saw:
        text += " The encoder was trained on these combinations; only the head was not. This does not test the encoder."
    start = f"{TRAINING_COMBINATIONS} of alpha "
    alphas = [saw.removeprefix(start) for saw in dict.fromkeys(encoder_saw) if saw.startswith(start)]
    if alphas:
        some = "" if len(alphas) == len(set(encoder_saw)) else " in some settings"
        text += f" The encoder was trained at another alpha than the test{some} ({listed(alphas)})."
    return text


def _factor_words(factors: Mapping[str, FactorAccuracy]) -> str:
    """Which factors are right, partly right, wrong on new combinations, and also wrong on seen ones."""
    right = {name: factor for name, factor in factors.items() if factor.share >= FACTOR_RIGHT}
    wrong = {name: factor for name, factor in factors.items() if factor.share < FACTOR_WRONG}
    between = {name: factor for name, factor in factors.items() if name not in right and name not in wrong}
    never = {name: factor for name, factor in wrong.items() if factor.never_right}
    lost = {name: factor for name, factor in wrong.items() if name not in never}
    parts = []
    if right:
        parts.append(f"{_named(right)} right ({_range([factor.new for factor in right.values()])})")
    if between:
        parts.append(f"{_named(between)} partly right ({_new_and_seen(between)})")
    if lost:
        parts.append(f"{_named(lost)} wrong on new combinations ({_new_and_seen(lost)})")
    sentences = [", ".join(parts)] if parts else []
    if never:
        also = "also wrong on seen combinations, so novelty is not the cause"
        sentences.append(f"{_named(never)} {also} ({_new_and_seen(never)})")
    return "".join(f" {text[0].upper()}{text[1:]}." for text in sentences)


def _named(factors: Mapping[str, FactorAccuracy]) -> str:
    return f"{listed(list(factors))} {'is' if len(factors) == 1 else 'are'}"


def _new_and_seen(factors: Mapping[str, FactorAccuracy]) -> str:
    """The accuracies on new combinations, and on seen ones if known."""
    new = _range([factor.new for factor in factors.values()])
    seen = [factor.seen for factor in factors.values() if factor.seen is not None and factor.seen.value is not None]
    return f"{new} on new, {_range(seen)} on seen" if seen else new


def _range(accuracies: Sequence[Estimate]) -> str:
    shares = [accuracy.value or 0.0 for accuracy in accuracies]
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"
