"""CLEVR (with masks) and Multi-dSprites of the Multi-Object Datasets (Kabra et al., 2019), without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije.arrays import Array, Bytes, Flags
from alebrije.checks import whole_number
from alebrije.data.tfrecord import ByteStrings, Feature, parse_example, read_records
from alebrije.errors import InputError

_T = TypeVar("_T", bound=np.generic)

_CLEVR_REAL: dict[str, tuple[int, ...]] = {"x": (), "y": (), "z": (), "rotation": (), "pixel_coords": (3,)}
_CLEVR_CODES = ("size", "material", "shape", "color")
_MOST_ENTITIES = 255  # masks are bytes
_SPRITES_REAL = ("x", "y", "shape", "orientation", "scale")


@dataclass(frozen=True, eq=False)
class ObjectImages:
    """Images of several objects, the entity of each pixel, and the attributes of every entity.

    Entity 0 is the background. Entities that a scene does not have are not visible, and their attributes are 0.
    """

    images: Tensor  # [B, 3, H, W] uint8
    masks: Tensor  # [B, H, W] uint8: 0 is background, entity k is k
    visibility: Tensor  # [B, E] bool
    attributes: dict[str, Tensor]  # name -> [B, E] or [B, E, D]: float32, or uint8 for codes

    def __len__(self) -> int:
        return len(self.images)


def read_clevr_with_masks(
    path: str | Path, limit: int | None = None, *, start: int = 0, check: bool = True
) -> ObjectImages:
    """CLEVR (with masks): 240 x 320 images of 3 to 10 objects, 11 entities including the background.

    Attributes are `x`, `y`, `z`, `rotation` (degrees), `pixel_coords` (column, row, depth), and the codes `size`,
    `material`, `shape` and `color`, which begin at 1: 0 means that the entity has none. The released file does not name
    the values.

    The file holds 100,000 images in one GZIP stream, so everything before `start` must be read and skipped. An image
    with its masks takes 0.3 MB of memory. Without `check` checksums are not compared.
    """
    return _read(path, limit, start, check, _clevr)


def read_multi_dsprites(
    path: str | Path, limit: int | None = None, *, start: int = 0, check: bool = True
) -> ObjectImages:
    """Multi-dSprites: 64 x 64 images of sprites; the variant is recognised from the file.

    Including the background, the binarized variant has 4 entities, coloured sprites on grey 6, coloured sprites on
    colour 5. Images of the binarized variant have one channel, repeated here three times. Attributes are `x`, `y`,
    `shape`, `orientation`, `scale` and `color` (one or three channels), as in the file.
    """
    return _read(path, limit, start, check, _multi_dsprites)


@dataclass(frozen=True)
class _Scene:
    image: Bytes  # [3, H, W]
    labels: Bytes  # [H, W]
    visibility: Flags  # [E]
    attributes: dict[str, Array]  # [E] or [E, D]

    def shapes(self) -> list[tuple[int, ...]]:
        return [self.image.shape, self.visibility.shape, *(values.shape for values in self.attributes.values())]


def _clevr(features: Mapping[str, Feature]) -> _Scene:
    entities, height, width = 11, 240, 320
    attributes: dict[str, Array] = {
        name: _floats(features, name, (entities, *more)) for name, more in _CLEVR_REAL.items()
    }
    attributes |= {name: _bytes(features, name, (entities,)) for name in _CLEVR_CODES}
    return _Scene(
        image=_bytes(features, "image", (height, width, 3)).transpose(2, 0, 1),
        labels=_labels(_bytes(features, "mask", (entities, height, width))),
        visibility=_floats(features, "visibility", (entities,)) > 0.5,
        attributes=attributes,
    )


def _multi_dsprites(features: Mapping[str, Feature]) -> _Scene:
    side = 64
    entities = len(_floats(features, "visibility", (-1,)))
    if not 1 <= entities <= _MOST_ENTITIES:
        raise InputError(f"'visibility' has {entities} entities, but must have 1 to {_MOST_ENTITIES}")
    image = _bytes(features, "image", (side, side, -1))
    channels = image.shape[-1]
    if channels not in (1, 3):
        raise InputError(f"'image' has {channels} channels, but must have 1 or 3")
    attributes: dict[str, Array] = {name: _floats(features, name, (entities,)) for name in _SPRITES_REAL}
    attributes["color"] = _floats(features, "color", (entities, channels))
    return _Scene(
        image=np.broadcast_to(image, (side, side, 3)).transpose(2, 0, 1),
        labels=_labels(_bytes(features, "mask", (side, side, entities)).transpose(2, 0, 1)),
        visibility=_floats(features, "visibility", (entities,)) > 0.5,
        attributes=attributes,
    )


def _labels(masks: Bytes) -> Bytes:
    """[E, H, W] -> [H, W]: the entity of each pixel, or background if there is none."""
    return np.asarray(masks.argmax(axis=0)).astype(np.uint8)


def _bytes(features: Mapping[str, Feature], name: str, shape: tuple[int, ...]) -> Bytes:
    """A feature in which the released files store every byte as a separate string."""
    feature = features.get(name)
    if not isinstance(feature, ByteStrings):
        raise InputError(f"has no feature {name!r} of bytes")
    return _shaped(np.frombuffer(feature.joined, np.uint8), name, shape)


def _floats(features: Mapping[str, Feature], name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    feature = features.get(name)
    if not isinstance(feature, np.ndarray) or feature.dtype != np.float32:
        raise InputError(f"has no feature {name!r} of floats")
    return _shaped(feature.astype(np.float32, copy=False), name, shape)


def _shaped(values: npt.NDArray[_T], name: str, shape: tuple[int, ...]) -> npt.NDArray[_T]:
    try:
        return values.reshape(shape)
    except ValueError as error:
        wanted = " x ".join("any" if size < 0 else str(size) for size in shape)
        raise InputError(f"{name!r} has {len(values)} values, but must have {wanted}") from error


def _read(
    path: str | Path, limit: int | None, start: int, check: bool, scene_of: Callable[[Mapping[str, Feature]], _Scene]
) -> ObjectImages:
    start = whole_number("start", start, 0)
    limit = None if limit is None else whole_number("limit", limit, 1)
    scenes: list[_Scene] = []
    records = read_records(path, start=start, check=check)
    for number, record in enumerate(islice(records, limit), start):
        try:
            scene = scene_of(parse_example(record))
            if scenes and scene.shapes() != scenes[0].shapes():
                raise InputError("its shapes differ from the records before it")
        except InputError as error:
            raise InputError(f"{path}: record {number} is invalid: {error}") from error
        scenes.append(scene)
    if not scenes:
        raise InputError(f"{path}: holds no record {start}" if start else f"{path}: holds no records")
    return ObjectImages(
        images=_stacked([scene.image for scene in scenes]),
        masks=_stacked([scene.labels for scene in scenes]),
        visibility=_stacked([scene.visibility for scene in scenes]),
        attributes={name: _stacked([scene.attributes[name] for scene in scenes]) for name in scenes[0].attributes},
    )


def _stacked(arrays: Sequence[Array]) -> Tensor:
    return torch.from_numpy(np.stack(arrays))
