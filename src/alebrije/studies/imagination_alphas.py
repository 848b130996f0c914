"""What is found over several alphas: how many combinations a model must see, and how its errors grow on new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from alebrije.metrics import find
from alebrije.results import Cell, Result, Value
from alebrije.results.cells import Label
from alebrije.studies.cells import Job
from alebrije.studies.subjects import CALLED

EFFICIENCY, MEAN_GAP = AFTER = ("alpha-efficiency", "mean gap")
ERROR, GAP, YARDSTICK = "out-of-distribution error", "gap", "oracle"
YARDSTICKS = {"itself": CALLED[YARDSTICK]}  # SVIB's own, for models that draw by themselves
ENCODER_SAW = "encoder_saw"  # a label of encoders that learned something; the Oracle is their yardstick all the same
_OVER = ("alpha", "seed")  # labels over which results are brought together
VERSION = 1


@dataclass(frozen=True)
class Curve:
    """The mean error and gap of one model at each alpha, and the keys of the cells they come from."""

    errors: Mapping[float, float]
    gaps: Mapping[float, float]
    keys: tuple[str, ...]


def after(results: Sequence[Result]) -> list[Job]:
    """A cell for each model in a world with a rule that was examined at several alphas."""
    groups: dict[tuple[tuple[str, Label], ...], list[Result]] = {}
    for result in results:
        if ERROR in result.values and "alpha" in result.cell.labels:
            labels = tuple((name, label) for name, label in result.cell.labels.items() if name not in _OVER)
            groups.setdefault(labels, []).append(result)
    curves = {labels: curve(group) for labels, group in groups.items()}
    made = []
    for labels, mine in curves.items():
        if len(mine.errors) < 2:
            continue
        best = YARDSTICKS.get(str(dict(labels).get("drawn_by")), YARDSTICK)
        of_oracle = tuple((name, best if name == "model" else label) for name, label in labels if name != ENCODER_SAW)
        yardstick = None if labels == of_oracle else curves.get(of_oracle)
        about = dict(labels)
        inputs = {
            "cells": sorted(mine.keys),
            "yardstick": [] if yardstick is None else sorted(yardstick.keys),
            "metrics": {EFFICIENCY: find(EFFICIENCY).version},
            "version": VERSION,
        }
        cell = Cell(study="imagination", labels=about, inputs=inputs)
        made.append(Job(cell, partial(over_alphas, mine, yardstick, about.get("model") == best)))
    return made


def curve(results: Sequence[Result]) -> Curve:
    """The errors and gaps of results by alpha, each the mean over seeds."""
    errors: dict[float, list[float]] = {}
    gaps: dict[float, list[float]] = {}
    for result in results:
        alpha = float(result.cell.labels["alpha"] or 0.0)
        for table, name in ((errors, ERROR), (gaps, GAP)):
            value = result.values.get(name)
            if value is not None and value.score is not None:
                table.setdefault(alpha, []).append(value.score)
    means, mean_gaps = ({a: fmean(each) for a, each in sorted(table.items())} for table in (errors, gaps))
    return Curve(means, mean_gaps, keys=tuple(result.key for result in results))


def over_alphas(mine: Curve, yardstick: Curve | None, is_yardstick: bool = False) -> dict[str, Value]:
    """The alpha from which on a model is about as good as the Oracle, and its mean gap."""
    return {EFFICIENCY: _efficiency(mine, yardstick, is_yardstick), MEAN_GAP: _mean_gap(mine)}


def _efficiency(mine: Curve, yardstick: Curve | None, is_yardstick: bool) -> Value:
    record = find(EFFICIENCY)
    details = {"errors": {f"{alpha:g}": error for alpha, error in mine.errors.items()}}
    shared = [alpha for alpha in mine.errors if yardstick is not None and alpha in yardstick.errors]
    if yardstick is None or len(shared) < 2:
        reason = "the Oracle is the yardstick" if is_yardstick else "no Oracle was examined at these alphas"
        return Value(score=None, reason=reason, direction=record.direction, range=record.range, details=details)
    ours, theirs = (np.array([one.errors[alpha] for alpha in shared]) for one in (mine, yardstick))
    answer = record(np.array(shared), ours, theirs)
    details |= {"errors of the Oracle": {f"{alpha:g}": yardstick.errors[alpha] for alpha in shared}}
    return Value.of(
        record, answer, details={**details, "within": dict(zip(map(str, shared), answer.within.tolist(), strict=True))}
    )


def _mean_gap(mine: Curve) -> Value:
    record = find(GAP)
    if not mine.gaps:
        return Value(score=None, reason="there are no gaps", direction=record.direction, range=record.range)
    details = {"gaps": {f"{alpha:g}": gap for alpha, gap in mine.gaps.items()}}
    score = fmean(mine.gaps.values())
    return Value(score=score, direction=record.direction, range=record.range, details=details)
