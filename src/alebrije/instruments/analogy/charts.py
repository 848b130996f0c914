"""Charts of analogy in the report: scores by corpus, over training, over beta, and over the number of cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from alebrije.instruments.analogy.tables import LOSSES
from alebrije.instruments.analogy.trained import SWEPT
from alebrije.instruments.analogy.verdict import last_checkpoints, negative_tests, preference
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.report import sections
from alebrije.report.charts import Point, bars, line_panels, lines
from alebrije.report.findings import Finding
from alebrije.report.parts import Chart, short, slug
from alebrije.report.sections import titled, varied
from alebrije.results import Estimate
from alebrije.results.estimates import mean_over_seeds, t_quantile
from alebrije.results.formats import visible

_TITLES = {metric: f"COAT, {loss}" for metric, loss in LOSSES.items()}
_P_HAT = "the share of cases in which the true D is nearer than the hard negative (p-hat; dotted: one half)"
_BRIEF = {"no-duplicates+no-invisible": "no dup no inv", "no-duplicates": "no dup"}  # as in Table 2
_Lines = dict[str, list[Point]]


def score_charts(findings: Sequence[Finding]) -> list[Chart]:
    """COAT of every model, by corpus."""
    charts, last = [], last_checkpoints(findings)
    labels = varied(last, "train_set", "variant", "beta", "step")
    for metric, title in _TITLES.items():
        drawn = sections.score_bars(
            last, [metric], lambda finding, _: (_line_name(finding, labels), str(finding.get("corpus", "")))
        )
        if drawn:
            words = f"{title}, by model and corpus. 1 is perfect, 0 is chance; whiskers are 95 % intervals."
            words += sections.published_words(drawn, [f for f in last if f.estimate(metric) is not None])
            charts.append(Chart(slug("analogy", metric), title, words, partial(bars, drawn, title, 0.0, 1.02)))
    return charts


def training_charts(findings: Sequence[Finding]) -> list[Chart]:
    """Both scores and p-hat of every negative over the checkpoints of each training that has several.

    Models without slots share a chart, as in the paper; each model with slots has its own.
    """
    alike: dict[tuple[object, ...], list[tuple[Finding, float]]] = {}
    for finding in findings:
        if finding.get("corpus") == "occluded" and (step := _step(finding)) is not None:
            alike.setdefault(_but_the_step(finding), []).append((finding, step))
    families: dict[str, list[list[tuple[Finding, float]]]] = {}
    for own in alike.values():
        if len({step for _, step in own}) > 1:
            families.setdefault(own[0][0].model if own[0][0].get("variant") else "", []).append(own)
    charts = []
    for family, runs in families.items():
        shown = runs[: sections.MOST_LINES]
        labels = varied([own[0][0] for own in shown], "train_set", "variant", "beta")
        named = {_line_name(own[0][0], labels, family): own for own in shown}
        left = f" {len(runs) - len(shown)} more trainings are not drawn." if len(runs) > len(shown) else ""
        charts += [_training_chart(named, metric, family, left) for metric in _TITLES]
    return [chart for chart in charts if chart is not None]


def _line_name(finding: Finding, labels: Sequence[str], family: str = "") -> str:
    """The labels of a training, after the model where a chart has several; variants in the paper's short words."""
    name = titled(finding, *labels)
    for long, brief in _BRIEF.items():
        name = name.replace(long, brief)
    return short(name.removeprefix(f"{short(finding.model, 60)}: ") if family else name, 42)


def _training_chart(
    named: Mapping[str, Sequence[tuple[Finding, float]]], metric: str, family: str, left: str
) -> Chart | None:
    title = _TITLES[metric]
    panels = {title: _lines(named, partial(_known, metric)), **_p_hat_panels(named, metric)}
    panels = {name: panel for name, panel in panels.items() if panel}
    if not panels:
        return None
    words = f"{title}, and {_P_HAT}, over the steps of training, under occlusion (Figures A5 to A17).{left}"
    draw = partial(line_panels, panels, "training steps", references=_levels(panels, title))
    name = slug("analogy", "checkpoints", *([] if metric == "coat" else [metric]), *([family] if family else []))
    return Chart(name, f"{title}, over training{f': {short(family, 40)}' if family else ''}", words, draw)


def beta_charts(findings: Sequence[Finding]) -> list[Chart]:
    """Scores, p-hat and TRE of beta-TCVAEs over beta, with the published TRE."""
    swept = [f for f in last_checkpoints(findings) if f.get("corpus") == "occluded" and _beta(f) is not None]
    by_beta = [(f, float(_beta(f) or 0.0)) for f in sorted(swept, key=lambda f: float(_beta(f) or 0.0))]
    if len({beta for _, beta in by_beta}) < 2:
        return []
    charts, named = [], {"": by_beta}
    panels: dict[str, _Lines] = {}
    for metric, loss in LOSSES.items():
        for title, panel in {"COAT": _lines(named, partial(_known, metric)), **_p_hat_panels(named, metric)}.items():
            if panel:
                panels.setdefault(title, {})[loss] = panel[""]
    words = f"COAT, and {_P_HAT}, of beta-TCVAEs by their beta, under occlusion (Section 5.1)."
    draw = partial(line_panels, panels, "beta", references=_levels(panels, "COAT"))
    charts.append(Chart(slug("analogy", "beta"), "Over beta", words, draw))
    found = _lines({SWEPT: by_beta}, partial(_known, "tre"))
    if found:
        printed = [Point(beta, one.estimate) for f, beta in by_beta if (one := f.one_published("tre")) is not None]
        words = "Tree reconstruction error of the same models; lower is better. It depends on the scale of the codes."
        words += sections.published_words(bool(printed), swept, "Hollow marks")
        draw_tre = partial(lines, found, "beta", "TRE", {SWEPT: printed} if printed else None)
        charts.append(Chart(slug("analogy", "beta-tre"), "TRE over beta", words, draw_tre))
    return charts


def stability_charts(findings: Sequence[Finding]) -> list[Chart]:
    """COAT and p-hat on the first cases of the occluded corpus."""
    chosen: dict[str, Finding] = {}
    for finding in sorted(last_checkpoints(findings), key=preference):
        if finding.get("corpus") == "occluded":
            chosen.setdefault(finding.model, finding)
    charts = []
    for metric, title in _TITLES.items():
        panels: dict[str, _Lines] = {}
        for model, finding in list(chosen.items())[: sections.MOST_LINES]:
            for name, points in _first_cases(finding, metric).items():
                panels.setdefault(name or title, {})[short(model)] = points
        if not panels:
            continue
        words = (
            f"{title}, and {_P_HAT}, on the first cases of the occluded corpus. Xie et al. 2022 find both "
            "stable at 1,000 cases (footnote 4)."
        )
        draw = partial(line_panels, panels, "cases", log=True, references=_levels(panels, title))
        charts.append(Chart(slug("analogy", "cases", metric), f"{title}, by number of cases", words, draw))
    return charts


def _first_cases(finding: Finding, metric: str) -> _Lines:
    """The score, under an empty name, and p-hat of each negative on the first cases, as means over seeds."""
    found = [own for value in finding.values(metric) if isinstance(own := value.details.get("first cases"), dict)]
    points: _Lines = {}
    for at, cases in enumerate(found[0].get("cases", []) if found else []):
        scores = [_estimate(own["score"][at], own["standard error"][at]) for own in found]
        points.setdefault("", []).append(Point(cases, mean_over_seeds(scores)))
        for name in (name for name in HARD_NEGATIVES if name in found[0]["p_hat"]):
            shares = [Estimate(own["p_hat"][name][at]) for own in found if name in own["p_hat"]]
            points.setdefault(visible(name), []).append(Point(cases, mean_over_seeds(shares)))
    return points


def _estimate(score: float | None, error: float | None) -> Estimate:
    if score is None or error is None:
        return Estimate(score)
    margin = t_quantile(math.inf) * error
    return Estimate(score, error, score - margin, score + margin, spread="cases")


def _lines(named: Mapping[str, Iterable[tuple[Finding, float]]], score: Any) -> _Lines:
    """A line for each name that has scores."""
    found = {name: [Point(x, one) for f, x in own if (one := score(f)) is not None] for name, own in named.items()}
    return {name: points for name, points in found.items() if points}


def _p_hat_panels(named: Mapping[str, Sequence[tuple[Finding, float]]], metric: str) -> dict[str, _Lines]:
    """p-hat of every negative, a panel for each."""
    return {visible(name): _lines(named, partial(_p_hat, metric, name)) for name in HARD_NEGATIVES}


def _p_hat(metric: str, negative: str, finding: Finding) -> Estimate | None:
    test = negative_tests(finding, metric).get(negative)
    return None if test is None else Estimate(test.share)


def _known(metric: str, finding: Finding) -> Estimate | None:
    return finding.known(metric)


def _levels(panels: Iterable[str], score: str) -> dict[str, float]:
    """Chance in each panel: 0 for the score, one half for p-hat."""
    return {name: 0.0 if name == score else 0.5 for name in panels}


def _step(finding: Finding) -> float | None:
    """The step of a checkpoint; for the model of a finished training, the number of its steps."""
    step = finding.get("step")
    if isinstance(step, (int, float)):
        return float(step)
    steps = _plan(finding).get("recipe", {}).get("steps")
    return float(steps) if isinstance(steps, (int, float)) else None


def _beta(finding: Finding) -> float | None:
    """The beta of a beta-TCVAE that learned from uncorrelated scenes."""
    plan = _plan(finding)
    beta = plan.get("settings", {}).get("beta") if plan.get("model") == SWEPT else None
    return float(beta) if isinstance(beta, (int, float)) and finding.get("train_set") in (None, "iid") else None


def _plan(finding: Finding) -> Mapping[str, Any]:
    subject = finding.results[0].cell.inputs.get("subject")
    plan = subject.get("plan") if isinstance(subject, Mapping) else None
    return plan if isinstance(plan, Mapping) else {}


def _but_the_step(finding: Finding) -> tuple[object, ...]:
    return (finding.model, *sorted((name, str(value)) for name, value in finding.labels.items() if name != "step"))
