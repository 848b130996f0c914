"""What every metric does at its door: check arrays, work on one kind, answer in the caller's kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije.errors import InputError

Array = np.ndarray[Any, Any] | torch.Tensor
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_CLASSES = 256  # of a factor, unless at least two rows share each
LARGEST = 1e30  # codes beyond it cannot be squared and summed without overflow


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """The same values as a numpy array on the CPU, without changing or sharing gradients."""
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        return np.asarray((array.float() if array.dtype == torch.bfloat16 else array).numpy())
    return np.asarray(array)


def as_tensor(array: Array, name: str) -> torch.Tensor:
    """`array` as a tensor of real numbers without gradients, on the device it is on."""
    if not isinstance(array, torch.Tensor):
        values = np.asarray(array)
        if values.dtype.kind not in "fiub":
            raise InputError(f"{name} must hold real numbers, got dtype {values.dtype}")
        wide = values.dtype.kind == "f" and values.dtype.itemsize > 8  # torch has no long double
        native = np.float64 if wide else values.dtype.newbyteorder("=")
        array = torch.from_numpy(np.array(values, dtype=native, order="C"))
    if array.is_complex():
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.detach()


def answer_like(reference: Array, value: npt.NDArray[Any]) -> Any:
    """`value` in the kind of `reference`: a tensor on its device if that is a tensor, else the array."""
    if not isinstance(reference, torch.Tensor):
        return value
    answer = torch.from_numpy(np.ascontiguousarray(value))
    if reference.device.type == "mps" and answer.dtype == torch.float64:
        answer = answer.float()  # MPS has no float64
    return answer.to(reference.device)


def in_kind(reference: Array, value: torch.Tensor) -> Any:
    """`value` as it is if `reference` is a tensor, else as a numpy array."""
    return value if isinstance(reference, torch.Tensor) else value.cpu().numpy()


def check_codes(codes: Array, name: str = "codes") -> Floats:
    """`codes` as finite float64 [N, L] with at least two rows."""
    values = to_numpy(codes)
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"{name} must have shape [samples, neurons], got {list(values.shape)}")
    if values.shape[0] < 2:
        raise InputError(f"{name} must have at least 2 rows to compare, got {values.shape[0]}")
    return check_finite(values, name)


def check_finite(values: npt.NDArray[Any], name: str) -> Floats:
    """`values` as float64; refuses what is not a real finite number."""
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got dtype {values.dtype}")
    values = values.astype(np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        where = ", ".join(str(int(i)) for i in np.argwhere(bad)[0])
        raise InputError(f"{name} must be finite: {int(bad.sum())} values are not, the first at [{where}]")
    if values.size and np.abs(values).max() > LARGEST:
        raise InputError(f"{name} must be smaller than {LARGEST:g} in size, got {np.abs(values).max():.3g}")
    return values


def check_factors(factors: Array, rows: int, name: str = "factors") -> npt.NDArray[Any]:
    """`factors` as int64 [N, F] if every value is a whole number, else as float64 [N, F]."""
    values = to_numpy(factors)
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"{name} must have shape [samples, factors], got {list(values.shape)}")
    if values.shape[0] != rows:
        raise InputError(f"{name} must have as many rows as codes: {values.shape[0]} against {rows}")
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    values = check_finite(values, name)
    whole = values.astype(np.int64)
    return whole if bool((whole == values).all()) else values


def check_classes(factors: Array, rows: int, metric: str, name: str = "factors") -> Integers:
    """`factors` as class indices 0..K-1 per column; refuses continuous factors in the name of `metric`."""
    values = check_factors(factors, rows, name)
    if values.dtype.kind == "f":
        raise InputError(f"{metric} is defined for discrete factors only: {name} must hold integers")
    classes = np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1).astype(np.int64)
    kinds = classes.max(0) + 1
    if kinds.max() > max(MOST_CLASSES, rows / 2):
        worst = int(kinds.argmax())
        raise InputError(f"{name}: column {worst} has {kinds[worst]} values in {rows} rows, too many to be classes")
    return classes


def mean_of_defined(per_factor: Floats, fault: str = "have a single value") -> tuple[float, str | None]:
    """The mean over the factors whose value is a number, and which are not, for the `fault` named.

    >>> mean_of_defined(np.array([0.5, np.nan, 1.0]))
    (0.75, 'factors [1] have a single value')
    """
    bad = np.isnan(per_factor)
    score = float("nan") if bad.all() else float(per_factor[~bad].mean())
    return score, _left_out(bad, fault)


def which_vary(factors: npt.NDArray[Any]) -> tuple[Flags, str | None]:
    """Which factors [F] have more than one value in the rows given, and which do not, in the same words.

    >>> which_vary(np.array([[0, 5], [1, 5]]))
    (array([ True, False]), 'factors [1] have a single value')
    """
    varied = np.asarray((factors != factors[:1]).any(0))
    return varied, _left_out(~varied, "have a single value")


def _left_out(bad: Flags, fault: str) -> str | None:
    return f"factors {np.flatnonzero(bad).tolist()} {fault}" if bad.any() else None


def joined(*reasons: str | None) -> str | None:
    """The reasons that there are, in one line; None if there is none.

    >>> joined("factors [1] have a single value", None)
    'factors [1] have a single value'
    """
    return "; ".join(reason for reason in reasons if reason) or None


def split_rows(rows: int, held_out: float, seed: int) -> tuple[Integers, Integers]:
    """A random split of row indices into a part to fit on and a part to score on."""
    if not 0 < held_out < 1:
        raise InputError(f"held_out must lie between 0 and 1, got {held_out}")
    test = min(max(round(rows * held_out), 1), rows - 1)
    order = np.random.default_rng(seed).permutation(rows)
    return order[test:], order[:test]
