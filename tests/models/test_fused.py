"""Layers in fewer passes: the same numbers and gradients as the plain ones, on a GPU as far as bfloat16 goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from alebrije.models import convolutions, fused, slot_attention
from alebrije.models.convolutions import (
    Convolution,
    _convolution,
    _of_maps,
    _of_weight,
    does_pair,
    doubled_by_pairs,
    kept_by_pairs,
)
from alebrije.models.fused import (
    HAS_TRITON,
    BiasReLU,
    Contest,
    FeedForwardReLU,
    LinearReLU,
    _patches,
    _sums,
    _sums_backward,
    can_merge,
    cut_patches,
    decoded,
    fed_forward,
    gated,
    is_plain,
    rectified,
    rectified_layers,
    rectified_maps,
    rectified_patches,
)
from alebrije.models.slot_attention import BroadcastDecoder, SlotAttention, SlotAttentionAutoencoder
from alebrije.models.transformer import FeedForward

Function = Callable[[Tensor], Tensor]

TOLD = ("test_schema", "test_faketensor")  # what a compiler goes by
ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
WITH_TRITON = pytest.mark.skipif(not (torch.cuda.is_available() and HAS_TRITON), reason="needs a GPU and Triton")


def distance(found: Tensor, expected: Tensor) -> float:
    """How far two tensors are apart, as a part of their size."""
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def layers(kind: str, side: int = 1) -> nn.Sequential:
    """The end of a decoder, with biases that matter."""
    torch.manual_seed(0)
    big = {
        "plain": lambda: nn.Conv2d(8, 32, 5, padding=2),
        "transposed": lambda: nn.ConvTranspose2d(8, 32, 5, 2, 2, 1),
        "paired": lambda: nn.Conv2d(64, 64, 5, padding=2),
    }[kind]()
    made = nn.Sequential(big, nn.ReLU(), nn.Conv2d(big.out_channels, 4, side, padding=side // 2))
    for layer in (made[0], made[2]):
        nn.init.normal_(layer.bias, std=0.3)
    return made


def channels_first(maps: Tensor) -> Tensor:
    """Maps [B, H, W, C] as [B, C, H, W]."""
    return maps.permute(0, 3, 1, 2)


def gradients(loss: Tensor, module: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Those of a loss with respect to inputs and parameters."""
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
def test_gradients_of_a_contest(on_sum: bool) -> None:
    torch.manual_seed(0)
    queries, inputs = given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 4), (2, 6, 4))
    ]
    assert torch.autograd.gradcheck(lambda *each: Contest.apply(*each, 0.3, on_sum), given)
    grouping = SlotAttention(4, 4, projections=4, hidden=0, epsilon=0.3, epsilon_on="sum" if on_sum else "attention")
    attention = torch.softmax(queries @ inputs.mT, 1)
    expected = grouping.weigh(attention) @ inputs, attention
    torch.testing.assert_close(Contest.apply(*given, 0.3, on_sum), expected)


def test_gradients_of_a_bias_and_a_relu() -> None:
    torch.manual_seed(0)
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 5, 4), (4,))]
    assert torch.autograd.gradcheck(BiasReLU.apply, given)
    torch.testing.assert_close(BiasReLU.apply(*given), (given[0] + given[1]).relu())


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_a_convolution(transposed: bool) -> None:
    torch.manual_seed(0)
    weight = (3, 4, 5, 5) if transposed else (4, 3, 5, 5)
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 6, 5, 3), weight)]
    how = (transposed, [2, 2], [2, 2], [1, 1] if transposed else [0, 0])
    assert torch.autograd.gradcheck(lambda *each: Convolution.apply(*each, how), given)
    plain = nn.functional.conv_transpose2d if transposed else nn.functional.conv2d
    expected = plain(
        channels_first(given[0]), given[1], stride=2, padding=2, **{"output_padding": 1} if transposed else {}
    )
    torch.testing.assert_close(channels_first(Convolution.apply(*given, how)), expected)


def test_a_convolution_of_pairs_of_columns() -> None:
    torch.manual_seed(0)
    maps, weight = given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 7, 8, 3), (4, 3, 5, 5))
    ]
    expected = nn.functional.conv2d(channels_first(maps), weight, padding=2)
    torch.testing.assert_close(channels_first(kept_by_pairs(maps, weight)), expected)
    assert torch.autograd.gradcheck(kept_by_pairs, given)


def test_a_transposed_convolution_of_pairs_of_columns() -> None:
    torch.manual_seed(0)
    maps, weight = given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 4, 3, 3), (3, 2, 5, 5))
    ]
    expected = nn.functional.conv_transpose2d(channels_first(maps), weight, stride=2, padding=2, output_padding=1)
    torch.testing.assert_close(channels_first(doubled_by_pairs(maps, weight)), expected)
    assert torch.autograd.gradcheck(doubled_by_pairs, given)


@pytest.mark.parametrize("function", [kept_by_pairs, doubled_by_pairs])
def test_what_needs_no_gradient_gets_none(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    maps, weight = torch.randn(1, 4, 4, 3, requires_grad=True), torch.randn(3, 3, 5, 5, requires_grad=True)
    both = torch.autograd.grad(function(maps, weight).square().sum(), (maps, weight))
    torch.testing.assert_close(torch.autograd.grad(function(maps.detach(), weight).square().sum(), weight)[0], both[1])
    monkeypatch.setattr(convolutions, "_of_weight", None)  # the dearest one, for nothing where weights are frozen
    torch.testing.assert_close(torch.autograd.grad(function(maps, weight.detach()).square().sum(), maps)[0], both[0])


@pytest.mark.parametrize(
    "how", [(False, [1, 1], [2, 1], [0, 0]), (False, [2, 2], [2, 2], [0, 0]), (True, [2, 1], [2, 1], [1, 0])]
)
def test_what_a_compiler_is_told_of_convolutions(how: tuple[bool, list[int], list[int], list[int]]) -> None:
    torch.manual_seed(0)
    maps, weight = torch.randn(2, 6, 8, 4), torch.randn(4, 4, 5, 3 if how[1][1] == 1 else 5)
    found = _convolution(maps, weight, *how)
    for op, given in ((_convolution, ()), (_of_maps, (found,)), (_of_weight, (found,))):
        found_of_it = torch.library.opcheck(op, (*given, maps, weight, *how), test_utils=TOLD)
        assert found_of_it == dict.fromkeys(TOLD, "SUCCESS")


@pytest.mark.parametrize("how", ["linear", "two", "contest", "bias", "convolution"])
def test_second_derivatives_are_refused(how: str) -> None:
    """Better than wrong."""
    torch.manual_seed(0)
    rows, square = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    maps = rows[None, :, :, None]
    found = {
        "linear": lambda: LinearReLU.apply(rows, square, square[0]),
        "two": lambda: FeedForwardReLU.apply(rows, square, square[0], square, square[0]),
        "contest": lambda: Contest.apply(rows[None], square[None], 0.1, True)[0],
        "bias": lambda: BiasReLU.apply(rows, square[0]),
        "convolution": lambda: Convolution.apply(maps, square[:1, :1, None, None], (False, [1, 1], [0, 0], [0, 0])),
    }[how]()
    (slope,) = torch.autograd.grad(found.square().sum(), rows, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


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
    ("layer", "wide", "expected"),
    [
        (nn.Conv2d(64, 64, 5, padding=2), 8, True),
        (nn.Conv2d(64, 64, 5, padding=2), 7, False),
        (nn.Conv2d(64, 64, 5, 2, padding=2), 8, False),
        (nn.Conv2d(64, 64, 5), 8, False),
        (nn.Conv2d(64, 64, 3, padding=1), 8, False),
        (nn.Conv2d(32, 64, 5, padding=2), 8, False),
        (nn.ConvTranspose2d(64, 64, 5, padding=2), 8, False),
        (nn.ConvTranspose2d(64, 64, 5, 2, 2, 1), 8, True),
        (nn.ConvTranspose2d(64, 64, 5, 2, 2, 1), 7, True),
        (nn.ConvTranspose2d(64, 32, 5, 2, 2, 1), 8, False),
        (nn.ConvTranspose2d(64, 64, 5, 2, 2, 0), 8, False),
        (nn.Conv2d(64, 64, (5, 3), padding=(2, 1)), 8, False),
    ],
)
def test_which_convolutions_go_by_pairs(layer: nn.Module, wide: int, expected: bool) -> None:
    assert does_pair(layer, torch.zeros(1, 64, 8, wide)) == expected


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
def test_which_decoders_are_merged(changed: int, layer: nn.Module, expected: bool) -> None:
    parts = [nn.Conv2d(8, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 4, 1)]
    assert can_merge(nn.Sequential(*parts))
    assert not can_merge(nn.Sequential(*parts[1:]))
    parts[changed] = layer
    assert can_merge(nn.Sequential(*parts)) == expected


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that layers go under autocast on CUDA, in float32 and without kernels."""
    monkeypatch.setattr(fused, "is_low", lambda inputs: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float32)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("count", [2, 0])
def test_layers_are_those_of_a_sequence(count: int) -> None:
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
        found, expected = function(layers, inputs), nn.Sequential.forward(layers, inputs)
        torch.testing.assert_close(found, expected)
        for ours, plain in zip(
            gradients(found.square().sum(), layers, inputs),
            gradients(expected.square().sum(), layers, inputs),
            strict=True,
        ):
            torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_the_layers_are_compiled_in_one_piece() -> None:
    torch.manual_seed(0)
    decoder = BroadcastDecoder(16, size=32, channels=32, upsamplings=2, head=1)
    in_pairs = BroadcastDecoder(64, size=8, channels=64, upsamplings=1, head=3)
    for layers, inputs in (
        (decoder, torch.randn(2, 3, 16)),
        (in_pairs, torch.randn(2, 3, 64)),
        (FeedForward(8), torch.randn(2, 5, 8)),
    ):
        inputs.requires_grad_()
        made = [layers(inputs), torch.compile(layers, backend="aot_eager", fullgraph=True)(inputs)]
        torch.testing.assert_close(made[1], made[0])
        losses = [
            torch.cat([each.flatten() for each in ([found] if isinstance(found, Tensor) else found)]) for found in made
        ]
        expected, compiled = (gradients(loss.square().sum(), layers, inputs) for loss in losses)
        torch.testing.assert_close(compiled, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bilevel", [False, True])
def test_slots_win_the_same(monkeypatch: pytest.MonkeyPatch, bilevel: bool) -> None:
    torch.manual_seed(0)
    how = {"epsilon": 1.0, "epsilon_on": "sum", "bilevel": True} if bilevel else {}
    grouping = SlotAttention(8, 6, projections=8, hidden=8, **how)
    inputs, slots = torch.randn(3, 20, 8, requires_grad=True), torch.randn(3, 4, 6)
    found = []
    for low in (False, True):
        monkeypatch.setattr(slot_attention, "is_low", lambda inputs, low=low: low)
        monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float32)
        compiled = torch.compile(grouping, backend="aot_eager", fullgraph=True)
        for function in (grouping, compiled):
            made, attention = function(inputs, slots)
            found.append([made, attention, *gradients(made.square().sum() + attention[0, 0, 0], grouping, inputs)])
            assert function is compiled or ("Contest" in attention.grad_fn.name()) == low
        torch._dynamo.reset()
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-4, atol=1e-5)


def test_elsewhere_every_layer_is_called() -> None:
    """Whoever wants what a layer gives hangs a hook on it."""
    torch.manual_seed(0)
    model = SlotAttentionAutoencoder(size=16, slots=2, channels=8, slot_size=8, projections=8, hidden=8, decoder_head=1)
    called = set()
    for name, layer in model.named_modules():
        layer.register_forward_hook(lambda *_, name=name: called.add(name))
    model(torch.rand(1, 3, 16, 16))
    parts = [name for name, _ in model.named_modules() if name.startswith(("encoder", "decoder"))]
    assert len(parts) > 20
    assert not set(parts) - called


def test_the_feed_forward_layers_are_those_of_a_sequence() -> None:
    torch.manual_seed(0)
    feed, tokens = FeedForward(6, times=3), torch.randn(2, 5, 6)
    torch.testing.assert_close(feed(tokens), nn.Sequential(*feed)(tokens), rtol=0, atol=0)
    assert [name for name, _ in feed.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def see_that_it_is_as_close(ours: Function, plain: Function, module: nn.Module, inputs: Tensor) -> None:
    """Under autocast ours must come as close to float32 as the plain layers do, in values and gradients.

    bfloat16 leads both astray by some percent: where a sum is close to zero, a ReLU opens that should not.
    """
    found = []
    for function, low in ((ours, True), (plain, True), (plain, False)):
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            made = function(inputs)
        torch.manual_seed(1)
        loss = (made.float() * torch.randn_like(made, dtype=torch.float32)).sum()
        found.append([made.detach(), *gradients(loss, module, inputs)])
    for mine, low, exact in zip(*found, strict=True):
        assert mine.dtype == low.dtype
        assert distance(mine, exact) < 1.5 * distance(low, exact) + 1e-3  # chance has its part where numbers are few


@ON_GPU
def test_a_rectified_layer_on_cuda() -> None:
    torch.manual_seed(0)
    layer, inputs = nn.Linear(192, 768).cuda(), torch.randn(4, 300, 192, device="cuda", requires_grad=True)
    see_that_it_is_as_close(lambda x: rectified(layer, x), lambda x: layer(x).relu(), layer, inputs)


@ON_GPU
@pytest.mark.parametrize("length", [1, 300])
def test_two_layers_with_a_relu_between_on_cuda(length: int) -> None:
    torch.manual_seed(0)
    pair = nn.Sequential(nn.Linear(192, 768), nn.ReLU(), nn.Linear(768, 192)).cuda()
    inputs = torch.randn(4, length, 192, device="cuda", requires_grad=True)
    see_that_it_is_as_close(lambda x: fed_forward(pair, x), pair, pair, inputs)


@ON_GPU
@pytest.mark.parametrize("slots", [2, 11])
def test_slots_win_the_same_on_cuda(monkeypatch: pytest.MonkeyPatch, slots: int) -> None:
    torch.manual_seed(0)
    grouping = SlotAttention(64, 64, projections=128, hidden=256).cuda()
    inputs, initial = torch.randn(4, 1000, 64, device="cuda", requires_grad=True), torch.randn(4, slots, 64).cuda()

    def plain(inputs: Tensor) -> Tensor:
        with monkeypatch.context() as patch:
            patch.setattr(slot_attention, "is_low", lambda inputs: False)
            return grouping(inputs, initial)[0]

    see_that_it_is_as_close(lambda inputs: grouping(inputs, initial)[0], plain, grouping, inputs)


@WITH_TRITON
@pytest.mark.parametrize(("shape", "side", "stride", "padding"), [((3, 3, 19, 17), 5, 2, 2), ((2, 1, 8, 9), 3, 1, 0)])
def test_patches_on_cuda(shape: tuple[int, ...], side: int, stride: int, padding: int) -> None:
    maps = torch.rand(*shape, device="cuda")
    low = maps.bfloat16().to(memory_format=torch.channels_last)
    weight, bias = torch.randn(24, shape[1], side, side, device="cuda"), torch.randn(24, device="cuda")
    assert torch.equal(_patches(low, side, stride, padding), cut_patches(low, side, stride, padding))
    expected = nn.functional.conv2d(maps, weight, bias, stride, padding).relu()
    found = rectified_patches(low, weight.bfloat16(), bias.bfloat16(), stride, padding)
    assert distance(found, expected) < 0.02


@ON_GPU
@pytest.mark.parametrize("channels", [3, 16, 64])
@pytest.mark.parametrize("kind", ["plain", "transposed"])
def test_a_rectified_convolution_on_cuda(kind: str, channels: int) -> None:
    torch.manual_seed(0)
    out = 64 if channels == 64 else 24
    made = nn.ConvTranspose2d(channels, out, 5, 2, 2, 1) if kind == "transposed" else nn.Conv2d(channels, out, 5, 1, 2)
    layer = made.cuda().to(memory_format=torch.channels_last)
    maps = torch.randn(40, channels, 19, 18, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
    assert does_pair(layer, maps) == (channels == 64)
    see_that_it_is_as_close(lambda x: rectified_maps(layer, x), lambda x: layer(x).relu(), layer, maps)


@WITH_TRITON
@pytest.mark.parametrize(("rows", "channels"), [(1, 5), (300_000, 64), (1000, 768), (77, 200)])
def test_gated_slopes_on_cuda(rows: int, channels: int) -> None:
    torch.manual_seed(0)
    slopes, lit = torch.randn(rows, channels, device="cuda"), torch.randn(rows, channels, device="cuda").relu()
    lit[0, 0] = torch.nan
    found, total = gated(slopes, lit)
    expected = torch.where(lit <= 0, 0, slopes)
    assert torch.equal(found, expected)
    torch.testing.assert_close(total.double(), expected.double().sum(0), rtol=1e-4, atol=1e-3)


@WITH_TRITON
@pytest.mark.parametrize("kind", ["plain", "transposed", "paired"])
@pytest.mark.parametrize("count", [1, 37])  # rows that fill no block, and rows that overflow one
@pytest.mark.parametrize("side", [1, 3])
def test_sums_of_a_rectified_convolution_on_cuda(kind: str, count: int, side: int) -> None:
    end = layers(kind, side).cuda().to(memory_format=torch.channels_last)
    maps = torch.randn(count, end[0].in_channels, 9, 8 if kind == "paired" else 7, device="cuda")
    maps = maps.to(memory_format=torch.channels_last).requires_grad_()
    assert does_pair(end[0], maps) == (kind == "paired")
    see_that_it_is_as_close(lambda x: decoded(end, x), end, end, maps)


@WITH_TRITON
@pytest.mark.parametrize(("channels", "count", "side"), [(16, 3, 3), (64, 4, 3), (128, 7, 3), (128, 1, 3), (64, 33, 1)])
def test_sums_of_many_places_on_cuda(channels: int, count: int, side: int) -> None:
    """More of them than all programs take at a time."""
    torch.manual_seed(0)
    maps, bias, weight, offset, slopes = (
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
    found = _sums(maps, bias.float(), weight.float(), offset.float())
    of_maps, of_bias, of_weight = _sums_backward(slopes, maps, bias.float(), weight.float())
    exact = [each.double().requires_grad_() for each in (maps, bias, weight)]
    lit = channels_first((exact[0] + exact[1]).relu())
    expected = nn.functional.conv2d(lit, exact[2], offset.double(), padding=side // 2).permute(0, 2, 3, 1)
    wanted = torch.autograd.grad((expected * slopes.double()).sum(), exact)
    for mine, right in zip((found, of_maps, of_bias, of_weight), (expected, *wanted), strict=True):
        assert distance(mine, right.detach()) < 0.01


@WITH_TRITON
def test_sums_that_cancel_out_on_cuda() -> None:
    """Edges of a map that is nearly flat: each of the nine places gives much, and little is left."""
    torch.manual_seed(0)
    maps = (1 + 0.1 * torch.randn(2, 40, 40, 64, device="cuda")).bfloat16()
    weight = torch.randn(4, 64, 3, 3, device="cuda")
    weight = (weight - weight.mean((2, 3), keepdim=True)).bfloat16().float()
    nothing = torch.zeros(64, device="cuda")
    expected = nn.functional.conv2d(channels_first(maps).double(), weight.double(), padding=1)
    rounded = nn.functional.conv2d(channels_first(maps), weight.bfloat16(), padding=1)
    found = channels_first(_sums(maps, nothing, weight, nothing[:4]))
    inner = (..., slice(1, -1), slice(1, -1))
    assert distance(found[inner], expected[inner]) < 1.5 * distance(rounded[inner], expected[inner])


@WITH_TRITON
@pytest.mark.parametrize("side", [1, 3])
def test_more_values_than_32_bits_count_on_cuda(side: int) -> None:
    """Maps of more than 2^31 values: places in them are counted in 64 bits."""
    if torch.cuda.get_device_properties(0).total_memory < 3e10:
        pytest.skip("needs a GPU with 30 GB")
    end = layers("plain", side).cuda()
    maps = torch.randn(1, 8, 512, 512, device="cuda")
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        found = decoded(end, maps.expand(260, -1, -1, -1))
    assert distance(found[-1], found[0]) < 1e-6
    raw, slopes = (torch.randn(1, 512, 512, size, device="cuda").bfloat16().expand(260, -1, -1, -1) for size in (32, 4))
    given = end[0].bias.detach(), end[2].weight.detach()
    of_maps, _, of_weight = _sums_backward(slopes.contiguous(), raw.contiguous(), *given)
    assert torch.equal(of_maps[-1], of_maps[0])
    alone = _sums_backward(slopes[:1].contiguous(), raw[:1].contiguous(), *given)[2]
    assert distance(of_weight, alone * 260) < 1e-4


@WITH_TRITON
@pytest.mark.parametrize("side", [1, 3])
def test_what_is_no_number_stays_none_on_cuda(side: int) -> None:
    """Else a training that diverged would go on unseen."""
    end = layers("plain", side).cuda()
    maps = torch.randn(2, 8, 9, 7, device="cuda")
    maps[1, 3, 4, 5] = torch.nan
    with torch.autocast("cuda", torch.bfloat16):
        found = decoded(end, maps)
    assert found[0].isfinite().all()
    assert found[1, :, 4, 5].isnan().all()


@WITH_TRITON
@pytest.mark.parametrize(("channels", "head"), [(32, 1), (64, 3)])
def test_the_compiled_decoder_on_cuda(channels: int, head: int) -> None:
    torch.manual_seed(0)
    decoder = BroadcastDecoder(16, size=32, channels=channels, upsamplings=2, head=head).cuda()
    slots = torch.randn(3, 5, 16, device="cuda", requires_grad=True)
    found = []
    for function, low in ((torch.compile(decoder), True), (decoder, False)):
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            images, logits = function(slots)
        torch.manual_seed(1)
        loss = (images.float() * torch.randn_like(images, dtype=torch.float32)).sum() + logits.float().sum()
        found.append([images, logits, *gradients(loss, decoder, slots)])
    for mine, exact in zip(*found, strict=True):
        assert distance(mine, exact) < 0.05
