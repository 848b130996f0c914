"""Half-precision convolutions on a GPU, channels last in memory; with 64 channels they run on pairs of columns.

`fused` fuses them with the layers that follow. Second derivatives raise an error.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

ConvSettings = tuple[bool, list[int], list[int], list[int]]  # transposed, stride, padding, output padding


def convolved(layer: nn.Conv2d | nn.ConvTranspose2d, maps: Tensor) -> Tensor:
    """layer(maps) without bias, under autocast on CUDA: maps [B, C, H, W] to [B, H, W, C]."""
    dtype = torch.get_autocast_dtype("cuda")
    rows, weight = maps.to(dtype).permute(0, 2, 3, 1).contiguous(), layer.weight
    if suits_pairs(layer, maps):
        return (conv_transpose_on_pairs if isinstance(layer, nn.ConvTranspose2d) else conv_on_pairs)(rows, weight)
    transposed = isinstance(layer, nn.ConvTranspose2d)
    settings = transposed, list(layer.stride), list(layer.padding), list(layer.output_padding)
    return Convolution.apply(rows, weight.to(dtype), settings)  # type: ignore[no-any-return, no-untyped-call]


class Convolution(torch.autograd.Function):
    """A convolution of maps [B, H, W, C], transposed or not."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, settings: ConvSettings) -> Tensor:
        """The output maps, without bias."""
        ctx.save_for_backward(maps, weight)
        ctx.settings = settings
        return _convolution(maps, weight, *settings)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of maps and weight."""
        grad, (maps, weight) = grads[0].contiguous(), ctx.saved_tensors
        grad_maps = _gradient(0, grad, maps, weight, *ctx.settings) if ctx.needs_input_grad[0] else None
        grad_weight = _gradient(1, grad, maps, weight, *ctx.settings) if ctx.needs_input_grad[1] else None
        return grad_maps, grad_weight, None


# Convolution kernels are most efficient with 128 channels or more. With 64 channels, two neighbouring columns serve as
# one column of 128 channels, which is what they are in memory. A pair covers six input columns and each of the two uses
# five: a fifth more arithmetic, at 1.3 to 1.7 times the rate on an H200 (benchmarks/convolutions.py).

PAIRS_KEPT: ConvSettings = (False, [1, 1], [2, 1], [0, 0])
PAIRS_OUT: ConvSettings = (True, [2, 1], [2, 1], [1, 0])


def suits_pairs(layer: nn.Conv2d | nn.ConvTranspose2d, maps: Tensor) -> bool:
    """Whether a layer is faster on pairs: 5x5 kernels and 64 channels, and maps keep or double their size."""
    if layer.kernel_size != (5, 5) or layer.padding != (2, 2) or not layer.in_channels == layer.out_channels == 64:
        return False
    if isinstance(layer, nn.ConvTranspose2d):
        return layer.stride == (2, 2) and layer.output_padding == (1, 1)
    return layer.stride == (1, 1) and maps.shape[-1] % 2 == 0


def paired(maps: Tensor) -> Tensor:
    """Maps [B, H, W, C] as [B, H, W / 2, 2 C]."""
    return maps.view(*maps.shape[:2], maps.shape[2] // 2, maps.shape[3] * 2)


def unpaired(maps: Tensor) -> Tensor:
    """The inverse of `paired`."""
    return maps.view(*maps.shape[:2], maps.shape[2] * 2, maps.shape[3] // 2)


def conv_on_pairs(maps: Tensor, weight: Tensor) -> Tensor:
    """Convolve maps [B, H, W, C] with kernels [O, C, 5, 5] and padding 2."""
    pairs = paired_kernels(weight).to(maps.dtype)
    return unpaired(Convolution.apply(paired(maps), pairs, PAIRS_KEPT))  # type: ignore[no-untyped-call]


def paired_kernels(weight: Tensor) -> Tensor:
    """Kernels [O, I, 5, 5] of a convolution as equivalent kernels [2 O, 2 I, 5, 3] on pairs of columns."""
    left, right = F.pad(weight, (0, 1)), F.pad(weight, (1, 0))  # each output column uses five of the six
    both = torch.stack((left, right)).view(2, *weight.shape[:3], 3, 2)
    return _channels_last(both.permute(0, 1, 5, 2, 3, 4).flatten(0, 1).flatten(1, 2))


def conv_transpose_on_pairs(maps: Tensor, weight: Tensor) -> Tensor:
    """Transposed convolution of maps [B, H, W, C] with kernels [C, O, 5, 5] and stride 2, to twice the size."""
    pairs = transposed_pairs(weight).to(maps.dtype)
    return TransposedPairs.apply(maps, weight.detach().to(maps.dtype), pairs)  # type: ignore[no-any-return, no-untyped-call]


def transposed_pairs(weight: Tensor) -> Tensor:
    """Kernels [I, O, 5, 5] of a transposed convolution with stride 2 as kernels [I, 2 O, 5, 3] that output pairs."""
    both = F.pad(weight, (0, 1)).view(*weight.shape[:3], 3, 2)
    return _channels_last(both.permute(0, 4, 1, 2, 3).flatten(1, 2))


class TransposedPairs(torch.autograd.Function):
    """A transposed convolution with stride 2 that outputs pairs of columns.

    The gradient of its maps does not use pairs: they have 64 channels either way, and pairs would be slower.
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, pairs: Tensor) -> Tensor:
        """The output maps, without bias; weight and pairs are the same kernels."""
        ctx.save_for_backward(maps, weight, pairs)
        return unpaired(_convolution(maps, pairs, *PAIRS_OUT))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of maps and pairs."""
        grad, (maps, weight, pairs) = grads[0].contiguous(), ctx.saved_tensors
        grad_maps = _convolution(grad, weight, False, [2, 2], [2, 2], [0, 0]) if ctx.needs_input_grad[0] else None
        grad_pairs = _gradient(1, paired(grad), maps, pairs, *PAIRS_OUT) if ctx.needs_input_grad[2] else None
        return grad_maps, None, grad_pairs


# Custom operators fix the memory layout of maps; otherwise the compiler transposes gigabytes of them.


@torch.library.custom_op("alebrije::convolution", mutates_args=())
def _convolution(
    maps: Tensor, weight: Tensor, transposed: bool, stride: list[int], padding: list[int], output_padding: list[int]
) -> Tensor:
    options = stride, padding, [1, 1], transposed, output_padding, 1
    outputs = torch.convolution(maps.permute(0, 3, 1, 2), _channels_last(weight), None, *options)
    return outputs.permute(0, 2, 3, 1).contiguous()


@_convolution.register_fake
def _(maps: Tensor, weight: Tensor, transposed: bool, stride: Any, padding: Any, output_padding: Any) -> Tensor:
    options = stride, padding, [1, 1], transposed, output_padding, 1
    return maps.new_empty(torch.convolution(maps.permute(0, 3, 1, 2), weight, None, *options).permute(0, 2, 3, 1).shape)


@torch.library.custom_op("alebrije::convolution_gradient", mutates_args=())
def _gradient(
    which: int, grads: Tensor, maps: Tensor, weight: Tensor, transposed: bool, stride: list[int], padding: list[int],
    output_padding: list[int],
) -> Tensor:  # fmt: skip
    """The gradient of maps (0) or of weight (1)."""
    tensors = grads.permute(0, 3, 1, 2), maps.permute(0, 3, 1, 2), _channels_last(weight), None
    options = stride, padding, [1, 1], transposed, output_padding, 1, [which == 0, which == 1, False]
    grad: Tensor = torch.ops.aten.convolution_backward(*tensors, *options)[which]
    return _channels_last(grad) if which else grad.permute(0, 2, 3, 1).contiguous()


@_gradient.register_fake
def _(which: int, grads: Tensor, maps: Tensor, weight: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(weight, memory_format=torch.channels_last) if which else torch.empty_like(maps)


def _channels_last(weight: Tensor) -> Tensor:
    return weight.contiguous(memory_format=torch.channels_last)
