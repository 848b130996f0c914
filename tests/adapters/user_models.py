"""Models as users write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Network(nn.Module):
    """A small convolutional network in the style of torchvision: stem, stages, pooling, classifier."""

    def __init__(self, outputs: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(16, outputs)

    def forward(self, images: Tensor) -> Tensor:
        features = self.layer1(F.relu(self.bn1(self.conv1(images))))
        codes: Tensor = self.fc(self.dropout(self.avgpool(features).flatten(1)))
        return codes


class Slots(nn.Module):
    """Returns a dictionary of slots and masks."""

    def __init__(self, slots: int = 5) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 6, 3, padding=1)
        self.attention = nn.Conv2d(6, slots, 1)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        features = self.features(images)
        masks = self.attention(features).softmax(1)  # [B, K, H, W]
        slots = torch.einsum("bkhw,bchw->bkc", masks, features) / masks.sum((2, 3))[..., None]
        return {"slots": slots, "masks": masks, "loss": torch.zeros(())}


def mean_colour(images: Tensor) -> Tensor:
    return images.mean((2, 3))


def make_network() -> nn.Module:
    return Network(4)


instance = Network(3)
number = 7


class NeedsWidth(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()


class Autoencoder(nn.Module):
    """A model whose codes come from a method."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(48, 5), nn.Linear(5, 48)

    def forward(self, images: Tensor) -> Tensor:
        return self.decoder(self.encode(images)).view_as(images)

    def encode(self, images: Tensor) -> Tensor:
        codes: Tensor = self.encoder(images.flatten(1))
        return codes
