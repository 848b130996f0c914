"""Episodes that heads learn from and subjects are examined on: made once, the same for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy.typing as npt
import torch
from torch import Tensor

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.models import Batch
from alebrije.scenes import Scenes
from alebrije.studies.folder import Folder
from alebrije.studies.own_worlds import own_world
from alebrije.studies.subjects import View
from alebrije.studies.views import scene_arrays, scenes_of
from alebrije.train.sources import known_factors, known_floats
from alebrije.worlds import Task

Lot = Literal["train", "validation", "known", "test"]  # `known` is new episodes of combinations seen in training
_SEEDS: Mapping[Lot, int] = {"train": 0, "validation": 1, "known": 2, "test": 0}  # training here has streams of its own


@dataclass(frozen=True)
class Setting:
    """A world, a rule, the share of combinations that training shows, and the size of images."""

    world: str
    rule: str
    alpha: float
    pixels: int

    def __post_init__(self) -> None:
        _ = self.task  # names that there are not, and alphas that cannot be

    @property
    def task(self) -> Task:
        """The task."""
        return worlds.task(self.world, self.rule, self.alpha)

    def episodes(self, folder: Folder, lot: Lot, count: int, device: str = "cpu") -> Shown:
        """Some episodes, made when they are first asked for."""
        if count < 1:
            raise InputError(f"there must be at least 1 episode, not {count}")
        settings = self.settings(lot, count)
        arrays = folder.made(settings, partial(_make, self, lot, count, device))
        task = self.task
        source = scenes_of(task.world.vocabulary, arrays)
        seen, true = (torch.from_numpy(arrays[name]) for name in ("source", "target"))
        return Shown(seen, true, source, task.apply(source))

    def settings(self, lot: Lot, count: int) -> dict[str, Any]:
        """All that decides some episodes; those of the test are the same for every alpha."""
        about = {"world": self.world, "rule": self.rule, "pixels": self.pixels, "lot": lot, "count": count}
        alpha = {} if lot == "test" else {"alpha": self.alpha}
        drawn = {"seed": _SEEDS[lot], "version": 1, **own_world(self.world)}
        return {"name": f"episodes-{self.world}-{self.rule}", **about, **alpha, **drawn}


def _make(setting: Setting, lot: Lot, count: int, device: str) -> Mapping[str, npt.ArrayLike]:
    task = setting.task
    draw = task.test if lot == "test" else task.train
    episodes = draw(count, seed=_SEEDS[lot])
    images = {
        name: task.world.images(scenes, setting.pixels, device).cpu().numpy()
        for name, scenes in (("source", episodes.source), ("target", episodes.target))
    }
    return {**images, **scene_arrays(episodes.source)}


@dataclass(frozen=True, eq=False)
class Shown:
    """Episodes with their images, uint8 [B, 3, H, W]."""

    source: Tensor
    target: Tensor
    before: Scenes
    after: Scenes

    def __len__(self) -> int:
        return len(self.source)

    @property
    def view(self) -> View:
        """What a subject is shown."""
        return View(self.source, self.before)

    def batch(self, first: int, count: int, device: torch.device) -> Batch:
        """Some of them as models of episodes read them, without the target."""
        some = slice(first, first + count)
        return {
            "source": self.source[some].to(device),
            "factors": known_factors(self.before[some]).to(device),
            "floats": known_floats(self.before[some]).to(device),
        }
