"""Imagination on the page: errors over alpha, which factors are right, and predictions beside the truth."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.report.charts import Bar, Point, bars, lines
from alebrije.report.findings import Findings, Group
from alebrije.report.parts import Chart, Gallery, Section, Shot, Strip, short, slug
from alebrije.report.sections.tables import (
    CASES,
    MOST_GALLERIES,
    MOST_LINES,
    Array,
    full_grids,
    images_in,
    published_words,
    shot,
    titled,
    varied,
    verdicts_of,
)
from alebrije.report.segments import difference_picture
from alebrije.report.words import Factor, Verdict, imagination_verdict, listed, no_verdict, over_settings
from alebrije.results import Estimate
from alebrije.results.rendering import visible
from alebrije.studies.imagination_alphas import ENCODER_SAW
from alebrije.studies.subjects import REFERENCES

STUDY = "imagination"
QUESTION = "Can a model predict the next frame for combinations it never saw?"
NEW, SEEN, UNCHANGED = "out-of-distribution error", "in-distribution error", "error of an unchanged image"
_ACCURACY = " accuracy"
_SEEN = re.compile(r"\b(?:on |of )?in[- ]distribution\b", re.I)


def imagination_section(findings: Findings) -> Section:
    """Errors, factors and predictions."""
    groups = [group for group in findings.of(STUDY) if group.estimate(NEW) is not None]
    return Section(
        STUDY,
        "Imagination",
        QUESTION,
        verdicts_of(findings, STUDY, judged),
        charts=[*_error_charts(findings, groups), *_factor_charts(findings, groups)],
        galleries=_galleries(findings, groups),
        grids=full_grids(findings, STUDY),
        remarks=(
            "A rule turns each scene into the next. Training shows some combinations of factors, the more the larger "
            "alpha is; the test asks for others. Skill is 1 less the error on new combinations over that of the best "
            "constant image. The factor accuracies are read from the predicted images by a probe that was trained on "
            "drawn scenes; what it reads from the true images is the most that can be expected.",
            *_saw_remarks(findings.of(STUDY)),
        ),
    )


def judged(groups: Sequence[Group]) -> Verdict:
    """The verdict on one subject: means over its worlds, rules and alphas."""
    cells = [group for group in groups if group.estimate(NEW, "skill", "factor accuracy") or factor_names([group])]
    skill = over_settings([found for group in cells if (found := group.known("skill")) is not None])
    factors = {name: factor for name in factor_names(cells) if (factor := _factor(cells, name)) is not None}
    saw = [str(group.get(ENCODER_SAW)) for group in cells if group.get(ENCODER_SAW) is not None]
    verdict = imagination_verdict(skill, factors, _factor(cells, "factor"), len(cells), _errors(cells), saw)
    if verdict.mark == "none":
        asked = [found for group in cells if (found := group.estimate("skill", NEW)) is not None]
        return no_verdict("skill", next((visible(found.reason) for found in asked if found.reason), None))
    return verdict


def _errors(groups: Sequence[Group]) -> tuple[float, float] | None:
    """The mean error on new combinations, and that of the source unchanged, over the cells that have both."""
    pairs = [[group.known(name) or group.mean_detail(name, "skill") for name in (NEW, UNCHANGED)] for group in groups]
    both = [(new, same) for new, same in pairs if new is not None and same is not None]
    new, same = (over_settings([pair[which] for pair in both]) for which in (0, 1))
    if new is None or same is None or new.value is None or same.value is None:
        return None
    return new.value, same.value


def _saw_remarks(groups: Sequence[Group]) -> list[str]:
    """What the encoders learned from whose codes a head turned into images; nothing where no cell says so."""
    told: dict[str, list[str]] = {}
    for group in groups:
        by_a_head = group.get("drawn_by") == "head" and group.get("alpha") is not None
        if not by_a_head or group.get("model") in REFERENCES:
            continue
        words = str(group.get(ENCODER_SAW, "not known"))
        if group.subject not in told.setdefault(words, []):
            told[words].append(group.subject)
    if not told.keys() - {"training combinations"}:
        return []
    parts = [f"{words} ({listed([short(name, 60) for name in names])})" for words, names in told.items()]
    return [f"What encoders learned from, before a head learned to draw from their codes: {'; '.join(parts)}."]


def factor_names(groups: Sequence[Group]) -> list[str]:
    """The factors of which it was read how often they are right."""
    names = (name for group in groups for name in group.metrics if name.endswith(_ACCURACY))
    plain = (name.removesuffix(_ACCURACY) for name in names if not _SEEN.search(name))
    return [name for name in dict.fromkeys(plain) if name != "factor"]


def _factor(groups: Sequence[Group], name: str) -> Factor | None:
    new = over_settings([found for group in groups if (found := group.known(name + _ACCURACY)) is not None])
    if new is None:
        return None
    seen = [found for group in groups if (found := seen_accuracy(group, name)) is not None]
    true = [found for group in groups if (found := group.mean_detail("of true images", name + _ACCURACY)) is not None]
    return Factor(new, over_settings(seen), over_settings(true))


def seen_accuracy(group: Group, name: str) -> Estimate | None:
    """How often a factor is right on seen combinations: a value of its own, or a detail of that on new ones."""
    for metric in group.metrics:
        if _SEEN.search(metric) and _SEEN.sub("", metric).strip(" ,()") == name + _ACCURACY:
            return group.known(metric)
    return group.mean_detail("in-distribution", name + _ACCURACY)


def _setting(group: Group) -> tuple[str, str]:
    return str(group.get("world", "")), str(group.get("rule", ""))


def _error_charts(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """For each world and rule the errors over alpha, or beside each other where there is one alpha."""
    charts = []
    for setting in dict.fromkeys(map(_setting, groups)):
        own = [group for group in groups if _setting(group) == setting]
        where = " ".join(part for part in setting if part)
        alphas = {group.get("alpha") for group in own if group.get("alpha") is not None}
        command = findings.command(STUDY, own[0].labels)
        if len(alphas) > 1:
            title, words, draw = _curves(own, where)
        else:
            title, words, draw = _pairs(own, where)
        charts.append(Chart(slug(STUDY, "error", where), title, words, draw, command))
    return charts


def _curves(groups: Sequence[Group], where: str) -> tuple[str, str, Any]:
    series: dict[str, list[Point]] = {}
    printed: dict[str, list[Point]] = {}
    for group in groups:
        found, alpha = group.known(NEW), group.get("alpha")
        if found is not None and isinstance(alpha, (int, float)):
            name = short(titled(group, *varied(groups, "variant", "initial", "pixels", "drawn_by")), 28)
            series.setdefault(name, []).append(Point(float(alpha), found))
            if (one := group.one_published(NEW)) is not None:
                printed.setdefault(name, []).append(Point(float(alpha), one.estimate))
    some = dict(list(series.items())[:MOST_LINES])
    same = [found.value for group in groups if (found := group.known(UNCHANGED)) is not None]
    line = ("the source unchanged", float(np.mean(np.array(same, float)))) if same else None
    title = f"Error on new combinations over alpha: {where}"
    words = "The smaller the better; the more combinations training shows (alpha), the fewer are new in kind."
    words += published_words(bool(printed), groups, "Hollow marks")
    return title, words, partial(lines, some, "alpha", "error, summed over an image", printed, True, line)


def _pairs(groups: Sequence[Group], where: str) -> tuple[str, str, Any]:
    given = []
    for group in groups[:MOST_LINES]:
        name = short(titled(group, *varied(groups, "variant", "initial", "pixels", "drawn_by")), 28)
        for metric, kind in ((SEEN, "seen combinations"), (NEW, "new combinations")):
            found = group.estimate(metric)
            if found is not None:
                one = group.one_published(metric)
                given.append(Bar(name, kind, found, one.estimate if one is not None else None))
    title = f"Error on seen and on new combinations: {where}"
    words = "The smaller the better; whiskers are 95 % intervals."
    words += published_words(given, groups)
    return title, words, partial(bars, given, "error, summed over an image", 0.0, None)


def _factor_charts(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """Which factors are right in predictions: means over the settings of each subject."""
    charts = []
    for subject in dict.fromkeys(group.subject for group in groups):
        own = [group for group in groups if group.subject == subject]
        given = []
        for name in factor_names(own):
            factor = _factor(own, name)
            if factor is not None:
                given += [Bar(short(name, 20), "seen combinations", factor.seen)] if factor.seen is not None else []
                given.append(Bar(short(name, 20), "new combinations", factor.new))
        if given:
            title = f"Factors that are right: {short(subject, 40)}"
            words = "The share of objects whose factor a probe reads rightly from the predicted image."
            words += f" Means over {len(own)} settings." if len(own) > 1 else ""
            draw = partial(bars, given, "share that is right", None, 1.02)
            name = slug(STUDY, "factors", subject)
            charts.append(Chart(name, title, words, draw, findings.command(STUDY, own[0].labels)))
    return charts


def _galleries(findings: Findings, groups: Sequence[Group]) -> list[Gallery]:
    """Predictions of each subject in each world and rule, at the smallest alpha, where most is new."""
    chosen: dict[tuple[str, ...], Group] = {}
    for group in groups:
        place = (group.subject, *_setting(group))
        kept = chosen.get(place)
        if kept is None or float(group.get("alpha", 1)) < float(kept.get("alpha", 1)):
            chosen[place] = group
    made: list[Gallery] = []
    for group in chosen.values():
        samples = findings.samples(group)
        strips = (*_strips(samples, "", "new combination"), *_strips(samples, "_in", "seen combination", 1))
        if strips and len(made) < MOST_GALLERIES:
            title = titled(group, "world", "rule", "alpha")
            words = (
                "The given scene, what comes next, what the model predicts, and how far that is off: the darker the "
            )
            words += "farther. New combinations first, then one that is like those of the training."
            command = findings.command(STUDY, group.labels)
            made.append(Gallery(slug(STUDY, "predictions", title), title, words, strips, command, side=6.5))
    return made


def _strips(samples: dict[str, Array], ending: str, title: str, most: int = CASES) -> tuple[Strip, ...]:
    found = images_in(samples, f"source{ending}", f"target{ending}", f"predicted{ending}")
    if found is None or found[1].shape != found[2].shape:
        return ()
    strips = []
    for source, target, predicted in list(zip(*found, strict=True))[:most]:
        pictures = (
            shot("source", source, "the given scene"),
            shot("target", target, "the true next scene"),
            shot("predicted", predicted, "the predicted next scene"),
            Shot("difference", difference_picture(target, predicted), "where the two differ"),
        )
        strips.append(Strip(title, pictures))
    return tuple(strips)
