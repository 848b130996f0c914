"""Scene sets of worlds that show several views of a scene: all views of each scene, or each view as an image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from alebrije.models.learner import Batch
from alebrije.render.frames import Frames
from alebrije.scenes import Scenes
from alebrije.train.scene_sets import Images
from alebrije.worlds import World
from alebrije.worlds import get as get_world


@dataclass(frozen=True)
class Views(Images):
    """Scenes seen by several cameras: images [B, V, 3, H, W] and the position of each camera [B, V, 3]."""

    def render(self, scenes: Scenes, device: torch.device) -> Batch:
        """Render scenes as uint8 images, with their cameras."""
        return {"images": self.world.images(scenes, self.size, device), "cameras": camera_positions(scenes, device)}


@dataclass(frozen=True)
class EachView(Images):
    """Every view of every scene as an image of its own, those of the first scene first."""

    def scenes(self, first: int, count: int) -> Scenes:
        """Return views `first` to `first + count`."""
        views = views_of(self.world.name)
        start = first // views
        scenes = super().scenes(start, -(-(first + count) // views) - start)
        return scenes.at_once()[first - start * views : first - start * views + count]

    def render(self, scenes: Scenes, device: torch.device) -> Batch:
        """Render views as uint8 images."""
        return {"images": single_frames(self.world, scenes, self.size, device).images}


def camera_positions(scenes: Scenes, device: torch.device) -> Tensor:
    """The position of the camera of each view [B, V, 3], as models read it."""
    assert scenes.cameras is not None
    return scenes.cameras.to(device, torch.float32)


def single_frames(world: World, scenes: Scenes, size: int, device: torch.device) -> Frames:
    """Render scenes with one camera; those of a world of views come with an axis of one view, which is dropped."""
    frames = world.render(scenes, size, device)
    if frames.images.ndim == 4:
        return frames
    dropped = {name: None if tensor is None else tensor[:, 0] for name, tensor in vars(frames).items()}
    return replace(frames, **dropped)  # type: ignore[arg-type]


@cache
def views_of(world: str) -> int:
    """The number of views of each scene of a world."""
    return get_world(world).sample(1).views or 1
