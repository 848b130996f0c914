"""Views in parts, and scenes as named arrays, so that they lie beside the images they stand behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from alebrije.scenes import Scenes, Vocabulary
from alebrije.studies.subjects import View

_BEGINNING = "scene-"  # of the name of an array that is a field of scenes


def parts(view: View, count: int) -> Iterator[View]:
    """A view in parts of `count` images."""
    for first in range(0, len(view), count):
        some = slice(first, first + count)
        yield View(
            view.images[some],
            None if view.scenes is None else view.scenes[some],
            None if view.masks is None else view.masks[some],
        )


def scene_arrays(scenes: Scenes) -> dict[str, npt.NDArray[Any]]:
    """The fields of scenes as arrays.

    >>> from alebrije import worlds
    >>> world = worlds.get("sprites")
    >>> scenes = world.sample(3)
    >>> scenes_of(world.vocabulary, scene_arrays(scenes) | {"images": np.zeros(3)}).equals(scenes)
    True
    """
    return {f"{_BEGINNING}{name}": tensor.cpu().numpy() for name, tensor in scenes.tensors()}


def scenes_of(vocabulary: Vocabulary, arrays: Mapping[str, npt.NDArray[Any]]) -> Scenes:
    """The scenes whose fields are among the arrays; other arrays are left alone."""
    fields: dict[str, Any] = {
        name.removeprefix(_BEGINNING): np.array(array) for name, array in arrays.items() if name.startswith(_BEGINNING)
    }
    return Scenes.of(vocabulary, **fields)
