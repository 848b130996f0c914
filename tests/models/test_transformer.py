"""The transformer and its decoder: positions and attention in closed form, order of tokens, initial weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.models.transformer import (
    Attention,
    Block,
    Transformer,
    TransformerDecoder,
    image_to_patches,
    patches_to_image,
    sincos_grid,
    sincos_positions,
)


def _parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_positions_follow_their_formula() -> None:
    positions = sincos_positions(50, 16)
    for row in (0, 1, 7, 49):
        for column in range(16):
            angle = row / 10_000 ** (2 * (column // 2) / 16)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert positions[row, column] == pytest.approx(expected, abs=1e-5)


def test_grid_encodes_the_row_first_then_the_column() -> None:
    grid, line = sincos_grid(5, 24).view(5, 5, 24), sincos_positions(5, 12)
    for row in range(5):
        for column in range(5):
            torch.testing.assert_close(grid[row, column], torch.cat((line[row], line[column])))


def test_patches_are_read_row_by_row_and_put_back() -> None:
    images = torch.rand(2, 3, 12, 12)
    patches = image_to_patches(images, 4)
    assert patches.shape == (2, 9, 48)
    # patch 5 is the last of the second row; channels change fastest
    torch.testing.assert_close(patches[1, 5].view(4, 4, 3), images[1, :, 4:8, 8:12].permute(1, 2, 0))
    assert torch.equal(patches_to_image(patches, 4), images)


@pytest.mark.parametrize("cross", [False, True])
def test_attention_is_the_textbook_formula(cross: bool) -> None:
    torch.manual_seed(0)
    attention = Attention(12, 3, cross=cross).double()
    tokens, memory = torch.randn(2, 5, 12).double(), torch.randn(2, 7, 12).double()
    attended = memory if cross else tokens
    if cross:
        assert attention.memory_projections is not None
        query, (key, value) = attention.projections.weight, attention.memory_projections.weight.chunk(2)
    else:
        query, key, value = attention.projections.weight.chunk(3)
    mixed = []
    for head in range(3):
        rows = slice(4 * head, 4 * head + 4)
        q, k, v = tokens @ query[rows].T, attended @ key[rows].T, attended @ value[rows].T
        mixed.append((q @ k.mT / math.sqrt(4)).softmax(-1) @ v)
    expected = torch.cat(mixed, -1) @ attention.output.weight.T
    torch.testing.assert_close(attention(tokens, memory if cross else None), expected)


def test_initial_weights_follow_the_release() -> None:
    """Uniform in +-bound: Xavier of each square matrix alone, times the gain before the residual stream."""
    torch.manual_seed(0)
    xavier = math.sqrt(6 / (192 + 192))
    for blocks, cross in ((8, True), (4, False)):
        gain = ((3 if cross else 2) * blocks) ** -0.5
        block = Transformer(width=192, blocks=blocks, heads=4, cross=cross).blocks[1]
        assert isinstance(block, Block)
        bounds = {
            block.attention.projections.weight: xavier,
            block.attention.output.weight: gain * xavier,
            block.feed[0].weight: math.sqrt(6 / 192),
            block.feed[2].weight: gain * math.sqrt(6 / (192 + 768)),
        }
        if block.cross_attention is not None and block.cross_attention.memory_projections is not None:
            bounds[block.cross_attention.memory_projections.weight] = xavier
            bounds[block.cross_attention.output.weight] = gain * xavier
        for weight, bound in bounds.items():
            assert weight.abs().max() <= bound * (1 + 1e-6)
            assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_first_block_continues_from_normalised_tokens() -> None:
    tokens = 3 + torch.randn(2, 5, 8)
    for first in (True, False):
        block = Block(8, 2, first=first)
        nn.init.zeros_(block.attention.output.weight)
        nn.init.zeros_(block.feed[2].weight)
        torch.testing.assert_close(block(tokens), block.norm(tokens) if first else tokens)


def test_the_order_of_tokens_has_no_effect() -> None:
    torch.manual_seed(0)
    transformer, tokens = Transformer(width=16, blocks=2, heads=2), torch.randn(2, 6, 16)
    order = torch.randperm(6)
    torch.testing.assert_close(transformer(tokens[:, order]), transformer(tokens)[:, order])


def test_the_order_of_the_memory_has_no_effect_on_the_decoder() -> None:
    torch.manual_seed(0)
    decoder, memory = TransformerDecoder(10, size=16, width=16, blocks=2).eval(), torch.randn(2, 6, 10)
    torch.testing.assert_close(decoder(memory[:, torch.randperm(6)]), decoder(memory))
    assert not torch.allclose(decoder(memory[:, :5]), decoder(memory), atol=1e-4)
    assert not torch.allclose(decoder(memory[:1]), decoder(memory[1:]), atol=1e-4)


def test_every_patch_reads_the_same_from_one_token_of_memory() -> None:
    torch.manual_seed(0)
    attention = Attention(16, 2, cross=True)
    tokens, memory = torch.randn(3, 5, 16), torch.randn(3, 1, 16)
    torch.testing.assert_close(attention(tokens, memory), attention(tokens[:, :1], memory).expand(-1, 5, -1))
    assert TransformerDecoder(16, size=8, width=16, blocks=1)(memory).shape == (3, 3, 8, 8)


def test_decoder_arranges_its_patches_as_an_image() -> None:
    decoder = TransformerDecoder(4, size=8, patch=4, width=8, blocks=1, heads=2)
    nn.init.zeros_(decoder.pixels.weight)
    with torch.no_grad():
        decoder.pixels.bias.copy_(torch.arange(48.0))
    patch = torch.arange(48.0).view(4, 4, 3).permute(2, 0, 1)
    assert torch.equal(decoder(torch.zeros(1, 1, 4))[0], patch.tile(1, 2, 2))


def test_dropout_applies_only_in_training() -> None:
    torch.manual_seed(0)
    decoder, memory = TransformerDecoder(8, size=8, width=16, blocks=1, dropout=0.5), torch.randn(2, 3, 8)
    assert not torch.equal(decoder(memory), decoder(memory))
    decoder.eval()
    assert torch.equal(decoder(memory), decoder(memory))


def test_attention_weights_are_dropped_too() -> None:
    """With one token of memory the weight is 1: dropped, it takes a whole head of an image's patch with it."""
    torch.manual_seed(0)
    attention = Attention(4, 1, dropout=0.5, cross=True)
    nn.init.eye_(attention.output.weight)
    output = attention(torch.randn(200, 1, 4), torch.ones(200, 1, 4))
    # kept by the weight (1/2) and then entry by entry (1/2); all four entries vanish with 1/2 + 1/2 (1/2)^4 = 0.53
    assert ((output == 0).all(-1).float().mean() - 0.53125).abs() < 0.12


def test_parameters_of_the_paper() -> None:
    # a block: 2 attentions of 4 * 192^2, feed-forward 192 * 768 + 768 + 768 * 192 + 192, 3 norms of 2 * 192
    block = 2 * 4 * 192**2 + (2 * 192 * 768 + 768 + 192) + 3 * 2 * 192
    assert block == 591_936
    # the decoder: memory 192 * 192 without bias, 8 blocks, last norm, pixels 192 * 48 + 48
    assert _parameters(TransformerDecoder(192)) == 192**2 + 8 * block + 2 * 192 + 192 * 48 + 48 == 4_782_000
    # without attention to a memory a block has 4 * 192^2 and a norm less
    encoder = 8 * (block - 4 * 192**2 - 2 * 192) + 2 * 192
    assert _parameters(Transformer(width=192, blocks=8, heads=8)) == encoder == 3_553_152


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 30}, "do not tile"),
        ({"heads": 5}, "width must be divisible by heads"),
        ({"width": 18, "heads": 3}, "divisible by 4"),
        ({"blocks": 0}, "blocks must be at least 1"),
        ({"heads": 0}, "heads must be at least 1"),
        ({"dropout": 1.0}, "dropout must be"),
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TransformerDecoder(8, **{"size": 32, "width": 16, "blocks": 1, **wrong})  # type: ignore[arg-type]
