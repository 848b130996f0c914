"""What the numbers say, in words: each instrument's verdict on a model, by rules whose thresholds are named here."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from alebrije.results import Estimate
from alebrije.results.estimates import digits

Mark = Literal["good", "partly", "chance", "failed", "none"]

MARGIN = 0.05  # a score that is no more than this above chance counts as chance, whatever its interval
COAT_GOOD = 0.5
SKILL_GOOD = 0.5
FACTOR_RIGHT, FACTOR_WRONG = 0.9, 0.6  # shares of factors read rightly from a predicted image
ARI_GOOD, APART = 0.8, 0.1  # FG-ARI; how far precision and recall must be apart to name a side
ARI_FAIR = 0.5  # below it, that precision and recall are alike is no praise
SNC_GOOD, NK_GOOD = 0.8, 0.5
KEPT, LOST = 0.9, 0.5  # shares of an accuracy on the normal test set that count as kept on new combinations, and lost

ALL_COMBINATIONS, OTHER_ALPHA = "all combinations", "training combinations of alpha "  # that an encoder saw
NOT_ASKED = "which was not asked for"
SLOTS: Mapping[str, str] = {  # how the slots of a code were chosen for COAT
    "raw": "with all slots",
    "no-duplicates": "without duplicate slots",
    "no-duplicates+no-invisible": "without duplicate and invisible slots",
}

SIGNS: Mapping[Mark, tuple[str, str]] = {
    "good": ("●", "good"),
    "partly": ("◐", "partly"),
    "chance": ("○", "chance"),
    "failed": ("✕", "failed"),
    "none": ("-", "no verdict"),
}

RULES: Mapping[str, str] = {
    "analogy": f"good: COAT of at least {COAT_GOOD:g} and all hard negatives passed, under occlusion where that was "
    "examined; partly: above chance; chance: 0, or not a single hard negative passed.",
    "imagination": f"good: of the factors that can be read from true images at least {FACTOR_RIGHT:.0%} are right in "
    f"predictions of new combinations (without such a reading, a skill of at least {SKILL_GOOD:g}); partly: better "
    "than the best constant image, whose skill is 0; chance: no better than it, or worse than showing the source "
    "unchanged, whatever the skill and the factors.",
    "grouping": f"good: FG-ARI of at least {ARI_GOOD:g}; partly: above chance; chance is 0. Too fine or too coarse: "
    f"precision and recall are more than {APART:g} apart; neither: they are not, and FG-ARI is at least {ARI_FAIR:g}.",
    "neurons": f"good: SNC of at least {SNC_GOOD:g}; partly: above chance, which is the SNC of shuffled codes where "
    "that was computed, else 0.",
}
CHANCE_RULE = f"Chance: the 95 % interval holds chance, or the score is no more than {MARGIN:g} above it."
NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Verdict:
    """A mark, and a sentence or two that say why."""

    mark: Mark
    text: str

    @property
    def sign(self) -> str:
        """A sign that can be told without its colour."""
        return SIGNS[self.mark][0]

    @property
    def word(self) -> str:
        """The mark in words."""
        return SIGNS[self.mark][1]

    @property
    def unbroken(self) -> str:
        """The text with spaces that no line ends at between numbers and their percent signs."""
        return self.text.replace(" %", f"{NO_BREAK}%")


@dataclass(frozen=True)
class Analogies:
    """COAT on one corpus, and whether each hard negative was passed."""

    coat: Estimate
    passed: Mapping[str, bool]
    variant: str | None = None  # how slots were chosen
    raw: float | None = None  # COAT of all slots, where some were left out

    @property
    def told(self) -> str:
        """The score, and what it would be of all slots."""
        slots = SLOTS.get(self.variant or "")
        chosen = f" {slots}" if slots else ""
        raw = f", {rounded(self.raw)} raw" if self.raw is not None and self.variant != "raw" else ""
        return f"{rounded(self.coat.value or 0.0)}{chosen}{raw}"


@dataclass(frozen=True)
class Factor:
    """How often a factor is read rightly from predictions of new combinations.

    And, where that is known, from those of seen ones, and from the true images, which is the most one can expect.
    """

    new: Estimate
    seen: Estimate | None = None
    true: Estimate | None = None

    @property
    def share(self) -> float:
        """What is read rightly as a share of what can be."""
        most = self.true.value if self.true is not None and self.true.value else 1.0
        return (self.new.value or 0.0) / most


def at_chance(score: Estimate, chance: float = 0.0) -> bool:
    """Whether a score is no better than chance: its interval holds chance, or it is hardly above or below it.

    >>> at_chance(Estimate(0.2, low=-0.1, high=0.5)), at_chance(Estimate(0.2)), at_chance(Estimate(0.01))
    (True, False, True)
    """
    if score.value is None or score.value <= chance + MARGIN:
        return True
    return score.low is not None and score.low <= chance


def rounded(score: float) -> str:
    """A score to two places, which is what words need.

    >>> rounded(0.8487), rounded(-0.00005)
    ('0.85', '0.00')
    """
    return f"{round(score, 2) + 0.0:.2f}"  # adding 0 turns -0 into 0


def percent(share: float) -> str:
    """A share as people say it.

    >>> percent(0.984), percent(0.004)
    ('98 %', '0.4 %')
    """
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.01 else f"{100 * share:.0f} %"


def listed(words: Sequence[str]) -> str:
    """Words with commas and an "and".

    >>> listed(["drop", "size", "shape"])
    'drop, size and shape'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def over_settings(estimates: Sequence[Estimate]) -> Estimate | None:
    """One number for several settings: their mean, of which no interval is known; one keeps its interval."""
    known = [one for one in estimates if one.value is not None]
    values = [one.value for one in known if one.value is not None]
    if len(known) < 2:
        return known[0] if known else None
    return Estimate(statistics.fmean(values))


def no_verdict(needed: str, reason: str | None = None, about: str = "") -> Verdict:
    """What a verdict lacks: a value that has none, for a reason, or one that was not computed.

    >>> no_verdict("skill").text
    'No verdict: it needs skill, which was not asked for.'
    """
    return Verdict("none", f"No verdict{about}: {reason or f'it needs {needed}, {NOT_ASKED}'}.")


# ---------------------------------------------------------------------------------------------------------- analogy


def analogy_verdict(corpora: Mapping[str, Analogies]) -> Verdict:
    """What COAT says; the occluded corpus decides where it was examined."""
    if not corpora:
        return no_verdict("COAT")
    name = "occluded" if "occluded" in corpora else next(iter(corpora))
    decisive = corpora[name]
    value = decisive.coat.value
    assert value is not None
    where = {"occluded": " under occlusion", "unoccluded": " without occlusion"}.get(name, f" on {name}")
    score = f"COAT {decisive.told}"
    other = _without_occlusion(name, corpora)
    if at_chance(decisive.coat):
        none = f"Its codes do not add up{where}", f"Whether its codes add up{where} cannot be told"
        return Verdict("chance", f"{_no_better(none, decisive.coat, score)}.{other}")
    failed = [test for test, passed in decisive.passed.items() if not passed]
    if failed and len(failed) == len(decisive.passed):
        text = f"It fails all {_count(len(failed))} hard negatives{where}: its codes do not tell the right answer from"
        return Verdict("chance", f"{text} wrong ones, whatever its score ({score}).{other}")
    if failed:
        told = "negatives" if len(failed) > 1 else "negative"
        return Verdict(
            "partly",
            f"It fails the hard {told} {listed(failed)}{where}, so its score ({score}) may rest on a shortcut.{other}",
        )
    tests = f", passes all {_count(len(decisive.passed))} hard negatives" if decisive.passed else ""
    if value >= COAT_GOOD:
        return Verdict("good", f"Its codes add up{where} ({score}{tests}).{other}")
    return Verdict("partly", f"Its codes add up a little{where} ({score}, below {COAT_GOOD:g}{tests}).{other}")


def _without_occlusion(decisive: str, corpora: Mapping[str, Analogies]) -> str:
    easy = corpora.get("unoccluded")
    if decisive != "occluded" or easy is None or easy.coat.value is None:
        return ""
    hard = corpora["occluded"].coat
    text = f" Without occlusion: {easy.told}"
    failed = [test for test, passed in easy.passed.items() if not passed]
    if failed:
        text += f", fails {listed(failed) if len(failed) < len(easy.passed) else 'all hard negatives'}"
    if hard.value is not None and easy.coat.value - hard.value > APART and not at_chance(easy.coat):
        text += "; part of that is lost once objects hide each other"
    return text + "."


# ------------------------------------------------------------------------------------------------------ imagination


def imagination_verdict(
    skill: Estimate | None,
    factors: Mapping[str, Factor],
    whole: Factor | None = None,
    settings: int = 1,
    errors: tuple[float, float] | None = None,
    encoder_saw: Sequence[str] = (),
) -> Verdict:
    """What predictions of new combinations say: how good they are, and which of their parts are wrong.

    `errors` are the model's on new combinations and that of the source unchanged; `encoder_saw` are the combinations
    that its encoder learned from, in words.
    """
    if (skill is None or skill.value is None) and whole is None and not factors:
        return no_verdict("skill", None if skill is None else skill.reason)
    over = f" Means over {settings} settings." if settings > 1 else ""
    rest = f"{_factor_words(factors)}{over}{_saw(encoder_saw)}"
    if errors is not None and errors[0] > errors[1]:
        known = "" if skill is None or skill.value is None else f" (skill {rounded(skill.value)})"
        head = f"It does not imagine new combinations{known}. It is worse than showing the source unchanged"
        return Verdict("chance", f"{head}: error {digits(errors[0])} against {digits(errors[1])}.{rest}")
    if skill is not None and skill.value is not None and at_chance(skill):
        none = "It does not imagine new combinations", "Whether it imagines new combinations cannot be told"
        found = _no_better(none, skill, f"skill {rounded(skill.value)}", "than the best constant image")
        return Verdict("chance", f"{found}.{rest}")
    read = whole.new if whole is not None else over_settings([one.new for one in factors.values()])
    share_of = whole.share if whole is not None else statistics.fmean([one.share for one in factors.values()] or [0.0])
    said = "" if skill is None or skill.value is None else f"skill {rounded(skill.value)}"
    if read is not None and read.value is not None:
        good = share_of >= FACTOR_RIGHT
        share = f"{percent(read.value)} of the factors are right"
        seen = whole.seen if whole is not None else None
        if seen is not None and seen.value is not None:
            share += f" on new combinations, {percent(seen.value)} on seen ones"
        true = whole.true if whole is not None else None
        if true is not None and true.value is not None and true.value < 1 - MARGIN:
            share += f"; of true images {percent(true.value)} can be read"
    elif skill is not None and skill.value is not None:
        good, share = skill.value >= SKILL_GOOD, "which factors are right was not read"
    else:
        return no_verdict("skill", None if skill is None else skill.reason)
    head = "It imagines new combinations" if good else "It imagines new combinations in part"
    if not good and factors and all(map(_never_right, factors.values())):
        head = "It predicts a part of the image but not the factors, be the combinations new or seen"
    details = "; ".join(part for part in (said, share) if part)
    return Verdict("good" if good else "partly", f"{head} ({details}).{rest}")


def _saw(combinations: Sequence[str]) -> str:
    """What is to be said of an encoder that did not learn from the training combinations of these very tasks."""
    text = ""
    if ALL_COMBINATIONS in combinations:
        text += " Only the head has not seen the new combinations; the encoder has, so this is no test of it."
    others = [saw.removeprefix(OTHER_ALPHA) for saw in dict.fromkeys(combinations) if saw.startswith(OTHER_ALPHA)]
    if others:
        some = "" if len(others) == len(set(combinations)) else " in some settings"
        text += f" The encoder learned at another alpha than that of the test{some} ({listed(others)})."
    return text


def _never_right(factor: Factor) -> bool:
    """Whether a factor is wrong on seen combinations too."""
    seen = factor.seen.value if factor.seen is not None else None
    return factor.share < FACTOR_WRONG and seen is not None and seen < FACTOR_WRONG


def _factor_words(factors: Mapping[str, Factor]) -> str:
    """Which factors are right, which wrong, and which between."""
    known = {name: one for name, one in factors.items() if one.new.value is not None}
    shares = {name: one.new.value for name, one in known.items() if one.new.value is not None}
    right = [name for name, one in known.items() if one.share >= FACTOR_RIGHT]
    wrong = [name for name, one in known.items() if one.share < FACTOR_WRONG]
    between = [name for name in shares if name not in right and name not in wrong]
    parts = []
    if right:
        parts.append(f"{listed(right)} right ({_shares([shares[name] for name in right])})")
    if between:
        parts.append(f"{listed(between)} partly right ({_against([known[name] for name in between])})")
    never = [name for name in wrong if _never_right(known[name])]
    lost = [name for name in wrong if name not in never]
    if lost:
        parts.append(f"{listed(lost)} wrong on new combinations ({_against([known[name] for name in lost])})")
    sentences = [", ".join(parts)] if parts else []
    if never:
        shown = _against([known[name] for name in never])
        sentences.append(f"{listed(never)} wrong on seen combinations as well, so not because others are new ({shown})")
    return "".join(f" {text[0].upper()}{text[1:]}." for text in sentences)


def _shares(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _against(factors: Sequence[Factor]) -> str:
    new = _shares([factor.new.value for factor in factors if factor.new.value is not None])
    seen = [factor.seen.value for factor in factors if factor.seen is not None and factor.seen.value is not None]
    return f"{new} against {_shares(seen)} on seen ones" if seen else new


# --------------------------------------------------------------------------------------------------------- grouping


def grouping_verdict(
    ari: Estimate | None,
    precision: Estimate | None,
    recall: Estimate | None,
    settings: int = 1,
    missing: str = "",
    best: tuple[str, float] | None = None,
    slots: str = "",
) -> Verdict:
    """What the foreground scores say. Precision is low where objects are merged, recall where they are split.

    `best` names the best of several settings and its FG-ARI, `slots` the numbers of slots that the verdict is about.
    """
    if ari is None or ari.value is None:
        return no_verdict("FG-ARI", missing)
    score = f"FG-ARI {rounded(ari.value)}"
    found = f"; the best is {best[0]} with FG-ARI {rounded(best[1])}" if best is not None else ""
    over = f" Means over {settings} settings{found}." if settings > 1 else ""
    over += f" Test slots: {slots}." if slots else ""
    if at_chance(ari):
        none = "Its groups have nothing to do with objects", "Whether its groups are objects cannot be told"
        return Verdict("chance", f"{_no_better(none, ari, score)}.{over}")
    good = ari.value >= ARI_GOOD
    head = "It groups pixels into objects" if good else "It groups pixels into objects in part"
    return Verdict("good" if good else "partly", f"{head} ({score}).{_side(precision, recall, ari.value)}{over}")


def _side(precision: Estimate | None, recall: Estimate | None, ari: float) -> str:
    if precision is None or recall is None or precision.value is None or recall.value is None:
        return ""
    both = f"precision {rounded(precision.value)}, recall {rounded(recall.value)}"
    apart = precision.value - recall.value
    if apart > APART:
        return f" Too fine: objects are split ({both})."
    if apart < -APART:
        return f" Too coarse: objects are merged ({both})."
    return f" Neither too fine nor too coarse ({both})." if ari >= ARI_FAIR else ""


# ---------------------------------------------------------------------------------------------------------- neurons


def neurons_verdict(
    snc: Estimate | None,
    knockout: Estimate | None = None,
    new: Estimate | None = None,
    normal: Estimate | None = None,
    chance: float = 0.0,
    settings: int = 1,
    missing: str = "",
) -> Verdict:
    """Whether one neuron holds each factor, and that one alone, and whether heads on the code generalise.

    `chance` is what SNC comes to on shuffled codes: with few rows and many neurons some luck is left in it.
    """
    general = _generalisation(new, normal)
    over = f" Means over {settings} settings." if settings > 1 else ""
    if snc is None or snc.value is None:
        return Verdict("none", f"{no_verdict('SNC', missing, ' on single neurons').text}{general}")
    score = f"SNC {rounded(snc.value)}"
    if at_chance(snc, chance):
        luck = f", shuffled codes {rounded(chance)}" if chance else ""
        none = "No neuron holds a factor", "Whether single neurons hold factors cannot be told"
        return Verdict("chance", f"{_no_better(none, snc, score + luck, chance=chance)}.{general}{over}")
    alone = shared = ""
    if knockout is not None and knockout.value is not None:
        is_alone = knockout.value >= NK_GOOD
        alone = ", and that one alone" if is_alone else "; the other neurons hold it as well"
        shared = ", and the others hardly do" if is_alone else "; the other neurons hold them as well"
        score += f", NK {rounded(knockout.value)}"
    if snc.value >= SNC_GOOD:
        return Verdict("good", f"One neuron holds each factor{alone} ({score}).{general}{over}")
    return Verdict("partly", f"Single neurons hold the factors in part{shared} ({score}).{general}{over}")


def _generalisation(new: Estimate | None, normal: Estimate | None) -> str:
    if new is None or new.value is None:
        return ""
    text = f" Heads on its code read held-out combinations: {percent(new.value)} above chance"
    if normal is None or normal.value is None:
        return f"{text}."
    if at_chance(normal):
        return (
            f" Heads on its code read nothing, not even on the normal test set ({percent(normal.value)} above chance)."
        )
    share = new.value / normal.value
    kept = "what they know is kept" if share >= KEPT else "most of it is lost" if share < LOST else "part of it is lost"
    return f"{text} against {percent(normal.value)} on the normal test set; {kept}."


# ------------------------------------------------------------------------------------------------------------ parts


def _no_better(
    none: tuple[str, str], score: Estimate, told: str, than: str = "than chance", chance: float = 0.0
) -> str:
    """The first of two sentences where the score itself is hardly above chance, else the second: it may be by luck."""
    known = score.low is not None and score.high is not None
    interval = f", 95 % interval {rounded(score.low or 0.0)} to {rounded(score.high or 0.0)}" if known else ""
    if score.value is None or score.value <= chance + MARGIN:
        clear = score.low is not None and score.low > chance
        better = f"no more than {MARGIN:g} better" if clear else "no better"
        return f"{none[0]}: {better} {than} ({told}{interval})"
    return f"{none[1]}: not significantly better {than} ({told}{interval})"


def _count(number: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[number] if number < len(words) else str(number)
