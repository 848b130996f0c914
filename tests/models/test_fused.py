"""Layers in fewer passes: the same numbers and gradients as the plain ones, on a GPU as far as bfloat16 goes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from alebrije.models.fused import HAS_TRITON, LinearReLU, rectified, sums_of_rectified
from alebrije.models.slot_attention import BroadcastDecoder
from alebrije.models.transformer import FeedForward

ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
WITH_TRITON = pytest.mark.skipif(not (torch.cuda.is_available() and HAS_TRITON), reason="needs a GPU and Triton")


LOW = 0.02  # how far bfloat16 may lead astray


def distance(found: Tensor, expected: Tensor) -> float:
    """How far two tensors are apart, as a part of their size."""
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def layers(kind: str) -> nn.Sequential:
    """The end of a decoder, with biases that matter."""
    torch.manual_seed(0)
    big = nn.ConvTranspose2d(8, 32, 5, 2, 2, 1) if kind == "transposed" else nn.Conv2d(8, 32, 5, padding=2)
    made = nn.Sequential(big, nn.ReLU(), nn.Conv2d(32, 4, 1))
    for layer in (made[0], made[2]):
        nn.init.normal_(layer.bias, std=0.3)
    return made


def gradients(loss: Tensor, module: nn.Module, inputs: Tensor) -> list[Tensor]:
    """Those of a loss with respect to inputs and parameters."""
    return list(torch.autograd.grad(loss, [inputs, *module.parameters()]))


def test_gradients_of_a_rectified_layer() -> None:
    torch.manual_seed(0)
    rows = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((7, 5), (3, 5), (3,))]
    assert torch.autograd.gradcheck(LinearReLU.apply, rows)
    torch.testing.assert_close(LinearReLU.apply(*rows), torch.nn.functional.linear(*rows).relu())


def test_the_feed_forward_layers_are_those_of_a_sequence() -> None:
    torch.manual_seed(0)
    feed, tokens = FeedForward(6, times=3), torch.randn(2, 5, 6)
    torch.testing.assert_close(feed(tokens), nn.Sequential(*feed)(tokens), rtol=0, atol=0)
    assert [name for name, _ in feed.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]


@pytest.mark.parametrize("kind", ["plain", "transposed"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_sums_of_a_rectified_convolution(kind: str, memory_format: torch.memory_format) -> None:
    end = layers(kind).to(memory_format=memory_format)
    maps = torch.randn(3, 8, 6, 7).to(memory_format=memory_format).requires_grad_()
    found, expected = sums_of_rectified(end[0], end[2], maps), end(maps)
    torch.testing.assert_close(found, expected)
    for ours, plain in zip(
        gradients(found.square().sum(), end, maps), gradients(expected.square().sum(), end, maps), strict=True
    ):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


@ON_GPU
def test_a_rectified_layer_on_cuda() -> None:
    torch.manual_seed(0)
    layer, inputs = nn.Linear(192, 768).cuda(), torch.randn(4, 300, 192, device="cuda", requires_grad=True)
    slopes = torch.randn(4, 300, 768, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        found = rectified(layer, inputs)
    assert found.dtype == torch.bfloat16
    expected = layer(inputs).relu()
    assert distance(found, expected) < LOW
    for ours, plain in zip(
        gradients((found * slopes).sum(), layer, inputs),
        gradients((expected * slopes).sum(), layer, inputs),
        strict=True,
    ):
        assert distance(ours, plain) < LOW


@WITH_TRITON
@pytest.mark.parametrize("kind", ["plain", "transposed"])
@pytest.mark.parametrize("count", [1, 37])  # rows that fill no block, and rows that overflow one
def test_sums_of_a_rectified_convolution_on_cuda(kind: str, count: int) -> None:
    end = layers(kind).cuda().to(memory_format=torch.channels_last)
    maps = torch.randn(count, 8, 9, 7, device="cuda").to(memory_format=torch.channels_last).requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        found = sums_of_rectified(end[0], end[2], maps)
    expected = end(maps)
    slopes = torch.randn_like(expected)
    assert distance(found, expected) < LOW
    for ours, plain in zip(
        gradients((found * slopes).sum(), end, maps), gradients((expected * slopes).sum(), end, maps), strict=True
    ):
        assert distance(ours, plain) < LOW


@WITH_TRITON
def test_more_values_than_32_bits_count_on_cuda() -> None:
    """Maps of more than 2^31 values: places in them are counted in 64 bits."""
    if torch.cuda.get_device_properties(0).total_memory < 3e10:
        pytest.skip("needs a GPU with 30 GB")
    end = layers("plain").cuda()
    maps = torch.randn(1, 8, 512, 512, device="cuda")
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        found = sums_of_rectified(end[0], end[2], maps.expand(260, -1, -1, -1))
    assert distance(found[-1], found[0]) < 1e-6


@WITH_TRITON
def test_what_is_no_number_stays_none_on_cuda() -> None:
    """Else a training that diverged would go on unseen."""
    end = layers("plain").cuda()
    maps = torch.randn(2, 8, 9, 7, device="cuda")
    maps[1, 3, 4, 5] = torch.nan
    with torch.autocast("cuda", torch.bfloat16):
        found = sums_of_rectified(end[0], end[2], maps)
    assert found[0].isfinite().all()
    assert found[1, :, 4, 5].isnan().all()


@WITH_TRITON
def test_the_compiled_decoder_on_cuda() -> None:
    torch.manual_seed(0)
    decoder = BroadcastDecoder(16, size=32, channels=32, upsamplings=2, head=1).cuda()
    slots = torch.randn(3, 5, 16, device="cuda")
    images, logits = decoder(slots)
    with torch.autocast("cuda", torch.bfloat16):
        found_images, found_logits = torch.compile(decoder)(slots)
    assert distance(found_images, images) < 0.03
    assert distance(found_logits, logits) < 0.03
