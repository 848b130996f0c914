"""Untrained twins of encoders: other weights of the same kind, and the model's own are kept."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from alebrije import adapters
from alebrije.adapters import Encoder
from alebrije.adapters.untrained import NotReinitialisedError, reinitialised
from alebrije.errors import InputError
from alebrije.train.plan import plan

IMAGES = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Tokens(nn.Module):
    """Layers, batch norm, and a parameter that no layer can reset."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 4, 4)
        self.norm = nn.BatchNorm2d(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(self.convolution(images)).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], 1)
        return self.attention(tokens, tokens, tokens)[0][:, 0]  # type: ignore[no-any-return]


def test_all_weights_are_drawn_again_and_depend_on_the_seed_alone() -> None:
    torch.manual_seed(0)
    model = Tokens()
    encoder = Encoder(model)
    before, state = encoder(IMAGES).codes, copy.deepcopy(model.state_dict())
    first, second, again = (reinitialised(encoder, seed)(IMAGES).codes for seed in (1, 2, 1))
    assert torch.equal(first, again)
    assert not torch.allclose(first, second)
    assert not torch.allclose(first, before)
    assert torch.equal(encoder(IMAGES).codes, before), "the model keeps its weights"
    assert all(torch.equal(weight, state[name]) for name, weight in model.state_dict().items())


def test_a_model_keeps_its_weights_if_its_twin_fails() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    twin = reinitialised(Encoder(model), 0)
    before = model[1].weight.clone()
    with pytest.raises(InputError, match="failed on images"):
        twin(IMAGES)
    assert torch.equal(model[1].weight, before)


def test_matrices_keep_their_scale() -> None:
    layer = nn.Linear(400, 300)
    nn.init.normal_(layer.weight, std=3.0)
    twin = reinitialised(Encoder(nn.Sequential(nn.Flatten(), layer)), 0)
    weights = twin.model.weights[0]  # type: ignore[attr-defined]
    assert float(weights["1.weight"].std()) == pytest.approx(float(layer.weight.detach().std()), rel=1e-4)
    assert (
        float(torch.corrcoef(torch.stack([weights["1.weight"].flatten(), layer.weight.data.flatten()]))[0, 1].abs())
        < 0.02
    )


def test_functions_over_modules_and_layers_have_twins() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    pooled = Encoder(lambda images: network(images).mean((2, 3)))
    assert not torch.equal(reinitialised(pooled, 0)(IMAGES).codes, pooled(IMAGES).codes)
    inner = Encoder(network, layer="0")
    twin = reinitialised(inner, 0)
    assert twin(IMAGES).codes.shape == inner(IMAGES).codes.shape
    assert not torch.equal(twin(IMAGES).codes, inner(IMAGES).codes)


@pytest.mark.parametrize("model", [lambda images: images.mean((2, 3)), nn.Sequential(nn.AvgPool2d(2), nn.Flatten())])
def test_a_model_without_weights_has_no_such_twin(model: object) -> None:
    with pytest.raises(NotReinitialisedError, match="has no torch parameters"):
        reinitialised(Encoder(model), 0)  # type: ignore[arg-type]


def test_a_model_of_alebrije_is_built_as_before_training() -> None:
    made = plan("beta-vae", preset_name="tiny", seed=5)
    encoder = Encoder(made.new_model(), plan=made)
    images = torch.rand(2, 3, made.size, made.size)
    twin = reinitialised(encoder, 5)
    assert torch.equal(twin(images).codes, encoder(images).codes), "the same seed gives the initial weights"
    assert not torch.equal(reinitialised(encoder, 6)(images).codes, encoder(images).codes)


def test_the_class_of_a_spec_draws_its_own_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_scale.py").write_text(
        "import torch\nfrom torch import nn\n\n\n"
        "class Model(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(768, 4))\n"
        "        nn.init.uniform_(self[1].weight, 5.0, 6.0)\n\n\n"
        "class Trained(Model):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self[1].weight.data.copy_(torch.linspace(0, 1, 3072).view(4, 768))\n"
        "        nn.init.zeros_(self[1].bias)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = reinitialised(adapters.load("own_scale:Model"), 0).model.weights[0]["1.weight"]  # type: ignore[attr-defined]
    assert 5.0 <= float(own.min()) <= float(own.max()) <= 6.0
    fixed = reinitialised(adapters.load("own_scale:Trained"), 0).model.weights[0]["1.weight"]  # type: ignore[attr-defined]
    trained = torch.linspace(0, 1, 3072).view(4, 768)
    assert float((fixed - trained).abs().mean()) > 0.1, "a class that loads its weights is reset layer by layer"


def test_transformers_models_are_made_from_their_configuration() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8
    )
    model = transformers.ViTModel(config).eval()
    encoder = Encoder(lambda images: model(pixel_values=images).pooler_output)
    twin = reinitialised(encoder, 3)
    weights = twin.model.weights[0]  # type: ignore[attr-defined]
    assert not torch.equal(twin(IMAGES).codes, encoder(IMAGES).codes)
    name = next(name for name in weights if name.endswith("projection.weight"))
    assert float(weights[name].std()) == pytest.approx(config.initializer_range, rel=0.2), "its own initialisation"
