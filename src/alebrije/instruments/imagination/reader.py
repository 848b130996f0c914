"""A reader: a network that classifies the factors of each object from the image around the object's position.

It is trained on rendered scenes of all combinations and never sees a prediction. What it reads from predicted images
shows which factors are wrong. What it reads from true images shows how reliable it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from alebrije import worlds
from alebrije.graphs import Repeated
from alebrije.instruments.imagination.one_cycle import OneCycleAdam
from alebrije.render.stage import HALF_WIDTH, camera_axes
from alebrije.scenes import Scenes, Vocabulary
from alebrije.seeding import seeded
from alebrije.studies.folder import ResultFolder
from alebrije.worlds.user_worlds import user_world_inputs

VERSION = 1  # raised when the same settings give another reader than before
_HALF_CROP = 0.75  # half the side of a crop, of an image that is 2 wide; the largest sprite reaches 0.72
_MOST_PIXELS = 48  # side of a crop
_BATCH = 256  # images
_SEED = 1009  # of the training scenes and the training


def object_positions(scenes: Scenes) -> Tensor:
    """The position of each object in the image, x to the right and y down in -1..1, and its apparent scale. [B, N, 3]

    The scale is 1 in flat worlds. In 3D worlds it is 1 for objects as far from the camera as the origin.

    >>> from alebrije import worlds
    >>> scenes = Scenes.of(worlds.get("sprites").vocabulary, factors=[[[0, 0, 0]]], position=[[[0.5, 0.75]]])
    >>> object_positions(scenes).tolist()
    [[[0.0, -0.5, 1.0]]]
    """
    position = scenes.position.float()
    if scenes.camera is None:
        x, y = position.unbind(-1)
        return torch.stack((2 * x - 1, 1 - 2 * y, torch.ones_like(x)), -1)
    camera = scenes.camera.float()
    right, up, forward = (axis.T[:, None].float() for axis in camera_axes(camera.T))  # [B, 1, 3] each
    offset = position - camera[:, None]
    depth = (offset * forward).sum(-1)
    x, y = (offset * right).sum(-1) / depth / HALF_WIDTH, -(offset * up).sum(-1) / depth / HALF_WIDTH
    return torch.stack((x, y, camera.norm(dim=1)[:, None] / depth), -1)


def crops(images: Tensor, positions: Tensor) -> Tensor:
    """Images [B, 3, H, W] in 0..1, cropped around positions [B, N, 3] -> [B, N, 3, side, side]."""
    side = _crop_side(images.shape[-1])
    if images.shape[-1] > (whole := round(side / _HALF_CROP)):
        images = F.interpolate(images, (whole, whole), mode="bilinear", antialias=True)
    line = (torch.arange(side, device=images.device) + 0.5) / side * 2 - 1
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    offsets = torch.stack((columns, rows), -1) * _HALF_CROP
    grid = offsets + positions[..., None, None, :2].to(images)  # [B, N, side, side, 2]
    cropped = F.grid_sample(images, grid.flatten(1, 2), align_corners=False)  # [B, 3, N * side, side]
    return cropped.reshape(*cropped.shape[:2], positions.shape[1], side, side).transpose(1, 2)


def _crop_side(pixels: int) -> int:
    return min(round(pixels * _HALF_CROP), _MOST_PIXELS)


class FactorReader(nn.Module):
    """Three convolutions and two linear layers: a crop and its position -> logits of the values of each factor."""

    def __init__(self, counts: tuple[int, ...], side: int, channels: int = 16, hidden: int = 64) -> None:
        super().__init__()
        self.counts = counts
        widths = (3, channels, 2 * channels, 4 * channels)
        layers = [(nn.Conv2d(before, after, 3, 2, padding=1), nn.ReLU()) for before, after in pairwise(widths)]
        # stored weights contain the names `look` and `tell`
        self.look = nn.Sequential(*(layer for pair in layers for layer in pair), nn.Flatten())
        features = widths[-1] * (-(-side // 8)) ** 2
        self.tell = nn.Sequential(nn.Linear(features + 3, hidden), nn.ReLU(), nn.Linear(hidden, sum(counts)))

    def forward(self, cropped: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """[B, 3, side, side] and [B, 3] -> [B, values of the factor] for each factor."""
        logits: Tensor = self.tell(torch.cat((self.look(cropped), positions), 1))
        return torch.split(logits, list(self.counts), 1)


@dataclass(frozen=True)
class ReaderSettings:
    """What a reader is trained on, and how."""

    world: str
    pixels: int
    scenes: int = 2048
    epochs: int = 8
    batch: int = 64  # scenes
    rate: float = 5e-3
    channels: int = 16

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides what it reads."""
        return {"name": f"reader-{self.world}", **asdict(self), "version": VERSION, **user_world_inputs(self.world)}

    @property
    def vocabulary(self) -> Vocabulary:
        """The factors that it reads."""
        return worlds.get(self.world).vocabulary

    def trained(self, folder: ResultFolder, device: str = "cpu") -> FactorReader:
        """The reader, trained when it is first needed."""
        weights = folder.weights(self.settings, partial(_train, self, device), device)
        reader = self.untrained()
        reader.load_state_dict({name: torch.from_numpy(np.array(weight)) for name, weight in weights.items()})
        return reader.to(device).eval()

    def untrained(self) -> FactorReader:
        """A reader with random weights."""
        return FactorReader(self.vocabulary.counts, _crop_side(self.pixels), self.channels)


def _train(settings: ReaderSettings, device: str) -> Mapping[str, Any]:
    """The weights of a trained reader, by name."""
    world = worlds.get(settings.world)
    scenes = world.sample(settings.scenes, seed=_SEED)
    images = world.images(scenes, settings.pixels, device)
    positions, factors = object_positions(scenes).to(images.device), scenes.factors.to(images.device)
    with seeded(_SEED, images.device):
        reader = settings.untrained().to(images.device)
        if images.device.type == "cuda":
            _train_captured(reader, settings, images, positions, factors)
            return _numbers(reader)
        optimizer = torch.optim.Adam(reader.parameters(), settings.rate)
        steps = settings.epochs * (-(-settings.scenes // settings.batch))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.rate, total_steps=steps, pct_start=0.1)
        for _ in range(settings.epochs):
            for rows in torch.split(torch.randperm(settings.scenes).to(images.device), settings.batch):
                loss = _loss(reader, images[rows], positions[rows], factors[rows])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
    return _numbers(reader)


def _numbers(reader: FactorReader) -> Mapping[str, Any]:
    return {name: weight.cpu().numpy() for name, weight in reader.state_dict().items()}


def _loss(reader: Callable[..., tuple[Tensor, ...]], images: Tensor, positions: Tensor, factors: Tensor) -> Tensor:
    """The sum over factors of the mean cross-entropy over the objects of uint8 images."""
    cropped = crops(images.float() / 255, positions).flatten(0, 1)
    true = factors.flatten(0, 1)  # [B N, F]
    logits = reader(cropped, positions.flatten(0, 1))
    return torch.stack([F.cross_entropy(each, true[:, axis]) for axis, each in enumerate(logits)]).sum()


def _train_captured(
    reader: FactorReader, settings: ReaderSettings, images: Tensor, positions: Tensor, factors: Tensor
) -> None:
    """The same training on a GPU, as CUDA graphs; every batch must be full."""
    named = dict(reader.named_parameters())
    sizes = [weight.numel() for weight in named.values()]
    flat = torch.cat([weight.detach().flatten() for weight in named.values()])
    batches = settings.scenes // settings.batch
    drawn = torch.stack([torch.randperm(settings.scenes)[: batches * settings.batch] for _ in range(settings.epochs)])
    table, number = drawn.view(-1, settings.batch).to(flat.device), torch.zeros(1, dtype=torch.int64).to(flat.device)
    adam = OneCycleAdam(flat, settings.rate, len(table))

    def parts() -> dict[str, Tensor]:
        pieces = zip(named.items(), torch.split(flat, sizes), strict=True)
        return {name: piece.view_as(weight) for (name, weight), piece in pieces}

    def step() -> None:
        rows = table.index_select(0, number)[0]
        weights = {name: part.detach().requires_grad_() for name, part in parts().items()}
        read = partial(functional_call, reader, weights)
        loss = _loss(lambda *given: read(given), images[rows], positions[rows], factors[rows])
        adam.step(torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(weights.values()))]))
        number.add_(1)

    Repeated(step, flat.device).run(len(table))
    reader.load_state_dict(parts())


@torch.no_grad()
def read_correctly(reader: FactorReader, images: Tensor, scenes: Scenes) -> Tensor:
    """Whether each factor of each object is read as it is in the scene. Images in 0..1 -> bool [B, N, F]"""
    device = next(reader.parameters()).device
    positions = object_positions(scenes)
    correct = []
    for first in range(0, len(images), _BATCH):
        rows = slice(first, first + _BATCH)
        some, at = images[rows].to(device), positions[rows].to(device)
        logits = reader(crops(some, at).flatten(0, 1), at.flatten(0, 1))
        read = torch.stack([each.argmax(1) for each in logits], -1).view(*at.shape[:2], -1)
        correct.append(read.cpu() == scenes.factors[rows].cpu())
    return torch.cat(correct)
