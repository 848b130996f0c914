"""Optical flow as colours: the hue is the direction, the saturation the speed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FULL = 0.02  # of the diagonal: flow of this length has full saturation


def flow_as_rgb(flow: Tensor) -> Tensor:
    """Colours uint8 [..., 3, H, W] of flow [..., 2, H, W], x and y in pixels: white where nothing moves, as in SAVi.

    >>> flow_as_rgb(torch.tensor([0.0, 0.0]).view(2, 1, 1)).flatten().tolist()
    [255, 255, 255]
    >>> flow_as_rgb(torch.tensor([-1.0, 0.0]).view(2, 1, 1)).flatten().tolist()  # full saturation, hue 1: red
    [255, 0, 0]
    """
    x, y = flow.unbind(-3)
    hue = (torch.atan2(y, x) / math.pi + 1) / 2
    saturation = (torch.hypot(x, y) / (FULL * math.hypot(*flow.shape[-2:]))).clamp(max=1)
    sixth = hue[..., None, :, :] * 6 + hue.new_tensor([5.0, 3.0, 1.0])[:, None, None]
    wheel = torch.minimum(sixth % 6, 4 - sixth % 6).clamp(0, 1)  # how much of each primary is missing
    return ((1 - saturation[..., None, :, :] * wheel) * 255).round().to(torch.uint8)
