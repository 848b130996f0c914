"""The images, videos or views of a world on which grouping is tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije import worlds
from alebrije.arrays import Integers
from alebrije.encoding import Shows
from alebrije.errors import InputError
from alebrije.scenes import Scenes
from alebrije.studies.encode import scene_arrays, stored_scenes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import View
from alebrije.worlds.user_worlds import user_world_inputs

SEED = 0  # training uses other random streams


@dataclass(frozen=True)
class Corpus:
    """Images, videos or views of a world with their masks and scenes."""

    world: str
    images: int  # or videos, or scenes that are seen from several sides
    pixels: int
    frames: int | None = None  # the first of each video; None: all
    one_view: bool = False  # only the first view of each scene, as an image

    @classmethod
    def of(cls, world: str, images: int, pixels: int, frames: int | None = None, one_view: bool = False) -> Corpus:
        """The corpus of a world; an InputError if its scenes have a single object."""
        # a grid has one object; sampling a scene of other worlds may compile functions, which takes seconds
        if worlds.get(world).whole is not None or (":" in world and worlds.get(world).sample(1, seed=SEED).objects < 2):
            raise InputError(
                f"grouping needs several objects per scene, and {world} has one; try sprites, clevr6 or clevr10"
            )
        return cls(worlds.get(world).name, images, pixels, frames, one_view)

    @property
    def shows(self) -> Shows:
        """What a model is shown of each scene."""
        return "images" if self.one_view else worlds.get(self.world).shows

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the images."""
        about = {"world": self.world, "images": self.images, "pixels": self.pixels, "seed": SEED, "version": 1}
        about |= {} if self.frames is None else {"frames": self.frames}
        about |= {"one view": True} if self.one_view else {}
        return {"name": f"grouping-{self.world}", **about, **user_world_inputs(self.world)}

    def view(self, folder: ResultFolder, device: str = "cpu") -> View:
        """The images, masks and scenes, rendered when they are first needed."""
        arrays = folder.images(self.settings, partial(_render, self, device), device)
        vocabulary = worlds.get(self.world).vocabulary
        images, masks = (torch.from_numpy(arrays[name]) for name in ("images", "masks"))
        boxes = torch.from_numpy(arrays["boxes"]) if "boxes" in arrays else None
        scenes = stored_scenes(vocabulary, arrays)
        cameras = scenes.cameras.float() if scenes.views and scenes.cameras is not None else None
        return View(images, scenes, masks, boxes, cameras)


def object_counts(view: View) -> Integers:
    """The number of objects of each image: of its scene, or of its mask if there is none."""
    if view.scenes is not None:
        return np.asarray(view.scenes.present.sum(1).numpy())
    assert view.masks is not None
    return np.array([len(np.setdiff1d(mask, [0])) for mask in view.masks.numpy()])


def _render(corpus: Corpus, device: str) -> Mapping[str, npt.ArrayLike]:
    world = worlds.get(corpus.world)
    scenes = _shortened(world.sample(corpus.images, seed=SEED), corpus)
    frames = world.render(scenes, corpus.pixels, device)
    images, masks = frames.images, frames.masks
    if corpus.one_view:
        images, masks, scenes = images[:, 0], masks[:, 0], replace(scenes, cameras=None)
    boxes = {} if frames.boxes is None else {"boxes": frames.boxes[:, 0].cpu().numpy()}  # of the first frame
    return {"images": images.cpu().numpy(), "masks": masks.cpu().numpy(), **boxes, **scene_arrays(scenes)}


def _shortened(scenes: Scenes, corpus: Corpus) -> Scenes:
    """The first frames of videos, or the first view of scenes."""
    count = 1 if corpus.one_view else corpus.frames
    if count is None:
        return scenes
    path = None if scenes.path is None else scenes.path[:, :, :count]
    return replace(scenes, path=path, cameras=None if scenes.cameras is None else scenes.cameras[:, :count])
