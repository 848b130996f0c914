"""How often each true label meets each predicted label, image by image, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from alebrije.errors import InputError
from alebrije.metrics.arrays import Array, Floats, Integers, to_numpy

SMALL_TABLE = 1 << 16  # cells: labels that span no more are counted as they are, without ranking them
LARGE_TABLE = 1 << 24  # cells: metrics that need the whole table of an image refuse more


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Per image [B]: pairs of pixels that are together in both maps, in the truth, in the prediction, in all."""

    both: Floats
    true: Floats
    pred: Floats
    total: Floats
    pixels: Integers


def check_label_maps(true: Array, pred: Array) -> None:
    """Refuses anything but two integer label maps [B, H, W] or [B, T, H, W] of one shape."""
    for name, labels in (("true", true), ("pred", pred)):
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
        raise InputError(f"true and pred must have one shape, got {list(true.shape)} and {list(pred.shape)}")
    if true.shape[0] == 0:
        raise InputError("true and pred must hold at least one image")


def _holds_integers(labels: Array) -> bool:
    if isinstance(labels, torch.Tensor):
        return not (labels.is_floating_point() or labels.is_complex())
    return labels.dtype.kind in "iub"


def contingency_tables(true: Array, pred: Array, ignore: int | None) -> Iterator[Integers]:
    """One table [true labels, predicted labels] of pixel counts per image; empty rows and columns may occur."""
    check_label_maps(true, pred)
    for row_true, row_pred in _kept_pixels(_rows(true), _rows(pred), ignore):
        if _fits(row_true, row_pred, SMALL_TABLE):
            yield _table(row_true, row_pred)
            continue
        ranks = _ranks(row_true), _ranks(row_pred)
        if not _fits(*ranks, LARGE_TABLE):
            kinds = [int(rank.max()) + 1 for rank in ranks]
            raise InputError(
                f"an image has {kinds[0]} true and {kinds[1]} predicted labels: too many to compare them all"
            )
        yield _table(*ranks)


def pair_counts(true: Array, pred: Array, ignore: int | None) -> PairCounts:
    """Counts of pixel pairs per image, from a table or, where labels span many integers, from the cells that occur."""
    check_label_maps(true, pred)
    pairs, pixels = [], []
    for row_true, row_pred in _kept_pixels(_rows(true), _rows(pred), ignore):
        if _fits(row_true, row_pred, SMALL_TABLE):
            table = _table(row_true, row_pred)
            counts = table, table.sum(1), table.sum(0)
        else:
            counts = _sparse_counts(_ranks(row_true), _ranks(row_pred))
        pairs.append([float(_pairs(count.astype(np.float64)).sum()) for count in counts])
        pixels.append(len(row_true))
    both, in_true, in_pred = np.array(pairs, dtype=np.float64).T
    return PairCounts(both, in_true, in_pred, _pairs(np.array(pixels, dtype=np.float64)), np.array(pixels))


def _pairs(count: Floats) -> Floats:
    return count * (count - 1) / 2


def _rows(labels: Array) -> Integers:
    """One row of pixels per image; unsigned 64-bit labels keep their bits, so different ones stay different."""
    values = to_numpy(labels)
    values = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    return values.view(np.int64) if values.dtype == np.uint64 else values


def _bound(labels: Integers) -> int:
    """A number above all labels, at most twice the greatest, found in one pass; 2**64 if any is negative."""
    bits = int(np.bitwise_or.reduce(labels))
    return bits + 1 if bits >= 0 else 1 << 64


def _kept_pixels(true: Integers, pred: Integers, ignore: int | None) -> Iterator[tuple[Integers, Integers]]:
    left_out = None if ignore is None else (int(ignore) + 2**63) % 2**64 - 2**63  # as `_rows` reads unsigned labels
    for row_true, row_pred in zip(true, pred, strict=True):
        if left_out is None:
            yield row_true, row_pred
        else:
            keep = row_true != left_out
            yield row_true[keep], row_pred[keep]


def _ranks(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _fits(true: Integers, pred: Integers, cells: int) -> bool:
    return _bound(true) * _bound(pred) <= cells


def _table(true: Integers, pred: Integers) -> Integers:
    """Counts of each pair of labels, none of them negative."""
    rows, columns = _bound(true), _bound(pred)
    cells = true.astype(np.int64, copy=False) * columns
    cells += pred
    return np.bincount(cells, minlength=rows * columns).reshape(rows, columns)


def _sparse_counts(true: Integers, pred: Integers) -> tuple[Integers, Integers, Integers]:
    """How many pixels each pair of labels, each true and each predicted label has, of those that occur."""
    columns = int(pred.max(initial=0)) + 1
    return np.unique(true * columns + pred, return_counts=True)[1], np.bincount(true), np.bincount(pred)
