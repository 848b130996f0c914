"""Names for the kinds of arrays that functions take and return."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
ArrayOrTensor = np.ndarray[Any, Any] | torch.Tensor


def to_numpy(array: ArrayOrTensor) -> Array:
    """The same values as a numpy array on the CPU, detached from any gradient.

    >>> to_numpy(torch.ones(2, dtype=torch.bfloat16)).dtype
    dtype('float32')
    """
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        return np.asarray((array.float() if array.dtype == torch.bfloat16 else array).numpy())
    return np.asarray(array)
