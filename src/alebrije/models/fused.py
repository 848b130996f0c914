"""Fused layers: fewer passes over large maps on a GPU, where reading and writing them takes most of the time.

For a matrix product and a ReLU a compiler emits two kernels, and up to five for their gradients; here they take one or
two. Without autocast on CUDA, and for layers with groups, dilation, other padding than zeros or no bias, these
functions call the plain layers. Second derivatives raise an error.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from alebrije.kernels import HAS_TRITON
from alebrije.models.convolutions import convolved

PROGRAMS = 528  # programs that share the rows in the backward pass: four per multiprocessor of an H200
MAX_ITERATIONS = 512  # of a program: tensor cores truncate sums, which shrank them by 1e-4 in 2,000 iterations
ROWS_PER_PART = 128  # rows whose gradients one program sums
MAX_CONTRIBUTIONS = 64  # contributions of a pixel to its neighbours: 3x3 times seven channels, or 64 of a 1x1 layer


def in_autocast(inputs: Tensor) -> bool:
    """Whether the inputs are on CUDA under autocast."""
    return inputs.is_cuda and torch.is_autocast_enabled("cuda")


def rectified_layers(layers: nn.Sequential, inputs: Tensor) -> Tensor:
    """layers(inputs), with each ReLU fused into the linear layer or convolution before it."""
    if not in_autocast(inputs):
        return layers(inputs)  # type: ignore[no-any-return]
    merged = False
    for layer, following in zip_longest(layers, list(layers)[1:]):
        if merged:  # a ReLU that was fused into the layer before it
            merged = False
            continue
        merged = isinstance(following, nn.ReLU) and is_plain(layer)
        if not merged:
            inputs = layer(inputs)
        elif isinstance(layer, nn.Linear):
            inputs = rectified(layer, inputs)
        else:
            inputs = rectified_maps(layer, inputs)  # type: ignore[arg-type]
    return inputs


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer can be fused: linear with a bias, or a square convolution without groups or dilation."""
    if isinstance(layer, nn.Linear):
        return layer.bias is not None
    if not isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) or layer.bias is None:
        return False
    zeros = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    square = all(len(set(pair)) == 1 for pair in (layer.kernel_size, layer.stride, layer.padding, layer.output_padding))
    return zeros and square and layer.groups == 1 and layer.dilation == (1, 1)


def rectified(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """relu(layer(inputs)) under autocast on CUDA, with the ReLU in the epilogue of the matrix product."""
    return _on_rows(LinearReLU, inputs, layer.weight, layer.bias)


def _on_rows(function: type[torch.autograd.Function], inputs: Tensor, *weights: Tensor) -> Tensor:
    """Apply a function to inputs [..., C] as rows, in the dtype of autocast."""
    dtype = torch.get_autocast_dtype("cuda")
    rows = inputs.to(dtype).flatten(0, -2)
    outputs: Tensor = function.apply(rows, *(weight.to(dtype) for weight in weights))  # type: ignore[no-untyped-call]
    return outputs.view(*inputs.shape[:-1], outputs.shape[-1])


class LinearReLU(torch.autograd.Function):
    """A linear layer and a ReLU, on rows."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """relu(inputs @ weight.T + bias)."""
        outputs = torch._addmm_activation(bias, inputs, weight.T)
        ctx.save_for_backward(inputs, weight, outputs)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of inputs, weight and bias."""
        inputs, weight, outputs = ctx.saved_tensors
        grad, total = relu_backward(grads[0], outputs)
        return grad @ weight, grad.T @ inputs, total


def fed_forward(layers: nn.Sequential, inputs: Tensor) -> Tensor:
    """Two linear layers with a ReLU between them."""
    if not in_autocast(inputs):
        return nn.Sequential.forward(layers, inputs)  # type: ignore[no-any-return, no-untyped-call]
    wide, _, narrow = layers
    weights: Any = (wide.weight, wide.bias, narrow.weight, narrow.bias)
    return _on_rows(FeedForwardReLU, inputs, *weights)


class FeedForwardReLU(torch.autograd.Function):
    """Two linear layers with a ReLU between them, on rows."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, wide: Tensor, bias: Tensor, narrow: Tensor, offset: Tensor) -> Tensor:
        """relu(inputs @ wide.T + bias) @ narrow.T + offset."""
        hidden = torch._addmm_activation(bias, inputs, wide.T)
        ctx.save_for_backward(inputs, wide, narrow, hidden)
        return torch.addmm(offset, hidden, narrow.T)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """The gradients of inputs, wide, bias, narrow and offset."""
        (grad,), (inputs, wide, narrow, hidden) = grads, ctx.saved_tensors
        if HAS_TRITON and grad.is_cuda:
            hidden_grad, totals = _matmul_relu_backward(grad.contiguous(), narrow.contiguous(), hidden)
            total = totals.sum(0).to(grad.dtype)
        else:
            hidden_grad, total = relu_backward(grad @ narrow, hidden)
        return hidden_grad @ wide, hidden_grad.T @ inputs, total, grad.T @ hidden, grad.sum(0)


@torch.library.custom_op("alebrije::gated_product", mutates_args=(), device_types="cuda")
def _matmul_relu_backward(grads: Tensor, weight: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before a ReLU with output `outputs` and a matrix product, and its sums over parts of the rows."""
    from alebrije.models import kernels

    (rows, inner), channels, wide = grads.shape, outputs.shape[1], 128
    out, totals = torch.empty_like(outputs), _empty_totals(outputs)
    with torch.cuda.device(grads.device):
        kernels.matmul_relu_backward[(-(-channels // wide) * len(totals),)](
            *(grads, weight, outputs, out, totals, rows, inner, channels, ROWS_PER_PART, wide, 64), num_warps=4
        )
    return out, totals


def _empty_totals(outputs: Tensor) -> Tensor:
    return outputs.new_empty(-(-len(outputs) // ROWS_PER_PART), outputs.shape[1], dtype=torch.float32)


@_matmul_relu_backward.register_fake
def _(grads: Tensor, weight: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(outputs), _empty_totals(outputs)


def competing_attention(queries: Tensor, inputs: Tensor, epsilon: float, on_sum: bool) -> tuple[Tensor, Tensor]:
    """Attention in which slots compete for inputs that are both keys and values, under autocast on CUDA.

    Queries [B, K, C] and inputs [B, N, C] to means [B, K, C] and attention [B, K, N]; `epsilon` is added to the
    attention or, with `on_sum`, to its sum over the inputs.
    """
    dtype = torch.get_autocast_dtype("cuda")
    outputs: tuple[Tensor, Tensor] = CompetingAttention.apply(queries.to(dtype), inputs.to(dtype), epsilon, on_sum)  # type: ignore[no-untyped-call]
    return outputs


class CompetingAttention(torch.autograd.Function):
    """Attention normalised over slots, and the weighted mean of the inputs for each slot.

    The gradient of the inputs, the largest tensor, takes one matrix product instead of two and a sum.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, inputs: Tensor, epsilon: float, on_sum: bool) -> tuple[Tensor, Tensor]:
        """The means [B, K, C] and the attention [B, K, N]."""
        attention = torch.softmax(queries @ inputs.mT, 1, dtype=torch.promote_types(queries.dtype, torch.float32))
        shares = attention if on_sum else attention + epsilon
        total = shares.sum(-1, keepdim=True) + (epsilon if on_sum else 0.0)
        weights = (shares / total).to(inputs.dtype)
        ctx.save_for_backward(queries, inputs, attention, weights, total)
        return weights @ inputs, attention

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of queries and inputs."""
        (grad_means, grad_attention), (queries, inputs, attention, weights, total) = grads, ctx.saved_tensors
        grad_weights = (grad_means @ inputs.mT).to(attention.dtype)
        grad_shares = (grad_weights - (grad_weights * weights).sum(-1, keepdim=True)) / total + grad_attention
        grad_logits = (attention * (grad_shares - (attention * grad_shares).sum(1, keepdim=True))).to(inputs.dtype)
        grad_inputs = torch.cat((weights, grad_logits), 1).mT @ torch.cat((grad_means, queries), 1)
        return grad_logits @ inputs, grad_inputs, None, None


def rectified_maps(layer: nn.Conv2d | nn.ConvTranspose2d, maps: Tensor) -> Tensor:
    """relu(layer(maps)) under autocast on CUDA; one pass computes the gradients of the bias and the ReLU.

    The layer must be plain: see `is_plain`.
    """
    dtype = torch.get_autocast_dtype("cuda")
    assert layer.bias is not None
    if isinstance(layer, nn.Conv2d) and layer.in_channels < 8:
        weight, bias = layer.weight.to(dtype), layer.bias.to(dtype)
        return rectified_patches(maps.to(dtype), weight, bias, layer.stride[0], int(layer.padding[0]))
    outputs: Tensor = BiasReLU.apply(convolved(layer, maps), layer.bias.to(dtype))  # type: ignore[no-untyped-call]
    return outputs.permute(0, 3, 1, 2)


class BiasReLU(torch.autograd.Function):
    """A bias and a ReLU, on maps [..., C]."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, bias: Tensor) -> Tensor:
        """relu(maps + bias)."""
        outputs = F.relu(maps + bias)
        ctx.save_for_backward(outputs)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of maps and bias."""
        return relu_backward(grads[0], *ctx.saved_tensors)


def rectified_patches(maps: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """A convolution and a ReLU as one matrix product, for maps with few channels.

    Convolution kernels process eight channels at a time, and an image has only three.
    """
    kernels = weight.permute(0, 2, 3, 1).flatten(1)
    kernels = F.pad(kernels, (0, -kernels.shape[-1] % 8))
    cut = _patches if HAS_TRITON and maps.is_cuda and not maps.requires_grad else cut_patches
    patches = cut(maps, weight.shape[-1], stride, padding)
    outputs: Tensor = LinearReLU.apply(patches.flatten(0, 2), kernels, bias)  # type: ignore[no-untyped-call]
    return outputs.view(*patches.shape[:3], len(weight)).permute(0, 3, 1, 2)


def cut_patches(maps: Tensor, side: int, stride: int, padding: int) -> Tensor:
    """The patches of maps [B, C, H, W] that a convolution covers, channels last, zero-padded to a multiple of 8.

    >>> cut_patches(torch.zeros(2, 3, 16, 16), 5, 2, 2).shape
    torch.Size([2, 8, 8, 80])
    """
    windows = F.pad(maps, (padding,) * 4).unfold(2, side, stride).unfold(3, side, stride)  # [B, C, H, W, side, side]
    patches = windows.permute(0, 2, 3, 4, 5, 1).flatten(3)
    return F.pad(patches, (0, -patches.shape[-1] % 8))


@torch.library.custom_op("alebrije::patches", mutates_args=(), device_types="cuda")
def _patches(maps: Tensor, side: int, stride: int, padding: int) -> Tensor:
    from alebrije.models import kernels

    maps, out = maps.contiguous(), _empty_patches(maps, side, stride, padding)
    (_, channels, *size), (count, *out_size, values) = maps.shape, out.shape
    rows = count * out_size[0] * out_size[1]
    with torch.cuda.device(maps.device):  # Triton launches on the current device
        kernels.patches[(-(-rows // kernels.FEW),)](
            *(maps, out, rows, *out_size, *size, stride, padding),
            *(channels, side, values, 1 << (values - 1).bit_length(), kernels.FEW),
        )
    return out


def _empty_patches(maps: Tensor, side: int, stride: int, padding: int) -> Tensor:
    count, channels, *size = maps.shape
    out_size = [(length + 2 * padding - side) // stride + 1 for length in size]
    return maps.new_empty(count, *out_size, -(-side * side * channels // 8) * 8)


_patches.register_fake(_empty_patches)


def relu_backward(grads: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient [..., C] before a ReLU with output `outputs`, and its sum over all but the last axis."""
    if HAS_TRITON and grads.is_cuda:
        grad, totals = _relu_backward(grads.contiguous(), outputs.contiguous())
        return grad, totals.sum(0).to(grads.dtype)
    grad = torch.where(outputs <= 0, 0, grads)
    return grad, grad.flatten(0, -2).sum(0)


@torch.library.custom_op("alebrije::gated", mutates_args=(), device_types="cuda")
def _relu_backward(grads: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    from alebrije.models import kernels

    channels, wide = grads.shape[-1], min(128, 1 << (grads.shape[-1] - 1).bit_length())
    out, totals = torch.empty_like(grads), grads.new_empty(PROGRAMS, channels, dtype=torch.float32)
    with torch.cuda.device(grads.device):
        kernels.relu_backward[(PROGRAMS, -(-channels // wide))](
            grads, outputs, out, totals, grads.numel() // channels, channels, wide, 8192 // wide
        )
    return out, totals


@_relu_backward.register_fake
def _(grads: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(grads), grads.new_empty(PROGRAMS, grads.shape[-1], dtype=torch.float32)


def decoded(layers: nn.Sequential, maps: Tensor) -> Tensor:
    """layers(maps), which end with a convolution, a ReLU, and a 1x1 or 3x3 convolution to few channels.

    In the decoder of Slot Attention the map between the two convolutions is the largest tensor, 1.5 GB for eleven slots
    at 128 pixels; it is read once in each direction.
    """
    bfloat16 = in_autocast(maps) and torch.get_autocast_dtype("cuda") == torch.bfloat16
    if not (HAS_TRITON and bfloat16 and can_fuse_decoder(layers)):
        return rectified_layers(layers, maps)
    maps = rectified_layers(layers[:-3], maps)  # type: ignore[arg-type]
    hidden: Any = layers[-3]
    last: Any = layers[-1]
    images: Tensor = _relu_conv(convolved(hidden, maps), hidden.bias.float(), last.weight.float(), last.bias.float())
    return images.permute(0, 3, 1, 2)


def can_fuse_decoder(layers: nn.Sequential) -> bool:
    """Whether `decoded` can fuse the last three layers."""
    if len(layers) < 3 or not isinstance(layers[-2], nn.ReLU) or not all(is_plain(layers[i]) for i in (-3, -1)):
        return False
    hidden, last = layers[-3], layers[-1]
    if isinstance(hidden, nn.Linear) or not isinstance(last, nn.Conv2d):
        return False
    side = last.kernel_size[0]
    keeps_size = side in (1, 3) and last.padding[0] == side // 2 and last.stride[0] == 1
    return keeps_size and last.out_channels * side**2 <= MAX_CONTRIBUTIONS and hidden.out_channels in (16, 32, 64, 128)


@torch.library.custom_op("alebrije::rectified_sums", mutates_args=(), device_types="cuda")
def _relu_conv(maps: Tensor, bias: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    """The convolution of relu(maps + bias) with weight [S, C, K, K], plus offset: maps [B, H, W, C] to [B, H, W, S].

    One matrix product computes the contributions of each pixel to its neighbours; a second kernel sums them.
    """
    from alebrije.models import kernels

    (count, channels, side, _), rows = weight.shape, maps.numel() // weight.shape[1]
    out, weight_rows = maps.new_empty(*maps.shape[:-1], count), _rows_by_offset(weight)
    # Contributions may cancel, so they stay in float32 until they are summed.
    contributions = out if side == 1 else maps.new_empty(rows, len(weight_rows), dtype=torch.float32)
    with torch.cuda.device(maps.device):
        kernels.forward[(-(-rows // kernels.ROWS),)](
            *(maps, bias, weight_rows, offset if side == 1 else None, contributions, rows, channels, len(weight_rows)),
            *(kernels.ROWS, _columns(weight_rows)),
        )
        if side > 1:
            kernels.gather[(-(-rows // kernels.MANY),)](
                *(contributions, offset, out, rows, *maps.shape[1:3]),
                *(count, side, kernels.MANY, 1 << (count - 1).bit_length()),
            )
    return out


def _rows_by_offset(weight: Tensor) -> Tensor:
    """Weights [S, C, K, K] as rows [K * K * S, C]: the contributions of a pixel to each neighbour."""
    return weight.permute(2, 3, 0, 1).flatten(0, 2).contiguous()


def _columns(weight_rows: Tensor) -> int:
    """Columns that a kernel needs for these rows: 16 is the smallest side of a matrix product."""
    assert len(weight_rows) <= MAX_CONTRIBUTIONS
    return 16 if len(weight_rows) <= 16 else MAX_CONTRIBUTIONS


@_relu_conv.register_fake
def _(maps: Tensor, bias: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    return maps.new_empty(*maps.shape[:-1], len(weight))


@torch.library.custom_op("alebrije::rectified_sums_backward", mutates_args=(), device_types="cuda")
def _relu_conv_backward(grads: Tensor, maps: Tensor, bias: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of maps, bias and weight."""
    from alebrije.models import kernels

    (count, channels, side, _), rows = weight.shape, maps.numel() // weight.shape[1]
    weight_rows, out = _rows_by_offset(weight), torch.empty_like(maps)
    columns, programs = _columns(weight_rows), max(PROGRAMS, -(-rows // (kernels.FEW * MAX_ITERATIONS)))
    grad_weight, grad_bias = (weight.new_empty(programs, *shape) for shape in ((columns, channels), (channels,)))
    with torch.cuda.device(maps.device):
        kernels.backward[(programs,)](
            *(grads, maps, bias, weight_rows, out, grad_weight, grad_bias, rows, *maps.shape[1:3]),
            *(channels, count, side, kernels.FEW, columns),
        )
    by_offset = grad_weight.sum(0)[: len(weight_rows)].view(side, side, count, channels)
    return out, grad_bias.sum(0), by_offset.permute(2, 3, 0, 1).contiguous()


@_relu_conv_backward.register_fake
def _(grads: Tensor, maps: Tensor, bias: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(maps), torch.empty_like(bias), weight.new_empty(weight.shape)


def _save_inputs(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    maps, bias, weight, _ = inputs
    ctx.save_for_backward(maps, bias, weight)


def _backward(ctx: Any, grads: Tensor) -> tuple[Tensor, ...]:
    maps, bias, weight = ctx.saved_tensors
    gradients = _relu_conv_backward(grads.contiguous().to(maps.dtype), maps, bias, weight)
    return *gradients, grads.sum((0, 1, 2), dtype=torch.float32)


_relu_conv.register_autograd(_backward, setup_context=_save_inputs)
