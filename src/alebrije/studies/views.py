"""What is shown and what comes of it: views in parts, scenes as named arrays, and subjects that cannot be examined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije.adapters.embeddings import Embeddings
from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary
from alebrije.studies.subjects import Model, Subject, Trained, View

READS_SCENES = "SVIB's Oracle reads scenes, not images, so there are no codes to examine"
NOT_FINITE = "some codes are not finite numbers; `alebrije check` tells where that begins"
_BEGINNING = "scene-"  # of the name of an array that is a field of scenes


class NotExaminedError(InputError):
    """A subject, or what was asked of it, does not fit these images: its values are null, and this is the reason."""


@contextmanager
def looking(subject: Subject, wanted: str = "") -> Iterator[None]:
    """A block in which a subject looks at images; that it has no codes for them is a reason and not a failure.

    So it is with codes that were computed elsewhere, of other images; `wanted` says which they should be of.
    """
    adapted = subject.adapted if isinstance(subject, Model) else None
    learned = subject.plan if isinstance(subject, Trained) else adapted and adapted.plan
    if learned is not None and learned.reads_scenes:
        raise NotExaminedError(READS_SCENES)
    try:
        yield
    except InputError as error:
        if adapted is not None and isinstance(adapted.model, Embeddings):
            raise NotExaminedError(f"{error}; {wanted}" if wanted else str(error)) from error
        raise


def check_finite(codes: Tensor | npt.NDArray[Any]) -> None:
    """Codes with numbers that are none cannot be examined."""
    if not bool(torch.as_tensor(codes).isfinite().all()):
        raise NotExaminedError(NOT_FINITE)


def joined(codes: Sequence[Tensor]) -> Tensor:
    """The codes of several parts as one; a number of slots that differs among them is refused.

    >>> joined([torch.zeros(2, 3), torch.zeros(1, 3)]).shape
    torch.Size([3, 3])
    """
    shapes = sorted({tuple(each.shape[1:]) for each in codes})
    if len(shapes) > 1:
        told = " and ".join(str(list(shape)) for shape in shapes[:2])
        raise InputError(f"codes of all images must have one shape, not {told}; give the model a fixed number of slots")
    return torch.cat(list(codes))


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
