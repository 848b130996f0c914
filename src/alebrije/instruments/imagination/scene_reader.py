"""Can the factors be read from true images at all? The counterpart of Table 5 of Kim et al. 2023 (Appendix B.6).

A network of four convolutions sees a whole image of two objects and reads the factors of both, the nearer one first,
and the material of the background. It is about a world and not about a model: if it reads nearly everything, images of
this size show enough, and models that fail on them lack something else. The paper gives neither the number of images
nor how the network is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alebrije import worlds
from alebrije.checks import whole_number
from alebrije.metrics import find
from alebrije.results import Value
from alebrije.scenes import Scenes
from alebrije.seeding import seeded
from alebrije.studies.folder import ResultFolder
from alebrije.studies.values import mean_value
from alebrije.worlds.user_worlds import user_world_inputs

VERSION = 1  # raised when the same settings give other accuracies
LABEL = "4-layer CNN"
OBJECTS = (1, 2)  # the nearer one first
BACKGROUND = "material of the background"
ACCURACIES = (
    *(f"{factor} of object {number}" for factor in ("shape", "color", "size", "material") for number in OBJECTS),
    BACKGROUND,
)
_TRAIN_SEED, _TEST_SEED = 2003, 2011
_BATCH = 256  # images


@dataclass(frozen=True)
class SceneReaderSettings:
    """What the network is trained and tested on, and how."""

    world: str
    pixels: int
    scenes: int = 512
    test_scenes: int = 256
    epochs: int = 20
    batch: int = 64
    rate: float = 1e-3
    channels: int = 32

    def __post_init__(self) -> None:
        whole_number("scenes", self.scenes, least=1)
        whole_number("test_scenes", self.test_scenes, least=1)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides what it reads."""
        return {"name": f"scene-reader-{self.world}", **asdict(self), "version": VERSION} | user_world_inputs(
            self.world
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the accuracies."""
        return tuple(self._counts())

    def untrained(self) -> SceneReader:
        """The network with random weights."""
        return SceneReader(tuple(self._counts().values()), self.pixels, self.channels)

    def _counts(self) -> dict[str, int]:
        """The number of values of each factor that is read."""
        vocabulary = worlds.get(self.world).vocabulary
        counts = {f"{factor.name} of object {number}": len(factor) for factor in vocabulary for number in OBJECTS}
        grounds = len(vocabulary.background)
        return counts | ({BACKGROUND: grounds} if grounds > 1 else {})


class SceneReader(nn.Module):
    """Four convolutions with stride 2, then a linear layer: images -> logits of the values of each factor."""

    def __init__(self, counts: tuple[int, ...], pixels: int, channels: int) -> None:
        super().__init__()
        self.counts = counts
        widths = (3, channels, 2 * channels, 2 * channels, 4 * channels)
        layers = [(nn.Conv2d(before, after, 4, 2, padding=1), nn.ReLU()) for before, after in pairwise(widths)]
        self.convolutions = nn.Sequential(*(layer for pair in layers for layer in pair), nn.Flatten())
        self.factors = nn.Linear(widths[-1] * (pixels // 16) ** 2, sum(counts))

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """[B, 3, H, W] in 0..1 -> [B, values of the factor] for each factor."""
        logits: Tensor = self.factors(self.convolutions(images))
        return torch.split(logits, list(self.counts), 1)


def scene_factors(scenes: Scenes) -> Tensor:
    """The factors of both objects of scenes with a camera, the nearer object first, and the background if it varies.

    [B, 2 F] or [B, 2 F + 1], in the order of `SceneReaderSettings.names`.
    """
    assert scenes.camera is not None
    distance = (scenes.position.float() - scenes.camera.float()[:, None]).norm(dim=-1)  # [B, 2]
    order = distance.argsort(dim=1)
    sorted_factors = scenes.factors.gather(1, order[..., None].expand_as(scenes.factors))  # [B, 2, F]
    factors = sorted_factors.transpose(1, 2).flatten(1)
    varies = len(scenes.vocabulary.background) > 1
    return torch.cat((factors, scenes.background[:, None]), 1) if varies else factors


def reader_values(folder: ResultFolder, settings: SceneReaderSettings, device: str) -> dict[str, Value]:
    """The values of the cell: how often each factor is read correctly from new scenes."""
    weights = folder.weights(settings.settings, partial(_train, settings, device), device)
    reader = settings.untrained()
    reader.load_state_dict({name: torch.from_numpy(np.array(weight)) for name, weight in weights.items()})
    scenes = worlds.get(settings.world).sample(settings.test_scenes, seed=_TEST_SEED)
    correct = _read_correctly(reader.to(device).eval(), settings, scenes, device)
    return dict(_values(settings, correct))


def _values(settings: SceneReaderSettings, correct: Tensor) -> Iterator[tuple[str, Value]]:
    record = replace(find("mse-sum"), direction="higher", range=(0.0, 1.0))  # the catalog of metrics has no accuracy
    for name, count, right in zip(settings.names, settings.untrained().counts, correct.T, strict=True):
        cases = right.double().numpy()
        yield name, mean_value(record, cases, noun="scenes", details={"chance": 1 / count, "scenes": len(cases)})


def _train(settings: SceneReaderSettings, device: str) -> Mapping[str, Any]:
    """The weights of the trained network, by name."""
    world = worlds.get(settings.world)
    scenes = world.sample(settings.scenes, seed=_TRAIN_SEED)
    images = world.images(scenes, settings.pixels, device)
    true = scene_factors(scenes).to(images.device)
    with seeded(_TRAIN_SEED, images.device):
        reader = settings.untrained().to(images.device)
        optimizer = torch.optim.Adam(reader.parameters(), settings.rate)
        steps = settings.epochs * -(-settings.scenes // settings.batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.rate, total_steps=steps, pct_start=0.1)
        for _ in range(settings.epochs):
            for rows in torch.split(torch.randperm(settings.scenes).to(images.device), settings.batch):
                logits = reader(images[rows].float() / 255)
                loss = torch.stack([F.cross_entropy(each, true[rows, at]) for at, each in enumerate(logits)]).sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
    return {name: weight.cpu().numpy() for name, weight in reader.state_dict().items()}


@torch.no_grad()
def _read_correctly(reader: SceneReader, settings: SceneReaderSettings, scenes: Scenes, device: str) -> Tensor:
    """Whether each factor is read correctly from each scene, bool [B, factors]."""
    world, true = worlds.get(settings.world), scene_factors(scenes)
    correct = []
    for first in range(0, len(scenes), _BATCH):
        rows = slice(first, first + _BATCH)
        images = world.images(scenes[rows], settings.pixels, device).float() / 255
        read = torch.stack([each.argmax(1) for each in reader(images)], 1)
        correct.append(read.cpu() == true[rows])
    return torch.cat(correct)
