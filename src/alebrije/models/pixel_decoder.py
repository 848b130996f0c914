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
        wide = widened(maps, self._positions(maps.dtype))
        after = [F.elu(wide, inplace=True).permute(0, 3, 1, 2)]  # in place, so that only the output is kept
        for layer in self.layers:
            after.append(F.elu(layer(after[-1]), inplace=True))
        return self.head(after[-1]), after

    def gradient(self, after: list[Tensor], maps: Tensor) -> Tensor:
        """Return the gradient [N, latents] of the latents, given that of the four maps."""
        grad = input_gradient(maps, self.head.weight)
        for layer, output in zip(reversed(self.layers), reversed(after[1:]), strict=True):
            grad = input_gradient(grad * elu_slope(output), layer.weight)  # type: ignore[arg-type]
        grad = narrowed(grad * elu_slope(after[0]))
        count = self.first.in_channels - 2 - (self.constant is not None)
        return input_gradient(grad, self.first.weight[:, :count]).float().sum((2, 3))

    def _positions(self, dtype: torch.dtype) -> Tensor:
        """What the coordinates add to the first layer [channels, size, size]; bfloat16 would blur neighbours."""
        weight = self.first.weight[:, -2:]
        with torch.autocast(weight.device.type, enabled=False):
            return F.conv2d(coordinates(self.size, weight.device), weight, padding=1)[0].to(dtype)


def coordinates(size: int, device: torch.device) -> Tensor:
    """Rows and columns from -1 to 1 [1, 2, size, size]."""
    line = torch.linspace(-1, 1, size, device=device)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"))[None]


def widened(maps: Tensor, positions: Tensor) -> Tensor:
    """Repeat the middle row and column of maps [N, C, 3, 3], and add positions [C, size, size]: [N, size, size, C]."""
    return _Widened.apply(maps, positions)  # type: ignore[no-any-return, no-untyped-call]


class _Widened(torch.autograd.Function):
    """`widened`, with matrix products as its gradient; that of an index would be added up value by value."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, positions: Tensor) -> Tensor:
        """The wide maps."""
        rows = thirds(positions.shape[-1], maps.device)
        return maps.permute(0, 2, 3, 1)[:, rows[:, None], rows] + positions.permute(1, 2, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the small maps and of the positions."""
        grad = grads[0].contiguous()
        total = grad.new_ones(1, len(grad)) @ grad.flatten(1)
        return narrowed(grad.permute(0, 3, 1, 2)), total.view(grad.shape[1:]).permute(2, 0, 1)


def thirds(size: int, device: torch.device) -> Tensor:
    """Whether each of `size` places is the first (0), between (1) or the last (2)."""
    place = torch.arange(size, device=device)
    return (place > 0).long() + (place == size - 1)


def narrowed(maps: Tensor) -> Tensor:
    """The gradient of repeated rows and columns: inner ones are summed, [N, C, 3, 3].

    It is a matrix product with the nine parts of a map, because that reads the map once.
    """
    rows = thirds(maps.shape[-1], maps.device)
    part = 3 * rows[:, None] + rows  # [size, size]
    parts = part.flatten() == torch.arange(9, device=maps.device)[:, None]  # [9, size * size]
    sums = parts.to(maps.dtype) @ maps.permute(0, 2, 3, 1).flatten(1, 2)  # [N, 9, C]
    return sums.mT.reshape(len(maps), -1, 3, 3)


def input_gradient(grad: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient of the input of a 3x3 convolution with padding 1.

    It is a convolution with turned kernels. On a GPU that is a third faster than torch's transposed convolution, which
    also copies its result to another layout.
    """
    return F.conv2d(grad, weight.flip(2, 3).transpose(0, 1), padding=1)


def elu_slope(output: Tensor) -> Tensor:
    """The derivative of the ELU with this output."""
    return torch.where(output > 0, 1.0, output + 1.0)
