"""A user's own images: a folder with optional masks and a table of attributes, or what `alebrije make` wrote.

A folder of images::

    images/0001.png ...       or the images in the folder itself; PNG, JPEG, WebP, BMP or TIFF, all of one size
    masks/0001.png ...        optional, one per image: label images, in which 0 is the background
    attributes.csv            optional, or any one .csv, .tsv or .parquet file: a column `image` with the names of the
                              files, and one column for each attribute
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from alebrije import worlds
from alebrije.arrays import Array, Bytes, Integers
from alebrije.atomic import explain_read_errors
from alebrije.data.attributes import Attributes, encode_attributes, read_table
from alebrije.data.cache import Cache, open_cache
from alebrije.errors import InputError
from alebrije.files import RECORDS, read_bytes
from alebrije.suggest import did_you_mean

PREFIX = "data:"  # of a folder in the place of a world
STORED = "user-images"  # the folder of images that came from memory
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF")  # of Pillow; others could start programs
_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff")
_TABLES = (".csv", ".tsv", ".parquet")
_NAME_COLUMNS = ("image", "file_name", "filename", "file", "path", "name", "id")
LABEL_MODES = ("1", "L", "P", "I", "I;16", "I;16B")
_MOST_PIXELS = 2**26  # of an image
_MOST_LABELS = 255  # in a mask
_SHARD = 1024


@dataclass(frozen=True, eq=False)
class UserFrames:
    """Images uint8 [B, 3, H, W], and masks [B, H, W] and attributes [B, F] where the folder has them."""

    images: Tensor
    masks: Tensor | None
    factors: Integers | None


@dataclass(frozen=True)
class UserImages:
    """The images of a folder, read when they are needed."""

    folder: Path

    def __len__(self) -> int:
        return len(self._source)

    @property
    def has_masks(self) -> bool:
        """Whether every image has a mask."""
        return self._source.has_masks

    @property
    def attributes(self) -> Attributes | None:
        """The attributes of all images; None if there is no table."""
        return self._source.attributes

    def rows(self, most: int, seed: int, *, with_attributes: bool = False) -> Integers:
        """At most `most` rows, optionally only those that have all attributes.

        Images of `alebrije make` are in random order, so the first are taken; files are sampled without replacement.
        """
        rows = np.arange(len(self))
        if with_attributes and self.attributes is not None:
            rows = self.attributes.complete
        if len(rows) > most:
            random = np.random.default_rng(seed)
            rows = rows[:most] if self._source.shuffled else np.sort(random.choice(rows, most, replace=False))
        return rows.astype(np.int64)

    def read(self, rows: Sequence[int] | Integers) -> UserFrames:
        """The images of these rows, with their masks and attributes."""
        index = np.asarray(rows, dtype=np.int64)
        images, masks = self._source.read(index)
        factors = None if self.attributes is None else self.attributes.indices[index]
        return UserFrames(images, masks, factors)

    def checksum(self, rows: Sequence[int] | Integers) -> str:
        """A checksum of the content of these rows: images, masks and attributes, not the names of files."""
        digest = hashlib.sha256()
        index = np.asarray(rows, dtype=np.int64)
        self._source.update(digest, index)
        if self.attributes is not None:
            digest.update(repr((self.attributes.names, self.attributes.values)).encode())
            digest.update(self.attributes.indices[index].tobytes())
        return digest.hexdigest()[:32]

    @cached_property
    def _source(self) -> _Files | _Cached:
        with explain_read_errors(self.folder):
            if not self.folder.is_dir():
                raise InputError(f"{self.folder}: there is no such folder; data:FOLDER needs a folder of images")
            if (self.folder / "manifest.json").exists():
                return _Cached(open_cache(self.folder))
            return _Files.of(self.folder)


def world_label(world: str) -> str:
    """The name of a world in tables. Images from memory are called data; their folder says nothing to a reader.

    >>> world_label("rooms"), world_label("data:birds"), world_label("data:out/user-images/0f3a")
    ('rooms', 'data:birds', 'data')
    """
    return "data" if world.startswith(PREFIX) and Path(world).parent.name == STORED else world


def user_images(world: str) -> UserImages | None:
    """The images of `data:FOLDER`; None for the name of a world."""
    if not world.startswith(PREFIX):
        return None
    if not world.removeprefix(PREFIX):
        raise InputError("data: needs a folder of images, as in data:FOLDER")
    return UserImages(Path(world.removeprefix(PREFIX)))


@dataclass(frozen=True, eq=False)
class _Files:
    """Image files, their masks and their attributes."""

    images: tuple[Path, ...]
    masks: tuple[Path, ...] | None
    attributes: Attributes | None
    shuffled: bool = False

    @classmethod
    def of(cls, folder: Path) -> _Files:
        inner = folder / "images"
        images = _image_files(inner if inner.is_dir() else folder)
        if not images:
            found = _image_files(folder / "masks") if (folder / "masks").is_dir() else ()
            more = ", only masks" if found else f"; an image is a file that ends in {', '.join(_ENDINGS)}"
            raise InputError(f"{folder}: holds no images{more}")
        masks = _masks_of(folder / "masks", images) if (folder / "masks").is_dir() else None
        table = _table_in(folder)
        stems = [path.stem for path in images]
        if (masks or table) and len(set(stems)) < len(stems):
            raise InputError(f"{folder}: two images are called {_first_repeated(stems)!r}, apart from their endings")
        return cls(images, masks, None if table is None else _attributes_of(table, images))

    def __len__(self) -> int:
        return len(self.images)

    @property
    def has_masks(self) -> bool:
        return self.masks is not None

    def read(self, rows: Integers) -> tuple[Tensor, Tensor | None]:
        pictures = _same_size([(self.images[row], _pixels(self.images[row])) for row in rows])
        images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()
        if self.masks is None:
            return images, None
        labels = []
        for row, picture in zip(rows, pictures, strict=True):
            label = _labels(self.masks[row])
            if label.shape != picture.shape[:2]:
                raise InputError(
                    f"{self.masks[row]}: is {_size(label)}, and its image {self.images[row].name} is {_size(picture)}"
                )
            labels.append(label)
        return images, torch.from_numpy(np.stack(labels))

    def update(self, digest: Any, rows: Integers) -> None:
        for row in rows:
            for path in (self.images[row], *([self.masks[row]] if self.masks is not None else [])):
                with explain_read_errors(path):
                    digest.update(hashlib.sha256(read_bytes(path, RECORDS)).digest())


@dataclass(frozen=True, eq=False)
class _Cached:
    """Images that `alebrije make` or `write_user_images` wrote."""

    cache: Cache

    def __post_init__(self) -> None:
        if "images" not in self.cache:
            raise InputError(f"{self.cache.folder}: holds no images; make it for a world, not for a task")

    def __len__(self) -> int:
        return len(self.cache)

    @property
    def shuffled(self) -> bool:
        """Whether its rows are in random order, as in a world."""
        return "world" in self.cache.settings

    @property
    def has_masks(self) -> bool:
        return "masks" in self.cache

    @cached_property
    def attributes(self) -> Attributes | None:
        own = self.cache.settings.get("attributes")
        if own is not None:
            values = tuple(tuple(words) for words in own["values"])
            return Attributes(tuple(own["names"]), values, self.cache["attributes"][:], tuple(own["notes"]))
        if "factors" not in self.cache or self.cache["factors"].shape[1] != 1:
            return None  # several objects have no attributes of the whole image
        return _of_factors(self.cache["factors"][:][:, 0], str(self.cache.settings.get("world", "")))

    def read(self, rows: Integers) -> tuple[Tensor, Tensor | None]:
        masks = torch.from_numpy(self.cache["masks"][rows]) if self.has_masks else None
        return torch.from_numpy(self.cache["images"][rows]), masks

    def update(self, digest: Any, rows: Integers) -> None:
        for name in ("images", *(["masks"] if self.has_masks else [])):
            for start in range(0, len(rows), _SHARD):
                digest.update(self.cache[name][rows[start : start + _SHARD]].tobytes())


def _of_factors(factors: Integers, world: str) -> Attributes:
    """The factors of a world that vary. Those of a world of the user have numbers, because its code is not run."""
    if world in worlds.names():
        factors_of = worlds.get(world).vocabulary.factors
        named = {factor.name: tuple(map(str, factor.values)) for factor in factors_of}
    else:
        counts = factors.max(0) + 1
        named = {f"factor {number}": tuple(map(str, range(count))) for number, count in enumerate(counts.tolist(), 1)}
    vary = [axis for axis, words in enumerate(named.values()) if len(words) > 1]
    names, values = tuple(named), tuple(named.values())
    return Attributes(tuple(names[axis] for axis in vary), tuple(values[axis] for axis in vary), factors[:, vary])


def _image_files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.iterdir() if path.suffix.lower() in _ENDINGS and path.name[0] != "."))


def _masks_of(folder: Path, images: Sequence[Path]) -> tuple[Path, ...] | None:
    """The mask of each image, by the name without its ending."""
    found = {path.stem: path for path in _image_files(folder)}
    if not found:
        raise InputError(f"{folder}: holds no masks; a mask is a PNG file with the name of its image")
    lacking = [path.name for path in images if path.stem not in found]
    if lacking:
        raise InputError(f"{folder}: {len(lacking):,} of {len(images):,} images have no mask, such as {lacking[0]}")
    known = {path.stem for path in images}
    if more := sorted(path.name for stem, path in found.items() if stem not in known):
        raise InputError(f"{folder}: {len(more):,} masks have no image, such as {more[0]}")
    return tuple(found[path.stem] for path in images)


def _table_in(folder: Path) -> Path | None:
    tables = sorted(path for path in folder.iterdir() if path.suffix.lower() in _TABLES and path.name[0] != ".")
    named = [path for path in tables if path.stem == "attributes"]
    if len(tables) > 1 and len(named) != 1:
        raise InputError(f"{folder}: has {len(tables)} tables; name one of them attributes{tables[0].suffix}")
    return next(iter(named or tables), None)


def _attributes_of(table: Path, images: Sequence[Path]) -> Attributes:
    """The attributes of each image, by the column that names the files."""
    columns = read_table(table)
    try:
        name = next(name for name in _NAME_COLUMNS if name in columns)
    except StopIteration:
        near = did_you_mean("image", list(columns)) if len(columns) < 50 else ""
        raise InputError(f"{table}: has no column 'image' with the names of the files{near}") from None
    keys = [str(cell).rpartition("/")[2] for cell in columns.pop(name)]
    places = {key: row for row, path in enumerate(images) for key in (path.stem, path.name)}
    if unknown := [key for key in keys if key not in places]:
        raise InputError(f"{table}: {len(unknown):,} rows name no image of the folder, such as {unknown[0]!r}")
    rows = [places[key] for key in keys]
    if len(set(rows)) < len(rows):
        raise InputError(f"{table}: names an image twice, such as {_first_repeated(keys)!r}")
    by_image = {row: number for number, row in enumerate(rows)}
    try:
        return encode_attributes(
            {
                one: [cells[by_image[row]] if row in by_image else None for row in range(len(images))]
                for one, cells in columns.items()
            }
        )
    except InputError as error:
        raise InputError(f"{table}: {error}") from None


def _first_repeated(keys: Sequence[str]) -> str:
    seen: set[str] = set()
    return next((key for key in keys if key in seen or seen.add(key)), keys[0])  # type: ignore[func-returns-value]


def _open(path: Path) -> Image.Image:
    with explain_read_errors(path):
        content = read_bytes(path, RECORDS)
    try:
        image = Image.open(io.BytesIO(content), formats=_FORMATS)
        if image.width * image.height > _MOST_PIXELS:
            raise InputError(
                f"{path}: is {image.width} x {image.height}, more than the {_MOST_PIXELS:,} pixels allowed"
            )
        image.load()
    except InputError:
        raise
    except Exception as error:  # damaged images fail in many ways
        raise InputError(f"{path}: is not an image that can be read ({type(error).__name__})") from None
    return image


def _pixels(path: Path) -> Bytes:
    return np.asarray(_open(path).convert("RGB"))


def _labels(path: Path) -> Bytes:
    """The labels [H, W] of a mask: 0 stays the background, other labels are numbered from 1."""
    image = _open(path)
    if image.mode not in LABEL_MODES:
        raise InputError(f"{path}: is an image of colours ({image.mode}); a mask has one label per pixel, 0 behind all")
    return numbered_labels(np.asarray(image).astype(np.int64), str(path))


def numbered_labels(labels: Array, where: str) -> Bytes:
    """Labels as bytes: 0 stays, the others are numbered from 1 in their order."""
    found = np.union1d(labels, [0])
    if found[0] < 0 or len(found) > _MOST_LABELS:
        raise InputError(
            f"{where}: has {len(found):,} labels, from {found[0]}; 0 to {_MOST_LABELS} objects are possible"
        )
    return np.searchsorted(found, labels).astype(np.uint8)


def _same_size(pictures: Sequence[tuple[Path, Bytes]]) -> list[Bytes]:
    for path, picture in pictures:
        first, other = pictures[0]
        if picture.shape != other.shape:
            raise InputError(
                f"all images must have one size: {first.name} is {_size(other)}, and {path.name} is {_size(picture)}"
            )
    return [picture for _, picture in pictures]


def _size(picture: Array) -> str:
    return f"{picture.shape[1]} x {picture.shape[0]}"
