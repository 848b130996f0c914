"""Scores of videos and of several views: of all frames jointly, of all but the first, and of each frame alone.

Jointly means that one labelling of all pixels of all frames, or of all views, is compared with the truth: an object
that changes its slot counts as split.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from alebrije.arrays import Floats, to_numpy
from alebrije.encoding import Shows
from alebrije.errors import UndefinedMetricWarning
from alebrije.metrics import Record, find

METRICS = ("fg-ari", "fg-arp", "fg-arr", "ari", "psnr")  # of images
MORE = ("arp", "arr", "miou", "mbo", "sc", "msc")  # of videos and views; of images if requested
REQUESTED = ("ami",)  # only if requested: seconds for each video
AFTER_FIRST, EACH = "-after-first", "-each"
_IN_PARTS = ("fg-ari", "fg-arp", "fg-arr", "ari")
PARTS = tuple(f"{name}{part}" for part in (AFTER_FIRST, EACH) for name in _IN_PARTS)


@dataclass(frozen=True)
class PartScores:
    """The score of each image, video or scene [B], and what else is known about them."""

    each: Floats
    details: dict[str, Any]


def metric_names(shows: Shows, requested: bool) -> tuple[str, ...]:
    """The values of a cell; some are computed only if they are requested."""
    rest = REQUESTED if requested else ()
    if shows == "images":
        return (*METRICS, *(MORE if requested else ()), *rest)
    return (*METRICS[:-1], *MORE, *rest, *PARTS, METRICS[-1])


def record_of(name: str) -> Record:
    """The record of the metric behind a value.

    >>> record_of("fg-ari-after-first").name
    'fg-ari'
    """
    return find(name.removesuffix(AFTER_FIRST).removesuffix(EACH))


def score_parts(name: str, true: Tensor, groups: Tensor) -> PartScores:
    """A value for labels [B, H, W], or [B, T, H, W] of videos and views."""
    record = record_of(name)
    if name.endswith(EACH):
        table = _scores(record, true.flatten(0, 1), groups.flatten(0, 1)).reshape(true.shape[:2])  # [B, T]
        frames = [_mean(table[:, at]) for at in range(table.shape[1])]
        return PartScores(np.array([_mean(row) for row in table], np.float64), {"by frame": frames})
    part = slice(1, None) if name.endswith(AFTER_FIRST) else slice(None)
    if true.ndim == 4:
        true, groups = true[:, part], groups[:, part]
    return PartScores(_scores(record, true, groups), {})


def _scores(record: Record, true: Tensor, groups: Tensor) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # frames without objects are left out
        return np.asarray(to_numpy(record(true.long(), groups)), np.float64)


def _mean(scores: Floats) -> float:
    """The mean of those that are defined; NaN if there are none."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else float("nan")
