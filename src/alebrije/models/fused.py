"""Layers that a GPU spends its time reading and writing, in fewer passes over their maps.

A compiler makes two kernels of a ReLU beside a product of matrices, and up to five of their gradients; here they are
one or two. Elsewhere than under autocast on CUDA, the same functions are the plain layers, and so they are for layers
with groups, dilation, padding other than zeros or no bias. Second derivatives through them are refused.
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

PROGRAMS = 528  # that share the rows on the way back: four for each processor of an H200
MOST_TURNS = 512  # of one program: tensor cores cut sums off and do not round them, which shrank them by 1e-4 in 2,000
PART = 128  # rows whose gradients are added up in one program


def is_low(inputs: Tensor) -> bool:
    """Whether this is CUDA under autocast."""
    return inputs.is_cuda and torch.is_autocast_enabled("cuda")


def rectified_layers(layers: nn.Sequential, inputs: Tensor) -> Tensor:
    """layers(inputs), in which a ReLU is taken together with the linear layer or convolution that it follows."""
    if not is_low(inputs):
        return layers(inputs)  # type: ignore[no-any-return]
    merged = False
    for layer, following in zip_longest(layers, list(layers)[1:]):
        if merged:  # a ReLU that was taken with the layer before it
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
    """Whether a layer is one that is written out here: linear, or a convolution with nothing unusual about it."""
    if isinstance(layer, nn.Linear):
        return layer.bias is not None
    if not isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) or layer.bias is None:
        return False
    zeros = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    square = all(len(set(each)) == 1 for each in (layer.kernel_size, layer.stride, layer.padding, layer.output_padding))
    return zeros and square and layer.groups == 1 and layer.dilation == (1, 1)


# --- Products of matrices ---


def rectified(layer: nn.Linear, inputs: Tensor) -> Tensor:
    """relu(layer(inputs)) under autocast on CUDA, the ReLU taken where the product of matrices writes its result."""
    low = torch.get_autocast_dtype("cuda")
    rows = inputs.to(low).flatten(0, -2)
    found: Tensor = LinearReLU.apply(rows, layer.weight.to(low), layer.bias.to(low))  # type: ignore[no-untyped-call]
    return found.view(*inputs.shape[:-1], found.shape[-1])


class LinearReLU(torch.autograd.Function):
    """A linear layer and a ReLU, on rows."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """relu(inputs @ weight.T + bias)."""
        found = torch._addmm_activation(bias, inputs, weight.T)
        ctx.save_for_backward(inputs, weight, found)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of inputs, weight and bias."""
        inputs, weight, found = ctx.saved_tensors
        slope, total = gated(slopes[0], found)
        return slope @ weight, slope.T @ inputs, total


def fed_forward(layers: nn.Sequential, inputs: Tensor) -> Tensor:
    """Two linear layers with a ReLU between them."""
    if not is_low(inputs):
        return nn.Sequential.forward(layers, inputs)  # type: ignore[no-any-return, no-untyped-call]
    low = torch.get_autocast_dtype("cuda")
    rows = inputs.to(low).flatten(0, -2)
    wide, _, narrow = layers
    weights: Any = (wide.weight, wide.bias, narrow.weight, narrow.bias)
    found: Tensor = FeedForwardReLU.apply(rows, *(each.to(low) for each in weights))  # type: ignore[no-untyped-call]
    return found.view(*inputs.shape[:-1], found.shape[-1])


class FeedForwardReLU(torch.autograd.Function):
    """Two linear layers with a ReLU between them, on rows."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, wide: Tensor, bias: Tensor, narrow: Tensor, offset: Tensor) -> Tensor:
        """relu(inputs @ wide.T + bias) @ narrow.T + offset."""
        lit = torch._addmm_activation(bias, inputs, wide.T)
        ctx.save_for_backward(inputs, wide, narrow, lit)
        return torch.addmm(offset, lit, narrow.T)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, ...]:
        """The gradients of inputs, wide, bias, narrow and offset."""
        (slope,), (inputs, wide, narrow, lit) = slopes, ctx.saved_tensors
        if HAS_TRITON and slope.is_cuda:
            before, totals = _gated_product(slope.contiguous(), narrow.contiguous(), lit)
            total = totals.sum(0).to(slope.dtype)
        else:
            before, total = gated(slope @ narrow, lit)
        return before @ wide, before.T @ inputs, total, slope.T @ lit, slope.sum(0)


@torch.library.custom_op("alebrije::gated_product", mutates_args=(), device_types="cuda")
def _gated_product(slopes: Tensor, weight: Tensor, lit: Tensor) -> tuple[Tensor, Tensor]:
    """The slopes before a ReLU that gave `lit` and was followed by a weight, and their sums over parts of the rows."""
    from alebrije.models import kernels

    (rows, inner), channels, wide = slopes.shape, lit.shape[1], 128
    out, totals = torch.empty_like(lit), _room_for_totals(lit)
    with torch.cuda.device(slopes.device):
        kernels.gated_product[(-(-channels // wide) * len(totals),)](
            *(slopes, weight, lit, out, totals, rows, inner, channels, PART, wide, 64), num_warps=4
        )
    return out, totals


def _room_for_totals(lit: Tensor) -> Tensor:
    return lit.new_empty(-(-len(lit) // PART), lit.shape[1], dtype=torch.float32)


@_gated_product.register_fake
def _(slopes: Tensor, weight: Tensor, lit: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(lit), _room_for_totals(lit)


# --- Attention in which slots compete ---


def won(queries: Tensor, inputs: Tensor, epsilon: float, on_sum: bool) -> tuple[Tensor, Tensor]:
    """What slots win of inputs that are keys and values at once, under autocast on CUDA.

    Queries [B, K, C] and inputs [B, N, C] to means [B, K, C] and attention [B, K, N]; `epsilon` is added to the
    attention or to its sum over the inputs.
    """
    low = torch.get_autocast_dtype("cuda")
    found: tuple[Tensor, Tensor] = Contest.apply(queries.to(low), inputs.to(low), epsilon, on_sum)  # type: ignore[no-untyped-call]
    return found


class Contest(torch.autograd.Function):
    """Inputs share their attention out over slots, and each slot takes the weighted mean of what it won.

    The gradient of the inputs, the largest there is, is made by one product instead of two and a sum.
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
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of queries and inputs."""
        (of_means, of_attention), (queries, inputs, attention, weights, total) = slopes, ctx.saved_tensors
        of_weights = (of_means @ inputs.mT).to(attention.dtype)
        of_shares = (of_weights - (of_weights * weights).sum(-1, keepdim=True)) / total + of_attention
        of_logits = (attention * (of_shares - (attention * of_shares).sum(1, keepdim=True))).to(inputs.dtype)
        of_inputs = torch.cat((weights, of_logits), 1).mT @ torch.cat((of_means, queries), 1)
        return of_logits @ inputs, of_inputs, None, None


# --- Convolutions ---


def rectified_maps(layer: nn.Conv2d | nn.ConvTranspose2d, maps: Tensor) -> Tensor:
    """relu(layer(maps)) under autocast on CUDA, the gradient of the bias taken in the same pass as that of the ReLU.

    The layer is plain: see `is_plain`.
    """
    low = torch.get_autocast_dtype("cuda")
    assert layer.bias is not None
    if isinstance(layer, nn.Conv2d) and layer.in_channels < 8:
        weight, bias = layer.weight.to(low), layer.bias.to(low)
        return rectified_patches(maps.to(low), weight, bias, layer.stride[0], int(layer.padding[0]))
    found: Tensor = BiasReLU.apply(convolved(layer, maps), layer.bias.to(low))  # type: ignore[no-untyped-call]
    return found.permute(0, 3, 1, 2)


class BiasReLU(torch.autograd.Function):
    """A bias and a ReLU, on maps [..., C]."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, bias: Tensor) -> Tensor:
        """relu(maps + bias)."""
        found = F.relu(maps + bias)
        ctx.save_for_backward(found)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of maps and bias."""
        return gated(slopes[0], *ctx.saved_tensors)


# --- Convolutions of few channels ---


def rectified_patches(maps: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """A convolution and a ReLU as one product of matrices, for maps of few channels.

    Kernels for convolutions take eight channels at a time, so that of the three of an image most would be wasted.
    """
    kernels = weight.permute(0, 2, 3, 1).flatten(1)
    kernels = F.pad(kernels, (0, -kernels.shape[-1] % 8))
    cut = _patches if HAS_TRITON and maps.is_cuda and not maps.requires_grad else cut_patches
    patches = cut(maps, weight.shape[-1], stride, padding)
    found: Tensor = LinearReLU.apply(patches.flatten(0, 2), kernels, bias)  # type: ignore[no-untyped-call]
    return found.view(*patches.shape[:3], len(weight)).permute(0, 3, 1, 2)


def cut_patches(maps: Tensor, side: int, stride: int, padding: int) -> Tensor:
    """The squares of maps [B, C, H, W] that a convolution sees, channels last, with zeros to a multiple of 8 numbers.

    >>> cut_patches(torch.zeros(2, 3, 16, 16), 5, 2, 2).shape
    torch.Size([2, 8, 8, 80])
    """
    around = F.pad(maps, (padding,) * 4).unfold(2, side, stride).unfold(3, side, stride)  # [B, C, H, W, side, side]
    patches = around.permute(0, 2, 3, 4, 5, 1).flatten(3)
    return F.pad(patches, (0, -patches.shape[-1] % 8))


@torch.library.custom_op("alebrije::patches", mutates_args=(), device_types="cuda")
def _patches(maps: Tensor, side: int, stride: int, padding: int) -> Tensor:
    from alebrije.models import kernels

    maps, out = maps.contiguous(), _room_for_patches(maps, side, stride, padding)
    (_, channels, *size), (count, *places, numbers) = maps.shape, out.shape
    rows = count * places[0] * places[1]
    with torch.cuda.device(maps.device):  # Triton goes by the one in use
        kernels.patches[(-(-rows // kernels.FEW),)](
            *(maps, out, rows, *places, *size, stride, padding),
            *(channels, side, numbers, 1 << (numbers - 1).bit_length(), kernels.FEW),
        )
    return out


def _room_for_patches(maps: Tensor, side: int, stride: int, padding: int) -> Tensor:
    count, channels, *size = maps.shape
    places = [(length + 2 * padding - side) // stride + 1 for length in size]
    return maps.new_empty(count, *places, -(-side * side * channels // 8) * 8)


_patches.register_fake(_room_for_patches)


# --- The gradient of a ReLU ---


def gated(slopes: Tensor, lit: Tensor) -> tuple[Tensor, Tensor]:
    """The slopes [..., C] before a ReLU that gave `lit`, and their sum over all but the last axis."""
    if HAS_TRITON and slopes.is_cuda:
        slope, totals = _gated(slopes.contiguous(), lit.contiguous())
        return slope, totals.sum(0).to(slopes.dtype)
    slope = torch.where(lit <= 0, 0, slopes)
    return slope, slope.flatten(0, -2).sum(0)


@torch.library.custom_op("alebrije::gated", mutates_args=(), device_types="cuda")
def _gated(slopes: Tensor, lit: Tensor) -> tuple[Tensor, Tensor]:
    from alebrije.models import kernels

    channels, wide = slopes.shape[-1], min(128, 1 << (slopes.shape[-1] - 1).bit_length())
    out, totals = torch.empty_like(slopes), slopes.new_empty(PROGRAMS, channels, dtype=torch.float32)
    with torch.cuda.device(slopes.device):
        kernels.gate[(PROGRAMS, -(-channels // wide))](
            slopes, lit, out, totals, slopes.numel() // channels, channels, wide, 8192 // wide
        )
    return out, totals


@_gated.register_fake
def _(slopes: Tensor, lit: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(slopes), slopes.new_empty(PROGRAMS, slopes.shape[-1], dtype=torch.float32)


# --- The end of a decoder ---


MOST_SUMS = 64  # that a place gives to those around it: 3x3 times seven channels, or 64 of a 1x1 layer


def decoded(layers: nn.Sequential, maps: Tensor) -> Tensor:
    """layers(maps), which end with a convolution, its ReLU, and a convolution of 1x1 or 3x3 places to few channels.

    In the decoder of Slot Attention the map between the two is the largest there is, 1.5 GB for eleven slots at 128
    pixels: it is read once in each direction.
    """
    bfloat16 = is_low(maps) and torch.get_autocast_dtype("cuda") == torch.bfloat16
    if not (HAS_TRITON and bfloat16 and can_merge(layers)):
        return rectified_layers(layers, maps)
    maps = rectified_layers(layers[:-3], maps)  # type: ignore[arg-type]
    largest: Any = layers[-3]
    sums: Any = layers[-1]
    drawn: Tensor = _sums(convolved(largest, maps), largest.bias.float(), sums.weight.float(), sums.bias.float())
    return drawn.permute(0, 3, 1, 2)


def can_merge(layers: nn.Sequential) -> bool:
    """Whether the last three layers are as `decoded` takes them together."""
    if len(layers) < 3 or not isinstance(layers[-2], nn.ReLU) or not all(is_plain(layers[at]) for at in (-3, -1)):
        return False
    largest, sums = layers[-3], layers[-1]
    if isinstance(largest, nn.Linear) or not isinstance(sums, nn.Conv2d):
        return False
    side = sums.kernel_size[0]
    keeps_size = side in (1, 3) and sums.padding[0] == side // 2 and sums.stride[0] == 1
    return keeps_size and sums.out_channels * side**2 <= MOST_SUMS and largest.out_channels in (16, 32, 64, 128)


@torch.library.custom_op("alebrije::rectified_sums", mutates_args=(), device_types="cuda")
def _sums(maps: Tensor, bias: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    """The convolution of relu(maps + bias) with weight [S, C, K, K], plus offset: maps [B, H, W, C] to [B, H, W, S].

    What each place gives to its neighbours is one product of matrices; a second kernel adds up what a place was given.
    """
    from alebrije.models import kernels

    (count, channels, side, _), rows = weight.shape, maps.numel() // weight.shape[1]
    out, places = maps.new_empty(*maps.shape[:-1], count), _by_place(weight)
    # Sums of neighbours may cancel out, so none is rounded before the last.
    gifts = out if side == 1 else maps.new_empty(rows, len(places), dtype=torch.float32)
    with torch.cuda.device(maps.device):
        kernels.forward[(-(-rows // kernels.ROWS),)](
            *(maps, bias, places, offset if side == 1 else None, gifts, rows, channels, len(places)),
            *(kernels.ROWS, _room(places)),
        )
        if side > 1:
            kernels.gather[(-(-rows // kernels.MANY),)](
                *(gifts, offset, out, rows, *maps.shape[1:3]),
                *(count, side, kernels.MANY, 1 << (count - 1).bit_length()),
            )
    return out


def _by_place(weight: Tensor) -> Tensor:
    """Weights [S, C, K, K] as rows [K * K * S, C]: what a place gives to each of those around it."""
    return weight.permute(2, 3, 0, 1).flatten(0, 2).contiguous()


def _room(places: Tensor) -> int:
    """The columns that a kernel holds for so many rows: a product of matrices has no side narrower than 16."""
    assert len(places) <= MOST_SUMS
    return 16 if len(places) <= 16 else MOST_SUMS


@_sums.register_fake
def _(maps: Tensor, bias: Tensor, weight: Tensor, offset: Tensor) -> Tensor:
    return maps.new_empty(*maps.shape[:-1], len(weight))


@torch.library.custom_op("alebrije::rectified_sums_backward", mutates_args=(), device_types="cuda")
def _sums_backward(slopes: Tensor, maps: Tensor, bias: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of maps, bias and weight."""
    from alebrije.models import kernels

    (count, channels, side, _), rows = weight.shape, maps.numel() // weight.shape[1]
    places, out = _by_place(weight), torch.empty_like(maps)
    room, programs = _room(places), max(PROGRAMS, -(-rows // (kernels.FEW * MOST_TURNS)))
    of_weight, of_bias = (weight.new_empty(programs, *shape) for shape in ((room, channels), (channels,)))
    with torch.cuda.device(maps.device):
        kernels.backward[(programs,)](
            *(slopes, maps, bias, places, out, of_weight, of_bias, rows, *maps.shape[1:3]),
            *(channels, count, side, kernels.FEW, room),
        )
    by_place = of_weight.sum(0)[: len(places)].view(side, side, count, channels)
    return out, of_bias.sum(0), by_place.permute(2, 3, 0, 1).contiguous()


@_sums_backward.register_fake
def _(slopes: Tensor, maps: Tensor, bias: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(maps), torch.empty_like(bias), weight.new_empty(weight.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    maps, bias, weight, _ = inputs
    ctx.save_for_backward(maps, bias, weight)


def _back(ctx: Any, slopes: Tensor) -> tuple[Tensor, ...]:
    maps, bias, weight = ctx.saved_tensors
    return *_sums_backward(slopes.contiguous().to(maps.dtype), maps, bias, weight), slopes.sum(
        (0, 1, 2), dtype=torch.float32
    )


_sums.register_autograd(_back, setup_context=_keep)
