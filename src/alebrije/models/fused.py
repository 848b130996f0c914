"""Layers that a GPU spends its time reading and writing, in fewer passes over their maps.

A compiler makes two kernels of a ReLU beside a product of matrices, and up to five of their gradients; here they are
one or two. Elsewhere than under autocast on CUDA, the same functions are the plain layers.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PROGRAMS = 1056  # that share the rows in the backward pass: eight for each processor of an H200
HAS_TRITON = find_spec("triton") is not None


def rectified(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """relu(layer(inputs)), the ReLU taken where the product of matrices writes its result."""
    if not (inputs.is_cuda and torch.is_autocast_enabled("cuda")):
        return F.relu(layer(inputs))
    low = torch.get_autocast_dtype("cuda")
    rows = inputs.to(low).flatten(0, -2)
    found: Tensor = LinearReLU.apply(rows, layer.weight.to(low), layer.bias.to(low))  # type: ignore[no-untyped-call]
    return found.view(*inputs.shape[:-1], -1)


class LinearReLU(torch.autograd.Function):
    """A linear layer and a ReLU, on rows."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """relu(inputs @ weight.T + bias)."""
        found = torch._addmm_activation(bias, inputs, weight.T)
        ctx.save_for_backward(inputs, weight, found)
        return found

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of inputs, weight and bias."""
        inputs, weight, found = ctx.saved_tensors
        slope = torch.where(found <= 0, 0, slopes[0])
        return slope @ weight, slope.T @ inputs, slope.sum(0)


def sums_of_rectified(convolution: nn.Conv2d | nn.ConvTranspose2d, sums: nn.Conv2d, maps: Tensor) -> Tensor:
    """sums(relu(convolution(maps))), where `sums` is a 1x1 convolution to few channels.

    In the decoder of Slot Attention the map between the two is the largest there is, 1.5 GB for eleven slots at 128
    pixels: it is read once in each direction.
    """
    low = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
    few = sums.out_channels <= 16 and convolution.out_channels in (16, 32, 64, 128)
    if not (HAS_TRITON and maps.is_cuda and low and few):
        lit = F.relu(convolution(maps))
        return F.linear(lit.permute(0, 2, 3, 1), sums.weight.flatten(1), sums.bias).permute(0, 3, 1, 2)
    raw = _without_bias(convolution, maps).to(torch.bfloat16).permute(0, 2, 3, 1).contiguous()
    assert convolution.bias is not None
    assert sums.bias is not None
    drawn: Tensor = _sums(raw, convolution.bias.float(), sums.weight.flatten(1).float(), sums.bias.float())
    return drawn.permute(0, 3, 1, 2)


def _without_bias(layer: nn.Conv2d | nn.ConvTranspose2d, maps: Tensor) -> Tensor:
    how: dict[str, Any] = {"stride": layer.stride, "padding": layer.padding}
    if isinstance(layer, nn.ConvTranspose2d):
        return F.conv_transpose2d(maps, layer.weight, output_padding=layer.output_padding, **how)
    return F.conv2d(maps, layer.weight, **how)


@torch.library.custom_op("alebrije::rectified_sums", mutates_args=(), device_types="cuda")
def _sums(maps: Tensor, bias: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    """relu(maps + bias) @ weight.T + offset: maps [..., C] to [..., S]."""
    from alebrije.models import kernels

    (count, channels), rows = weight.shape, maps.numel() // weight.shape[1]
    out = maps.new_empty(*maps.shape[:-1], count)
    grid = (-(-rows // kernels.ROWS),)
    kernels.forward[grid](
        maps, bias, weight.contiguous(), offset, out, rows, channels, count, kernels.ROWS, kernels.WIDTH
    )
    return out


@_sums.register_fake
def _(maps: Tensor, bias: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    return maps.new_empty(*maps.shape[:-1], len(weight))


@torch.library.custom_op("alebrije::rectified_sums_backward", mutates_args=(), device_types="cuda")
def _slopes(slopes: Tensor, maps: Tensor, bias: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of maps, bias, weight and offset."""
    from alebrije.models import kernels

    (count, channels), rows = weight.shape, maps.numel() // weight.shape[1]
    out, wide = torch.empty_like(maps), kernels.WIDTH
    of_weight, of_bias, of_offset = (
        weight.new_empty(PROGRAMS, *shape) for shape in ((wide, channels), (channels,), (wide,))
    )
    kernels.backward[(PROGRAMS,)](
        *(slopes, maps, bias, weight.contiguous(), out, of_weight, of_bias, of_offset),
        *(rows, channels, count, kernels.ROWS, wide),
    )
    return out, of_bias.sum(0), of_weight.sum(0)[:count], of_offset.sum(0)[:count]


@_slopes.register_fake
def _(slopes: Tensor, maps: Tensor, bias: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.empty_like(maps), torch.empty_like(bias), torch.empty_like(weight), weight.new_empty(len(weight))


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    maps, bias, weight, _ = inputs
    ctx.save_for_backward(maps, bias, weight)


def _back(ctx: Any, slopes: Tensor) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = _slopes(slopes.contiguous(), *ctx.saved_tensors)
    return found


_sums.register_autograd(_back, setup_context=_keep)
