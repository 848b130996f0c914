"""A head for frozen encoders: it learns to draw one image from the code of another, part by part.

What is to be drawn may differ from what was seen, as in the visual imagination of Kim et al. 2023 (SVIB). The head is
made to learn in seconds: a step looks at a few points of each image and not at all of them, and a part is drawn in a
frame of its own that moves with it, so that what was learned in one place holds in every other.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alebrije.errors import InputError
from alebrije.models.transformer import check_positive


def pixel_points(size: int) -> Tensor:
    """The centres of the pixels of a square image, row by row: x to the right and y down, both in -1..1. [P, 2]

    >>> pixel_points(2).tolist()
    [[-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [0.5, 0.5]]
    """
    line = (torch.arange(size) + 0.5) / size * 2 - 1
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    return torch.stack((columns, rows), -1).flatten(0, 1)


class PartsHead(nn.Module):
    """Codes -> parts -> colours at any points of the image.

    Slots [B, K, D] are a set, and each becomes a part. A vector [B, D] becomes `parts` of them by a linear map. Every
    part hears of the mean of all, so that one object can take on what another has. Then each draws by itself: where it
    is follows from it by a linear map, and a small network tells its colour and its weight at each point, seen from
    there. Parts and the `ground`, which is given, are mixed by their weights, as in Slot Attention.

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
        """[B, K, D] or [B, D] -> [B, K, width]."""
        if codes.ndim != 2 + self.slots or codes.shape[-1] != self.inputs:
            wanted = f"[B, {'K, ' * self.slots}{self.inputs}]"
            raise InputError(f"codes must have the shape {wanted}, not {list(codes.shape)}")
        parts: Tensor = self.embed(codes)
        if not self.slots:
            parts = parts.reshape(len(parts), self.parts, -1)
        others = parts.mean(1, keepdim=True).expand_as(parts)
        parts = parts + self.together(torch.cat((parts, others), -1))
        alone: Tensor = self.alone(parts)
        return parts + alone

    def draw(self, parts: Tensor, points: Tensor, ground: Tensor) -> Tensor:
        """Parts [B, K, width], points [P, 2] or [B, P, 2], and the ground there [B, P, 3] -> colours [B, P, 3]."""
        seen = points[..., None, :, :] - self.centre(parts)[:, :, None]  # [B, K, P, 2]
        waves = (seen[..., None] * self.frequencies).flatten(3)
        place = self.from_point(torch.cat((seen, waves.sin(), waves.cos()), -1))  # [B, K, P, hidden]
        features = F.relu(self.from_part(parts)[:, :, None] + place)
        for layer in self.layers:
            features = F.relu(layer(features))
        drawn = self.colour_and_weight(features)
        weights = F.pad(drawn[..., 3], (0, 0, 1, 0)).softmax(1)[..., None]  # [B, 1 + K, P, 1], the ground first
        colours: Tensor = (weights[:, 1:] * drawn[..., :3]).sum(1)
        return weights[:, 0] * ground + colours

    def forward(self, codes: Tensor, points: Tensor, ground: Tensor) -> Tensor:
        """The colours of the images [B, P, 3] that follow from codes, at points."""
        return self.draw(self.parts_of(codes), points, ground)
