"""Count how often each true label occurs with each predicted label, per image, in exact integers.

The grouping metrics take integer label maps [B, H, W], or [B, T, H, W] where a video counts as one image of
T x H x W pixels, and return one value per image. `ignore` is a true label that is left out, such as 0, the background.
Pair counts and mutual information leave out its pixels, which gives FG-ARI and so on; overlaps leave out its segment.
An image with nothing left gets NaN and an `UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor, Floats, Integers, to_numpy
from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.metrics.inputs import answer_like
from alebrije.metrics.reasons import warn_undefined
from alebrije.metrics.record import register

MAPS = ("true", "pred")
grouping_metric = partial(
    register,
    instrument="grouping",
    inputs=MAPS,
    invariances=("sample order", "label permutation", "batch split", "dtype", "device"),
)
SMALL_TABLE = 1 << 16  # cells: labels that span no more are counted without ranking them first
LARGE_TABLE = 1 << 24  # cells: metrics that need the full table of an image refuse larger ones


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Numbers of pixel pairs per image [B]: together in both maps, in the truth, in the prediction; all pairs."""

    both: Floats
    true: Floats
    pred: Floats
    total: Floats
    pixels: Integers


def check_label_maps(true: ArrayOrTensor, pred: ArrayOrTensor) -> None:
    """Raise an InputError unless both are integer label maps [B, H, W] or [B, T, H, W] of the same shape."""
    for name, labels in zip(MAPS, (true, pred), strict=True):
        if not isinstance(labels, (np.ndarray, torch.Tensor)):
            raise InputError(f"{name} must be a numpy array or a torch tensor, got {type(labels).__name__}")
        if labels.ndim not in (3, 4):
            raise InputError(
                f"{name} must have shape [B, H, W] or [B, T, H, W], got {list(labels.shape)}; "
                "labels_from_masks turns [B, K, H, W] masks into labels"
            )
        if not _holds_integers(labels):
            raise InputError(f"{name} must hold integer labels, got dtype {labels.dtype}")
    if tuple(true.shape) != tuple(pred.shape):
        raise InputError(f"true and pred must have the same shape, got {list(true.shape)} and {list(pred.shape)}")
    if true.shape[0] == 0:
        raise InputError("true and pred must hold at least one image")


def _holds_integers(labels: ArrayOrTensor) -> bool:
    if isinstance(labels, torch.Tensor):
        return not (labels.is_floating_point() or labels.is_complex())
    return labels.dtype.kind in "iub"


def pair_counts(true: ArrayOrTensor, pred: ArrayOrTensor, ignore: int | None) -> PairCounts:
    """Count pixel pairs per image, from a table or, if labels span many integers, from the label pairs that occur."""
    check_label_maps(true, pred)
    pairs, pixels = [], []
    for row_true, row_pred in _kept_pixels(_flatten(true), _flatten(pred), ignore):
        if _fits(row_true, row_pred, SMALL_TABLE):
            table = _table(row_true, row_pred, _bound(row_pred))
            counts = table, table.sum(1), table.sum(0)
        else:
            counts = _sparse_counts(_ranks(row_true), _ranks(row_pred))
        pairs.append([float(_pairs(count.astype(np.float64)).sum()) for count in counts])
        pixels.append(len(row_true))
    both, in_true, in_pred = np.array(pairs, dtype=np.float64).T
    return PairCounts(both, in_true, in_pred, _pairs(np.array(pixels, dtype=np.float64)), np.array(pixels))


def score_tables(
    true: ArrayOrTensor,
    pred: ArrayOrTensor,
    ignore: int | None,
    score: Callable[[Integers, Integers], float],
    keep_ignored: bool = False,
) -> Any:
    """Apply `score` to the contingency table of each image and to the sizes of its predicted segments.

    The table has no empty rows and columns, and none for the ignored label. With `keep_ignored`, the pixels of that
    label still count in the sizes.
    """
    check_label_maps(true, pred)
    ignored, values, pixels = _ignored_label(ignore), [], []
    for row_true, row_pred in zip(_flatten(true), _flatten(pred), strict=True):
        table = _full_table(row_true, row_pred, ignored)
        sizes = (table if keep_ignored else table[:-1]).sum(0)
        table = table[:-1][table[:-1].any(1)]
        pixels.append(int(table.sum()))
        values.append(score(table[:, sizes > 0], sizes[sizes > 0]) if table.size else np.nan)
    return answer_per_image(true, np.array(values, dtype=np.float64), pixels)


def answer_per_image(reference: ArrayOrTensor, values: Floats, pixels: Integers | list[int]) -> Any:
    """Values [B] as the caller's kind of array, with NaN and a warning for images that have no pixels left."""
    empty = np.asarray(pixels) == 0
    values = np.where(empty, np.nan, values)
    if empty.any():
        warn_undefined(f"{int(empty.sum())} of {len(values)} images have no pixels left to score: their values are NaN")
    return answer_like(reference, values)


def _full_table(true: Integers, pred: Integers, ignored: int | None) -> Integers:
    """Pixel counts [true labels, predicted labels] of an image; the last row counts the pixels of the ignored label.

    Rows and columns may be empty.
    """
    left_out = np.zeros(0, dtype=np.int64) if ignored is None else pred[true == ignored]
    if ignored is not None:
        true, pred = true[true != ignored], pred[true != ignored]
    every = np.concatenate([pred, left_out])
    if not _fits(true, every, SMALL_TABLE):
        true, every = _ranks(true), _ranks(every)
        if true.size and not _fits(true, every, LARGE_TABLE):
            raise InputError(
                f"an image has {true.max() + 1} true and {every.max() + 1} predicted labels: "
                "too many to compare them all"
            )
    columns = _bound(every)
    rest = np.bincount(every[len(true) :], minlength=columns)[None]
    return np.concatenate([_table(true, every[: len(true)], columns), rest])


def _ignored_label(ignore: int | None) -> int | None:
    """The label that is left out, as int64, which is how uint64 labels are viewed."""
    if ignore is None:
        return None
    label = whole_number("ignore", ignore, least=-(2**63))
    if label >= 2**64:
        raise InputError(f"ignore must be a label below 2**64, not {label}")
    return (label + 2**63) % 2**64 - 2**63


def _pairs(count: Floats) -> Floats:
    return count * (count - 1) / 2


def _flatten(labels: ArrayOrTensor) -> Integers:
    """Labels [B, pixels]; uint64 labels are viewed as int64, so that different labels stay different."""
    values = to_numpy(labels)
    values = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    return values.view(np.int64) if values.dtype == np.uint64 else values


def _bound(labels: Integers) -> int:
    """A number above all labels, at most twice the largest, found in one pass; 2**64 if any label is negative."""
    bits = int(np.bitwise_or.reduce(labels))
    return bits + 1 if bits >= 0 else 1 << 64


def _kept_pixels(true: Integers, pred: Integers, ignore: int | None) -> Iterator[tuple[Integers, Integers]]:
    ignored = _ignored_label(ignore)
    if ignored is None:
        yield from zip(true, pred, strict=True)
        return
    for row_true, row_pred in zip(true, pred, strict=True):
        keep = row_true != ignored
        yield row_true[keep], row_pred[keep]


def _ranks(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _fits(true: Integers, pred: Integers, cells: int) -> bool:
    return _bound(true) * _bound(pred) <= cells


def _table(true: Integers, pred: Integers, columns: int) -> Integers:
    """Counts of each pair of labels; no label may be negative, and no predicted label may reach `columns`."""
    rows = _bound(true)
    cells = true.astype(np.int64, copy=False) * columns
    cells += pred
    return np.bincount(cells, minlength=rows * columns).reshape(rows, columns)


def _sparse_counts(true: Integers, pred: Integers) -> tuple[Integers, Integers, Integers]:
    """Pixels of each pair of labels that occurs, of each true label, and of each predicted label."""
    columns = int(pred.max(initial=0)) + 1
    return np.unique(true * columns + pred, return_counts=True)[1], np.bincount(true), np.bincount(pred)
