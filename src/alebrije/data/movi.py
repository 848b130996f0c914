"""MOVi videos (Greff et al. 2022, Kubric) from their TFRecord files, without TensorFlow.

A record is one video, as TensorFlow Datasets writes it: frames and segmentations are PNG files, flow is a list of whole
numbers, and the features of the instances are joined into one list each. Boxes are ragged: `bboxes/ragged_flat_values`,
`bboxes/ragged_row_lengths_0`, and the same for the frames that they belong to.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from alebrije.arrays import Bytes, Floats
from alebrije.checks import whole_number
from alebrije.data.tfrecord import ByteStrings, Feature, parse_example, read_records
from alebrije.errors import InputError

_T = TypeVar("_T", bound=np.generic)

MOST_FRAMES, MOST_SIDE, MOST_INSTANCES = 1_000, 2_048, 255  # masks are bytes; MOVi has 24, 256 and 23
_LEVELS = 65_535  # of a number of 16 bits


@dataclass(frozen=True, eq=False)
class VideoClips:
    """B videos of T frames with the instances of every pixel.

    Videos with fewer instances than N are padded: their boxes and visibility are 0.
    """

    images: Tensor  # [B, T, 3, H, W] uint8
    masks: Tensor  # [B, T, H, W] uint8: 0 is background, instance k is k + 1
    boxes: Tensor  # [B, T, N, 4] float32: top, left, bottom, right in 0..1; zeros where an instance is not visible
    visibility: Tensor  # [B, T, N] int64: pixels that show an instance
    cameras: Tensor  # [B, T, 3] float32
    flow: Tensor | None = None  # [B, T, 2, H, W] float32: x and y, from a pixel to where its point was a frame before

    def __len__(self) -> int:
        return len(self.images)


def read_movi(
    path: str | Path, limit: int | None = None, *, start: int = 0, flow: bool = True, check: bool = True
) -> VideoClips:
    """Videos `start` to `start + limit` of one TFRecord file of MOVi-A to MOVi-E.

    A file is one shard of a split, such as `movi_a-train.tfrecord-00000-of-01024`. The released flow is row before
    column; here it is x before y, in pixels, as in this library's worlds. Without `flow` it is left out, which makes
    reading several times as fast. Without `check` checksums are not compared.
    """
    start = whole_number("start", start, 0)
    limit = None if limit is None else whole_number("limit", limit, 1)
    clips: list[_Clip] = []
    for number, record in enumerate(islice(read_records(path, start=start, check=check), limit), start):
        try:
            clip = _clip(parse_example(record), flow)
            if clips and clip.images.shape != clips[0].images.shape:
                raise InputError("its frames differ in number or size from those before it")
        except InputError as error:
            raise InputError(f"{path}: record {number} is invalid: {error}") from error
        clips.append(clip)
    if not clips:
        raise InputError(f"{path}: holds no record {start}" if start else f"{path}: holds no records")
    most = max(clip.visibility.shape[1] for clip in clips)
    return VideoClips(
        images=_stacked([clip.images for clip in clips]),
        masks=_stacked([clip.masks for clip in clips]),
        boxes=_stacked([_padded(clip.boxes, most) for clip in clips]),
        visibility=_stacked([_padded(clip.visibility, most) for clip in clips]),
        cameras=_stacked([clip.cameras for clip in clips]),
        flow=_stacked([clip.flow for clip in clips if clip.flow is not None]) if flow else None,
    )


@dataclass(frozen=True)
class _Clip:
    images: Bytes  # [T, 3, H, W]
    masks: Bytes  # [T, H, W]
    boxes: npt.NDArray[np.float32]  # [T, N, 4]
    visibility: npt.NDArray[np.int64]  # [T, N]
    cameras: npt.NDArray[np.float32]  # [T, 3]
    flow: npt.NDArray[np.float32] | None  # [T, 2, H, W]


def _clip(features: Mapping[str, Feature], with_flow: bool) -> _Clip:
    images = np.stack(_pictures(features, "video", "RGB")).transpose(0, 3, 1, 2)
    masks = np.stack(_pictures(features, "segmentations", "L"))
    count, height, width = masks.shape
    if images.shape != (count, 3, height, width):
        raise InputError(f"'video' has the shape {list(images.shape)}, and 'segmentations' {list(masks.shape)}")
    visible = _numbers(features, "instances/visibility", np.int64)
    if len(visible) % count or len(visible) > count * MOST_INSTANCES:
        raise InputError(f"'instances/visibility' has {len(visible)} values, and there are {count} frames")
    instances = len(visible) // count
    if int(masks.max()) > instances:
        raise InputError(f"'segmentations' shows instance {int(masks.max())}, and there are {instances}")
    return _Clip(
        images=np.ascontiguousarray(images),
        masks=masks,
        boxes=_boxes(features, count, instances),
        visibility=np.ascontiguousarray(visible.reshape(instances, count).T),
        cameras=_shaped(_numbers(features, "camera/positions", np.float32), "camera/positions", (count, 3)),
        flow=_flow(features, (count, height, width)) if with_flow else None,
    )


def _pictures(features: Mapping[str, Feature], name: str, mode: str) -> list[Bytes]:
    """The frames of a list of PNG files, all of one size."""
    feature = features.get(name)
    if not isinstance(feature, ByteStrings) or not 1 <= len(feature) <= MOST_FRAMES:
        raise InputError(f"{name!r} must be a list of 1 to {MOST_FRAMES} PNG files")
    pictures = [_picture(content, mode, f"frame {index} of {name!r}") for index, content in enumerate(feature)]
    if len({picture.shape for picture in pictures}) > 1:
        raise InputError(f"the frames of {name!r} differ in size")
    return pictures


def _picture(content: bytes, mode: str, where: str) -> Bytes:
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            if max(image.size) > MOST_SIDE:
                raise InputError(f"{where} has {image.size[0]} x {image.size[1]} pixels, more than {MOST_SIDE} a side")
            if image.mode != mode:
                raise InputError(f"{where} has the mode {image.mode}, not {mode}")
            return np.asarray(image)
    except InputError:
        raise
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{where} is not a sound PNG file") from error


def _numbers(features: Mapping[str, Feature], name: str, kind: type[_T]) -> npt.NDArray[_T]:
    feature = features.get(name)
    if not isinstance(feature, np.ndarray) or feature.dtype != kind:
        raise InputError(f"has no feature {name!r} of {'floats' if kind is np.float32 else 'whole numbers'}")
    if kind is np.float32 and not np.isfinite(feature).all():
        raise InputError(f"{name!r} must be finite")
    return feature.astype(kind, copy=False)


def _shaped(values: npt.NDArray[_T], name: str, shape: tuple[int, ...]) -> npt.NDArray[_T]:
    if len(values) != int(np.prod(shape)):
        raise InputError(f"{name!r} has {len(values)} values, but must have {' x '.join(map(str, shape))}")
    return values.reshape(shape)


def _boxes(features: Mapping[str, Feature], count: int, instances: int) -> npt.NDArray[np.float32]:
    """The boxes of every frame, from ragged lists of those frames in which an instance is visible."""
    boxes = np.zeros((count, instances, 4), np.float32)
    lengths = features.get("instances/bboxes/ragged_row_lengths_0", np.zeros(0, np.int64))
    frames = features.get("instances/bbox_frames/ragged_flat_values", np.zeros(0, np.int64))
    values = features.get("instances/bboxes/ragged_flat_values", np.zeros(0, np.float32))
    if not all(isinstance(each, np.ndarray) for each in (lengths, frames, values)):
        raise InputError("boxes and their frames must be numbers")
    assert isinstance(lengths, np.ndarray)
    assert isinstance(frames, np.ndarray)
    assert isinstance(values, np.ndarray)
    total = len(frames)
    fits = len(lengths) == instances and len(values) == 4 * total
    if not fits or (lengths < 0).any() or (lengths > count).any() or int(lengths.sum()) != total:
        raise InputError(f"the boxes of {instances} instances and their frames do not fit together")
    if total and not 0 <= int(frames.min()) <= int(frames.max()) < count:
        raise InputError(f"'instances/bbox_frames' must lie in 0..{count - 1}")
    boxes[frames.astype(np.int64), np.repeat(np.arange(instances), lengths.astype(np.int64))] = values.reshape(-1, 4)
    if not np.isfinite(boxes).all():
        raise InputError("boxes must be finite")
    return boxes


def _flow(features: Mapping[str, Feature], shape: tuple[int, int, int]) -> npt.NDArray[np.float32]:
    """The backward flow in pixels, x before y."""
    stored = _shaped(_numbers(features, "backward_flow", np.int64), "backward_flow", (*shape, 2))
    low, high = _shaped(
        _numbers(features, "metadata/backward_flow_range", np.float32), "metadata/backward_flow_range", (2,)
    ).tolist()
    levels = stored.astype(np.float32)
    if levels.size and not 0 <= float(levels.min()) <= float(levels.max()) <= _LEVELS:
        raise InputError(f"'backward_flow' must lie in 0..{_LEVELS}")
    found: Floats = (levels / _LEVELS * (high - low) + low)[..., ::-1].transpose(0, 3, 1, 2)
    return np.ascontiguousarray(found, dtype=np.float32)


def _padded(values: npt.NDArray[np.generic], most: int) -> npt.NDArray[np.generic]:
    """Values [T, N, ...] with zeros for more instances."""
    return np.pad(values, [(0, 0), (0, most - values.shape[1]), *[(0, 0)] * (values.ndim - 2)])


def _stacked(arrays: list[npt.NDArray[np.generic]]) -> Tensor:
    return torch.from_numpy(np.stack(arrays))
