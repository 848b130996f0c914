"""Check the arrays that metrics take, and return results as the caller's kind of array."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from alebrije.arrays import Array, ArrayOrTensor, Floats, Integers, to_numpy
from alebrije.errors import InputError

MOST_CLASSES = 256  # per factor; more are accepted only if each has two rows on average
LARGEST = 1e30  # larger codes overflow when they are squared and summed
LARGEST_FACTOR = 2.0**53  # beyond it, floats skip whole numbers


def as_tensor(array: ArrayOrTensor, name: str) -> torch.Tensor:
    """`array` as a tensor of real numbers without gradients, on its own device."""
    if not isinstance(array, torch.Tensor):
        values = np.asarray(array)
        if values.dtype.kind not in "fiub":
            raise InputError(f"{name} must hold real numbers, got dtype {values.dtype}")
        wide = values.dtype.kind == "f" and values.dtype.itemsize > 8  # torch has no long double
        native = np.float64 if wide else values.dtype.newbyteorder("=")
        array = torch.from_numpy(np.array(values, dtype=native, order="C"))
    if array.is_complex():
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.dtype in (torch.uint16, torch.uint32, torch.uint64):  # torch cannot compute with these
        array = array.long()
    return array.detach()


def widest_float(device: torch.device) -> torch.dtype:
    """float64, or float32 on MPS, which has no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def answer_like(reference: ArrayOrTensor, value: ArrayOrTensor) -> Any:
    """`value` as a tensor on the device of `reference` if that is a tensor, else as a numpy array."""
    if not isinstance(reference, torch.Tensor):
        return to_numpy(value)
    answer = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(value))
    if answer.dtype == torch.float64:
        answer = answer.to(widest_float(reference.device))
    return answer.to(reference.device)


def check_codes(codes: ArrayOrTensor) -> Floats:
    """`codes` as finite float64 [N, L] with at least two rows."""
    values = to_numpy(codes)
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"codes must have shape [samples, neurons], got {list(values.shape)}")
    if values.shape[0] < 2:
        raise InputError(f"codes must have at least 2 rows to compare, got {values.shape[0]}")
    return check_finite(values, "codes")


def check_finite(values: Array, name: str) -> Floats:
    """`values` as float64; an InputError unless all are real and finite."""
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got dtype {values.dtype}")
    values = values.astype(np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        index = ", ".join(str(int(i)) for i in np.argwhere(bad)[0])
        raise InputError(f"{name} must be finite: {int(bad.sum())} values are NaN or infinite, the first at [{index}]")
    if values.size and np.abs(values).max() > LARGEST:
        raise InputError(f"{name} must be smaller than {LARGEST:g} in size, got {np.abs(values).max():.3g}")
    return values


def check_factors(factors: ArrayOrTensor, rows: int) -> Array:
    """`factors` as int64 [N, F] if every value is a whole number, else as float64 [N, F]."""
    values = to_numpy(factors)
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"factors must have shape [samples, factors], got {list(values.shape)}")
    if values.shape[0] != rows:
        raise InputError(f"factors must have as many rows as codes: {values.shape[0]} against {rows}")
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    values = check_finite(values, "factors")
    if values.size and np.abs(values).max() > LARGEST_FACTOR:
        raise InputError(f"factors must be at most 2^53 in size, got {np.abs(values).max():.3g}")
    whole = values.astype(np.int64)
    return whole if bool((whole == values).all()) else values


def check_classes(factors: ArrayOrTensor, rows: int, metric: str) -> Integers:
    """`factors` as class indices 0..K-1 per column; an InputError that names `metric` if they are continuous."""
    values = check_factors(factors, rows)
    if values.dtype.kind == "f":
        raise InputError(f"{metric} is defined for discrete factors only: factors must hold integers")
    classes = np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1).astype(np.int64)
    counts = classes.max(0) + 1
    if counts.max() > max(MOST_CLASSES, rows / 2):
        worst = int(counts.argmax())
        raise InputError(f"factors: column {worst} has {counts[worst]} values in {rows} rows, too many to be classes")
    return classes


def check_codes_and_classes(codes: ArrayOrTensor, factors: ArrayOrTensor, metric: str) -> tuple[Floats, Integers]:
    """`check_codes` and `check_classes` of arrays with the same number of rows."""
    values = check_codes(codes)
    return values, check_classes(factors, len(values), metric)


def check_codes_and_factors(
    codes: ArrayOrTensor, factors: ArrayOrTensor, metric: str
) -> tuple[Floats, list[Integers | Floats]]:
    """As `check_codes_and_classes`, but one array per factor: int64 classes, or float64 if a value is not whole."""
    values = check_codes(codes)
    targets = check_factors(factors, len(values))
    whole = np.asarray((targets == np.round(targets)).all(0))
    classes = iter(check_classes(targets[:, whole], len(values), metric).T if whole.any() else ())
    return values, [next(classes) if discrete else targets[:, j] for j, discrete in enumerate(whole)]


def check_rows(codes: Floats, least: int, metric: str) -> None:
    """Raise an InputError that names `metric` unless there are at least `least` rows."""
    if len(codes) < least:
        raise InputError(f"{len(codes)} rows are too few for {metric}: codes must have at least {least}")
