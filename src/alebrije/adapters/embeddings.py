"""Embeddings: codes computed elsewhere for images that alebrije made.

The file is an `.npz` or `.safetensors` with `codes` [N, D] or [N, K, D], and optionally `masks` [N, K, H, W] for slots.
Row i of the codes belongs to row i of the images. These are the `images` of a folder that `alebrije make` wrote, as in
``embeddings:codes.npz?images=FOLDER``, or the array `images`, uint8 [N, 3, H, W], in the file itself. A task has two
images per episode: `source_codes` belong to its `source_images`, `target_codes` to its `target_images`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from alebrije.adapters.preprocessing import to_uint8
from alebrije.arrays import Array
from alebrije.data import CachedArray, open_cache, printable, read_arrays
from alebrije.encoding import Encoding
from alebrije.errors import InputError

_CHUNK = 1024  # images of a folder that are read at once


class Embeddings:
    """A lookup table from images to codes. It is called with images; an image that is not in the table is an error.

    >>> embeddings = Embeddings("codes.npz", {"codes": np.eye(2, dtype="f4"), "images": np.eye(24, dtype="u1")[:2]
    ...     .reshape(2, 3, 2, 4)})
    >>> embeddings(torch.from_numpy(embeddings.images["images"][[1, 1]])).vector
    tensor([[0., 1.],
            [0., 1.]])
    """

    def __init__(self, name: str, arrays: Mapping[str, Array], images: Mapping[str, Array | CachedArray] | None = None):
        self.name = name
        self.stored = {prefix: _encoding(name, arrays, prefix) for prefix in _prefixes(name, arrays)}
        available = arrays if images is None else images
        names = [f"{prefix}images" for prefix in self.stored]
        self.images = {images_name: available[images_name] for images_name in names if images_name in available}
        self.rows: dict[bytes, tuple[str, int]] = {}  # hash of an image -> prefix and row of its code
        for prefix, encoding in self.stored.items():
            if f"{prefix}images" in self.images:
                self._index(prefix, len(encoding))
            elif images is not None:
                raise InputError(f"{name}: the file has {prefix}codes, but the folder has no {prefix}images")

    def __call__(self, images: Tensor) -> Encoding:
        """Look up the codes of images."""
        if not self.rows:
            raise InputError(
                f"{self.name} does not say which images its codes belong to; add the folder that `alebrije make` "
                f"wrote: embeddings:{self.name}?images=FOLDER"
            )
        rows = [self.rows[key] for key in _keys(to_uint8(images).numpy()) if key in self.rows]
        if len(rows) < len(images):
            raise InputError(
                f"{self.name} has codes of {len(self.rows):,} different image{'s' if len(self.rows) > 1 else ''}, and "
                "the requested image is not one of them; embeddings cannot encode new images"
            )
        parts: dict[str, Tensor] = {}
        for part in ("vector", "slots", "masks"):
            tensors = [getattr(self.stored[prefix], part) for prefix, _ in rows]
            if all(tensor is not None for tensor in tensors):
                parts[part] = torch.stack([tensor[row] for tensor, (_, row) in zip(tensors, rows, strict=True)])
        return Encoding(**parts)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all codes and images; the name of the file does not matter."""
        digest = hashlib.sha256(b"".join(self.rows))
        for prefix, encoding in self.stored.items():
            for tensor in (encoding.codes, encoding.masks):
                if tensor is not None:
                    digest.update(f"{prefix} {list(tensor.shape)}".encode() + tensor.numpy().tobytes())
        return digest.hexdigest()

    def _index(self, prefix: str, count: int) -> None:
        images = self.images[f"{prefix}images"]
        if len(images.shape) != 4 or images.shape[1] != 3 or images.dtype != np.uint8:
            raise InputError(
                f"{self.name}: {prefix}images must be uint8 [N, 3, H, W], not {images.dtype} {list(images.shape)}"
            )
        if len(images) != count:
            raise InputError(f"{self.name}: there are {count} {prefix}codes but {len(images)} {prefix}images")
        for first in range(0, count, _CHUNK):
            for row, key in enumerate(_keys(np.asarray(images[first : first + _CHUNK])), first):
                self.rows.setdefault(key, (prefix, row))


def read_embeddings(path: str | Path, images: str | Path | None = None) -> Embeddings:
    """Read the codes of a file, with the images of a folder or of the file itself."""
    path = Path(path)
    arrays = read_arrays(path).arrays
    if images is None:
        return Embeddings(printable(path), arrays)
    cache = open_cache(images)
    return Embeddings(printable(path), arrays, {name: cache[name] for name in cache.arrays})


def _prefixes(name: str, arrays: Mapping[str, Array]) -> list[str]:
    prefixes = [prefix for prefix in ("", "source_", "target_") if f"{prefix}codes" in arrays]
    if not prefixes:
        raise InputError(f"{name}: the file has no 'codes'; it has {', '.join(sorted(arrays))}")
    return prefixes


def _encoding(name: str, arrays: Mapping[str, Array], prefix: str) -> Encoding:
    codes, masks = arrays[f"{prefix}codes"], arrays.get(f"{prefix}masks")
    if codes.ndim not in (2, 3) or not np.issubdtype(codes.dtype, np.floating) or 0 in codes.shape:
        raise InputError(
            f"{name}: {prefix}codes must be floats [N, D], or [N, K, D] for slots, "
            f"not {codes.dtype} {list(codes.shape)}"
        )
    tensor = torch.from_numpy(codes.astype(np.float32))
    if codes.ndim == 2:
        return Encoding(vector=tensor)
    return Encoding(slots=tensor, masks=None if masks is None else torch.from_numpy(masks.astype(np.float32)))


def _keys(images: Array) -> list[bytes]:
    """A hash of the size and pixels of each image."""
    head = repr(images.shape[1:]).encode()
    return [hashlib.blake2b(head + image.tobytes(), digest_size=16).digest() for image in images]
