"""How often each true label meets each predicted label, image by image, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from alebrije.errors import InputError
from alebrije.metrics.arrays import Array, Floats, Integers, to_numpy

DENSE_LIMIT = 1 << 22  # cells of one image's table; beyond it only the cells that occur are counted


@dataclass(frozen=True)
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
        floating = (
            labels.dtype.is_floating_point if isinstance(labels, torch.Tensor) else labels.dtype.kind not in "iub"
        )
        if floating:
            raise InputError(f"{name} must hold integer labels, got dtype {labels.dtype}")
    if tuple(true.shape) != tuple(pred.shape):
        raise InputError(f"true and pred must have one shape, got {list(true.shape)} and {list(pred.shape)}")


def contingency_tables(true: Array, pred: Array, ignore: int | None) -> list[Integers]:
    """One table [true labels, predicted labels] of pixel counts per image; empty rows and columns may occur."""
    check_label_maps(true, pred)
    if isinstance(true, torch.Tensor) and true.device.type == "cuda":
        tables = _tables_on_device(true, torch.as_tensor(pred, device=true.device), ignore)
        if tables is not None:
            return tables
    truth, prediction = _rows(true), _rows(pred)
    true_range, pred_range = _small_range(truth), _small_range(prediction)
    if true_range is None or pred_range is None:
        return [_table(_dense_ranks(t), _dense_ranks(p)) for t, p in _kept(truth, prediction, ignore)]
    (t_low, t_size), (p_low, p_size) = true_range, pred_range
    tables = []
    for row_true, row_pred in _kept(truth, prediction, ignore):
        cells = (row_true.astype(np.int64, copy=False) - t_low) * p_size
        cells += row_pred
        cells -= p_low
        tables.append(np.bincount(cells, minlength=t_size * p_size).reshape(t_size, p_size))
    return tables


def pair_counts(true: Array, pred: Array, ignore: int | None) -> PairCounts:
    """Counts of pixel pairs per image, from dense tables or, where labels are very many, from sorted cells."""
    check_label_maps(true, pred)
    rows = [_image_pairs(table) for table in _tables_or_margins(true, pred, ignore)]
    both, in_true, in_pred, pixels = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    return PairCounts(both, in_true, in_pred, _pairs(pixels), pixels.astype(np.int64))


def _tables_or_margins(true: Array, pred: Array, ignore: int | None) -> list[tuple[Integers, Integers, Integers]]:
    """Per image the counts of cells, of true labels and of predicted labels."""
    try:
        return [(t.ravel(), t.sum(1), t.sum(0)) for t in contingency_tables(true, pred, ignore)]
    except _TooManyLabelsError:
        images = _kept(_rows(true), _rows(pred), ignore)
        return [_sparse_counts(_dense_ranks(t), _dense_ranks(p)) for t, p in images]


def _image_pairs(counts: tuple[Integers, Integers, Integers]) -> tuple[float, float, float, float]:
    cells, in_true, in_pred = (c.astype(np.float64) for c in counts)
    return float(_pairs(cells).sum()), float(_pairs(in_true).sum()), float(_pairs(in_pred).sum()), float(cells.sum())


def _pairs(count: Floats) -> Floats:
    return count * (count - 1) / 2


class _TooManyLabelsError(InputError):
    """A table over all pairs of labels would not fit; metrics that need one cannot be computed."""


def _rows(labels: Array) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    values = to_numpy(labels)
    return values.reshape(values.shape[0], -1)


def _kept(true: Integers, pred: Integers, ignore: int | None) -> list[tuple[Integers, Integers]]:
    if ignore is None:
        return list(zip(true, pred, strict=True))
    keep = true != ignore
    return [(t[k], p[k]) for t, p, k in zip(true, pred, keep, strict=True)]


def _small_range(labels: Integers) -> tuple[int, int] | None:
    """The least label and the number of integers up to the greatest, or None where those are too many."""
    if labels.size == 0:
        return 0, 1
    low, high = int(labels.min()), int(labels.max())
    return (low, high - low + 1) if high - low < 1024 else None


def _dense_ranks(labels: Integers) -> Integers:
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _table(true: Integers, pred: Integers) -> Integers:
    if true.size == 0:
        return np.zeros((1, 1), dtype=np.int64)
    rows, columns = int(true.max()) + 1, int(pred.max()) + 1
    if rows * columns > DENSE_LIMIT:
        raise _TooManyLabelsError(f"an image has {rows} true and {columns} predicted labels: too many for a table")
    return np.bincount(true * columns + pred, minlength=rows * columns).reshape(rows, columns)


def _sparse_counts(true: Integers, pred: Integers) -> tuple[Integers, Integers, Integers]:
    if true.size == 0:
        empty = np.zeros(1, dtype=np.int64)
        return empty, empty, empty
    cells = np.unique(true * (int(pred.max()) + 1) + pred, return_counts=True)[1]
    return cells, np.bincount(true), np.bincount(pred)


def _tables_on_device(true: torch.Tensor, pred: torch.Tensor, ignore: int | None) -> list[Integers] | None:
    """All tables of a batch in one count on the device, or None where the labels span too wide a range."""
    truth, prediction = true.flatten(1).long(), pred.flatten(1).long()
    if truth.numel() == 0:
        return None
    lows, sizes = [], []
    for labels in (truth, prediction):
        low, high = (int(v) for v in labels.aminmax())
        if high - low >= 1024:
            return None
        lows.append(low)
        sizes.append(high - low + 1)
    images = torch.arange(len(truth), device=truth.device)[:, None]
    cells = (images * sizes[0] + truth - lows[0]) * sizes[1] + prediction - lows[1]
    if ignore is not None:
        cells = cells[truth != ignore]
    counts = torch.bincount(cells.flatten(), minlength=len(truth) * sizes[0] * sizes[1])
    return list(counts.view(len(truth), *sizes).cpu().numpy())
