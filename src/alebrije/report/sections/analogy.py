"""Analogy on the page: COAT by corpus, hard negatives, and the cases with what the model would rather have had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from alebrije.metrics.analogy import HARD_NEGATIVES
from alebrije.report.charts import Bar, Point, bars, lines
from alebrije.report.findings import Findings, Group
from alebrije.report.parts import Chart, Entry, Gallery, Grid, Section, Shot, Strip, short, slug
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
from alebrije.report.words import Analogies, Verdict, analogy_verdict, no_verdict, percent
from alebrije.results.rendering import visible

STUDY = "analogy"
QUESTION = "Do the codes of scenes add and subtract like the scenes do?"
_VARIANTS = ("no-duplicates+no-invisible", "no-duplicates", "raw")  # the papers' own choice first
_SPLITS = ("iid", "correlated")
_SMALL = 112  # pixels a side: twelve stand in a row
_LABELS = ("corpus", "train_set", "variant", "step", "size")


def analogy_section(findings: Findings) -> Section:
    """COAT and what goes with it."""
    groups = [group for group in findings.of(STUDY) if group.estimate("coat", "coat-acos", "coat-l2") is not None]
    return Section(
        STUDY,
        "Analogy",
        QUESTION,
        verdicts_of(findings, STUDY, judged),
        charts=[*_bar_charts(findings, groups), *_checkpoint_charts(findings, groups)],
        galleries=_galleries(findings, groups),
        front=_negatives_grid(findings, groups),
        grids=full_grids(findings, STUDY),
        remarks=(
            "B is A, and D is C, with the same objects added, so the codes should fulfil B - A + C = D. COAT is 1 "
            "where they do and 0 where D is no nearer than a random scene. A hard negative is D with one thing wrong: "
            "a code must find the true D nearer than it in significantly more than half of the cases, lest its score "
            "rest on a shortcut.",
        ),
    )


def judged(groups: Sequence[Group]) -> Verdict:
    """The verdict on one subject, from its last checkpoint and the papers' choice of variant and training set."""
    corpora: dict[str, Analogies] = {}
    for corpus in dict.fromkeys(str(group.get("corpus", "the corpus")) for group in groups):
        own = [group for group in groups if str(group.get("corpus", "the corpus")) == corpus and group.known("coat")]
        if own:
            best = min(own, key=_preference)
            score = best.known("coat")
            assert score is not None
            passed = {name: bool(test["passed"]) for name, test in tests_of(best).items()}
            corpora[corpus] = Analogies(score, passed, best.get("variant"), _raw(own, best))
    if not corpora:
        reasons = [found.reason for group in groups if (found := group.estimate("coat")) is not None and found.reason]
        return no_verdict("COAT", visible(reasons[0]) if reasons else None)
    return analogy_verdict(corpora)


def _raw(groups: Sequence[Group], best: Group) -> float | None:
    """COAT of the same codes with all slots, where the best has some left out."""
    for group in groups:
        if group.get("variant") == "raw" and _preference(group)[1:] == _preference(best)[1:]:
            found = group.known("coat")
            return None if found is None else found.value
    return None


def tests_of(group: Group) -> dict[str, dict[str, Any]]:
    """Each hard negative's share of cases in which D was nearer, over seeds; it is passed if most seeds pass it."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for value in group.values("coat", "coat-acos"):
        tests = value.details.get("tests")
        for name, test in (tests if isinstance(tests, dict) else {}).items():
            if isinstance(test, dict) and isinstance(test.get("p_hat"), (int, float)):
                found.setdefault(name, []).append(test)
    order = [name for name in HARD_NEGATIVES if name in found] + [name for name in found if name not in HARD_NEGATIVES]
    return {
        name: {
            "p_hat": float(np.mean([test["p_hat"] for test in found[name]])),
            "passed": sum(bool(test.get("passed")) for test in found[name]) > len(found[name]) / 2,
            "passes": sum(bool(test.get("passed")) for test in found[name]),
            "seeds": len(found[name]),
        }
        for name in order
    }


def _preference(group: Group) -> tuple[Any, ...]:
    variant, split, step = group.get("variant"), group.get("train_set"), group.get("step")
    return (
        _VARIANTS.index(variant) if variant in _VARIANTS else -1,
        _SPLITS.index(split) if split in _SPLITS else -1,
        -step if isinstance(step, (int, float)) else 0,
    )


def _bar_charts(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    titles = {"coat": "COAT, squared distance", "coat-acos": "COAT, angle"}
    charts = []
    last = _last_steps(groups)
    told = varied(last, "train_set", "variant", "step")
    for metric, title in titles.items():
        given = [group for group in last if group.estimate(metric) is not None]
        draw = [
            Bar(
                short(titled(group, *told), 34),
                str(group.get("corpus", "")),
                found,
                one.estimate if (one := group.one_published(metric)) is not None else None,
            )
            for group in given
            if (found := group.estimate(metric)) is not None
        ]
        if draw:
            words = f"{title} by model and corpus. 1 is perfect, 0 chance. Whiskers are 95 % intervals."
            words += published_words(draw, given)
            charts.append(
                Chart(
                    slug(STUDY, metric),
                    title,
                    words,
                    partial(bars, draw, title, 0.0, 1.02),
                    findings.command(STUDY, given[0].labels),
                )
            )
    return charts


def _last_steps(groups: Sequence[Group]) -> list[Group]:
    """Of the checkpoints of one training only the last."""
    best: dict[Any, Group] = {}
    for group in groups:
        place = (group.subject, *(str(value) for name, value in group.labels.items() if name != "step"))
        kept = best.get(place)
        if kept is None or _preference(group) <= _preference(kept):
            best[place] = group
    return list(best.values())


def _checkpoint_charts(findings: Findings, groups: Sequence[Group]) -> list[Chart]:
    """COAT over the checkpoints of a training, where there are several."""
    stepped = [group for group in groups if isinstance(group.get("step"), (int, float)) and group.known("coat")]
    series: dict[str, list[Point]] = {}
    for group in stepped:
        found = group.known("coat")
        assert found is not None
        name = short(titled(group, *varied(stepped, "corpus", "train_set", "variant")), 30)
        series.setdefault(name, []).append(Point(float(group.get("step")), found))
    series = {name: points for name, points in series.items() if len(points) > 1}
    if not series:
        return []
    some = dict(list(series.items())[:MOST_LINES])
    words = "COAT over the steps of training, with 95 % intervals."
    draw = partial(lines, some, "training steps", "COAT, squared distance", None, False, ("chance", 0.0))
    command = findings.command(STUDY, stepped[0].labels)
    return [Chart(slug(STUDY, "checkpoints"), "COAT over training", words, draw, command)]


def _negatives_grid(findings: Findings, groups: Sequence[Group]) -> list[Grid]:
    """Which hard negatives each code passes."""
    tested = {group: tests for group in _last_steps(groups) if (tests := tests_of(group))} if groups else {}
    names = list(dict.fromkeys(name for tests in tested.values() for name in tests))
    names = [
        *(name for name in HARD_NEGATIVES if name in names),
        *(name for name in names if name not in HARD_NEGATIVES),
    ]
    if not tested:
        return []
    labels = [label for label in _LABELS if len({str(group.get(label)) for group in tested}) > 1]
    rows = []
    for group, tests in tested.items():
        own = [Entry(text := short(group.subject, 60), text.lower())]
        own += [Entry(text := str(group.get(label, "")), text.lower() or None) for label in labels]
        rows.append((*own, *(_verdict_entry(tests.get(name)) for name in names)))
    return [
        Grid(
            slug(STUDY, "negatives"),
            "Hard negatives",
            ("model", *labels, *(visible(name) for name in names)),
            tuple(rows),
            "The share of cases in which the true D is nearer than the wrong one; ✓ where that is significantly more "
            "than half. With several seeds, their mean, and ✓ where most of them pass. A reference that reads scenes "
            "cannot be shown the negative pixel, behind which there is none.",
            findings.command(STUDY),
        )
    ]


def _verdict_entry(test: Mapping[str, Any] | None) -> Entry:
    if test is None:
        return Entry("n/a", None, (), "null")
    small = (f"{test['passes']} of {test['seeds']} seeds pass",) if test["seeds"] > 1 else ()
    sign, mark = ("✓", "good") if test["passed"] else ("✕", "bad")
    return Entry(f"{sign} {percent(test['p_hat'])}", test["p_hat"], small, mark)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------- pictures


def _galleries(findings: Findings, groups: Sequence[Group]) -> list[Gallery]:
    chosen: dict[tuple[str, str], Group] = {}
    for group in sorted(_last_steps(groups), key=_preference):
        chosen.setdefault((group.subject, str(group.get("corpus"))), group)
    made: list[Gallery] = []
    for group in sorted(chosen.values(), key=lambda one: findings.groups.index(one)):
        strips = _strips(findings.samples(group), group)
        if strips and len(made) < MOST_GALLERIES:
            title = titled(group, "corpus", "train_set", "variant")
            words = (
                "From left to right the given scenes A, B and C, the true D, what the model draws of B - A + C if it "
                "draws, and the hard negatives. A ✕ marks wrong answers that are nearer to B - A + C than the true D."
            )
            command = findings.command(STUDY, group.labels)
            made.append(Gallery(slug(STUDY, "cases", title), title, words, strips, command, side=4.6))
    return made


def _strips(samples: dict[str, Array], group: Group) -> tuple[Strip, ...]:
    """The cases of least, middle and greatest loss."""
    scenes = images_in(samples, "a", "b", "c", "d")
    if scenes is None:
        return ()
    count = len(scenes[0])
    losses = _floats(samples.get("losses"), (count,))
    order = np.argsort(losses, kind="stable") if losses is not None else np.arange(count)
    picks = list(dict.fromkeys([0, count // 2, count - 1]))[:CASES]
    names = ["least loss", "middle", "greatest loss"] if losses is not None and len(picks) == CASES else [""] * CASES
    return tuple(
        _strip(name, int(order[pick]), scenes, samples, group) for name, pick in zip(names, picks, strict=False)
    )


def _strip(name: str, case: int, scenes: list[Array], samples: dict[str, Array], group: Group) -> Strip:
    count = len(scenes[0])
    pictures: list[Shot] = [
        shot(letter, array[case], f"scene {letter}", most=_SMALL) for letter, array in zip("ABCD", scenes, strict=True)
    ]
    decoded = images_in(samples, "decoded")
    if decoded is not None and len(decoded[0]) == count:
        pictures.append(shot("B - A + C", decoded[0][case], "what the model draws of B - A + C", most=_SMALL))
    negatives = samples.get("negatives")
    wrong = []
    if negatives is not None and negatives.dtype == np.uint8 and negatives.ndim == 5 and len(negatives) == count:
        names = group.detail("negatives", "coat", "coat-acos") or list(HARD_NEGATIVES)
        losses = _floats(samples.get("losses"), (count,))
        others = _floats(samples.get("negative_losses"), negatives.shape[:2])
        for place in range(negatives.shape[1]):
            label = visible(str(names[place])) if place < len(names) else f"negative {place + 1}"
            nearer = losses is not None and others is not None and others[case, place] < losses[case]
            wrong += [label] if nearer else []
            alt = f"hard negative {label}" + (", nearer than D" if nearer else "")
            pictures.append(shot(label, negatives[case, place], alt, "wrong" if nearer else "", _SMALL))
        note = f"Nearer than the true D: {', '.join(wrong)}." if wrong else "No wrong answer is nearer than the true D."
        note = note if losses is not None and others is not None else ""
        return Strip(name, tuple(pictures), note)
    return Strip(name, tuple(pictures))


def _floats(array: Array | None, shape: tuple[int, ...]) -> Array | None:
    good = array is not None and array.shape == shape and np.issubdtype(array.dtype, np.floating)
    return array if good else None
