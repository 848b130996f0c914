"""Convolutions on a GPU in half precision, with channels last in memory; those of 64 channels on pairs of columns.

`fused` takes them together with what follows. Second derivatives are refused.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

How = tuple[bool, list[int], list[int], list[int]]  # transposed, stride, padding, output padding


def convolved(layer: nn.Conv2d | nn.ConvTranspose2d, maps: Tensor) -> Tensor:
    """layer(maps) without its bias under autocast on CUDA: maps [B, C, H, W] to [B, H, W, C]."""
    low = torch.get_autocast_dtype("cuda")
    rows, weight = maps.to(low).permute(0, 2, 3, 1).contiguous(), layer.weight
    if does_pair(layer, maps):
        return (doubled_by_pairs if isinstance(layer, nn.ConvTranspose2d) else kept_by_pairs)(rows, weight)
    transposed = isinstance(layer, nn.ConvTranspose2d)
    how = transposed, list(layer.stride), list(layer.padding), list(layer.output_padding)
    return Convolution.apply(rows, weight.to(low), how)  # type: ignore[no-any-return, no-untyped-call]


class Convolution(torch.autograd.Function):
    """A convolution of maps [B, H, W, C], transposed or not."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, how: How) -> Tensor:
        """The maps that the layer gives, without a bias."""
        ctx.save_for_backward(maps, weight)
        ctx.how = how
        return _convolution(maps, weight, *how)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of maps and weight."""
        slope, (maps, weight) = slopes[0].contiguous(), ctx.saved_tensors
        of_maps = _of_maps(slope, maps, weight, *ctx.how) if ctx.needs_input_grad[0] else None
        of_weight = _of_weight(slope, maps, weight, *ctx.how) if ctx.needs_input_grad[1] else None
        return of_maps, of_weight, None


# --- Pairs of columns ---
#
# Kernels for convolutions multiply best with 128 channels or more. Where a layer has 64, two neighbouring columns are
# taken for one of 128 channels, which is what they are in memory. Of the six columns that a pair sees, each of the two
# sees five: a fifth more arithmetic, at 1.3 to 1.7 times the rate on an H200 (benchmarks/convolutions.py).

PAIRS_KEPT: How = (False, [1, 1], [2, 1], [0, 0])
PAIRS_OUT: How = (True, [2, 1], [2, 1], [1, 0])


def does_pair(layer: nn.Conv2d | nn.ConvTranspose2d, maps: Tensor) -> bool:
    """Whether a layer is faster on pairs: one of 5x5 places and 64 channels that keeps or doubles the size of maps."""
    if layer.kernel_size != (5, 5) or layer.padding != (2, 2) or not layer.in_channels == layer.out_channels == 64:
        return False
    if isinstance(layer, nn.ConvTranspose2d):
        return layer.stride == (2, 2) and layer.output_padding == (1, 1)
    return layer.stride == (1, 1) and maps.shape[-1] % 2 == 0


def paired(maps: Tensor) -> Tensor:
    """Maps [B, H, W, C] as [B, H, W / 2, 2 C]."""
    images, high, wide, channels = maps.shape
    return maps.view(images, high, wide // 2, channels * 2)


def parted(maps: Tensor) -> Tensor:
    """The way back from `paired`."""
    images, high, wide, channels = maps.shape
    return maps.view(images, high, wide * 2, channels // 2)


def kept_by_pairs(maps: Tensor, weight: Tensor) -> Tensor:
    """A convolution of maps [B, H, W, C] with kernels [O, C, 5, 5] and padding 2."""
    pairs = paired_kernels(weight).to(maps.dtype)
    return parted(Convolution.apply(paired(maps), pairs, PAIRS_KEPT))  # type: ignore[no-untyped-call]


def paired_kernels(weight: Tensor) -> Tensor:
    """Kernels [O, I, 5, 5] of a convolution as kernels [2 O, 2 I, 5, 3] that do the same to pairs of columns."""
    left, right = F.pad(weight, (0, 1)), F.pad(weight, (1, 0))  # what the two columns see of the six
    both = torch.stack((left, right)).view(2, *weight.shape[:3], 3, 2)
    return _last(both.permute(0, 1, 5, 2, 3, 4).flatten(0, 1).flatten(1, 2))


def doubled_by_pairs(maps: Tensor, weight: Tensor) -> Tensor:
    """A transposed convolution of maps [B, H, W, C] with kernels [C, O, 5, 5], stride 2 and twice the size."""
    pairs = transposed_pairs(weight).to(maps.dtype)
    return TransposedPairs.apply(maps, weight.detach().to(maps.dtype), pairs)  # type: ignore[no-any-return, no-untyped-call]


def transposed_pairs(weight: Tensor) -> Tensor:
    """Kernels [I, O, 5, 5] of a transposed convolution with stride 2 as kernels [I, 2 O, 5, 3] that give pairs."""
    both = F.pad(weight, (0, 1)).view(*weight.shape[:3], 3, 2)
    return _last(both.permute(0, 4, 1, 2, 3).flatten(1, 2))


class TransposedPairs(torch.autograd.Function):
    """A transposed convolution with stride 2 that gives pairs of columns.

    The gradient of its maps is made as ever: they have 64 channels either way, and on pairs it takes longer.
    """

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor, pairs: Tensor) -> Tensor:
        """The maps that the layer gives, without a bias; weight and pairs are the same kernels."""
        ctx.save_for_backward(maps, weight, pairs)
        return parted(_convolution(maps, pairs, *PAIRS_OUT))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of maps and pairs."""
        slope, (maps, weight, pairs) = slopes[0].contiguous(), ctx.saved_tensors
        of_maps = _convolution(slope, weight, False, [2, 2], [2, 2], [0, 0]) if ctx.needs_input_grad[0] else None
        of_pairs = _of_weight(paired(slope), maps, pairs, *PAIRS_OUT) if ctx.needs_input_grad[2] else None
        return of_maps, None, of_pairs


# --- Operators ---
#
# What goes in and out of these fixes the layout of maps: left to itself, a compiler turns gigabytes of them around.


@torch.library.custom_op("alebrije::convolution", mutates_args=())
def _convolution(
    maps: Tensor, weight: Tensor, transposed: bool, stride: list[int], padding: list[int], output_padding: list[int]
) -> Tensor:
    how = stride, padding, [1, 1], transposed, output_padding, 1
    return torch.convolution(maps.permute(0, 3, 1, 2), _last(weight), None, *how).permute(0, 2, 3, 1).contiguous()


@_convolution.register_fake
def _(
    maps: Tensor, weight: Tensor, transposed: bool, stride: list[int], padding: list[int], output_padding: list[int]
) -> Tensor:
    how = stride, padding, [1, 1], transposed, output_padding, 1
    shape = torch.convolution(maps.permute(0, 3, 1, 2), weight, None, *how).permute(0, 2, 3, 1).shape
    return maps.new_empty(shape)


@torch.library.custom_op("alebrije::convolution_maps", mutates_args=())
def _of_maps(
    slopes: Tensor, maps: Tensor, weight: Tensor, transposed: bool, stride: list[int], padding: list[int],
    output_padding: list[int],
) -> Tensor:  # fmt: skip
    return (
        _gradient(0, slopes, maps, weight, (transposed, stride, padding, output_padding))
        .permute(0, 2, 3, 1)
        .contiguous()
    )


@_of_maps.register_fake
def _(slopes: Tensor, maps: Tensor, weight: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(maps)


@torch.library.custom_op("alebrije::convolution_weight", mutates_args=())
def _of_weight(
    slopes: Tensor, maps: Tensor, weight: Tensor, transposed: bool, stride: list[int], padding: list[int],
    output_padding: list[int],
) -> Tensor:  # fmt: skip
    return _last(_gradient(1, slopes, maps, weight, (transposed, stride, padding, output_padding)))


@_of_weight.register_fake
def _(slopes: Tensor, maps: Tensor, weight: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(weight, memory_format=torch.channels_last)


def _gradient(which: int, slopes: Tensor, maps: Tensor, weight: Tensor, how: How) -> Tensor:
    """That of maps (0, with channels first) or of weight (1)."""
    transposed, stride, padding, output_padding = how
    given = slopes.permute(0, 3, 1, 2), maps.permute(0, 3, 1, 2), _last(weight), None
    rest = stride, padding, [1, 1], transposed, output_padding, 1, [which == 0, which == 1, False]
    return torch.ops.aten.convolution_backward(*given, *rest)[which]  # type: ignore[no-any-return]


def _last(weight: Tensor) -> Tensor:
    return weight.contiguous(memory_format=torch.channels_last)
