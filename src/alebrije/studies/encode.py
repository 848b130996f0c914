"""Showing images to a model: batches, codes, scenes as arrays, and models that cannot be examined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.adapters.embeddings import Embeddings
from alebrije.arrays import Array
from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary
from alebrije.studies.model import LoadedModel, Model, View, encoding_device, plan_of
from alebrije.studies.stages import in_stage

READS_SCENES = "SVIB's Oracle takes scenes, not images, so it has no codes to examine"
NOT_FINITE = "some codes are NaN or infinite; `alebrije check` says where they first appear"
_MOST_ON_DEVICE = 2**31  # bytes of images that are copied to a GPU at once
_PREFIX = "scene-"  # of the names of arrays that hold fields of scenes


class NotExaminedError(InputError):
    """A model, or what was asked of it, does not fit these images. Its values are null with this reason."""


@contextmanager
def examining(model: Model, expected: str = "") -> Iterator[None]:
    """A block in which a model encodes images. Having no codes for them is a reason for null, not a failure.

    That happens with embeddings of other images; `expected` says which images they must be of.
    """
    plan = plan_of(model)
    if plan is not None and plan.reads_scenes:
        raise NotExaminedError(READS_SCENES)
    try:
        with in_stage("encoding"):
            yield
    except InputError as error:
        if isinstance(model, LoadedModel) and isinstance(model.encoder.model, Embeddings):
            raise NotExaminedError(f"{error}; {expected}" if expected else str(error)) from error
        raise


def check_codes_finite(codes: Tensor | Array) -> None:
    """Raise a NotExaminedError if some codes are NaN or infinite."""
    if not bool(torch.as_tensor(codes).isfinite().all()):
        raise NotExaminedError(NOT_FINITE)


def join_codes(codes: Sequence[Tensor]) -> Tensor:
    """Concatenate the codes of several batches; an InputError if their shapes differ.

    >>> join_codes([torch.zeros(2, 3), torch.zeros(1, 3)]).shape
    torch.Size([3, 3])
    """
    shapes = sorted({tuple(batch.shape[1:]) for batch in codes})
    if len(shapes) > 1:
        both = " and ".join(str(list(shape)) for shape in shapes[:2])
        raise InputError(f"all codes must have the same shape, not {both}; give the model a fixed number of slots")
    return torch.cat(list(codes))


def on_device(model: Model, view: View) -> View:
    """The view, with its images on the GPU of the model if it has one and there is room.

    They are copied there once. The codes stay there too, so that no batch waits for the one before it.
    """
    device = encoding_device(model)
    if device.type != "cuda" or view.images.nbytes > _MOST_ON_DEVICE:
        return view
    return replace(view, images=view.images.to(device))


def batches(view: View, size: int) -> Iterator[View]:
    """A view in batches of `size` images."""
    for first in range(0, len(view), size):
        rows = slice(first, first + size)
        parts: dict[str, Any] = {name: None if part is None else part[rows] for name, part in vars(view).items()}
        yield View(**parts)


def scene_arrays(scenes: Scenes) -> dict[str, Array]:
    """The fields of scenes as named arrays.

    >>> from alebrije import worlds
    >>> world = worlds.get("sprites")
    >>> scenes = world.sample(3)
    >>> stored_scenes(world.vocabulary, scene_arrays(scenes) | {"images": np.zeros(3)}).equals(scenes)
    True
    """
    return {f"{_PREFIX}{name}": tensor.cpu().numpy() for name, tensor in scenes.tensors()}


def stored_scenes(vocabulary: Vocabulary, arrays: Mapping[str, Array]) -> Scenes:
    """The scenes whose fields are among the arrays; other arrays are ignored."""
    fields: dict[str, Any] = {
        name.removeprefix(_PREFIX): np.array(array) for name, array in arrays.items() if name.startswith(_PREFIX)
    }
    return Scenes.of(vocabulary, **fields)
