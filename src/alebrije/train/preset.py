"""A preset: a recipe, the settings of a model, and what it learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from alebrije.train.recipe import Recipe

PresetName = Literal["paper", "small", "tiny"]

ALL = -1  # preload every image of dsprites, rooms or arm


@dataclass(frozen=True)
class Preset:
    """A recipe, the settings of the model, and what it learns from."""

    data: tuple[str, ...]  # worlds, or tasks as "world/rule"; the first is the default
    size: int
    recipe: Recipe
    origin: str
    images: int = 0  # preloaded to the device; 0: new images are rendered throughout the training
    model: Mapping[str, Any] = field(default_factory=dict)
    batches: Mapping[str, int] = field(default_factory=dict)  # batch sizes of worlds that differ from the recipe
