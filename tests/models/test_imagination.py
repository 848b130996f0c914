"""I2I-CNN, I2I-ViT and the Oracle: inputs, sizes of the paper, and that they learn to predict the target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.models.imagination import I2ICNN, I2IViT, Imagination, Oracle
from alebrije.models.learner import Batch, Learner
from alebrije.scenes import Scenes

Fit = Callable[..., list[float]]

DECODER: dict[str, Any] = {"size": 16, "decoder_width": 64, "decoder_blocks": 2, "dropout": 0.0}
TINY: dict[str, Callable[[], Imagination]] = {
    "I2I-CNN": lambda: I2ICNN(channels=16, code=32, **DECODER),
    "I2I-ViT": lambda: I2IViT(patch=4, width=64, blocks=2, heads=4, **DECODER),
    "Oracle": lambda: Oracle(values=4, mixing=1, width=64, **DECODER),
}


def _batch(source: Scenes, target: Scenes, size: int) -> Batch:
    render = worlds.get("sprites").render
    return {
        "source": render(source, size=size).images / 255,
        "target": render(target, size=size).images / 255,
        "factors": source.factors,
        "floats": source.position.float(),
    }


@pytest.fixture(scope="module")
def episodes() -> Batch:
    sampled = worlds.task("sprites", "S-A").train(16, seed=0)
    return _batch(sampled.source, sampled.target, size=16)


def _rows(batch: Batch, rows: slice | Tensor) -> Batch:
    return {name: tensor[rows] for name, tensor in batch.items()}


def _error(first: Tensor, second: Tensor) -> float:
    return float((first - second).detach().square().mean())


def _parameters(model: nn.Module, part: str) -> int:
    return sum(parameter.numel() for name, parameter in model.named_parameters() if name.startswith(part))


@pytest.fixture(params=sorted(TINY))
def tiny(request: pytest.FixtureRequest) -> Imagination:
    torch.manual_seed(0)
    return TINY[request.param]()


def test_is_a_learner_that_predicts(tiny: Imagination, episodes: Batch) -> None:
    assert isinstance(tiny, Learner)
    tiny.eval()
    predicted = tiny.predict(episodes)
    assert predicted.shape == (16, 3, 16, 16)
    assert predicted.min() >= 0
    assert predicted.max() <= 1
    assert torch.equal(predicted, tiny.predict(episodes))
    assert {name.split(".")[0] for name, _ in tiny.named_parameters()} == {"encoder", "decoder"}


def test_loss_is_the_mean_squared_error_before_the_clamp(tiny: Imagination, episodes: Batch) -> None:
    predicted = tiny.decoder(tiny.tokens(episodes))
    losses = tiny.training_loss(episodes, torch.tensor(0.0))
    assert predicted.min() < 0  # or the clamp would not matter
    assert losses["loss"].item() == pytest.approx(_error(predicted, episodes["target"]), rel=1e-5)


def test_all_parameters_learn(tiny: Imagination, episodes: Batch) -> None:
    if isinstance(tiny, I2ICNN):  # attention to one token does not depend on queries and keys
        idle = {name for name, _ in tiny.named_parameters() if "cross_attention.projections" in name}
        idle |= {name for name, _ in tiny.named_parameters() if "cross_norm" in name}
    else:
        idle = set()
    tiny.training_loss(episodes, torch.tensor(0.0))["loss"].backward()  # type: ignore[no-untyped-call]
    for name, parameter in tiny.named_parameters():
        assert parameter.grad is not None
        assert (parameter.grad.abs().max() > 1e-9) != (name in idle), name


def test_half_precision_and_compilation(tiny: Imagination, episodes: Batch) -> None:
    step = torch.tensor(0.0)
    whole = tiny.training_loss(episodes, step)["loss"]
    with torch.autocast("cpu", torch.bfloat16):
        half = tiny.training_loss(episodes, step)["loss"]
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(whole.item(), rel=0.05)
    compiled = torch.compile(tiny.training_loss, backend="eager", fullgraph=True)
    assert compiled(episodes, step)["loss"].item() == pytest.approx(whole.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["I2I-CNN", "I2I-ViT"])
def test_encodings_of_images(name: str, episodes: Batch) -> None:
    torch.manual_seed(0)
    model = TINY[name]().eval()
    tokens, vector = model.tokens(episodes), model(episodes["source"]).vector
    assert tokens.shape[1] == {"I2I-CNN": 1, "I2I-ViT": 16}[name]
    torch.testing.assert_close(vector, tokens.mean(1))


def test_vision_transformer_encodes_the_position_of_patches() -> None:
    torch.manual_seed(0)
    model = TINY["I2I-ViT"]().eval()
    image = torch.rand(1, 3, 16, 16)
    moved = model.tokens({"source": image.roll(4, dims=3)})
    assert not torch.allclose(
        moved.view(4, 4, -1).roll(-1, 1), model.tokens({"source": image}).view(4, 4, -1), atol=0.1
    )


def test_parameters_of_the_paper() -> None:
    decoder = 4_745_136  # of a transformer decoder but for its memory: see test_transformer.py
    cnn = I2ICNN()
    # convolutions 3 -> 64 and three 64 -> 64, 5 x 5, and 64 * 8 * 8 -> 64
    assert _parameters(cnn, "encoder.") == (75 * 64 + 64) + 3 * (1600 * 64 + 64) + (4096 * 64 + 64) == 574_464
    assert _parameters(cnn, "decoder.") == decoder + 64 * 192
    vit = I2IViT()
    # patches of 16 * 16 * 3 -> 192, and 8 blocks
    assert _parameters(vit, "encoder.") == (768 * 192 + 192) + 3_553_152 == 3_700_800
    assert _parameters(vit, "decoder.") == decoder + 192**2
    oracle = Oracle()
    # a table of 3 * 128 rows, 4 blocks of 444,096, and a norm
    assert _parameters(oracle, "encoder.") == 3 * 128 * 192 + 4 * 444_096 + 2 * 192 == 1_850_496
    assert _parameters(oracle, "decoder.") == decoder + 192**2


def test_oracle_encodes_scenes_as_in_the_paper() -> None:
    """Without mixing, a token is the layer norm of an embedding plus a position, in closed form."""
    torch.manual_seed(0)
    width, values = 8, 5
    model = Oracle(factors=2, floats=1, values=values, mixing=0, width=width, heads=2, **DECODER).eval()
    scene = {"factors": torch.tensor([[[3, 1], [0, 4]]]), "floats": torch.tensor([[[0.25], [0.6]]])}
    expected = []
    for number in range(2):
        tokens = [model.encoder.table.weight[values * j + int(scene["factors"][0, number, j])] for j in range(2)]
        written = float(scene["floats"][0, number, 0])
        angles = [2 * math.pi * 10_000 ** (2 * i / width) * written for i in range(width // 2)]
        tokens.append(torch.tensor([wave(angle) for angle in angles for wave in (math.sin, math.cos)]))
        expected += tokens
    positions = [
        [wave(position / 10_000 ** (2 * i / width)) for i in range(width // 2) for wave in (math.sin, math.cos)]
        for position in range(6)
    ]
    normed = nn.functional.layer_norm(torch.stack(expected) + torch.tensor(positions), (width,))
    torch.testing.assert_close(model.encode(scene).slots, normed[None], atol=2e-3, rtol=0)


def test_the_order_of_objects_has_no_effect_on_the_oracle(episodes: Batch) -> None:
    torch.manual_seed(0)
    model = TINY["Oracle"]().eval()
    swapped = {"factors": episodes["factors"].flip(1), "floats": episodes["floats"].flip(1)}
    torch.testing.assert_close(model.predict(swapped), model.predict(episodes))
    crossed = {
        "factors": episodes["factors"],
        "floats": episodes["floats"].flip(1),
    }  # each object at the position of the other
    assert _error(model.predict(crossed), model.predict(episodes)) > 1e-6


def test_oracle_takes_scenes_without_floats() -> None:
    model = Oracle(factors=3, floats=0, values=4, mixing=1, width=16, **DECODER)
    assert model.encode({"factors": torch.zeros(2, 5, 3, dtype=torch.int64)}).slots.shape == (2, 15, 16)  # type: ignore[union-attr]


def test_oracle_rejects_bad_scenes(episodes: Batch) -> None:
    model = TINY["Oracle"]()
    with pytest.raises(InputError, match="reads scenes"):
        model(episodes["source"])
    with pytest.raises(InputError, match=r"factors must have the shape \[B, N, 3\]"):
        model.training_loss({**episodes, "factors": episodes["factors"][..., :2]}, torch.tensor(0.0))
    with pytest.raises(InputError, match=r"floats must have the shape \[16, 2, 2\]"):
        model.predict({**episodes, "floats": episodes["floats"][..., :1]})
    with pytest.raises(InputError, match=r"factors must be in 0\.\.3"):
        model.predict({**episodes, "factors": episodes["factors"] + 1})
    with pytest.raises(InputError, match=r"scaled to 0\.\.1"):
        model.predict({**episodes, "floats": 128 * episodes["floats"]})


def test_bad_arguments_and_images_are_named(episodes: Batch) -> None:
    with pytest.raises(InputError, match="divisible by 16"):
        I2ICNN(size=40)
    with pytest.raises(InputError, match="do not tile"):
        I2IViT(size=40)
    with pytest.raises(InputError, match="factors must be at least 1"):
        Oracle(factors=0)
    with pytest.raises(InputError, match="blocks must be at least 0"):
        Oracle(mixing=-1)
    model = TINY["I2I-CNN"]()
    with pytest.raises(InputError, match=r"images must have the shape \[B, 3, 16, 16\]"):
        model(torch.zeros(2, 3, 32, 32))
    with pytest.raises(InputError, match=r"target must have the shape \[B, 3, 16, 16\]"):
        model.training_loss({**episodes, "target": torch.zeros(16, 3, 8, 8)}, torch.tensor(0.0))


@pytest.mark.parametrize("name", ["I2I-CNN", "I2I-ViT"])
def test_overfits_sixteen_episodes(name: str, episodes: Batch, fit: Fit) -> None:
    torch.manual_seed(0)
    model = TINY[name]()
    fit(model, lambda step: episodes, steps=450, lr=3e-3)
    with torch.no_grad():
        error = _error(model.predict(episodes), episodes["target"])
    # a source given back unchanged has 0.0108, the mean target 0.062
    assert error < _error(episodes["source"], episodes["target"]) / 2


def test_oracle_learns_to_swap_shapes(fit: Fit) -> None:
    """Two large sprites side by side, of all colours and shapes: 192 of the 256 pairs are shown and 64 held out."""
    task, size = worlds.task("sprites", "S-A"), 16
    pairs = torch.cartesian_prod(*[torch.arange(4)] * 4).view(-1, 2, 2)
    factors = torch.cat((pairs, torch.full((256, 2, 1), 3)), dim=2)
    factors = factors[torch.randperm(256, generator=torch.Generator().manual_seed(0))]
    source = Scenes.of(task.world.vocabulary, factors, torch.tensor([[0.27, 0.5], [0.73, 0.5]]).expand(256, 2, 2))
    shown, held_out = (_rows(_batch(source, task.apply(source), size), rows) for rows in (slice(192), slice(192, 256)))
    torch.manual_seed(0)
    model = TINY["Oracle"]()
    fit(model, lambda step: _rows(shown, torch.arange(32 * step, 32 * step + 32) % 192), steps=450, lr=3e-3)
    with torch.no_grad():
        error = _error(model.predict(held_out), held_out["target"])
    unchanged, mean = (_error(guess, held_out["target"]) for guess in (held_out["source"], shown["target"].mean(0)))
    # 0.025 and 0.076; the model comes to 0.007
    assert error < 0.5 * unchanged
    assert error < 0.2 * mean
