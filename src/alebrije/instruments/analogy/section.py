"""Analogy in the report: COAT by corpus and over training, hard negatives, and pictures of cases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from alebrije.adapters.encoder import MOST_SLOTS
from alebrije.arrays import Array
from alebrije.instruments.analogy.values import METRICS
from alebrije.instruments.analogy.verdict import NegativeTest, last_checkpoints, negative_tests, preference
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.report import sections
from alebrije.report.charts import Point, bars, lines
from alebrije.report.findings import Finding, Findings
from alebrije.report.grids import ScoreWords
from alebrije.report.parts import Chart, Entry, Gallery, ReportTable, Section, Shot, Strip, short, slug
from alebrije.report.sections import images_in, shot, titled, varied
from alebrije.report.verdict import listed, percent
from alebrije.results.formats import visible

_NAME = "analogy"
_TITLES = {"coat": "COAT, squared distance", "coat-acos": "COAT, angle"}
_LABELS = ("corpus", "train_set", "variant", "step", "size")
_SIDE = 112  # of a picture in pixels, so that twelve fit in a row
_REMARK = (
    "B is A, and D is C, with the same objects added, so the codes should satisfy B - A + C = D. COAT is 1 if they do "
    "and 0 if D is no nearer than a random scene. A hard negative is D with one thing wrong. A model passes it if the "
    "true D is nearer in significantly more than half of the cases; otherwise its score may be due to a shortcut."
)
_NEGATIVES = (
    "The share of cases in which the true D is nearer than the wrong one; ✓ if it is significantly more than half. "
    "With several seeds, the mean share, and ✓ if most seeds pass. References that read scenes have no code for the "
    "negative `pixel`, which is computed from pixels."
)
_POOLED = (
    "{models}: more than {most} slots cannot be matched in reasonable time, so the code of an image is the mean over "
    "its slots."
)
_LEGEND = (
    "From left to right: the scenes A, B and C, the true D, B - A + C as the model decodes it if it has a decoder, and "
    "the hard negatives. ✕ marks wrong answers that are nearer to B - A + C than the true D."
)


def section(findings: Findings) -> Section:
    """The charts, tables and cases of analogy."""
    scored = [f for f in findings.of(_NAME) if f.estimate("coat", "coat-acos", "coat-l2") is not None]
    return Section(
        charts=[*_score_charts(scored), *_checkpoint_charts(scored)],
        front=_negatives_grid(scored),
        galleries=_galleries(findings, scored),
        grids=sections.full_grids(findings, _NAME, ScoreWords(small_print=_small_print, hidden=("tre",))),
        remarks=(_REMARK, *_pooled_remarks(findings.of(_NAME))),
    )


def _small_print(finding: Finding, metric: str) -> str:
    """Whether a score passes the hard negatives, and whether slots were pooled."""
    passed, pooled = finding.detail("passed", metric), finding.detail("codes", metric)
    words = [] if passed is None else ["passes the hard negatives" if passed else "fails hard negatives"]
    return "; ".join([*words, *([str(pooled)] if pooled else [])])


def _pooled_remarks(findings: Sequence[Finding]) -> list[str]:
    """A remark about the models with too many slots to match."""
    pooled = dict.fromkeys(finding.model for finding in findings if finding.detail("codes", *METRICS))
    return [_POOLED.format(models=listed([short(model, 60) for model in pooled]), most=MOST_SLOTS)] if pooled else []


def _score_charts(findings: Sequence[Finding]) -> list[Chart]:
    """COAT of every model, by corpus."""
    charts, last = [], last_checkpoints(findings)
    labels = varied(last, "train_set", "variant", "step")
    for metric, title in _TITLES.items():
        drawn = sections.score_bars(
            last, [metric], lambda finding, _: (short(titled(finding, *labels), 34), str(finding.get("corpus", "")))
        )
        if drawn:
            words = f"{title}, by model and corpus. 1 is perfect, 0 is chance; whiskers are 95 % intervals."
            words += sections.published_words(drawn, [f for f in last if f.estimate(metric) is not None])
            charts.append(Chart(slug(_NAME, metric), title, words, partial(bars, drawn, title, 0.0, 1.02)))
    return charts


def _checkpoint_charts(findings: Sequence[Finding]) -> list[Chart]:
    """COAT over the checkpoints of each training that has several."""
    scored = [(finding, found) for finding in findings if (found := finding.known("coat")) is not None]
    stepped = [(finding, found) for finding, found in scored if isinstance(finding.get("step"), (int, float))]
    labels = varied([finding for finding, _ in stepped], "corpus", "train_set", "variant")
    series: dict[str, list[Point]] = {}
    for finding, found in stepped:
        series.setdefault(short(titled(finding, *labels), 30), []).append(Point(float(finding.get("step")), found))
    shown = [(name, points) for name, points in series.items() if len(points) > 1][: sections.MOST_LINES]
    if not shown:
        return []
    draw = partial(lines, dict(shown), "training steps", _TITLES["coat"], None, False, ("chance", 0.0))
    words = "COAT over the steps of training, with 95 % intervals."
    return [Chart(slug(_NAME, "checkpoints"), "COAT over training", words, draw)]


def _negatives_grid(findings: Sequence[Finding]) -> list[ReportTable]:
    """The hard negatives that each model passes."""
    tested = {finding: tests for finding in last_checkpoints(findings) if (tests := negative_tests(finding))}
    if not tested:
        return []
    names = [name for name in HARD_NEGATIVES if any(name in tests for tests in tested.values())]
    labels = [label for label in _LABELS if len({str(finding.get(label)) for finding in tested}) > 1]
    rows = []
    for finding, tests in tested.items():
        own = [Entry(text := short(finding.model, 60), text.lower())]
        own += [Entry(text := str(finding.get(label, "")), text.lower() or None) for label in labels]
        rows.append((*own, *(_test_entry(tests.get(name)) for name in names)))
    columns = ("model", *labels, *(visible(name) for name in names))
    return [ReportTable(slug(_NAME, "negatives"), "Hard negatives", columns, tuple(rows), _NEGATIVES)]


def _test_entry(test: NegativeTest | None) -> Entry:
    if test is None:
        return Entry("n/a", None, (), "null")
    small = (f"{test.passes} of {test.seeds} seeds pass",) if test.seeds > 1 else ()
    sign = "✓" if test.passed else "✕"
    return Entry(f"{sign} {percent(test.share)}", test.share, small, "good" if test.passed else "bad")


def _galleries(findings: Findings, scored: Sequence[Finding]) -> list[Gallery]:
    """Cases of each model on each corpus, in the preferred variant and training set."""
    chosen: dict[tuple[str, str], Finding] = {}
    for finding in sorted(last_checkpoints(scored), key=preference):
        chosen.setdefault((finding.model, str(finding.get("corpus"))), finding)
    cases = (
        (titled(finding, "corpus", "train_set", "variant"), _strips(findings.samples(finding), finding))
        for finding in sorted(chosen.values(), key=findings.all.index)
    )
    return sections.galleries(f"{_NAME}-cases", _LEGEND, 4.6, cases)


def _strips(samples: dict[str, Array], finding: Finding) -> tuple[Strip, ...]:
    """The cases with the smallest, the median and the largest loss."""
    scenes = images_in(samples, "a", "b", "c", "d")
    if scenes is None:
        return ()
    count = len(scenes[0])
    losses = _floats(samples.get("losses"), (count,))
    order = np.argsort(losses, kind="stable") if losses is not None else np.arange(count)
    ranks = list(dict.fromkeys([0, count // 2, count - 1]))
    ranked = losses is not None and len(ranks) == 3
    titles = ["smallest loss", "median loss", "largest loss"] if ranked else [""] * 3
    return tuple(
        _strip(title, int(order[rank]), scenes, samples, finding) for title, rank in zip(titles, ranks, strict=False)
    )


def _strip(title: str, case: int, scenes: list[Array], samples: dict[str, Array], finding: Finding) -> Strip:
    count = len(scenes[0])
    pictures: list[Shot] = [
        shot(letter, images[case], f"scene {letter}", most=_SIDE) for letter, images in zip("ABCD", scenes, strict=True)
    ]
    decoded = images_in(samples, "decoded")
    if decoded is not None and len(decoded[0]) == count:
        pictures.append(shot("B - A + C", decoded[0][case], "B - A + C as the model decodes it", most=_SIDE))
    negatives = samples.get("negatives")
    if negatives is None or negatives.dtype != np.uint8 or negatives.ndim != 5 or len(negatives) != count:
        return Strip(title, tuple(pictures))
    names = finding.detail("negatives", "coat", "coat-acos") or list(HARD_NEGATIVES)
    true, wrong = _floats(samples.get("losses"), (count,)), _floats(samples.get("negative_losses"), negatives.shape[:2])
    nearer = []
    for at in range(negatives.shape[1]):
        label = visible(str(names[at])) if at < len(names) else f"negative {at + 1}"
        is_nearer = true is not None and wrong is not None and wrong[case, at] < true[case]
        nearer += [label] if is_nearer else []
        alt = f"hard negative {label}" + (", nearer than D" if is_nearer else "")
        pictures.append(shot(label, negatives[case, at], alt, "wrong" if is_nearer else "", _SIDE))
    note = f"Nearer than the true D: {', '.join(nearer)}." if nearer else "No wrong answer is nearer than the true D."
    return Strip(title, tuple(pictures), "" if true is None or wrong is None else note)


def _floats(array: Array | None, shape: tuple[int, ...]) -> Array | None:
    good = array is not None and array.shape == shape and np.issubdtype(array.dtype, np.floating)
    return array if good else None
