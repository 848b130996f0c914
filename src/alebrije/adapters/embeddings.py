"""Embeddings: codes that were computed elsewhere, for images that alebrije made.

The file is an `.npz` or `.safetensors` with `codes` [N, D] or [N, K, D], and for slots perhaps `masks` [N, K, H, W].
Row i belongs to row i of the `images` of a folder that `alebrije make` wrote, named after the file's name, as in
``embeddings:codes.npz?images=FOLDER``, or to row i of `images`, uint8 [N, 3, H, W], in the file itself. A task has two
images an episode: `source_codes` belong to its `source_images`, `target_codes` to its `target_images`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije.adapters.preprocessing import as_bytes
from alebrije.data import CachedArray, open_cache, read_arrays, shown
from alebrije.encoding import Encoding
from alebrije.errors import InputError

Array = npt.NDArray[Any]
_ROWS = 1024  # images of a folder that are held at once


class Embeddings:
    """A table of codes by image. It is called with images, and finds those that it holds; it cannot encode others.

    >>> table = Embeddings("codes.npz", {"codes": np.eye(2, dtype="f4"), "images": np.eye(24, dtype="u1")[:2]
    ...     .reshape(2, 3, 2, 4)})
    >>> table(torch.from_numpy(table.images["images"][[1, 1]])).vector
    tensor([[0., 1.],
            [0., 1.]])
    """

    def __init__(self, name: str, arrays: Mapping[str, Array], images: Mapping[str, Array | CachedArray] | None = None):
        self.name = name
        self.stored = {side: _encoding(name, arrays, side) for side in _sides(name, arrays)}
        beside = arrays if images is None else images
        self.images = {f"{side}images": beside[f"{side}images"] for side in self.stored if f"{side}images" in beside}
        self.rows: dict[bytes, tuple[str, int]] = {}
        for side, encoding in self.stored.items():
            if f"{side}images" in self.images:
                self._index(side, len(encoding))
            elif images is not None:
                raise InputError(f"{name}: there are {side}codes, but the folder has no {side}images")

    def __call__(self, images: Tensor) -> Encoding:
        """The codes that are stored for these images."""
        if not self.rows:
            raise InputError(
                f"{self.name} does not say which images its codes are of, so none can be looked up; add the folder "
                f"that `alebrije make` wrote, as embeddings:{self.name}?images=FOLDER"
            )
        found = [self.rows.get(key) for key in _keys(as_bytes(images).numpy())]
        if None in found:
            raise InputError(
                f"{self.name} holds codes of {_counted(len(self.rows), 'different image')}, and the image asked for is "
                "not one of them: embeddings cannot encode new images"
            )
        places = [place for place in found if place is not None]
        parts: dict[str, Tensor] = {}
        for part in ("vector", "slots", "masks"):
            tensors = [getattr(self.stored[side], part) for side, _ in places]
            if all(tensor is not None for tensor in tensors):
                parts[part] = torch.stack([tensor[row] for tensor, (_, row) in zip(tensors, places, strict=True)])
        return Encoding(**parts)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all codes and of the images they are of, whatever the file is called."""
        digest = hashlib.sha256(b"".join(self.rows))
        for side, encoding in self.stored.items():
            for tensor in (encoding.codes, encoding.masks):
                if tensor is not None:
                    digest.update(f"{side} {list(tensor.shape)}".encode() + tensor.numpy().tobytes())
        return digest.hexdigest()

    def _index(self, side: str, count: int) -> None:
        images = self.images[f"{side}images"]
        if len(images.shape) != 4 or images.shape[1] != 3 or images.dtype != np.uint8:
            raise InputError(
                f"{self.name}: {side}images must be uint8 [N, 3, H, W], not {images.dtype} {list(images.shape)}"
            )
        if len(images) != count:
            raise InputError(f"{self.name}: there are {count} {side}codes but {len(images)} {side}images")
        for first in range(0, count, _ROWS):
            for row, key in enumerate(_keys(np.asarray(images[first : first + _ROWS])), first):
                self.rows.setdefault(key, (side, row))


def read_embeddings(path: str | Path, images: str | Path | None = None) -> Embeddings:
    """The codes of a file, and the images they are of: those of a folder, or those in the file itself."""
    path = Path(path)
    arrays = read_arrays(path).arrays
    if images is None:
        return Embeddings(shown(path), arrays)
    cache = open_cache(images)
    return Embeddings(shown(path), arrays, {name: cache[name] for name in cache.arrays})


def _sides(name: str, arrays: Mapping[str, Array]) -> list[str]:
    sides = [side for side in ("", "source_", "target_") if f"{side}codes" in arrays]
    if not sides:
        raise InputError(f"{name}: there are no 'codes' in the file; it holds {', '.join(sorted(arrays))}")
    return sides


def _encoding(name: str, arrays: Mapping[str, Array], side: str) -> Encoding:
    codes, masks = arrays[f"{side}codes"], arrays.get(f"{side}masks")
    if codes.ndim not in (2, 3) or not np.issubdtype(codes.dtype, np.floating) or 0 in codes.shape:
        raise InputError(
            f"{name}: {side}codes must be floats [N, D], or [N, K, D] for slots, not {codes.dtype} {list(codes.shape)}"
        )
    tensor = torch.from_numpy(codes.astype(np.float32))
    if codes.ndim == 2:
        return Encoding(vector=tensor)
    return Encoding(slots=tensor, masks=None if masks is None else torch.from_numpy(masks.astype(np.float32)))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _keys(images: Array) -> list[bytes]:
    head = repr(images.shape[1:]).encode()
    return [hashlib.blake2b(head + image.tobytes(), digest_size=16).digest() for image in images]
