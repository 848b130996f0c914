"""Values over several alphas: how many combinations a model must see, and its mean gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from alebrije.instruments.imagination.examination import ENCODER_SAW
from alebrije.instruments.imagination.values import GAP, OUT_ERROR
from alebrije.metrics import find
from alebrije.results import Cell, Result, Value
from alebrije.results.cells import Label
from alebrije.studies.jobs import Job
from alebrije.studies.values import null_value

EFFICIENCY, MEAN_GAP = OVER_ALPHAS = ("alpha-efficiency", "mean gap")
VERSION = 1  # raised when the same results give other values than before
_ORACLES = {"head": "oracle", "itself": "svib-oracle"}  # label `drawn_by` -> the model to compare with
_VARIED = ("alpha", "seed")  # labels that are averaged over


@dataclass(frozen=True)
class Curve:
    """The mean error and gap of one model at each alpha, and the keys of the cells they come from."""

    errors: Mapping[float, float]
    gaps: Mapping[float, float]
    keys: tuple[str, ...]


def alpha_jobs(results: Sequence[Result]) -> list[Job]:
    """A cell for each model, world and rule with results at several alphas."""
    groups: dict[tuple[tuple[str, Label], ...], list[Result]] = {}
    for result in results:
        if OUT_ERROR in result.values and "alpha" in result.cell.labels:
            labels = tuple((name, label) for name, label in result.cell.labels.items() if name not in _VARIED)
            groups.setdefault(labels, []).append(result)
    curves = {labels: curve(group) for labels, group in groups.items()}
    jobs = []
    for labels, own in curves.items():
        if len(own.errors) < 2:
            continue
        model = dict(labels).get("model")
        best = _ORACLES.get(str(dict(labels).get("drawn_by")), "oracle")
        # the oracle was not trained, so its results lack this label
        same = tuple((name, best if name == "model" else label) for name, label in labels if name != ENCODER_SAW)
        oracle = None if labels == same else curves.get(same)
        inputs = {
            "cells": sorted(own.keys),
            "yardstick": [] if oracle is None else sorted(oracle.keys),
            "metrics": {EFFICIENCY: find(EFFICIENCY).version},
            "version": VERSION,
        }
        cell = Cell(study="imagination", labels=dict(labels), inputs=inputs)
        jobs.append(Job(cell, partial(compute_over_alphas, own, oracle, model == best)))
    return jobs


def curve(results: Sequence[Result]) -> Curve:
    """The errors and gaps of results by alpha, averaged over seeds."""
    errors: dict[float, list[float]] = {}
    gaps: dict[float, list[float]] = {}
    for result in results:
        alpha = float(result.cell.labels["alpha"] or 0.0)
        for by_alpha, name in ((errors, OUT_ERROR), (gaps, GAP)):
            value = result.values.get(name)
            if value is not None and value.score is not None:
                by_alpha.setdefault(alpha, []).append(value.score)
    return Curve(_means(errors), _means(gaps), keys=tuple(result.key for result in results))


def _means(by_alpha: Mapping[float, Sequence[float]]) -> dict[float, float]:
    return {alpha: fmean(scores) for alpha, scores in sorted(by_alpha.items())}


def compute_over_alphas(own: Curve, oracle: Curve | None, is_oracle: bool = False) -> dict[str, Value]:
    """The smallest alpha from which a model is about as good as the oracle, and its mean gap."""
    return {EFFICIENCY: _efficiency(own, oracle, is_oracle), MEAN_GAP: _mean_gap(own)}


def _efficiency(own: Curve, oracle: Curve | None, is_oracle: bool) -> Value:
    record = find(EFFICIENCY)
    details = {"errors": {f"{alpha:g}": error for alpha, error in own.errors.items()}}
    shared = [alpha for alpha in own.errors if oracle is not None and alpha in oracle.errors]
    if oracle is None or len(shared) < 2:
        reason = "models are compared with this Oracle" if is_oracle else "no Oracle was examined at these alphas"
        return null_value(record, reason).model_copy(update={"details": details})
    errors, best_errors = (np.array([one.errors[alpha] for alpha in shared]) for one in (own, oracle))
    answer = record(np.array(shared), errors, best_errors)
    details |= {"errors of the Oracle": {f"{alpha:g}": oracle.errors[alpha] for alpha in shared}}
    within = dict(zip(map(str, shared), answer.within.tolist(), strict=True))
    return Value.of(record, answer, details={**details, "within": within})


def _mean_gap(own: Curve) -> Value:
    record = find(GAP)
    if not own.gaps:
        return null_value(record, "no gap is known")
    details = {"gaps": {f"{alpha:g}": gap for alpha, gap in own.gaps.items()}}
    return Value.of(record, fmean(own.gaps.values()), details=details)
