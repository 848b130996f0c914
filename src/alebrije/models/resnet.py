"""ResNet-18 (He et al. 2016) as an encoder of small images: group norms, and no pooling (as in SAVi, Kipf et al. 2022).

The first convolution is 3x3 with stride 1, and only two of the four stages halve the map, so that small objects keep
features of their own.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.errors import InputError
from alebrije.models.checks import check_positive

STRIDES = (1, 2, 2, 1)  # of the four stages
REDUCTION = 4  # of the sides of the map
_GROUPS = 32  # of a group norm, at most


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with group norms, and a shortcut."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False)
        self.first_norm = group_norm(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = group_norm(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, channels, 1, stride, bias=False), group_norm(channels))

    def forward(self, maps: Tensor) -> Tensor:
        """Return maps [B, channels, H / stride, W / stride]."""
        inner = F.relu(self.first_norm(self.first(maps)))
        return F.relu(self.second_norm(self.second(inner)) + self.shortcut(maps))


class ResNet18(nn.Sequential):
    """Maps [B, inputs, H, W] to [B, 8 * width, H / 4, W / 4].

    >>> import torch
    >>> ResNet18(3, width=8)(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 64, 8, 8])
    """

    def __init__(self, inputs: int, width: int = 64) -> None:
        check_positive(inputs=inputs, width=width)
        if width % 8:
            raise InputError(f"the width of a ResNet must be a multiple of 8, not {width}")
        layers: list[nn.Module] = [nn.Conv2d(inputs, width, 3, padding=1, bias=False), group_norm(width), nn.ReLU()]
        before = width
        for stage, stride in enumerate(STRIDES):
            channels = width * 2**stage
            layers += [BasicBlock(before, channels, stride), BasicBlock(channels, channels, 1)]
            before = channels
        super().__init__(*layers)
        self.channels = before
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def group_norm(channels: int) -> nn.GroupNorm:
    """A group norm with 32 groups, or fewer if a group had less than four channels."""
    return nn.GroupNorm(min(_GROUPS, max(1, channels // 4)), channels)
