"""The images of a world on which grouping is tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije import worlds
from alebrije.arrays import Integers
from alebrije.errors import InputError
from alebrije.studies.encode import scene_arrays, stored_scenes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import View
from alebrije.worlds.user_worlds import user_world_inputs

SEED = 0  # training uses other random streams


@dataclass(frozen=True)
class Corpus:
    """Images of a world with their masks and scenes."""

    world: str
    images: int
    pixels: int

    @classmethod
    def of(cls, world: str, images: int, pixels: int) -> Corpus:
        """The corpus of a world; an InputError if its scenes have a single object."""
        worlds.get(world).require_images("grouping")
        # a grid has one object; sampling a scene of other worlds may compile functions, which takes seconds
        if worlds.get(world).whole is not None or (":" in world and worlds.get(world).sample(1, seed=SEED).objects < 2):
            raise InputError(
                f"grouping needs several objects per scene, and {world} has one; try sprites, clevr6 or clevr10"
            )
        return cls(worlds.get(world).name, images, pixels)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the images."""
        about = {"world": self.world, "images": self.images, "pixels": self.pixels, "seed": SEED, "version": 1}
        return {"name": f"grouping-{self.world}", **about, **user_world_inputs(self.world)}

    def view(self, folder: ResultFolder, device: str = "cpu") -> View:
        """The images, masks and scenes, rendered when they are first needed."""
        arrays = folder.images(self.settings, partial(_render, self, device), device)
        vocabulary = worlds.get(self.world).vocabulary
        images, masks = (torch.from_numpy(arrays[name]) for name in ("images", "masks"))
        return View(images, stored_scenes(vocabulary, arrays), masks)


def object_counts(view: View) -> Integers:
    """The number of objects of each image: of its scene, or of its mask if there is none."""
    if view.scenes is not None:
        return np.asarray(view.scenes.present.sum(1).numpy())
    assert view.masks is not None
    return np.array([len(np.setdiff1d(mask, [0])) for mask in view.masks.numpy()])


def _render(corpus: Corpus, device: str) -> Mapping[str, npt.ArrayLike]:
    world = worlds.get(corpus.world)
    scenes = world.sample(corpus.images, seed=SEED)
    frames = world.render(scenes, corpus.pixels, device)
    return {"images": frames.images.cpu().numpy(), "masks": frames.masks.cpu().numpy(), **scene_arrays(scenes)}
