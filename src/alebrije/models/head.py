"""A head for frozen encoders: it predicts an image from the codes of another, part by part.

The predicted image may differ from the encoded one, as in the visual imagination of Kim et al. 2023 (SVIB). Two things
let the head train in seconds: a step evaluates only a few points of each image, and a part is rendered in coordinates
relative to its centre, so that what it learns at one position holds at every other.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alebrije.errors import InputError
from alebrije.models.checks import check_positive


def pixel_points(size: int) -> Tensor:
    """Pixel centres of a square image, row by row [P, 2]: x to the right and y down, both in -1..1.

    >>> pixel_points(2).tolist()
    [[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [0.5, 0.5]]
    """
    line = (torch.arange(size) + 0.5) / size * 2 - 1
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    return torch.stack((columns, rows), -1).flatten(0, 1)


class PartsHead(nn.Module):
    """Codes -> parts -> colours at any points of the image.

    Slots [B, K, D] are a set, and each becomes a part. A linear map turns a vector [B, D] into `parts` parts. Every
    part receives the mean of all, so that a property of one object can move to another. Then each part is rendered by
    itself: a linear map predicts its centre, and a small network its colour and weight at each point relative to that
    centre. The weights mix the parts and the given background (`ground`), as in Slot Attention.

    >>> head = PartsHead(16, slots=True)
    >>> head(torch.zeros(5, 3, 16), pixel_points(8), torch.zeros(5, 64, 3)).shape
    torch.Size([5, 64, 3])
    """

    frequencies: Tensor

    def __init__(
        self,
        inputs: int,
        *,
        slots: bool,
        width: int = 64,
        hidden: int = 64,
        layers: int = 2,
        parts: int = 4,
        frequencies: int = 4,
    ) -> None:
        super().__init__()
        check_positive(inputs=inputs, width=width, hidden=hidden, layers=layers, parts=parts, frequencies=frequencies)
        self.inputs, self.slots, self.parts = inputs, slots, parts
        self.embed = nn.Linear(inputs, width if slots else width * parts)
        self.together = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.alone = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.centre = nn.Linear(width, 2)
        self.register_buffer("frequencies", math.pi / 2 * 2.0 ** torch.arange(frequencies), persistent=False)
        self.from_part = nn.Linear(width, hidden)
        self.from_point = nn.Linear(2 + 4 * frequencies, hidden, bias=False)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.colour_and_weight = nn.Linear(hidden, 4)

    def parts_of(self, codes: Tensor) -> Tensor:
        """Map codes [B, K, D] or [B, D] to parts [B, K, width]."""
        if codes.ndim != 2 + self.slots or codes.shape[-1] != self.inputs:
            shape = f"[B, {'K, ' * self.slots}{self.inputs}]"
            raise InputError(f"codes must have the shape {shape}, not {list(codes.shape)}")
        parts: Tensor = self.embed(codes)
        if not self.slots:
            parts = parts.reshape(len(parts), self.parts, -1)
        mean = parts.mean(1, keepdim=True).expand_as(parts)
        parts = parts + self.together(torch.cat((parts, mean), -1))
        update: Tensor = self.alone(parts)
        return parts + update

    def render(self, parts: Tensor, points: Tensor, ground: Tensor) -> Tensor:
        """Return the colours [B, P, 3] at points [P, 2] or [B, P, 2] of parts [B, K, width] on a ground [B, P, 3]."""
        offsets = points[..., None, :, :] - self.centre(parts)[:, :, None]  # [B, K, P, 2]
        angles = (offsets[..., None] * self.frequencies).flatten(3)
        position = self.from_point(torch.cat((offsets, angles.sin(), angles.cos()), -1))  # [B, K, P, hidden]
        features = F.relu(self.from_part(parts)[:, :, None] + position)
        for layer in self.layers:
            features = F.relu(layer(features))
        output = self.colour_and_weight(features)  # [B, K, P, 4]
        weights = F.pad(output[..., 3], (0, 0, 1, 0)).softmax(1)[..., None]  # [B, 1 + K, P, 1], the ground first
        colours: Tensor = (weights[:, 1:] * output[..., :3]).sum(1)
        return weights[:, 0] * ground + colours

    def forward(self, codes: Tensor, points: Tensor, ground: Tensor) -> Tensor:
        """Predict the colours [B, P, 3] at points from codes."""
        return self.render(self.parts_of(codes), points, ground)
