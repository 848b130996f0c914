"""What goes into an encoder, what comes out, and what it must not change."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters
from alebrije.adapters import Encoder, Preprocessing, check, load
from alebrije.errors import InputError
from alebrije.fingerprint import Contents
from tests.adapters.user_models import Network, Slots, mean_colour


def test_a_network_in_batches(images: Tensor) -> None:
    network = Network().eval()
    encoder = load(network, size=16, mean=0.5, std=0.5, batch=3)
    prepared = Preprocessing(16, (0.5,) * 3, (0.5,) * 3)(images)
    encoding = encoder(images)
    torch.testing.assert_close(encoding.vector, network(prepared).detach())
    assert encoding.codes.requires_grad is False
    assert (encoder.kind, encoder.name) == ("vector", "Network")
    assert encoder.parameters == sum(weight.numel() for weight in network.parameters())


def test_slots_and_masks(images: Tensor) -> None:
    encoder = load(Slots(), batch=4)
    encoding = encoder(images)
    assert encoding.slots is not None
    assert encoding.masks is not None
    assert (encoding.slots.shape, encoding.masks.shape) == ((7, 5, 6), (7, 5, 20, 20))
    assert encoder.kind == "slots"
    torch.testing.assert_close(encoder.codes(images), encoding.slots)


def test_mode_weights_generators_and_images_are_restored(images: Tensor) -> None:
    network = Network().train()
    network.layer1.eval()
    modes = [part.training for part in network.modules()]
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    state, kept = torch.random.get_rng_state(), images.clone()
    encoder = load(network)
    torch.testing.assert_close(encoder(images).codes, encoder(images).codes, rtol=0, atol=0)
    assert [part.training for part in network.modules()] == modes
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(images, kept)


def test_a_failure_restores_the_mode() -> None:
    network = Network().train()
    with pytest.raises(InputError, match=r"Network failed on images \[1, 3, 8, 8\]: RuntimeError"):
        load(lambda images: network(images[:, :2]), name="Network")(torch.zeros(1, 3, 8, 8))
    assert network.training


def test_a_model_cannot_modify_the_images(images: Tensor) -> None:
    floats = images / 255
    kept = floats.clone()
    load(lambda given: given.zero_().mean((2, 3)))(floats)
    assert torch.equal(floats, kept)


def test_random_numbers_depend_on_images_and_seed(images: Tensor) -> None:
    encoder = load(lambda given: torch.randn(len(given), 4))
    first = encoder(images).codes
    torch.rand(3)
    assert torch.equal(first, encoder(images).codes)
    assert torch.equal(first, encoder(images / 255).codes)
    assert not torch.equal(first, encoder(images, seed=1).codes)
    assert not torch.equal(first, encoder(images.flip(0)).codes)


def test_random_numbers_do_not_depend_on_what_was_encoded_before(images: Tensor) -> None:
    def noisy_if_bright(given: Tensor) -> Tensor:
        codes = given.mean((2, 3))
        return codes + torch.randn_like(codes) if float(given.mean()) > 0.9 else codes

    bright = torch.full_like(images, 255)
    encoder = load(noisy_if_bright)
    assert torch.equal(encoder(images).codes, encoder(images).codes)  # without random numbers so far
    late, again = encoder(bright).codes, encoder(bright).codes
    assert torch.equal(late, again)
    assert torch.equal(late, load(noisy_if_bright)(bright).codes)
    assert not torch.equal(late, torch.ones_like(late))


def test_a_model_without_random_numbers_runs_once_and_its_images_are_not_digested(
    images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alebrije.adapters.encoder._batch_seed", None)
    runs: list[int] = []
    encoder = load(lambda given: runs.append(len(given)) or given.mean((2, 3)), batch=4)
    assert encoder(images).codes.shape == (7, 3)
    assert runs == [4, 3]


def test_weights_of_other_dtypes(images: Tensor) -> None:
    for dtype in (torch.float64, torch.bfloat16):
        encoding = load(nn.Sequential(nn.Flatten(), nn.Linear(1200, 2)).to(dtype))(images)
        assert encoding.codes.dtype == torch.float32


def test_a_layer(images: Tensor) -> None:
    network = Network()
    encoder = load(network, layer="layer1")
    features = network.eval().layer1(torch.relu(network.bn1(network.conv1(images / 255)))).mean((2, 3))
    torch.testing.assert_close(encoder(images).vector, features.detach())
    assert "the mean over the pixels of a feature map [B, 16, " in check(encoder)["output"].sentence
    assert not network.layer1._forward_hooks
    assert encoder.fingerprint != load(network).fingerprint
    with pytest.raises(InputError, match="no layer 'layer9'; did you mean 'layer1'"):
        load(network, layer="layer9")
    with pytest.raises(InputError, match="no visible layers"):
        load(mean_colour, layer="conv1")


def test_a_missing_device_is_refused() -> None:
    with pytest.raises(InputError, match="cannot use the device 'nowhere'"):
        load(Network(), device="nowhere")


def test_only_callables_are_models() -> None:
    with pytest.raises(InputError, match="must be callable with images; int is not"):
        load(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Network is a class; pass an instance"):
        load(Network)
    with pytest.raises(InputError, match="already loaded"):
        load(load(Network()))


def test_uint8_and_floats_get_the_same_codes(images: Tensor) -> None:
    encoder = load(mean_colour, size=9, mean=0.5, std=0.25)
    torch.testing.assert_close(encoder(images).vector, encoder(images / 255).vector)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (torch.zeros(3, 8, 8), r"must have the shape \[B, 3, H, W\]"),
        (torch.zeros(2, 1, 8, 8), r"must have the shape \[B, 3, H, W\]"),
        (torch.zeros(0, 3, 8, 8), r"must have the shape"),
        (torch.full((1, 3, 8, 8), 255.0), "range from 255 to 255"),
        (torch.full((1, 3, 8, 8), -1.0), "range from -1"),
        (torch.full((1, 3, 8, 8), torch.nan), "range from nan"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.int64), "not int64"),
        ("a.png", "not str"),
    ],
)
def test_wrong_images_are_refused(wrong: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(mean_colour)(wrong)


def test_the_room_is_public() -> None:
    import alebrije

    assert alebrije.adapters is adapters
    assert all(hasattr(adapters, name) for name in adapters.__all__)


def test_a_model_around_an_encoder_keeps_its_fingerprint() -> None:
    """Fingerprints are in the keys of stored results, and this one contains the name that the class had at first."""
    encoder = Encoder(Network(), name="mine")
    text = f": alebrije.adapters.adapted.Adapted {encoder.fingerprint}"
    assert Contents.of(encoder).rest == hashlib.sha256(f"{text!r};".encode()).hexdigest()
