"""MSE: squared error of predicted images."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch

from alebrije.arrays import ArrayOrTensor
from alebrije.errors import InputError
from alebrije.metrics.images import check_image_pair, image_batches, image_metric
from alebrije.metrics.inputs import answer_like

Reduction = Literal["mean", "sum"]


@image_metric(
    "mse",
    title="Mean squared error",
    range=(0.0, math.inf),
    direction="lower",
    cites="Kim et al. 2023, Section 3",
    also={
        "mse-sum": {
            "title": "Squared error, summed over the image",
            "settings": {"reduction": "sum"},
            "cites": "Kim et al. 2023, Table 11",
        }
    },
)
def mean_squared_error(target: ArrayOrTensor, predicted: ArrayOrTensor, reduction: Reduction = "mean") -> Any:
    """Squared error of each image [B] in 0..1, from 0 up.

    ``reduction="mean"`` averages over channels and pixels, ``reduction="sum"`` sums over them. The numbers in Table 11
    of Kim et al. 2023 are sums, although the paper calls them means.

    >>> import numpy as np
    >>> black, white = np.zeros((1, 3, 2, 2), np.uint8), np.full((1, 3, 2, 2), 255, np.uint8)
    >>> mean_squared_error(black, white), mean_squared_error(black, white, reduction="sum")
    (array([1.]), array([12.]))
    """
    if reduction not in ("mean", "sum"):
        raise InputError(f"reduction must be 'mean' or 'sum', got {reduction!r}")
    return answer_like(target, squared_errors(target, predicted, reduction))


def squared_errors(target: ArrayOrTensor, predicted: ArrayOrTensor, reduction: Reduction) -> torch.Tensor:
    """`mean_squared_error` as a tensor [B]."""
    check_image_pair(target, predicted)
    errors = []
    for true, guess in image_batches(target, predicted):
        squares = (true - guess).square().flatten(1)  # [b, C*H*W]
        errors.append(squares.sum(1) if reduction == "sum" else squares.mean(1))
    return torch.cat(errors)
