"""The verdict on analogy, and its thresholds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.report.findings import Finding, first_reason
from alebrije.report.thresholds import THRESHOLDS
from alebrije.report.verdict import Verdict, at_chance, listed, no_better_than_chance, no_verdict, number_word, rounded
from alebrije.results import Estimate

COAT_GOOD = THRESHOLDS["COAT"].value
LOST = THRESHOLDS["COAT lost"].value
SHORTCUT = "chance on hard negatives"
RULE = (
    f"good: COAT of at least {COAT_GOOD:g} and all hard negatives passed, under occlusion if that was examined; "
    f"chance: no better than 0. A model that passes no hard negative is no better than {SHORTCUT}."
)
_WHERE = {"occluded": " under occlusion", "unoccluded": " without occlusion"}
_SLOTS = {  # the variants of slots in words
    "raw": "with all slots",
    "no-duplicates": "without duplicate slots",
    "no-duplicates+no-invisible": "without duplicate and invisible slots",
}
_VARIANTS = tuple(reversed(_SLOTS))  # the paper's main results come first
_TRAIN_SETS = ("iid", "correlated")
_BETA = 1.0  # of the paper's Table 1


@dataclass(frozen=True)
class CorpusScore:
    """COAT on one corpus, and whether each hard negative is passed."""

    coat: Estimate
    passed: Mapping[str, bool]
    variant: str | None = None
    raw: float | None = None  # COAT with all slots, if the variant leaves some out

    @property
    def words(self) -> str:
        """COAT, the variant of slots, and COAT with all slots."""
        slots = _SLOTS.get(self.variant or "")
        raw = f", {rounded(self.raw)} with all slots" if self.raw is not None and self.variant != "raw" else ""
        return f"{rounded(self.coat.value or 0.0)}{f' {slots}' if slots else ''}{raw}"

    @property
    def failed(self) -> list[str]:
        """The hard negatives that are not passed."""
        return [name for name, passed in self.passed.items() if not passed]


@dataclass(frozen=True)
class NegativeTest:
    """The test against one hard negative over all seeds."""

    share: float  # of cases in which the true D fits better, the mean over seeds
    passes: int  # seeds that pass
    seeds: int

    @property
    def passed(self) -> bool:
        """Whether most seeds pass."""
        return self.passes > self.seeds / 2


def judge(findings: Sequence[Finding]) -> Verdict:
    """The verdict on one model, from its last checkpoint and the preferred variant and training set."""
    scores: dict[str, CorpusScore] = {}
    for corpus, best in _best_by_corpus(findings).items():
        coat = best.known("coat")
        assert coat is not None
        passed = {name: test.passed for name, test in negative_tests(best).items()}
        own = [finding for finding in findings if _corpus(finding) == corpus]
        scores[corpus] = CorpusScore(coat, passed, best.get("variant"), _raw(own, best))
    if not scores:
        return no_verdict("COAT", first_reason(findings, "coat"))
    return judge_scores(scores)


def decisive(findings: Sequence[Finding]) -> list[Finding]:
    """The finding that the verdict is about."""
    best = _best_by_corpus(findings)
    return [best[_decisive_corpus(best)]] if best else []


def judge_scores(scores: Mapping[str, CorpusScore]) -> Verdict:
    """The verdict on the scores by corpus. The occluded corpus decides if it was examined."""
    name = _decisive_corpus(scores)
    own = scores[name]
    value = own.coat.value
    assert value is not None
    where = _WHERE.get(name, f" on {name}")
    score = f"COAT {own.words}"
    rest = _without_occlusion(scores)
    if at_chance(own.coat):
        no, unclear = f"Its codes do not add up{where}", f"It is unclear whether its codes add up{where}"
        return no_better_than_chance(no, unclear, own.coat, score, rest)
    failed, count = own.failed, number_word(len(own.passed))
    if failed and len(failed) == len(own.passed):
        text = f"It fails all {count} hard negatives{where}: whatever its score ({score}), its codes do not distinguish"
        return Verdict("below", f"{text} right answers from wrong ones.{rest}", than=SHORTCUT)
    if failed:
        text = f"It fails the hard negative{'s' if len(failed) > 1 else ''} {listed(failed)}{where}"
        return Verdict("partly", f"{text}, so its score ({score}) may be due to a shortcut.{rest}")
    tests = f", passes {f'all {count} hard negatives' if len(own.passed) > 1 else 'the hard negative'}"
    tests = tests if own.passed else ""
    if value >= COAT_GOOD:
        return Verdict("good", f"Its codes add up{where} ({score}{tests}).{rest}")
    below = "just below" if rounded(value) == rounded(COAT_GOOD) else "below"
    return Verdict("partly", f"Its codes partly add up{where} ({score}, {below} {COAT_GOOD:g}{tests}).{rest}")


def negative_tests(finding: Finding, *metrics: str) -> dict[str, NegativeTest]:
    """The test against each hard negative, by the first of these scores that exists, by default of COAT's."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for value in finding.values(*(metrics or ("coat", "coat-acos"))):
        tests = value.details.get("tests")
        for name, test in (tests if isinstance(tests, dict) else {}).items():
            if isinstance(test, dict) and isinstance(test.get("p_hat"), (int, float)):
                found.setdefault(name, []).append(test)
    return {name: _over_seeds(found[name]) for name in HARD_NEGATIVES if name in found}


def preference(finding: Finding) -> tuple[Any, ...]:
    """A sort key: the variant, training set and beta of the paper's main results first, then later checkpoints.

    A finding without a step is about a finished training.
    """
    variant, train_set, step = finding.get("variant"), finding.get("train_set"), finding.get("step")
    return (
        _VARIANTS.index(variant) if variant in _VARIANTS else -1,
        _TRAIN_SETS.index(train_set) if train_set in _TRAIN_SETS else -1,
        finding.get("beta") not in (None, _BETA),
        -step if isinstance(step, (int, float)) else -math.inf,
    )


def last_checkpoints(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without earlier checkpoints of the same training."""
    last: dict[Any, Finding] = {}
    for finding in findings:
        key = (finding.model, *(str(value) for name, value in finding.labels.items() if name != "step"))
        if key not in last or preference(finding) <= preference(last[key]):
            last[key] = finding
    return list(last.values())


def _over_seeds(tests: Sequence[Mapping[str, Any]]) -> NegativeTest:
    share = statistics.fmean(test["p_hat"] for test in tests)
    return NegativeTest(share, sum(bool(test.get("passed")) for test in tests), len(tests))


def _best_by_corpus(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The preferred finding with COAT on each corpus."""
    best: dict[str, Finding] = {}
    for finding in sorted((one for one in findings if one.known("coat")), key=preference):
        best.setdefault(_corpus(finding), finding)
    return best


def _decisive_corpus(corpora: Iterable[str]) -> str:
    """The occluded corpus if it was examined, else the first."""
    names = list(corpora)
    return "occluded" if "occluded" in names else names[0]


def _corpus(finding: Finding) -> str:
    return str(finding.get("corpus", "the corpus"))


def _raw(findings: Sequence[Finding], best: Finding) -> float | None:
    """COAT of the same codes with all slots."""
    for finding in findings:
        if finding.get("variant") == "raw" and preference(finding)[1:] == preference(best)[1:]:
            coat = finding.known("coat")
            return None if coat is None else coat.value
    return None


def _without_occlusion(scores: Mapping[str, CorpusScore]) -> str:
    """The score without occlusion, if the one under occlusion decides."""
    hard, easy = scores.get("occluded"), scores.get("unoccluded")
    if hard is None or easy is None or easy.coat.value is None:
        return ""
    text = f" Without occlusion: COAT {easy.words}"
    if easy.failed:
        text += f", fails {listed(easy.failed) if len(easy.failed) < len(easy.passed) else 'all hard negatives'}"
    if hard.coat.value is not None and easy.coat.value - hard.coat.value > LOST and not at_chance(easy.coat):
        text += "; part of it is lost when objects occlude each other"
    return text + "."
