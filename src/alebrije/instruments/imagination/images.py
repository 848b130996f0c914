"""The episodes that heads learn from and models are tested on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy.typing as npt
import torch
from torch import Tensor

from alebrije import worlds
from alebrije.checks import whole_number
from alebrije.models import Batch
from alebrije.scenes import Scenes
from alebrije.studies.encode import scene_arrays, stored_scenes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import View
from alebrije.train.scene_sets import known_factors, known_floats
from alebrije.worlds import Task
from alebrije.worlds.user_worlds import user_world_inputs

Subset = Literal["train", "validation", "known", "test"]  # `known`: new episodes with combinations seen in training
_SEEDS: Mapping[Subset, int] = {"train": 0, "validation": 1, "known": 2, "test": 0}  # training uses other streams


@dataclass(frozen=True)
class Corpus:
    """Episodes of a world and a rule. Training shows the core combinations and a share `alpha` of the others."""

    world: str
    rule: str
    alpha: float
    pixels: int

    def __post_init__(self) -> None:
        _ = self.task  # raises an InputError for unknown names and impossible alphas

    @property
    def task(self) -> Task:
        """The world, the rule and the split of the combinations."""
        return worlds.task(self.world, self.rule, self.alpha)

    def settings(self, subset: Subset, count: int) -> dict[str, Any]:
        """Everything that decides the episodes of a subset. Test episodes are the same for every alpha."""
        about = {"world": self.world, "rule": self.rule, "pixels": self.pixels, "lot": subset, "count": count}
        alpha = {} if subset == "test" else {"alpha": self.alpha}
        more = {"seed": _SEEDS[subset], "version": 1, **user_world_inputs(self.world)}
        return {"name": f"episodes-{self.world}-{self.rule}", **about, **alpha, **more}

    def episodes(self, folder: ResultFolder, subset: Subset, count: int, device: str = "cpu") -> ShownEpisodes:
        """The episodes of a subset, rendered when they are first needed."""
        whole_number("the number of episodes", count, least=1)
        arrays = folder.images(self.settings(subset, count), partial(_render, self, subset, count, device), device)
        task = self.task
        source = stored_scenes(task.world.vocabulary, arrays)
        source_images, target_images = (torch.from_numpy(arrays[name]) for name in ("source", "target"))
        return ShownEpisodes(source, task.apply(source), source_images, target_images)


def _render(corpus: Corpus, subset: Subset, count: int, device: str) -> Mapping[str, npt.ArrayLike]:
    task = corpus.task
    sample = task.test if subset == "test" else task.train
    episodes = sample(count, seed=_SEEDS[subset])
    images = {
        name: task.world.images(scenes, corpus.pixels, device).cpu().numpy()
        for name, scenes in (("source", episodes.source), ("target", episodes.target))
    }
    return {**images, **scene_arrays(episodes.source)}


@dataclass(frozen=True, eq=False)
class ShownEpisodes:
    """Episodes with their images, uint8 [B, 3, H, W]."""

    source: Scenes
    target: Scenes
    source_images: Tensor
    target_images: Tensor

    def __len__(self) -> int:
        return len(self.source_images)

    @property
    def view(self) -> View:
        """The sources, as an encoder sees them."""
        return View(self.source_images, self.source)

    def batch(self, first: int, count: int, device: torch.device) -> Batch:
        """Some of the episodes without their targets, as models that predict targets read them."""
        rows = slice(first, first + count)
        return {
            "source": self.source_images[rows].to(device),
            "factors": known_factors(self.source[rows]).to(device),
            "floats": known_floats(self.source[rows]).to(device),
        }
