"""The opening of the demo's page: what models of the zoo can do and where they fail, taken from the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from alebrije import zoo
from alebrije.instruments.grouping.verdict import tested_as_trained
from alebrije.instruments.imagination.values import FACTORS, IN_ERROR, OUT_ERROR, UNCHANGED
from alebrije.report.findings import Finding, Findings
from alebrije.report.opening import Opening
from alebrije.report.parts import Strip
from alebrije.report.sections import shot
from alebrije.report.verdict import listed, percent, rounded
from alebrije.zoo.pictures import pictures

HELD = 0.3  # accuracy above chance from which a neuron is said to hold a factor
_COLUMNS = 6


def openings(findings: Findings, chosen: Mapping[str, str]) -> list[Opening]:
    """An opening for the model chosen for each instrument; without one if its cells failed."""
    makers = {"grouping": _grouping, "neurons": _neurons, "imagination": _imagination}
    made = []
    for instrument, name in chosen.items():
        own = [one for one in findings.of(instrument) if one.get("model") == f"zoo:{name}"]
        words = makers[instrument](own, findings.of(instrument)) if own else None
        if words is not None:
            card = zoo.card(name)
            title, can, fails = words
            made.append(
                Opening(f"zoo:{name}", f"{card.title}, trained on {card.world}: {title}", can, fails, _strips(name))
            )
    return made


def _grouping(own: Sequence[Finding], everyone: Sequence[Finding]) -> tuple[str, str, str] | None:
    """FG-ARI beside pixels; the number of slots at which it is worst."""
    trained = tested_as_trained(own)[0]
    score, world = trained.known("fg-ari"), trained.get("world")
    if score is None:
        return None
    beside = _score(everyone, "pixels", "fg-ari", world)
    level = score.value or 0.0
    found = "finds the objects" if level >= 0.9 else "finds some of the objects"
    found = "does not find the objects" if level < 0.3 else found
    can = f"With {trained.get('test_slots')} slots its FG-ARI on {world} is {_words(score)}"
    can += f"; clusters of colour, the reference pixels, reach {beside}." if beside else "."
    others = [(known.value, one) for one in own if one is not trained and (known := one.known("fg-ari")) is not None]
    if not others:
        return found, can, "It was examined with one number of slots only."
    least, worst = min(others, key=lambda pair: pair[0] or 0.0)
    slots, usual = int(worst.get("test_slots")), int(trained.get("test_slots"))
    why = "objects have to share slots" if slots < usual else "objects are split among slots"
    fails = f"It does not choose the number of slots itself: with {slots} of them {why}, and FG-ARI is"
    return found, can, f"{fails} {rounded(least or 0.0)}."


def _neurons(own: Sequence[Finding], everyone: Sequence[Finding]) -> tuple[str, str, str] | None:
    """The factors that one neuron tells, and those that no neuron tells."""
    finding = own[0]
    above, right, chance = (finding.detail(name, "SNC") for name in ("per_factor", "accuracy", "chance"))
    if not all(isinstance(each, dict) for each in (above, right, chance)):
        return None
    held = [name for name, value in above.items() if value >= HELD]
    lost = [name for name in above if name not in held]
    how = {name: f"{name} ({percent(right[name])} right, guessing {percent(chance[name])})" for name in above}
    found = f"one neuron each for {listed(held)}" if held else "no factor has a neuron of its own"
    can = (
        f"The best single neuron tells {listed([how[name] for name in held])}." if held else "No neuron tells a factor."
    )
    fails = f"No neuron tells {listed([how[name] for name in lost])}." if lost else "All factors have a neuron."
    score = finding.known("SNC")
    return found, can, f"{fails} So SNC is {_words(score)}." if score is not None else fails


def _imagination(own: Sequence[Finding], everyone: Sequence[Finding]) -> tuple[str, str, str] | None:
    """The error on new combinations beside that of no change, and how much larger it is than on known ones."""
    finding = own[0]
    new, known, unchanged = (finding.known(name) for name in (OUT_ERROR, IN_ERROR, UNCHANGED))
    if not (new and known and unchanged and new.value and known.value and unchanged.value):
        return None
    share = new.value / unchanged.value
    found = "imagines new combinations" if share < 0.25 else "imagines new combinations in part"
    can = f"It predicts scenes whose combinations it never saw with {percent(share)} of the error of an unchanged image"
    accuracies = {name: one for name in FACTORS if (one := finding.known(f"{name} accuracy")) is not None}
    seen = [f"{name} {percent(one.value or 0.0)}" for name, one in accuracies.items()]
    can += f"; right in the pictures: {listed(seen)}." if seen else "."
    fails = f"New combinations still have {new.value / known.value:.1f} times the error of known ones"
    worst = min(accuracies, key=lambda name: accuracies[name].value or 0.0) if accuracies else ""
    return found, can, f"{fails}, and {worst} suffers most." if worst else f"{fails}."


def _score(everyone: Sequence[Finding], model: str, metric: str, world: object) -> str:
    """The score of another model in the same world; empty if it has none."""
    for finding in everyone:
        known = finding.known(metric) if (finding.get("model"), finding.get("world")) == (model, world) else None
        if known is not None:
            return rounded(known.value or 0.0)
    return ""


def _words(score: object) -> str:
    """A score with its interval."""
    value, interval = getattr(score, "value", None), getattr(score, "interval", None)
    return rounded(float(value or 0.0)) + (f" ({interval})" if interval else "")


def _strips(name: str) -> tuple[Strip, ...]:
    """The pictures of a model of the zoo."""
    strips = []
    for title, images in pictures(name, _COLUMNS):
        arrays = (images.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        strips.append(Strip(title, tuple(shot("", array, title, most=96) for array in arrays)))
    return tuple(strips)
