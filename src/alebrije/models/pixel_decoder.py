"""IODINE's decoder, which copies a latent vector to every pixel, and its gradient in closed form."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class PixelDecoder(nn.Module):
    """Decodes latents [N, latents] to four maps [N, 4, size, size]: a mask logit and an image.

    The latents are copied to every pixel, beside the pixel's coordinates from -1 to 1. Four 3x3 convolutions with ELU
    and one without follow, all at full size. `constant` adds one more input with that value.

    Away from the border, the first convolution sees the same latents everywhere. So it runs on 3 x 3 pixels, and its
    middle row and column are repeated; only the coordinates need the full size.
    """

    def __init__(self, latents: int, size: int, channels: int, constant: float | None = None) -> None:
        super().__init__()
        self.size, self.constant = size, constant
        inputs = latents + (constant is not None)
        self.first = nn.Conv2d(inputs + 2, channels, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(3))
        self.head = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, latents: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the four maps, and the maps after each ELU, which `gradient` needs."""
        if self.constant is not None:
            latents = torch.cat((latents, latents.new_full((len(latents), 1), self.constant)), 1)
        small = latents[:, :, None, None].expand(-1, -1, 3, 3)
        maps = F.conv2d(small, self.first.weight[:, :-2], self.first.bias, padding=1)
        maps = F.elu(widened(maps, self.size) + self._positions(maps.dtype))
        after = [maps]
        for layer in self.layers:
            after.append(F.elu(layer(after[-1])))
        return self.head(after[-1]), after

    def gradient(self, after: list[Tensor], maps: Tensor) -> Tensor:
        """Return the gradient [N, latents] of the latents, given that of the four maps."""
        grad = F.conv_transpose2d(maps, self.head.weight, padding=1)
        for layer, output in zip(reversed(self.layers), reversed(after[1:]), strict=True):
            grad = F.conv_transpose2d(grad * elu_slope(output), layer.weight, padding=1)  # type: ignore[arg-type]
        grad = narrowed(grad * elu_slope(after[0]))
        count = self.first.in_channels - 2 - (self.constant is not None)
        return F.conv_transpose2d(grad, self.first.weight[:, :count], padding=1).float().sum((2, 3))

    def _positions(self, dtype: torch.dtype) -> Tensor:
        """What the coordinates add to the first layer [1, channels, size, size]; bfloat16 would blur neighbours."""
        weight = self.first.weight[:, -2:]
        with torch.autocast(weight.device.type, enabled=False):
            return F.conv2d(coordinates(self.size, weight.device), weight, padding=1).to(dtype)


def coordinates(size: int, device: torch.device) -> Tensor:
    """Rows and columns from -1 to 1 [1, 2, size, size]."""
    line = torch.linspace(-1, 1, size, device=device)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"))[None]


def widened(maps: Tensor, size: int) -> Tensor:
    """Repeat the middle row and column of maps [N, C, 3, 3] to [N, C, size, size]."""
    return _Widened.apply(maps, size)  # type: ignore[no-any-return, no-untyped-call]


class _Widened(torch.autograd.Function):
    """`widened`, with sums as its gradient; that of an index would be added up value by value."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, size: int) -> Tensor:
        """The wide maps."""
        rows = thirds(size, maps.device)
        return maps[:, :, rows[:, None], rows]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The gradient of the small maps."""
        return narrowed(grads[0]), None


def thirds(size: int, device: torch.device) -> Tensor:
    """Whether each of `size` places is the first (0), between (1) or the last (2)."""
    place = torch.arange(size, device=device)
    return (place > 0).long() + (place == size - 1)


def narrowed(maps: Tensor) -> Tensor:
    """The gradient of `widened`: inner rows and columns are summed, [N, C, 3, 3].

    It is a matrix product with the nine parts of a map, because that reads the map once.
    """
    rows = thirds(maps.shape[-1], maps.device)
    part = 3 * rows[:, None] + rows  # [size, size]
    parts = part.flatten() == torch.arange(9, device=maps.device)[:, None]  # [9, size * size]
    sums = parts.to(maps.dtype) @ maps.permute(0, 2, 3, 1).flatten(1, 2)  # [N, 9, C]
    return sums.mT.reshape(len(maps), -1, 3, 3)


def elu_slope(output: Tensor) -> Tensor:
    """The derivative of the ELU with this output."""
    return torch.where(output > 0, 1.0, output + 1.0)
