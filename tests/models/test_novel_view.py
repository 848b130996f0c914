"""Models of several views: what they see, what they draw, and that they learn to draw a view from another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.models.catalog import build
from tests.models.conftest import Fit
from tests.models.spots import spots

NVS = {
    "size": 16,
    "slots": 2,
    "octaves": 5,
    "channels": 16,
    "slot_size": 32,
    "projections": 32,
    "hidden": 64,
    "decoder_layers": 2,
    "resnet_width": 8,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "slot-attention-nvs": NVS,
    "bo-qsa-nvs": NVS | {"drop_path": 0.0, "noise_steps": 50},
    "osrt": {"size": 16, "slots": 2, "width": 64, "blocks": 1, "heads": 4, "octaves": 5, "rays": 64},
}
NAMES = list(SETTINGS)


def tiny(name: str, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    return build(name, **{**SETTINGS[name], **settings})


def error_of_the_other_view(model: nn.Module, batch: dict[str, torch.Tensor]) -> float:
    with torch.no_grad():
        drawn = model.eval()(batch["images"], batch["cameras"], generator=torch.Generator().manual_seed(0))
    return float((drawn.reconstruction - batch["images"])[:, 1].square().mean())


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_to_draw_a_view_from_another(name: str, fit: Fit) -> None:
    """A coloured spot: the error is well below that of the mean picture, and large if the first view is another's."""
    model = tiny(name, **({"targets": "others"} if name == "osrt" else {}))
    data = [spots(8, seed) for seed in range(40)]
    fit(model, lambda step: data[step % 40], 200, lr=1e-3)
    batch = spots(64, 10**6)
    mean = float((batch["images"] - batch["images"].mean(0))[:, 1].square().mean())
    swapped = batch | {"images": torch.cat([batch["images"].roll(1, 0)[:, :1], batch["images"][:, 1:]], 1)}
    error = error_of_the_other_view(model, batch)
    assert error < 0.6 * mean
    assert error_of_the_other_view(model, swapped) > 1.2 * mean


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("inputs", [1, 2])
def test_slots_come_from_the_first_views_alone(name: str, inputs: int) -> None:
    model = tiny(name, inputs=inputs, initial="random").eval()
    batch = spots(2, 0, views=3)
    changed = batch["images"].clone()
    changed[:, inputs:] = 0

    def encoded(images: torch.Tensor) -> Any:
        return model(images, batch["cameras"], slots=4, generator=torch.Generator().manual_seed(1))

    with torch.no_grad():
        encoding, other = encoded(batch["images"]), encoded(changed)
        changed[:, inputs - 1] = 0
        assert not torch.equal(encoded(changed).slots, encoding.slots)
    assert encoding.slots.shape[:2] == (2, 4)
    assert encoding.masks.shape == (2, 3, 4, 16, 16)
    assert encoding.reconstruction.shape == batch["images"].shape
    assert torch.equal(encoding.slots, other.slots)
    assert torch.equal(encoding.masks, other.masks)
    torch.testing.assert_close(encoding.masks.sum(2), torch.ones(2, 3, 16, 16))


@pytest.mark.parametrize("name", NAMES)
def test_a_view_does_not_depend_on_those_drawn_beside_it(name: str) -> None:
    model = tiny(name).eval()
    batch = spots(2, 0, views=3)
    with torch.no_grad():
        slots, two = (
            model(batch["images"][:, :count], batch["cameras"][:, :count], generator=torch.Generator().manual_seed(1))
            for count in (3, 2)
        )
    torch.testing.assert_close(slots.masks[:, :2], two.masks, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_permuting_random_slots_permutes_masks(name: str) -> None:
    model = tiny(name, initial="random").eval()
    batch = spots(2, 0)
    first = model.initial(2, 3, torch.Generator().manual_seed(0))
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        slots, moved = (model.encode(batch["images"], batch["cameras"], each, 1) for each in (first, first[:, order]))
    torch.testing.assert_close(moved, slots[:, order], atol=1e-5, rtol=1e-4)


def test_rays_are_those_of_the_target_views() -> None:
    model = tiny("osrt", targets="others", rays=400)
    batch = spots(2, 0, views=3)
    batch["images"][:, 0] = 7.0
    colours, poses = model.random_rays(batch["images"], batch["cameras"], 1)
    assert colours.shape == (2, 400, 3)
    assert float(colours.max()) <= 1.0
    assert poses.shape == (2, 400, 60)


def test_parameter_counts() -> None:
    """OSRT's release has 83.1 million: encoder 29.5, slots 28.3, decoder 25.3."""
    model = build("osrt")
    counts = [
        sum(weight.numel() for weight in part.parameters()) / 1e6
        for part in (model.encoder, model.grouping, model.mixer)
    ]
    assert counts == pytest.approx([29.5, 28.3, 25.3], abs=0.1)


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("osrt", {"width": 100}, "width must be a multiple of 64, and twice of it of 4 heads, not 100"),
        ("osrt", {"size": 20}, "size must be a multiple of 8 pixels, not 20"),
        ("osrt", {"targets": "none"}, "targets must be 'all' or 'others', not 'none'"),
        ("osrt", {"slots": 0}, "slots"),
        ("slot-attention-nvs", {"initial": "zeros"}, "'random' or 'learned'"),
        ("slot-attention-nvs", {"size": 12}, "size must be a multiple of 8 pixels and at least 16, not 12"),
        ("bo-qsa-nvs", {"noise_steps": 0}, "noise_steps"),
    ],
)
def test_bad_settings(name: str, wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        tiny(name, **wrong)


@pytest.mark.parametrize("name", NAMES)
def test_too_few_views(name: str) -> None:
    batch = spots(2, 0, views=2)
    settings = {"targets": "others"} if name == "osrt" else {}
    with pytest.raises(InputError, match="at least 3 views, not 2"):
        tiny(name, inputs=2, **settings).training_loss(batch, torch.zeros(()))
