"""Images in memory, written to a folder that studies read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from alebrije.arrays import Array, Bytes
from alebrije.data.attributes import Attributes, encode_attributes
from alebrije.data.cache import write_cache
from alebrije.data.user_images import LABEL_MODES, PREFIX, STORED, UserImages, numbered_labels
from alebrije.errors import InputError

_SHARD = 1024
_MASK_COLUMNS = ("mask", "masks", "segmentation")


def write_user_images(
    folder: str | Path, images: Any, masks: Any = None, attributes: Mapping[str, Sequence[Any]] | None = None
) -> UserImages:
    """Write images in memory to a folder that `UserImages` reads; the same call keeps what is there.

    `images` are [B, 3, H, W] or [B, H, W, 3], uint8 or floats in 0..1, or a list of such images or of PIL's.
    """
    return _write(Path(folder), *_prepared(images, masks, attributes))


def _prepared(
    images: Any, masks: Any, attributes: Mapping[str, Sequence[Any]] | None
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays of a cache of images, and its settings with the checksum of their content."""
    pictures = _as_images(images)
    arrays: dict[str, Array] = {"images": pictures}
    settings: dict[str, Any] = {"user images": 1}
    if masks is not None:
        arrays["masks"] = _as_masks(masks, pictures.shape)
    if attributes is not None:
        table = _as_attributes(attributes, len(pictures))
        arrays["attributes"] = table.indices
        about = {"names": table.names, "values": table.values, "notes": table.notes}
        settings["attributes"] = {name: _plain(value) for name, value in about.items()}
    digest = hashlib.sha256(repr(settings).encode())
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return arrays, {**settings, "checksum": digest.hexdigest()[:32]}


def _write(folder: Path, arrays: Mapping[str, Array], settings: Mapping[str, Any]) -> UserImages:
    def make(start: int, stop: int) -> dict[str, Array]:
        return {name: array[start:stop] for name, array in arrays.items()}

    write_cache(folder, settings=settings, total=len(arrays["images"]), make=make, shard=_SHARD)
    return UserImages(folder)


def store_user_images(
    parent: Path, images: Any, masks: Any = None, attributes: Mapping[str, Sequence[Any]] | None = None
) -> str:
    """Write images in memory to a folder below `parent` that depends on their content, and return `data:FOLDER`."""
    arrays, settings = _prepared(images, masks, attributes)
    folder = parent / STORED / settings["checksum"][:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    return f"{PREFIX}{_write(folder, arrays, settings).folder}"


def parts_of_dataset(dataset: Any) -> tuple[list[Any], list[Any] | None, dict[str, Sequence[Any]] | None]:
    """The images, masks and attributes in the columns of a dataset of Hugging Face.

    The first column of images holds the images, a column `mask`, `masks` or `segmentation` the masks, and columns of
    words and numbers the attributes.
    """
    names = list(dataset.column_names)
    if not names or not len(dataset):
        raise InputError("the dataset is empty")
    first = dataset[0]
    pictures = [name for name in names if _is_picture(first[name])]
    masks = next((name for name in pictures if name.lower() in _MASK_COLUMNS), None)
    images = next((name for name in pictures if name != masks), None)
    if images is None:
        raise InputError(f"the dataset has no column of images among {', '.join(names)}")
    columns: dict[str, Sequence[Any]] = {
        name: list(dataset[name]) for name in names if isinstance(first[name], (str, bool, int, float))
    }
    return list(dataset[images]), None if masks is None else list(dataset[masks]), columns or None


def named_columns(factors: Any, names: Sequence[str] | None) -> dict[str, Sequence[Any]] | None:
    """Attributes by name: from an array [B, F] and names, a mapping or a data frame."""
    if factors is None:
        return None
    if hasattr(factors, "to_dict") and hasattr(factors, "columns"):
        factors = factors.to_dict("list")
    if isinstance(factors, Mapping):
        if names is not None:
            raise InputError("factors have names already; leave out factor_names")
        return {str(name): list(column) for name, column in factors.items()}
    table = np.asarray(factors.detach().cpu() if isinstance(factors, Tensor) else factors)
    if table.ndim != 2:
        raise InputError(f"factors must be [B, F], not {list(table.shape)}")
    names = [f"factor {number + 1}" for number in range(table.shape[1])] if names is None else [*map(str, names)]
    if len(names) != table.shape[1] or len(set(names)) < len(names):
        raise InputError(f"factor_names must name each of the {table.shape[1]} factors once, got {names}")
    return dict(zip(names, table.T.tolist(), strict=True))


def _as_images(images: Any) -> Bytes:
    """Images in memory as uint8 [B, 3, H, W]."""
    try:
        stacked = _stacked(images, _in_colour)
    except (TypeError, ValueError) as error:
        raise InputError(f"images must be an array or a list of images of one size ({error})") from None
    if stacked.ndim == 4 and stacked.shape[1] != 3 and stacked.shape[-1] == 3:
        stacked = stacked.transpose(0, 3, 1, 2)
    if stacked.ndim != 4 or stacked.shape[1] != 3 or not len(stacked):
        raise InputError(f"images must be [B, 3, H, W] or [B, H, W, 3], not {list(stacked.shape)}")
    if stacked.dtype == np.uint8:
        return np.ascontiguousarray(stacked)
    if stacked.dtype.kind != "f" or not np.isfinite(stacked).all() or stacked.min() < 0 or stacked.max() > 1:
        raise InputError(f"images must be uint8, or floats in 0..1, not {stacked.dtype} from {stacked.min():g}")
    return np.round(stacked * 255).astype(np.uint8)


def _as_masks(masks: Any, shape: Sequence[int]) -> Bytes:
    try:
        stacked = _stacked(masks, _as_labels)
    except (TypeError, ValueError) as error:
        raise InputError(f"masks must be an array or a list of label maps of one size ({error})") from None
    wanted = [shape[0], *shape[2:]]
    if list(stacked.shape) != wanted or stacked.dtype.kind not in "iub":
        raise InputError(f"masks must be integers {wanted}, like the images, not {stacked.dtype} {list(stacked.shape)}")
    return np.stack([numbered_labels(one.astype(np.int64), f"mask {number}") for number, one in enumerate(stacked)])


def _as_attributes(attributes: Mapping[str, Sequence[Any]], rows: int) -> Attributes:
    for name, column in attributes.items():
        if len(column) != rows:
            raise InputError(f"the attribute {name!r} has {len(column):,} values for {rows:,} images")
    return encode_attributes(attributes)


def _stacked(images: Any, convert: Callable[[Any], Any]) -> Array:
    """One array of images; those of PIL are converted."""
    if isinstance(images, Tensor):
        return np.asarray(images.detach().cpu().numpy())
    if isinstance(images, np.ndarray) and images.dtype != object:
        return images
    return np.stack([np.asarray(convert(one) if hasattr(one, "mode") else one) for one in images])


def _is_picture(value: Any) -> bool:
    return hasattr(value, "mode") or (hasattr(value, "shape") and len(value.shape) >= 2)


def _in_colour(image: Any) -> Any:
    return image.convert("RGB")


def _as_labels(image: Any) -> Any:
    if image.mode not in LABEL_MODES:
        raise ValueError(f"a mask of PIL must have one label per pixel, and not the mode {image.mode}")
    return image


def _plain(value: Any) -> Any:
    return [_plain(one) for one in value] if isinstance(value, (tuple, list)) else value
