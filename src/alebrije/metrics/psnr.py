"""PSNR: peak signal-to-noise ratio of predicted images."""

from __future__ import annotations

import math
from typing import Any

import torch

from alebrije.arrays import ArrayOrTensor
from alebrije.metrics.images import image_metric
from alebrije.metrics.inputs import answer_like
from alebrije.metrics.mse import squared_errors


@image_metric(
    "psnr",
    title="Peak signal-to-noise ratio",
    range=(-math.inf, math.inf),
    cites="Huynh-Thu & Ghanbari 2008",
)
def psnr(target: ArrayOrTensor, predicted: ArrayOrTensor) -> Any:
    """Peak signal-to-noise ratio of each image [B] in decibels, 10 log10(1 / MSE); infinite if perfect.

    >>> import numpy as np
    >>> psnr(np.zeros((1, 3, 2, 2)), np.full((1, 3, 2, 2), 0.1)).round(6)
    array([20.])
    """
    return answer_like(target, 10 * torch.log10(1 / squared_errors(target, predicted, "mean")))
