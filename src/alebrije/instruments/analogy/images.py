"""The corpora of COAT: analogies of four scenes with seven hard negatives, rendered once for all models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije import worlds
from alebrije.arrays import Array
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.scenes import Scenes
from alebrije.studies.encode import scene_arrays, stored_scenes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import View

CORPORA = ("occluded", "unoccluded")
WHITE = "white"  # the occluded corpus with a white ground in all images (Appendix C.3)
QUADRUPLE = ("a", "b", "c", "d")
PIXEL = "pixel"  # the hard negative that is computed from pixels, not rendered from a scene
ROLES = (*QUADRUPLE, *HARD_NEGATIVES)
ROLES_WITH_SCENES = tuple(role for role in ROLES if role != PIXEL)
VERSION = 2  # raised when the same settings give other images


@dataclass(frozen=True)
class Corpus:
    """Analogies, `pixels` pixels a side. Each image has a role: a, b, c, d, or the name of a hard negative of d.

    >>> Corpus("occluded", 1600, 128).settings["cases"]
    1600
    """

    name: str
    cases: int
    pixels: int
    seed: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the images."""
        about = {"cases": self.cases, "pixels": self.pixels, "seed": self.seed}
        return {"name": f"analogies-{self.name}", "version": VERSION, **about}

    def views(self, folder: ResultFolder, device: str = "cpu") -> dict[str, View]:
        """The images of each role, rendered when they are first needed."""
        arrays = self._arrays(folder, device)
        return {role: _view(arrays, role) for role in ROLES}

    def _arrays(self, folder: ResultFolder, device: str) -> dict[str, Array]:
        """Images [roles, cases, 3, H, W], masks [roles, cases, H, W] and the fields of the scenes."""
        if self.name == WHITE:
            render = partial(_render_on_white, replace(self, name="occluded"), folder, device)
        else:
            render = partial(_render, self, device)
        return folder.images(self.settings, render, device)


def _render(corpus: Corpus, device: str) -> Mapping[str, npt.ArrayLike]:
    """The arrays of a corpus with a coloured ground in A and B."""
    cases = worlds.analogies("clevr", corpus.cases, seed=corpus.seed, occluded=corpus.name == "occluded")
    scenes = {**{role: getattr(cases, role) for role in QUADRUPLE}, **cases.negatives}
    images = torch.empty(len(ROLES), len(cases), 3, corpus.pixels, corpus.pixels, dtype=torch.uint8)
    masks = torch.empty(len(ROLES_WITH_SCENES), len(cases), corpus.pixels, corpus.pixels, dtype=torch.uint8)
    for number, role in enumerate(ROLES_WITH_SCENES):  # one at a time, to save memory
        frames = worlds.get("coat").render(scenes[role], corpus.pixels, device)
        images[ROLES.index(role)], masks[number] = frames.images.cpu(), frames.masks.cpu()
    images[ROLES.index(PIXEL)] = _pixel_negative(images)
    fields = scene_arrays(Scenes.concatenate([scenes[role] for role in ROLES_WITH_SCENES]))
    by_role = {name: array.reshape(len(ROLES_WITH_SCENES), -1, *array.shape[1:]) for name, array in fields.items()}
    return {"images": images.numpy(), "masks": masks.numpy(), **by_role}


def _render_on_white(corpus: Corpus, folder: ResultFolder, device: str) -> Mapping[str, npt.ArrayLike]:
    """The arrays of a corpus with a white ground everywhere. Only A, B and the negative `pixel` are other images."""
    arrays = {name: np.array(array) for name, array in corpus._arrays(folder, device).items()}
    images = torch.from_numpy(arrays["images"])
    for role in "ab":
        coloured = _scenes(arrays, role)
        scenes = replace(coloured, background=torch.zeros_like(coloured.background))
        for name, field in scene_arrays(scenes).items():
            arrays[name][ROLES_WITH_SCENES.index(role)] = field
        images[ROLES.index(role)] = worlds.get("coat").render(scenes, corpus.pixels, device).images.cpu()
    images[ROLES.index(PIXEL)] = _pixel_negative(images)
    return arrays


def _pixel_negative(images: Tensor) -> Tensor:
    """B - A + C in pixels, from images of all roles."""
    return worlds.Analogies.pixel_negative(*(images[ROLES.index(role)] for role in "abc"))


def _view(arrays: Mapping[str, Array], role: str) -> View:
    images = torch.from_numpy(arrays["images"][ROLES.index(role)])
    if role == PIXEL:
        return View(images)
    return View(images, _scenes(arrays, role), torch.from_numpy(arrays["masks"][ROLES_WITH_SCENES.index(role)]))


def _scenes(arrays: Mapping[str, Array], role: str) -> Scenes:
    own = {name: array[ROLES_WITH_SCENES.index(role)] for name, array in arrays.items() if name != "images"}
    return stored_scenes(worlds.get("coat").vocabulary, own)
