"""Verdicts: the marks, and the sentences that all instruments share."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from alebrije.report.thresholds import THRESHOLDS
from alebrije.results import Estimate

Mark = Literal["good", "partly", "below", "yardstick", "unclear", "chance", "failed", "none"]

MARGIN = THRESHOLDS["margin"].value
TRY_OUT = "try-out"  # what a verdict at the size tiny is
CHANCE_RULE = f"Chance: at most {MARGIN:g} above chance. Unclear: more, but the 95 % interval contains chance."
NOT_REQUESTED = "which was not requested"
NO_BREAK = "\N{NO-BREAK SPACE}"
JUDGED: tuple[Mark, ...] = ("good", "partly", "below", "yardstick", "unclear", "chance")
SIGNS: Mapping[Mark, tuple[str, str]] = {
    "good": ("●", "good"),
    "partly": ("◐", "partly"),
    "below": ("◌", "no better than a yardstick"),
    "yardstick": ("◇", "yardstick"),
    "unclear": ("?", "unclear"),
    "chance": ("○", "chance"),
    "failed": ("✕", "failed"),
    "none": ("-", "no verdict"),
}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Verdict:
    """A mark and a few sentences that explain it.

    `than` names what a model marked "below" is no better than. A `try_out` was computed at the size tiny.
    """

    mark: Mark
    text: str
    than: str = ""
    try_out: bool = False

    @property
    def sign(self) -> str:
        """A sign that does not depend on colour."""
        return SIGNS[self.mark][0]

    @property
    def word(self) -> str:
        """The mark in words."""
        word = f"no better than {self.than}" if self.than else SIGNS[self.mark][1]
        return f"{word} ({TRY_OUT})" if self.try_out else word

    @property
    def unbroken(self) -> str:
        """The text with a no-break space before each percent sign."""
        return self.text.replace(" %", f"{NO_BREAK}%")


def at_chance(score: Estimate, chance: float = 0.0) -> bool:
    """Whether a score is not clearly better than chance: see `CHANCE_RULE`.

    >>> at_chance(Estimate(0.2, low=-0.1, high=0.5)), at_chance(Estimate(0.2)), at_chance(Estimate(0.01))
    (True, False, True)
    """
    if score.value is None or score.value <= chance + MARGIN:
        return True
    return score.low is not None and score.low <= chance


def near_chance(score: Estimate, chance: float = 0.0) -> bool:
    """Whether a score itself is at chance, whatever its interval.

    >>> near_chance(Estimate(0.2, low=-0.1, high=0.5)), near_chance(Estimate(0.01))
    (False, True)
    """
    return score.value is None or score.value <= chance + MARGIN


def no_better_than_chance(
    no: str, unclear: str, score: Estimate, numbers: str, rest: str, than: str = "than chance", chance: float = 0.0
) -> Verdict:
    """The verdict on a score that is `at_chance`.

    It is "chance" with the sentence `no` if the score itself is near chance, and "unclear" with the sentence `unclear`
    if only its interval contains chance. Then come the numbers and the `rest`.
    """
    known = score.low is not None and score.high is not None
    interval = f", 95 % interval {rounded(score.low or 0.0)} to {rounded(score.high or 0.0)}" if known else ""
    if not near_chance(score, chance):
        return Verdict("unclear", f"{unclear}: not significantly better {than} ({numbers}{interval}).{rest}")
    above = score.low is not None and score.low > chance
    better = f"at most {MARGIN:g} better" if above else "no better"
    return Verdict("chance", f"{no}: {better} {than} ({numbers}{interval}).{rest}")


def no_verdict(needed: str, reason: str | None = None, about: str = "") -> Verdict:
    """A verdict that lacks a value: the value is null for a reason, or was not computed.

    >>> no_verdict("skill").text
    'No verdict: it needs skill, which was not requested.'
    """
    return Verdict("none", f"No verdict{about}: {reason or f'it needs {needed}, {NOT_REQUESTED}'}.")


def over_settings(estimates: Sequence[Estimate]) -> Estimate | None:
    """The mean over several settings; its interval, if each has one, adds their half-widths as independent errors.

    >>> over_settings([Estimate(0.5, low=0.2, high=0.8), Estimate(0.7, low=0.3, high=1.1)])
    Estimate(value=0.6, standard_error=None, low=0.35, high=0.85, n=None, spread=None, left_out=0, reason=None)
    """
    known = [one for one in estimates if one.value is not None]
    values = [one.value for one in known if one.value is not None]
    if len(known) < 2:
        return known[0] if known else None
    mean = statistics.fmean(values)
    halves = [(one.high - one.low) / 2 for one in known if one.low is not None and one.high is not None]
    if len(halves) < len(known):
        return Estimate(mean)
    half = math.hypot(*halves) / len(halves)
    return Estimate(mean, low=mean - half, high=mean + half)


def means_over(settings: int, more: str = "") -> str:
    """The sentence that a verdict averages over several settings; empty for one."""
    return f" Means over {settings} settings{more}." if settings > 1 else ""


def rounded(score: float) -> str:
    """A score with two decimals.

    >>> rounded(0.8487), rounded(-0.00005)
    ('0.85', '0.00')
    """
    return f"{round(score, 2) + 0.0:.2f}"  # adding 0 turns -0 into 0


def signed(difference: float) -> str:
    """A difference with two decimals and its sign.

    >>> signed(0.128), signed(-0.002)
    ('+0.13', '0.00')
    """
    text = rounded(difference)
    return f"+{text}" if round(difference, 2) > 0 else text


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.984), percent(0.004)
    ('98 %', '0.4 %')
    """
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.01 else f"{100 * share:.0f} %"


def listed(words: Sequence[str]) -> str:
    """Words joined by commas and "and".

    >>> listed(["drop", "size", "shape"])
    'drop, size and shape'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def number_word(number: int) -> str:
    """A small number as a word.

    >>> number_word(7), number_word(12)
    ('seven', '12')
    """
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
