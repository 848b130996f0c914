"""Which outputs hold tokens, and which of them belong to no patch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije.adapters import Encoder, Preprocessing, check, load
from alebrije.adapters.tokens import pooled, read_tokens
from alebrije.adapters.untrained import reinitialised
from alebrije.encoding import Encoding
from alebrije.errors import InputError

IMAGES = torch.zeros(2, 3, 32, 32)
GRID = torch.rand(2, 6, 5, 5)
PATCHES = GRID.flatten(2).transpose(1, 2)


def after(leading: int) -> Tensor:
    """The patches after class and register tokens."""
    return torch.cat([torch.full((2, leading, 6), 9.0), PATCHES], 1)


@pytest.mark.parametrize("leading", [0, 1, 2, 5])
def test_class_and_register_tokens_are_left_out(leading: int) -> None:
    tokens = read_tokens(after(leading), IMAGES)
    assert tokens is not None
    torch.testing.assert_close(tokens.grid, GRID)
    torch.testing.assert_close(tokens.patches, PATCHES)
    assert tokens.leading.shape == (2, leading, 6)
    assert bool((tokens.leading == 9).all())


@pytest.mark.parametrize(
    "output",
    [
        GRID,
        PATCHES.numpy(),
        (after(1),),
        {"anything": after(1)},
        {"pooler_output": torch.rand(2, 6), "last_hidden_state": after(1)},
        {"vector": torch.rand(2, 6), "tokens": GRID},
        {"x_norm_clstoken": torch.rand(2, 6), "x_norm_patchtokens": PATCHES, "masks": None},
        SimpleNamespace(last_hidden_state=after(2), pooler_output=None),
        Encoding(slots=after(1)),
    ],
    ids=lambda output: type(output).__name__,
)
def test_outputs_with_tokens(output: Any) -> None:
    tokens = read_tokens(output, IMAGES)
    assert tokens is not None
    torch.testing.assert_close(tokens.grid, GRID)


@pytest.mark.parametrize(
    "output",
    [
        torch.rand(2, 6),
        torch.rand(2, 6, 1, 1),
        torch.rand(2, 7, 6),  # slots
        torch.rand(2, 16, 6),
        torch.rand(2, 95, 6),  # no square is near
        {"slots": PATCHES, "masks": torch.rand(2, 25, 8, 8)},
        (PATCHES, torch.rand(2, 25, 8, 8)),
        Encoding(slots=PATCHES, masks=torch.rand(2, 25, 8, 8)),
        Encoding(vector=torch.rand(2, 6)),
        None,
        "text",
        [],
    ],
    ids=["codes", "one pixel", "slots", "few", "odd", "dict", "tuple", "encoding", "vector", "none", "text", "list"],
)
def test_outputs_without_tokens(output: Any) -> None:
    assert read_tokens(output, IMAGES) is None


def test_few_tokens_need_a_name() -> None:
    few = torch.rand(2, 5, 6)
    assert read_tokens(few, IMAGES) is None
    tokens = read_tokens({"last_hidden_state": few}, IMAGES)
    assert tokens is not None
    assert tokens.grid.shape == (2, 6, 2, 2)


def test_the_grid_has_the_proportions_of_the_image() -> None:
    tokens = read_tokens(torch.rand(2, 33, 6), torch.zeros(2, 3, 32, 64))
    assert tokens is not None
    assert tokens.grid.shape == (2, 6, 4, 8)


def test_an_encoder_gives_tokens_in_batches(images: Tensor) -> None:
    network = nn.Conv2d(3, 6, 4, stride=4)
    encoder = Encoder(network, preprocessing=Preprocessing(size=16), batch=3)
    assert encoder.token_shape == (6, 4, 4)
    tokens = encoder.tokens(images)
    assert tokens is not None
    with torch.no_grad():
        torch.testing.assert_close(tokens.grid, network(encoder.preprocessing(images)))
    assert "its 16 tokens (4 x 4) are clustered" in check(encoder)["grouping"].sentence
    assert Encoder(nn.Sequential(network, nn.Flatten())).token_shape == ()


def test_pooling() -> None:
    output = torch.cat([torch.full((2, 1, 6), 9.0), torch.full((2, 1, 6), 5.0), PATCHES], 1)
    encoding, words = pooled("cls", output, IMAGES)
    assert encoding.vector is not None
    assert bool((encoding.vector == 9).all())
    assert words == "the class token beside 25 tokens"
    mean, words = pooled("mean", {"pooler_output": torch.rand(2, 6), "last_hidden_state": output}, IMAGES)
    torch.testing.assert_close(mean.codes, PATCHES.mean(1))
    assert words == "the mean of 25 tokens (5 x 5), without 2 class or register tokens"
    slots, words = pooled("tokens", output, IMAGES)
    torch.testing.assert_close(slots.codes, PATCHES)
    assert words.endswith(", as slots")
    with pytest.raises(InputError, match="pool=cls needs a class token, and the model returned 25 tokens"):
        pooled("cls", GRID, IMAGES)
    with pytest.raises(InputError, match="pool=mean needs tokens"):
        pooled("mean", torch.rand(2, 6), IMAGES)


def test_an_encoder_pools_and_says_so(images: Tensor) -> None:
    network = nn.Sequential(nn.Conv2d(3, 6, 4, stride=4), nn.Flatten(2))

    def tokens(prepared: Tensor) -> Tensor:
        return network(prepared).transpose(1, 2)

    bare, mean, slots = (load(tokens, size=20, pool=pool) for pool in (None, "mean", "tokens"))
    assert [encoder.kind for encoder in (bare, mean, slots)] == ["slots", "vector", "slots"]
    torch.testing.assert_close(mean(images).codes, bare(images).codes.mean(1))
    assert len({encoder.fingerprint for encoder in (bare, mean, slots)}) == 3
    assert "It returns the mean of 25 tokens (5 x 5)" in check(mean)["output"].sentence
    assert reinitialised(mean, 0).pool == "mean"
    with pytest.raises(InputError, match="pool must be cls, mean or tokens, not 'max'"):
        load(network, pool="max")  # type: ignore[arg-type]


def test_tokens_of_real_transformers(images: Tensor) -> None:
    """The tokens of four architectures with random weights, without class and register tokens."""
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    sizes = {"image_size": 40, "patch_size": 8}
    models = {
        "vit": (transformers.ViTModel(transformers.ViTConfig(**small, **sizes)), 1),
        "deit": (transformers.DeiTModel(transformers.DeiTConfig(**small, **sizes)), 2),
        "dinov2 with registers": (
            transformers.Dinov2WithRegistersModel(
                transformers.Dinov2WithRegistersConfig(**small, **sizes, num_register_tokens=4)
            ),
            5,
        ),
        "resnet": (
            transformers.ResNetModel(
                transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
            ),
            0,
        ),
    }
    for name, (model, leading) in models.items():
        encoder = Encoder(model.eval(), preprocessing=Preprocessing(size=40))
        tokens = encoder.tokens(images)
        assert tokens is not None, name
        assert tokens.grid.shape == (7, 12, 5, 5), name
        assert tokens.leading.shape[1] == leading, name
        with torch.no_grad():
            hidden = model(encoder.prepare(images)).last_hidden_state
        torch.testing.assert_close(tokens.patches, hidden[:, leading:] if leading else hidden.flatten(2).mT)
