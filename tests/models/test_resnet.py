"""ResNet-18."""

from __future__ import annotations

import pytest
import torch

from alebrije.errors import InputError
from alebrije.models.resnet import REDUCTION, ResNet18
from alebrije.models.slot_attention import ResNetEncoder, SlotAttentionAutoencoder


def test_it_has_the_weights_of_resnet_18() -> None:
    """torchvision's has 11,176,512 without its last layer; 7 x 7 - 3 x 3 weights of the first layer are fewer here."""
    found = sum(weight.numel() for weight in ResNet18(3).parameters())
    assert found == 11_176_512 - 3 * 64 * (49 - 9)


def test_maps_are_a_quarter_as_wide_and_see_their_place() -> None:
    torch.manual_seed(0)
    model = ResNet18(3, width=8).eval()
    images = torch.rand(2, 3, 32, 32)
    maps = model(images)
    assert maps.shape == (2, 64, 32 // REDUCTION, 32 // REDUCTION)
    assert torch.allclose(model(images[1:]), maps[1:], atol=1e-5)  # group norms do not depend on the batch


def test_the_encoder_of_slot_attention() -> None:
    assert ResNetEncoder(inputs=5, width=8, channels=12)(torch.rand(2, 5, 16, 16)).shape == (2, 16, 12)
    model = SlotAttentionAutoencoder(size=16, slots=3, channels=8, encoder="resnet18", resnet_width=8, decoder_layers=1)
    encoding = model(torch.rand(2, 3, 16, 16), slots=5)
    assert encoding.masks is not None
    assert encoding.masks.shape == (2, 5, 16, 16)
    with pytest.raises(InputError, match="encoder must be 'cnn' or 'resnet18', not 'vit'"):
        SlotAttentionAutoencoder(encoder="vit")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="multiple of 8, not 12"):
        ResNet18(3, width=12)
