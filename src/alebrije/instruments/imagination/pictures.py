"""Pictures of predictions: a gallery for each model, and a sheet of models by alphas.

The sheets are the counterparts of Figures 5 and 12 to 14 of Kim et al. 2023.
"""

from __future__ import annotations

from collections.abc import Sequence

from alebrije.arrays import Array
from alebrije.instruments.imagination.curves import alphas_of
from alebrije.instruments.imagination.rule_graphs import rule_title
from alebrije.report import sections
from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Gallery, Shot, Strip, short, slug
from alebrije.report.sections import images_in, shot, titled

_NAME = "imagination"
_LEGEND = (
    "The given scene, the true next scene, the predicted one, and their difference (darker is larger). New "
    "combinations first, then one that training showed."
)
_SHEET_LEGEND = (
    "One new combination: the given scene, the true next scene, and what each model predicts after training at each "
    "alpha. The larger alpha is, the more combinations training showed."
)


def sheets(findings: Findings, shown: Sequence[Finding]) -> list[Gallery]:
    """For each world and rule with several alphas, the predictions of all models for the first test episode."""
    made = []
    for world, rule in dict.fromkeys((str(f.get("world", "")), str(f.get("rule", ""))) for f in shown):
        own = [f for f in shown if (str(f.get("world", "")), str(f.get("rule", ""))) == (world, rule)]
        if len(alphas_of(own)) < 2:
            continue
        strips = [strip for model in dict.fromkeys(f.model for f in own) for strip in _row(findings, own, model)]
        if strips:
            title = f"Predictions over alpha: {' '.join(part for part in (world, rule_title(rule)) if part)}"
            made.append(Gallery(slug(_NAME, "alphas", world, rule), title, _SHEET_LEGEND, tuple(strips), side=6.5))
    return made[: sections.MOST_GALLERIES]


def _row(findings: Findings, own: Sequence[Finding], model: str) -> list[Strip]:
    """A strip for each size of images that a model predicts; test episodes are the same for every alpha."""
    strips = []
    mine = [f for f in own if f.model == model and isinstance(f.get("alpha"), (int, float))]
    for pixels in dict.fromkeys(f.get("pixels") for f in mine):
        pictures: list[Shot] = []
        for finding in sorted((f for f in mine if f.get("pixels") == pixels), key=lambda f: float(f.get("alpha"))):
            found = images_in(findings.samples(finding), "source", "target", "predicted")
            if found is None:
                continue
            source, target, predicted = (array[0] for array in found)
            if not pictures:
                pictures += [shot("source", source, "the given scene"), shot("target", target, "the true next scene")]
            alpha = f"alpha {float(finding.get('alpha')):g}"
            pictures.append(shot(alpha, predicted, f"what {short(model, 60)} predicts at {alpha}"))
        if pictures:
            strips.append(Strip(short(model, 40), tuple(pictures)))
    return strips


def galleries(findings: Findings, shown: Sequence[Finding]) -> list[Gallery]:
    """Predictions of each model in each world and rule, at the smallest alpha, where training shows the least."""
    chosen: dict[tuple[str, ...], Finding] = {}
    for finding in shown:
        task = (finding.model, str(finding.get("world", "")), str(finding.get("rule", "")))
        kept = chosen.get(task)
        if kept is None or float(finding.get("alpha", 1)) < float(kept.get("alpha", 1)):
            chosen[task] = finding
    cases = (
        (titled(finding, "world", "rule", "alpha"), _strips(findings.samples(finding))) for finding in chosen.values()
    )
    return sections.galleries(f"{_NAME}-predictions", _LEGEND, 6.5, cases)


def _strips(samples: dict[str, Array]) -> tuple[Strip, ...]:
    seen = _strips_of(samples, "_in", "seen combination")[:1]
    return (*_strips_of(samples, "", "new combination"), *seen)


def _strips_of(samples: dict[str, Array], ending: str, title: str) -> tuple[Strip, ...]:
    found = images_in(samples, f"source{ending}", f"target{ending}", f"predicted{ending}")
    found = found or images_in(samples, f"target{ending}", f"predicted{ending}")  # of a file without sources
    if found is None or found[-2].shape != found[-1].shape:
        return ()
    strips = []
    for *source, target, predicted in list(zip(*found, strict=True))[: sections.CASES]:
        pictures = (
            *(shot("source", image, "the given scene") for image in source),
            shot("target", target, "the true next scene"),
            shot("predicted", predicted, "the predicted next scene"),
            Shot("difference", sections.difference_picture(target, predicted), "the difference of the two"),
        )
        strips.append(Strip(title, pictures))
    return tuple(strips)
