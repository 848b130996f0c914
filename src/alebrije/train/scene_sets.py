"""Scene sets: the scenes or episodes that models train on or are checked on, by index.

The scene at an index is the same in every run with the same seed, so a run that was killed continues with exactly the
batches it would have had.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Integers
from alebrije.models.learner import Batch
from alebrije.render.flow_colors import flow_as_rgb
from alebrije.scenes import Episodes, Scenes
from alebrije.worlds import Task, World

_TRAINING = 2**40  # offset of training seeds: the scenes a user samples with a small seed are not training scenes
_RESAMPLED = 2**80  # offset of the seeds of resampled scenes

Part = Literal["train", "validation", "test"]
Values = tuple[tuple[str, int], ...]  # factor names and value indices


class SceneSet(Protocol):
    """Scenes or episodes by index, and how to render them for a model."""

    def scenes(self, first: int, count: int) -> Any:
        """Return scenes or episodes `first` to `first + count`, without pixels."""

    def render(self, scenes: Any, device: torch.device) -> Batch:
        """Render scenes as uint8 images on a device, with the other inputs of the model."""


@dataclass(frozen=True)
class Images:
    """Images of a world; `held_out` images come from another stream of scenes.

    A scene of dsprites or rooms that has all values of `without` is sampled again, so all others stay equally likely.
    """

    world: World
    size: int
    seed: int
    held_out: bool = False
    without: Values = ()

    def scenes(self, first: int, count: int) -> Scenes:
        """Return scenes `first` to `first + count`."""
        seed = _TRAINING + 2 * self.seed + self.held_out
        scenes = self.world.sample(count, seed=seed, start=first)
        if not self.without:
            return scenes
        factors = scenes.factors[:, 0].clone()  # [B, F]
        while bool((excluded := has_values(self.world, factors, self.without)).any()):
            seed += _RESAMPLED
            factors[excluded] = self.world.sample(count, seed=seed, start=first).factors[excluded, 0]
        return self.world.grid(np.ravel_multi_index(tuple(factors.numpy().T), self.world.vocabulary.counts))

    def render(self, scenes: Scenes, device: torch.device) -> Batch:
        """Render scenes as uint8 images."""
        images = self.world.images(scenes, self.size, device)
        # dSprites is white on black, so store one channel; `to_float` expands it to three
        return {"images": images[:, :1].clone() if self.world.name == "dsprites" else images}


@dataclass(frozen=True)
class Videos(Images):
    """Videos of a world with what their models need: boxes, and with `flow` the optical flow as colours.

    Training takes windows of `window` frames of them.
    """

    window: int = 6
    flow: bool = True

    def render(self, scenes: Scenes, device: torch.device) -> Batch:
        """Render videos as uint8 images [B, T, 3, H, W], with boxes [B, T, N, 4] and flow [B, T, 3, H, W]."""
        frames = self.world.render(scenes, self.size, device)
        assert frames.boxes is not None
        assert frames.flow is not None
        flow = {"flow": flow_as_rgb(frames.flow)} if self.flow else {}
        return {"images": frames.images, "boxes": frames.boxes, **flow}

    def windows(self, videos: Batch) -> Batch:
        """Return the windows of rendered videos, one after the other; frames after the last whole window are left out.

        >>> from alebrije import worlds
        >>> Videos(worlds.get("moving"), 64, 0, window=2).windows({"images": torch.zeros(3, 5, 1)})["images"].shape
        torch.Size([6, 2, 1])
        """
        length = len(next(iter(videos.values()))[0]) // self.window
        return {
            name: tensor[:, : length * self.window].reshape(-1, self.window, *tensor.shape[2:])
            for name, tensor in videos.items()
        }


@dataclass(frozen=True)
class AllImages(Images):
    """Every image of dsprites or rooms that does not show all values of `without`, in the order of the file."""

    def scenes(self, first: int, count: int) -> Scenes:
        """Return scenes `first` to `first + count`."""
        if not self.without:
            return self.world.grid(range(first, first + count))
        return self.world.grid(remaining_indices(self.world, self.without)[first : first + count])


def has_values(world: World, factors: Tensor, values: Values) -> Tensor:
    """Return which rows of factors [B, F] have all of these values. [B]

    >>> from alebrije import worlds
    >>> rows = torch.tensor([[0, 2, 5, 0, 0, 0], [0, 2, 4, 0, 0, 0]])
    >>> has_values(worlds.get("dsprites"), rows, (("shape", 2), ("scale", 5)))
    tensor([ True, False])
    """
    names = world.vocabulary.names
    return torch.stack([factors[..., names.index(name)] == value for name, value in values]).all(0)


@lru_cache(maxsize=4)
def remaining_indices(world: World, without: Values) -> Integers:
    """Return the indices of all scenes of dsprites or rooms that do not show all values of `without`."""
    counts, names = world.vocabulary.counts, world.vocabulary.names
    excluded = np.ones(counts, dtype=bool)
    for name, value in without:
        matches = np.arange(counts[names.index(name)]) == value
        excluded &= matches.reshape([-1 if factor == name else 1 for factor in names])
    return np.flatnonzero(~excluded)


@dataclass(frozen=True)
class TaskEpisodes:
    """Episodes of a task. `validation` has the combinations of training, from another stream of scenes."""

    task: Task
    size: int
    seed: int
    part: Part = "train"

    def scenes(self, first: int, count: int) -> Episodes:
        """Return episodes `first` to `first + count`."""
        sample = self.task.test if self.part == "test" else self.task.train
        return sample(count, seed=_TRAINING + 2 * self.seed + (self.part != "train"), start=first)

    def render(self, scenes: Episodes, device: torch.device) -> Batch:
        """Render episodes as uint8 images, with the factors and floats of their sources."""
        images = self.task.world.images
        return {
            "source": images(scenes.source, self.size, device),
            "target": images(scenes.target, self.size, device),
            "factors": known_factors(scenes.source).to(device),
            "floats": known_floats(scenes.source).to(device),
        }


@dataclass(frozen=True)
class TaskSources:
    """The source scenes of a task's episodes, for models that learn from images.

    In training and validation they show only the combinations of `task.split.train`. Targets are not used, because a
    rule also creates combinations that are held out for the test.
    """

    task: Task
    size: int
    seed: int
    part: Part = "train"

    @property
    def world(self) -> World:
        """The world of the task."""
        return self.task.world

    def scenes(self, first: int, count: int) -> Scenes:
        """Return the sources of episodes `first` to `first + count`."""
        return TaskEpisodes(self.task, self.size, self.seed, self.part).scenes(first, count).source

    def render(self, scenes: Scenes, device: torch.device) -> Batch:
        """Render scenes as uint8 images."""
        return {"images": self.world.images(scenes, self.size, device)}


def known_floats(scenes: Scenes) -> Tensor:
    """Return the continuous properties of each object, scaled to about 0..1, as SVIB's Oracle reads them. [B, N, P]

    In sprites: the position. In 3D worlds: position on the ground and rotation, then lamps and camera.
    """
    if scenes.camera is None or scenes.lamps is None:
        return scenes.position.float()
    position = scenes.position[..., :2] / 8 + 0.5
    shared = torch.cat([scenes.lamps.flatten(1), scenes.camera], 1) / 20 + 0.5  # [B, P - 3]
    return torch.cat(
        [position, scenes.rotation[..., None] / 360, shared[:, None].expand(-1, scenes.objects, -1)], -1
    ).float()


def known_factors(scenes: Scenes) -> Tensor:
    """Return the factors of each object and, where there are several backgrounds, the background. [B, N, F]"""
    if len(scenes.vocabulary.background.values) < 2:
        return scenes.factors
    background = scenes.background[:, None, None].expand(-1, scenes.objects, 1)
    return torch.cat([scenes.factors, background], -1)
