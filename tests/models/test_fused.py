"""Fused layers: the same values and gradients as plain layers, on a GPU up to the precision of bfloat16."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from alebrije.models import fused, slot_attention
from alebrije.models.convolutions import Convolution, suits_pairs
from alebrije.models.fused import (
    HAS_TRITON,
    BiasReLU,
    CompetingAttention,
    FeedForwardReLU,
    LinearReLU,
    _patches,
    _relu_conv,
    _relu_conv_backward,
    can_fuse_decoder,
    cut_patches,
    decoded,
    fed_forward,
    is_plain,
    rectified,
    rectified_layers,
    rectified_maps,
    rectified_patches,
    relu_backward,
)
from alebrije.models.slot_attention import BroadcastDecoder, SlotAttention, SlotAttentionAutoencoder
from alebrije.models.transformer import FeedForward
from tests.models.test_convolutions import channels_first

Function = Callable[[Tensor], Tensor]

ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
WITH_TRITON = pytest.mark.skipif(not (torch.cuda.is_available() and HAS_TRITON), reason="needs a GPU and Triton")


def distance(result: Tensor, expected: Tensor) -> float:
    """The relative distance of two tensors."""
    return ((result.double() - expected.double()).norm() / expected.double().norm()).item()


def layers(kind: str, side: int = 1) -> nn.Sequential:
    """The end of a decoder, with biases that are not zero."""
    torch.manual_seed(0)
    big = {
        "plain": lambda: nn.Conv2d(8, 32, 5, padding=2),
        "transposed": lambda: nn.ConvTranspose2d(8, 32, 5, 2, 2, 1),
        "paired": lambda: nn.Conv2d(64, 64, 5, padding=2),
    }[kind]()
    output = nn.Sequential(big, nn.ReLU(), nn.Conv2d(big.out_channels, 4, side, padding=side // 2))
    for layer in (output[0], output[2]):
        nn.init.normal_(layer.bias, std=0.3)
    return output


def gradients(loss: Tensor, module: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Gradients of a loss with respect to inputs and parameters."""
    return list(torch.autograd.grad(loss, [inputs, *module.parameters()]))


def test_gradients_of_a_rectified_layer() -> None:
    torch.manual_seed(0)
    rows = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((7, 5), (3, 5), (3,))]
    assert torch.autograd.gradcheck(LinearReLU.apply, rows)
    torch.testing.assert_close(LinearReLU.apply(*rows), torch.nn.functional.linear(*rows).relu())


def test_gradients_of_two_layers_with_a_relu_between() -> None:
    torch.manual_seed(0)
    shapes = ((7, 5), (6, 5), (6,), (3, 6), (3,))
    rows, wide, bias, narrow, offset = given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes
    ]
    assert torch.autograd.gradcheck(FeedForwardReLU.apply, given)
    expected = (rows @ wide.T + bias).relu() @ narrow.T + offset
    torch.testing.assert_close(FeedForwardReLU.apply(*given), expected)


@pytest.mark.parametrize("on_sum", [False, True])
def test_gradients_of_competing_attention(on_sum: bool) -> None:
    torch.manual_seed(0)
    queries, inputs = given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 4), (2, 6, 4))
    ]
    assert torch.autograd.gradcheck(lambda *each: CompetingAttention.apply(*each, 0.3, on_sum), given)
    grouping = SlotAttention(4, 4, projections=4, hidden=0, epsilon=0.3, epsilon_on="sum" if on_sum else "attention")
    attention = torch.softmax(queries @ inputs.mT, 1)
    expected = grouping.mean_weights(attention) @ inputs, attention
    torch.testing.assert_close(CompetingAttention.apply(*given, 0.3, on_sum), expected)


def test_gradients_of_a_bias_and_a_relu() -> None:
    torch.manual_seed(0)
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 5, 4), (4,))]
    assert torch.autograd.gradcheck(BiasReLU.apply, given)
    torch.testing.assert_close(BiasReLU.apply(*given), (given[0] + given[1]).relu())


@pytest.mark.parametrize("layer", ["linear", "two", "attention", "bias", "convolution"])
def test_second_derivatives_raise(layer: str) -> None:
    torch.manual_seed(0)
    rows, square = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    maps = rows[None, :, :, None]
    result = {
        "linear": lambda: LinearReLU.apply(rows, square, square[0]),
        "two": lambda: FeedForwardReLU.apply(rows, square, square[0], square, square[0]),
        "attention": lambda: CompetingAttention.apply(rows[None], square[None], 0.1, True)[0],
        "bias": lambda: BiasReLU.apply(rows, square[0]),
        "convolution": lambda: Convolution.apply(maps, square[:1, :1, None, None], (False, [1, 1], [0, 0], [0, 0])),
    }[layer]()
    (grad,) = torch.autograd.grad(result.square().sum(), rows, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_as_a_product_of_patches(stride: int) -> None:
    torch.manual_seed(0)
    given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 7, 8), (4, 3, 5, 5), (4,))
    ]
    expected = nn.functional.conv2d(*given, stride=stride, padding=2).relu()
    torch.testing.assert_close(rectified_patches(*given, stride, 2), expected)
    assert torch.autograd.gradcheck(lambda *each: rectified_patches(*each, stride, 2), given)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.Conv2d(8, 4, 5, 2, 2), True),
        (nn.ConvTranspose2d(8, 4, 5, 2, 2, 1), True),
        (nn.Linear(3, 4), True),
        (nn.Linear(3, 4, bias=False), False),
        (nn.Conv2d(8, 4, 5, bias=False), False),
        (nn.Conv2d(8, 4, 5, dilation=2), False),
        (nn.Conv2d(8, 4, 5, groups=2), False),
        (nn.Conv2d(8, 4, 5, padding="same"), False),
        (nn.Conv2d(8, 4, 5, padding=2, padding_mode="reflect"), False),
        (nn.Conv2d(8, 4, (5, 3), padding=2), False),
        (nn.BatchNorm2d(8), False),
    ],
)
def test_which_layers_are_plain(layer: nn.Module, expected: bool) -> None:
    assert is_plain(layer) == expected


@pytest.mark.parametrize(
    ("changed", "layer", "expected"),
    [
        (2, nn.Conv2d(32, 4, 3, padding=1), True),
        (2, nn.Conv2d(32, 7, 3, padding=1), True),
        (2, nn.Conv2d(32, 8, 3, padding=1), False),
        (2, nn.Conv2d(32, 64, 1), True),
        (2, nn.Conv2d(32, 65, 1), False),
        (2, nn.Conv2d(32, 4, 3), False),
        (2, nn.Conv2d(32, 4, 3, stride=2, padding=1), False),
        (2, nn.Conv2d(32, 4, 3, padding=1, dilation=2), False),
        (2, nn.Conv2d(32, 4, 1, groups=4), False),
        (2, nn.Conv2d(32, 4, 1, bias=False), False),
        (2, nn.ConvTranspose2d(32, 4, 3, padding=1), False),
        (2, nn.Linear(32, 4), False),
        (1, nn.ELU(), False),
        (0, nn.Conv2d(8, 24, 5, padding=2), False),
        (0, nn.Conv2d(8, 32, 5, padding=2, bias=False), False),
    ],
)
def test_which_decoders_are_fused(changed: int, layer: nn.Module, expected: bool) -> None:
    parts = [nn.Conv2d(8, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 4, 1)]
    assert can_fuse_decoder(nn.Sequential(*parts))
    assert not can_fuse_decoder(nn.Sequential(*parts[1:]))
    parts[changed] = layer
    assert can_fuse_decoder(nn.Sequential(*parts)) == expected


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code path under autocast on CUDA, in float32 and without Triton kernels."""
    monkeypatch.setattr(fused, "in_autocast", lambda inputs: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float32)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("count", [2, 0])
def test_fused_layers_equal_a_sequence(count: int) -> None:
    torch.manual_seed(0)
    maps = nn.Sequential(nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(), nn.ConvTranspose2d(8, 4, 5, 2, 2, 1), nn.ReLU())
    end = nn.Sequential(*maps, nn.Conv2d(4, 4, 1))
    short = nn.Sequential(nn.Conv2d(3, 4, 5, padding=2), nn.ReLU(), nn.Conv2d(4, 4, 1))
    pairs = nn.Sequential(nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(), nn.ConvTranspose2d(64, 64, 5, 2, 2, 1), nn.ReLU())
    unusual = nn.Sequential(
        nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2), nn.ReLU(), nn.ReLU(), nn.GroupNorm(2, 8), nn.ReLU()
    )
    tokens = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 5))
    feed = FeedForward(6, times=3)
    for function, layers, shape in (
        (rectified_layers, maps, (count, 3, 8, 6)),
        (rectified_layers, end, (count, 3, 8, 6)),
        (decoded, end, (count, 3, 8, 6)),
        (decoded, short, (count, 3, 8, 6)),
        (rectified_layers, pairs, (count, 64, 4, 4)),
        (rectified_layers, pairs, (count, 64, 2, 5)),
        (rectified_layers, unusual, (count, 8, 6, 6)),
        (decoded, nn.Sequential(nn.Conv2d(8, 4, 1)), (count, 8, 6, 6)),
        (rectified_layers, nn.Sequential(), (count, 3)),
        (rectified_layers, tokens, (count, 7, 6)),
        (fed_forward, feed, (count, 7, 6)),
    ):
        inputs = torch.randn(*shape, requires_grad=True)
        result, expected = function(layers, inputs), nn.Sequential.forward(layers, inputs)
        torch.testing.assert_close(result, expected)
        for ours, plain in zip(
            gradients(result.square().sum(), layers, inputs),
            gradients(expected.square().sum(), layers, inputs),
            strict=True,
        ):
            torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_fused_layers_compile_to_one_graph() -> None:
    torch.manual_seed(0)
    decoder = BroadcastDecoder(16, size=32, channels=32, upsamplings=2, head=1)
    in_pairs = BroadcastDecoder(64, size=8, channels=64, upsamplings=1, head=3)
    for layers, inputs in (
        (decoder, torch.randn(2, 3, 16)),
        (in_pairs, torch.randn(2, 3, 64)),
        (FeedForward(8), torch.randn(2, 5, 8)),
    ):
        inputs.requires_grad_()
        output = [layers(inputs), torch.compile(layers, backend="aot_eager", fullgraph=True)(inputs)]
        torch.testing.assert_close(output[1], output[0])
        losses = [
            torch.cat([each.flatten() for each in ([result] if isinstance(result, Tensor) else result)])
            for result in output
        ]
        expected, compiled = (gradients(loss.square().sum(), layers, inputs) for loss in losses)
        torch.testing.assert_close(compiled, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bilevel", [False, True])
def test_fused_attention_equals_slot_attention(monkeypatch: pytest.MonkeyPatch, bilevel: bool) -> None:
    torch.manual_seed(0)
    settings = {"epsilon": 1.0, "epsilon_on": "sum", "bilevel": True} if bilevel else {}
    grouping = SlotAttention(8, 6, projections=8, hidden=8, **settings)
    inputs, slots = torch.randn(3, 20, 8, requires_grad=True), torch.randn(3, 4, 6)
    result = []
    for low in (False, True):
        monkeypatch.setattr(slot_attention, "in_autocast", lambda inputs, low=low: low)
        monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float32)
        compiled = torch.compile(grouping, backend="aot_eager", fullgraph=True)
        for function in (grouping, compiled):
            output, attention = function(inputs, slots)
            result.append([output, attention, *gradients(output.square().sum() + attention[0, 0, 0], grouping, inputs)])
            assert function is compiled or ("CompetingAttention" in attention.grad_fn.name()) == low
        torch._dynamo.reset()
    for other in result[1:]:
        torch.testing.assert_close(other, result[0], rtol=1e-4, atol=1e-5)


def test_without_autocast_every_layer_is_called() -> None:
    """Users attach forward hooks to layers."""
    torch.manual_seed(0)
    model = SlotAttentionAutoencoder(size=16, slots=2, channels=8, slot_size=8, projections=8, hidden=8, decoder_head=1)
    called = set()
    for name, layer in model.named_modules():
        layer.register_forward_hook(lambda *_, name=name: called.add(name))
    model(torch.rand(1, 3, 16, 16))
    parts = [name for name, _ in model.named_modules() if name.startswith(("encoder", "decoder"))]
    assert len(parts) > 20
    assert not set(parts) - called


def test_feed_forward_equals_a_sequence() -> None:
    torch.manual_seed(0)
    feed, tokens = FeedForward(6, times=3), torch.randn(2, 5, 6)
    torch.testing.assert_close(feed(tokens), nn.Sequential(*feed)(tokens), rtol=0, atol=0)
    assert [name for name, _ in feed.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def check_precision(ours: Function, plain: Function, module: nn.Module, inputs: Tensor) -> None:
    """Under autocast our layers must be as close to float32 as the plain layers, in values and gradients.

    bfloat16 changes both by some percent: where a sum is close to zero, a ReLU may switch.
    """
    result = []
    for function, low in ((ours, True), (plain, True), (plain, False)):
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            output = function(inputs)
        torch.manual_seed(1)
        loss = (output.float() * torch.randn_like(output, dtype=torch.float32)).sum()
        result.append([output.detach(), *gradients(loss, module, inputs)])
    for actual, low, exact in zip(*result, strict=True):
        assert actual.dtype == low.dtype
        assert distance(actual, exact) < 1.5 * distance(low, exact) + 1e-3  # with few values, chance matters


@ON_GPU
def test_a_rectified_layer_on_cuda() -> None:
    torch.manual_seed(0)
    layer, inputs = nn.Linear(192, 768).cuda(), torch.randn(4, 300, 192, device="cuda", requires_grad=True)
    check_precision(lambda x: rectified(layer, x), lambda x: layer(x).relu(), layer, inputs)


@ON_GPU
@pytest.mark.parametrize("length", [1, 300])
def test_two_layers_with_a_relu_between_on_cuda(length: int) -> None:
    torch.manual_seed(0)
    pair = nn.Sequential(nn.Linear(192, 768), nn.ReLU(), nn.Linear(768, 192)).cuda()
    inputs = torch.randn(4, length, 192, device="cuda", requires_grad=True)
    check_precision(lambda x: fed_forward(pair, x), pair, pair, inputs)


@ON_GPU
@pytest.mark.parametrize("slots", [2, 11])
def test_fused_attention_equals_slot_attention_on_cuda(monkeypatch: pytest.MonkeyPatch, slots: int) -> None:
    torch.manual_seed(0)
    grouping = SlotAttention(64, 64, projections=128, hidden=256).cuda()
    inputs, initial = torch.randn(4, 1000, 64, device="cuda", requires_grad=True), torch.randn(4, slots, 64).cuda()

    def plain(inputs: Tensor) -> Tensor:
        with monkeypatch.context() as patch:
            patch.setattr(slot_attention, "in_autocast", lambda inputs: False)
            return grouping(inputs, initial)[0]

    check_precision(lambda inputs: grouping(inputs, initial)[0], plain, grouping, inputs)


@WITH_TRITON
@pytest.mark.parametrize(("shape", "side", "stride", "padding"), [((3, 3, 19, 17), 5, 2, 2), ((2, 1, 8, 9), 3, 1, 0)])
def test_patches_on_cuda(shape: tuple[int, ...], side: int, stride: int, padding: int) -> None:
    maps = torch.rand(*shape, device="cuda")
    low = maps.bfloat16().to(memory_format=torch.channels_last)
    weight, bias = torch.randn(24, shape[1], side, side, device="cuda"), torch.randn(24, device="cuda")
    assert torch.equal(_patches(low, side, stride, padding), cut_patches(low, side, stride, padding))
    expected = nn.functional.conv2d(maps, weight, bias, stride, padding).relu()
    result = rectified_patches(low, weight.bfloat16(), bias.bfloat16(), stride, padding)
    assert distance(result, expected) < 0.02


@ON_GPU
@pytest.mark.parametrize("channels", [3, 16, 64])
@pytest.mark.parametrize("kind", ["plain", "transposed"])
def test_a_rectified_convolution_on_cuda(kind: str, channels: int) -> None:
    torch.manual_seed(0)
    out = 64 if channels == 64 else 24
    conv = nn.ConvTranspose2d(channels, out, 5, 2, 2, 1) if kind == "transposed" else nn.Conv2d(channels, out, 5, 1, 2)
    layer = conv.cuda().to(memory_format=torch.channels_last)
    maps = torch.randn(40, channels, 19, 18, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
    assert suits_pairs(layer, maps) == (channels == 64)
    check_precision(lambda x: rectified_maps(layer, x), lambda x: layer(x).relu(), layer, maps)


@WITH_TRITON
@pytest.mark.parametrize(("rows", "channels"), [(1, 5), (300_000, 64), (1000, 768), (77, 200)])
def test_the_gradient_of_a_relu_on_cuda(rows: int, channels: int) -> None:
    torch.manual_seed(0)
    grads, outputs = torch.randn(rows, channels, device="cuda"), torch.randn(rows, channels, device="cuda").relu()
    outputs[0, 0] = torch.nan
    result, total = relu_backward(grads, outputs)
    expected = torch.where(outputs <= 0, 0, grads)
    assert torch.equal(result, expected)
    torch.testing.assert_close(total.double(), expected.double().sum(0), rtol=1e-4, atol=1e-3)


@WITH_TRITON
@pytest.mark.parametrize("kind", ["plain", "transposed", "paired"])
@pytest.mark.parametrize("count", [1, 37])  # fewer and more rows than a block
@pytest.mark.parametrize("side", [1, 3])
def test_the_end_of_a_decoder_on_cuda(kind: str, count: int, side: int) -> None:
    end = layers(kind, side).cuda().to(memory_format=torch.channels_last)
    maps = torch.randn(count, end[0].in_channels, 9, 8 if kind == "paired" else 7, device="cuda")
    maps = maps.to(memory_format=torch.channels_last).requires_grad_()
    assert suits_pairs(end[0], maps) == (kind == "paired")
    check_precision(lambda x: decoded(end, x), end, end, maps)


@WITH_TRITON
@pytest.mark.parametrize(("channels", "count", "side"), [(16, 3, 3), (64, 4, 3), (128, 7, 3), (128, 1, 3), (64, 33, 1)])
def test_convolution_of_many_pixels_on_cuda(channels: int, count: int, side: int) -> None:
    """More pixels than all programs process at a time."""
    torch.manual_seed(0)
    maps, bias, weight, offset, grads = (
        torch.randn(*shape, device="cuda").bfloat16()
        for shape in (
            (3, 163, 165, channels),
            (channels,),
            (count, channels, side, side),
            (count,),
            (3, 163, 165, count),
        )
    )
    assert maps[..., 0].numel() > 2 * fused.PROGRAMS * 64
    result = _relu_conv(maps, bias.float(), weight.float(), offset.float())
    grad_maps, grad_bias, grad_weight = _relu_conv_backward(grads, maps, bias.float(), weight.float())
    exact = [each.double().requires_grad_() for each in (maps, bias, weight)]
    outputs = channels_first((exact[0] + exact[1]).relu())
    expected = nn.functional.conv2d(outputs, exact[2], offset.double(), padding=side // 2).permute(0, 2, 3, 1)
    expected_grads = torch.autograd.grad((expected * grads.double()).sum(), exact)
    for actual, right in zip((result, grad_maps, grad_bias, grad_weight), (expected, *expected_grads), strict=True):
        assert distance(actual, right.detach()) < 0.01


@WITH_TRITON
def test_contributions_that_cancel_on_cuda() -> None:
    """A nearly constant map: the nine contributions are large and their sum is small."""
    torch.manual_seed(0)
    maps = (1 + 0.1 * torch.randn(2, 40, 40, 64, device="cuda")).bfloat16()
    weight = torch.randn(4, 64, 3, 3, device="cuda")
    weight = (weight - weight.mean((2, 3), keepdim=True)).bfloat16().float()
    nothing = torch.zeros(64, device="cuda")
    expected = nn.functional.conv2d(channels_first(maps).double(), weight.double(), padding=1)
    rounded = nn.functional.conv2d(channels_first(maps), weight.bfloat16(), padding=1)
    result = channels_first(_relu_conv(maps, nothing, weight, nothing[:4]))
    inner = (..., slice(1, -1), slice(1, -1))
    assert distance(result[inner], expected[inner]) < 1.5 * distance(rounded[inner], expected[inner])


@WITH_TRITON
@pytest.mark.parametrize("side", [1, 3])
def test_more_values_than_32_bits_can_index_on_cuda(side: int) -> None:
    """Maps of more than 2^31 values need 64-bit indices."""
    if torch.cuda.get_device_properties(0).total_memory < 3e10:
        pytest.skip("needs a GPU with 30 GB")
    end = layers("plain", side).cuda()
    maps = torch.randn(1, 8, 512, 512, device="cuda")
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        result = decoded(end, maps.expand(260, -1, -1, -1))
    assert distance(result[-1], result[0]) < 1e-6
    raw, grads = (torch.randn(1, 512, 512, size, device="cuda").bfloat16().expand(260, -1, -1, -1) for size in (32, 4))
    given = end[0].bias.detach(), end[2].weight.detach()
    grad_maps, _, grad_weight = _relu_conv_backward(grads.contiguous(), raw.contiguous(), *given)
    assert torch.equal(grad_maps[-1], grad_maps[0])
    alone = _relu_conv_backward(grads[:1].contiguous(), raw[:1].contiguous(), *given)[2]
    assert distance(grad_weight, alone * 260) < 1e-4


@WITH_TRITON
@pytest.mark.parametrize("side", [1, 3])
def test_nan_stays_nan_on_cuda(side: int) -> None:
    """Otherwise diverged training would go unnoticed."""
    end = layers("plain", side).cuda()
    maps = torch.randn(2, 8, 9, 7, device="cuda")
    maps[1, 3, 4, 5] = torch.nan
    with torch.autocast("cuda", torch.bfloat16):
        result = decoded(end, maps)
    assert result[0].isfinite().all()
    assert result[1, :, 4, 5].isnan().all()


@WITH_TRITON
@pytest.mark.parametrize(("channels", "head"), [(32, 1), (64, 3)])
def test_the_compiled_decoder_on_cuda(channels: int, head: int) -> None:
    torch.manual_seed(0)
    decoder = BroadcastDecoder(16, size=32, channels=channels, upsamplings=2, head=head).cuda()
    slots = torch.randn(3, 5, 16, device="cuda", requires_grad=True)
    result = []
    for function, low in ((torch.compile(decoder), True), (decoder, False)):
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            images, logits = function(slots)
        torch.manual_seed(1)
        loss = (images.float() * torch.randn_like(images, dtype=torch.float32)).sum() + logits.float().sum()
        result.append([images, logits, *gradients(loss, decoder, slots)])
    for actual, exact in zip(*result, strict=True):
        assert distance(actual, exact) < 0.05
