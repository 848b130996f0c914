"""Analogy in the report: charts, hard negatives, and pictures of cases and of slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alebrije.adapters.tokens import MOST_SLOTS
from alebrije.arrays import Array
from alebrije.instruments.analogy.charts import beta_charts, score_charts, stability_charts, training_charts
from alebrije.instruments.analogy.images import WHITE
from alebrije.instruments.analogy.slot_galleries import slot_galleries
from alebrije.instruments.analogy.tables import negatives_table, white_table
from alebrije.instruments.analogy.values import METRICS
from alebrije.instruments.analogy.verdict import last_checkpoints, preference
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.report import sections
from alebrije.report.findings import Finding, Findings
from alebrije.report.grids import ScoreWords
from alebrije.report.parts import Gallery, Section, Shot, Strip, short
from alebrije.report.sections import images_in, shot, titled
from alebrije.report.verdict import listed
from alebrije.results.formats import visible

_NAME = "analogy"
_SIDE = 112  # of a picture in pixels, so that twelve fit in a row
_REMARK = (
    "B is A, and D is C, with the same objects added, so the codes should satisfy B - A + C = D. COAT is 1 if they do "
    "and 0 if D is no nearer than a random scene. A hard negative is D with one thing wrong. A model passes it if the "
    "true D is nearer in significantly more than half of the cases; otherwise its score may be due to a shortcut."
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
        charts=[
            *score_charts(scored),
            *training_charts(scored),
            *beta_charts(scored),
            *stability_charts(scored),
        ],
        front=[*negatives_table(scored), *white_table(scored)],
        galleries=[*_galleries(findings, scored), *slot_galleries(findings, last_checkpoints(scored))],
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


def _galleries(findings: Findings, scored: Sequence[Finding]) -> list[Gallery]:
    """Cases of each model on each corpus, in the preferred variant and training set."""
    chosen: dict[tuple[str, str], Finding] = {}
    shown = (finding for finding in last_checkpoints(scored) if finding.get("corpus") != WHITE)
    for finding in sorted(shown, key=preference):
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
