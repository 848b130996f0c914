"""The verdict on neurons, and its thresholds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from alebrije.instruments.neurons.generalisation import ACCURACY
from alebrije.instruments.neurons.values import SHUFFLED
from alebrije.report.findings import Finding, first_reason
from alebrije.report.sections import mean_known
from alebrije.report.thresholds import THRESHOLDS
from alebrije.report.verdict import (
    Verdict,
    at_chance,
    means_over,
    near_chance,
    no_better_than_chance,
    no_verdict,
    percent,
    rounded,
)
from alebrije.results import Estimate

SNC_GOOD = THRESHOLDS["SNC"].value
NK_GOOD = THRESHOLDS["NK"].value
KEPT, LOST = THRESHOLDS["kept"].value, THRESHOLDS["lost"].value
RULE = (
    f"good: SNC of at least {SNC_GOOD:g}; chance: no better than the SNC of shuffled codes if that was computed, else "
    "than 0."
)


def judge(findings: Sequence[Finding]) -> Verdict:
    """The verdict on one model: means over its worlds."""
    known = decisive(findings)
    snc, knockout = mean_known(findings, "SNC"), mean_known(findings, "NK")
    general = _generalisation(_accuracy(findings, "CG"), _accuracy(findings, "normal test set"))
    rest = general + means_over(len(known))
    if snc is None or snc.value is None:
        lacking = no_verdict("SNC", first_reason(findings, "SNC"), " on single neurons")
        return Verdict(lacking.mark, f"{lacking.text}{general}")
    score, chance = f"SNC {rounded(snc.value)}", _chance(findings)
    if at_chance(snc, chance):
        numbers = f"{score}, shuffled codes {rounded(chance)}" if chance else score
        no, unclear = "No neuron holds a factor", "It is unclear whether single neurons hold factors"
        return no_better_than_chance(no, unclear, snc, numbers, rest, chance=chance)
    good = snc.value >= SNC_GOOD
    head = "Each factor is held by one neuron" if good else "Single neurons partly hold the factors"
    if knockout is not None and knockout.value is not None:
        score += f", NK {rounded(knockout.value)}"
        if knockout.value >= NK_GOOD:
            head += " and by no other" if good else ", and other neurons hardly do"
        else:
            head += f", but other neurons hold {'it' if good else 'them'} too"
    return Verdict("good" if good else "partly", f"{head} ({score}).{rest}")


def decisive(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that the verdict is about."""
    return [finding for finding in findings if finding.known("SNC") is not None]


def _chance(findings: Sequence[Finding]) -> float:
    """The mean SNC of shuffled codes: above 0 with few rows and many neurons. 0 if it was not computed."""
    shuffled = [score for finding in findings if isinstance(score := finding.detail(SHUFFLED, "SNC"), float)]
    return statistics.fmean(shuffled) if shuffled else 0.0


def _accuracy(findings: Sequence[Finding], setting: str) -> Estimate | None:
    """The mean accuracy in a setting: of both features if that is known."""
    own = [finding for finding in findings if finding.get("setting") == setting]
    both = [finding for finding in own if finding.get("feature") == "both"]
    return mean_known(both or own, ACCURACY)


def _generalisation(new: Estimate | None, normal: Estimate | None) -> str:
    """The accuracy of heads on held-out combinations, and how much of the normal one is left."""
    if new is None or new.value is None:
        return ""
    held_out = f"{percent(new.value)} on held-out combinations"
    if normal is None or normal.value is None:
        return f" Heads on its codes score {held_out}, adjusted for chance."
    usual = f"{percent(normal.value)} on the normal test set"
    if near_chance(normal):
        return f" Heads on its codes read nothing: {usual}, adjusted for chance."
    if at_chance(normal):
        return f" It is unclear whether heads on its codes read anything: {usual}, adjusted for chance."
    return f" Heads on its codes score {held_out} and {usual}, adjusted for chance: {_left(new, normal.value)}."


def _left(new: Estimate, normal: float) -> str:
    """How much of the accuracy on the normal test set is left on held-out combinations."""
    assert new.value is not None
    if near_chance(new):
        return "what they read is lost"
    low, high = (new.value if end is None else end for end in (new.low, new.high))
    if low < LOST * normal and high >= KEPT * normal:
        return "how much is kept is unclear"
    share = new.value / normal
    return "nearly all is kept" if share >= KEPT else "most is lost" if share < LOST else "part is lost"
