"""The corpora of COAT: cases of four scenes and seven wrong answers, drawn once for all who are examined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt
import torch

from alebrije import worlds
from alebrije.metrics.analogy import HARD_NEGATIVES
from alebrije.scenes import Scenes
from alebrije.studies.folder import Folder
from alebrije.studies.subjects import View
from alebrije.studies.views import scene_arrays, scenes_of

CORPORA = ("occluded", "unoccluded")
QUADRUPLE = ("a", "b", "c", "d")
PIXEL = "pixel"  # the negative that no scene stands behind
ROLES = (*QUADRUPLE, *HARD_NEGATIVES)
BEHIND = tuple(role for role in ROLES if role != PIXEL)  # roles with a scene
VERSION = 2  # raised when the same settings come to other images


@dataclass(frozen=True)
class Corpus:
    """A corpus by its settings; its images are made when they are first asked for.

    >>> Corpus("occluded", 1600, 128).settings["cases"]
    1600
    """

    name: str
    cases: int
    pixels: int
    seed: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides its images."""
        return {
            "name": f"analogies-{self.name}",
            "version": VERSION,
            "cases": self.cases,
            "pixels": self.pixels,
            "seed": self.seed,
        }

    def views(self, folder: Folder, device: str = "cpu") -> dict[str, View]:
        """What is shown in each role: a, b, c, d, and each negative of d by its name."""
        arrays = folder.made(self.settings, partial(_make, self, device))
        return {role: _view(arrays, role) for role in ROLES}


def _make(corpus: Corpus, device: str) -> Mapping[str, npt.ArrayLike]:
    """Images [roles, cases, 3, H, W], masks [roles, cases, H, W] and the fields of the scenes behind them."""
    cases = worlds.analogies("clevr", corpus.cases, seed=corpus.seed, occluded=corpus.name == "occluded")
    scenes = {**{role: getattr(cases, role) for role in QUADRUPLE}, **cases.negatives}
    images = torch.empty(len(ROLES), len(cases), 3, corpus.pixels, corpus.pixels, dtype=torch.uint8)
    masks = torch.empty(len(BEHIND), len(cases), corpus.pixels, corpus.pixels, dtype=torch.uint8)
    for number, role in enumerate(BEHIND):  # one after another, because all together are large
        frames = worlds.get("coat").render(scenes[role], corpus.pixels, device)
        images[ROLES.index(role)], masks[number] = frames.images.cpu(), frames.masks.cpu()
    images[ROLES.index(PIXEL)] = cases.pixel_negative(*(images[ROLES.index(role)] for role in "abc"))
    kept = scene_arrays(Scenes.concatenate([scenes[role] for role in BEHIND]))
    by_role = {name: array.reshape(len(BEHIND), -1, *array.shape[1:]) for name, array in kept.items()}
    return {"images": images.numpy(), "masks": masks.numpy(), **by_role}


def _view(arrays: Mapping[str, npt.NDArray[Any]], role: str) -> View:
    images = torch.from_numpy(arrays["images"][ROLES.index(role)])
    if role == PIXEL:
        return View(images)
    of_role = {name: array[BEHIND.index(role)] for name, array in arrays.items() if name != "images"}
    return View(images, scenes_of(worlds.get("coat").vocabulary, of_role), torch.from_numpy(of_role["masks"]))
