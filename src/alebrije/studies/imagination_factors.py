"""A reader of images: it tells the factors of each object from what is drawn around its place.

It learns from rendered scenes of all combinations and never sees a prediction. What it reads from predicted images
tells which part of an imagination failed; what it reads from true ones how far it can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alebrije import worlds
from alebrije.render.stage import HALF_WIDTH, looking
from alebrije.scenes import Scenes, Vocabulary
from alebrije.seeding import seeded
from alebrije.studies.folder import Folder
from alebrije.studies.own_worlds import own_world

VERSION = 1  # raised when the same reader comes to read otherwise
_SPAN = 0.75  # half of what is seen around a place; an image is 2 wide, and the largest sprite reaches 0.72
_FINEST = 48  # pixels a side of what is seen
_AT_ONCE = 256  # images
_SEED = 1009  # of the scenes to learn from


def places(scenes: Scenes) -> Tensor:
    """Where the objects are in the image, x to the right and y down in -1..1, and how large they look. [B, N, 3]

    How large an object looks is 1 in flat worlds, and in solid ones 1 for what is as far from the camera as the origin.

    >>> from alebrije import worlds
    >>> scenes = Scenes.of(worlds.get("sprites").vocabulary, factors=[[[0, 0, 0]]], position=[[[0.5, 0.75]]])
    >>> places(scenes).tolist()
    [[[0.0, -0.5, 1.0]]]
    """
    position = scenes.position.float()
    if scenes.camera is None:
        x, y = position.unbind(-1)
        return torch.stack((2 * x - 1, 1 - 2 * y, torch.ones_like(x)), -1)
    camera = scenes.camera.float()
    right, up, forward = (axis.T[:, None].float() for axis in looking(camera.T))  # [B, 1, 3] each
    offset = position - camera[:, None]
    depth = (offset * forward).sum(-1)
    x, y = (offset * right).sum(-1) / depth / HALF_WIDTH, -(offset * up).sum(-1) / depth / HALF_WIDTH
    return torch.stack((x, y, camera.norm(dim=1)[:, None] / depth), -1)


def around(images: Tensor, where: Tensor) -> Tensor:
    """What is seen around places: images [B, 3, H, W] in 0..1 and places [B, N, 3] -> [B, N, 3, side, side]."""
    side = min(round(images.shape[-1] * _SPAN), _FINEST)
    if images.shape[-1] > (whole := round(side / _SPAN)):
        images = F.interpolate(images, (whole, whole), mode="bilinear", antialias=True)
    line = (torch.arange(side, device=images.device) + 0.5) / side * 2 - 1
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    grid = torch.stack((columns, rows), -1) * _SPAN + where[..., None, None, :2].to(images)  # [B, N, side, side, 2]
    seen = F.grid_sample(images, grid.flatten(1, 2), align_corners=False)  # [B, 3, N * side, side]
    return seen.reshape(*seen.shape[:2], where.shape[1], side, side).transpose(1, 2)


class Reader(nn.Module):
    """Three convolutions and two layers: what is seen around a place -> a score for each value of each factor."""

    def __init__(self, counts: tuple[int, ...], side: int, channels: int = 16, hidden: int = 64) -> None:
        super().__init__()
        self.counts = counts
        widths = (3, channels, 2 * channels, 4 * channels)
        pairs = pairwise(widths)
        steps = [(nn.Conv2d(before, after, 3, 2, padding=1), nn.ReLU()) for before, after in pairs]
        self.look = nn.Sequential(*(layer for pair in steps for layer in pair), nn.Flatten())
        left = -(-side // 8)
        self.tell = nn.Sequential(
            nn.Linear(widths[-1] * left**2 + 3, hidden), nn.ReLU(), nn.Linear(hidden, sum(counts))
        )

    def forward(self, seen: Tensor, where: Tensor) -> tuple[Tensor, ...]:
        """[B, 3, side, side] and [B, 3] -> [B, values of the factor] for each factor."""
        scores: Tensor = self.tell(torch.cat((self.look(seen), where), 1))
        return torch.split(scores, list(self.counts), 1)


@dataclass(frozen=True)
class Course:
    """Which reader, and what it learns from."""

    world: str
    pixels: int
    scenes: int = 2048
    epochs: int = 8
    batch: int = 64  # scenes
    rate: float = 5e-3
    channels: int = 16

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides how it reads."""
        return {"name": f"reader-{self.world}", **asdict(self), "version": VERSION, **own_world(self.world)}

    @property
    def vocabulary(self) -> Vocabulary:
        """What there is to read."""
        return worlds.get(self.world).vocabulary

    def reader(self, folder: Folder, device: str = "cpu") -> Reader:
        """The reader; it learns when it is first asked for."""
        weights = folder.made(self.settings, partial(_learn, self, device))
        reader = self._new()
        reader.load_state_dict({name: torch.from_numpy(np.array(weight)) for name, weight in weights.items()})
        return reader.to(device).eval()

    def _new(self) -> Reader:
        side = min(round(self.pixels * _SPAN), _FINEST)
        return Reader(self.vocabulary.counts, side, self.channels)


def _learn(course: Course, device: str) -> Mapping[str, Any]:
    """The weights of a reader, by name."""
    world = worlds.get(course.world)
    scenes = world.sample(course.scenes, seed=_SEED)
    images = world.images(scenes, course.pixels, device)
    where = places(scenes).to(images.device)
    factors = scenes.factors.flatten(0, 1).to(images.device)
    with seeded(_SEED, images.device):
        reader = course._new().to(images.device)
        optimiser = torch.optim.Adam(reader.parameters(), course.rate)
        steps = course.epochs * (-(-course.scenes // course.batch))
        rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, course.rate, total_steps=steps, pct_start=0.1)
        for _ in range(course.epochs):
            for rows in torch.split(torch.randperm(course.scenes).to(images.device), course.batch):
                seen = around(images[rows].float() / 255, where[rows]).flatten(0, 1)
                true = factors.view(course.scenes, -1, factors.shape[1])[rows].flatten(0, 1)
                scores = reader(seen, where[rows].flatten(0, 1))
                loss = torch.stack([F.cross_entropy(s, true[:, axis]) for axis, s in enumerate(scores)]).sum()
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                rates.step()
    return {name: weight.cpu().numpy() for name, weight in reader.state_dict().items()}


@torch.no_grad()
def read_rightly(reader: Reader, images: Tensor, scenes: Scenes) -> Tensor:
    """Whether each factor of each object is read as it is in the scene. Images in 0..1 -> bool [B, N, F]"""
    device = next(reader.parameters()).device
    where = places(scenes)
    found = []
    for first in range(0, len(images), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        part, there = images[some].to(device), where[some].to(device)
        scores = reader(around(part, there).flatten(0, 1), there.flatten(0, 1))
        read = torch.stack([each.argmax(1) for each in scores], -1).view(*there.shape[:2], -1)
        found.append(read.cpu() == scenes.factors[some].cpu())
    return torch.cat(found)
