"""Episodes of SVIB (Kim et al., 2023) on disk, as released.

An episode is a folder, named by its number in eight digits, with `source.png`, `source.json`, `target.png`,
`target.json` and, in the solid worlds, `source_mask.png` and `target_mask.png`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from alebrije.atomic import disk_trouble_named, drop_leftovers, is_leftover, new_folder
from alebrije.data.checks import reading_trouble_named, whole_number
from alebrije.data.mask_colors import color_mask, is_exact, is_solid, labels_of_mask, mask_palette
from alebrije.errors import InputError
from alebrije.scenes import Episodes, Scenes, Vocabulary, scenes_from_json, scenes_to_json
from alebrije.worlds.vocabularies import CLEVR, CLEVR_MANY, CLEVRTEX, COAT, SPRITES

Bytes = npt.NDArray[np.uint8]
Channels = Literal["stored", "rgb"]
_A = TypeVar("_A")
_B = TypeVar("_B")

_THREADS = min(8, os.cpu_count() or 1)
_DEEPEST = 4  # levels from the root of the released tree to its episodes
_LISTED = 20
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def read_svib(
    folder: str | Path,
    *,
    limit: int | None = None,
    channels: Channels = "stored",
    targets: bool = True,
    vocabulary: Vocabulary | None = None,
) -> Episodes:
    """The episodes of a folder, such as `CLEVR/Single_Atomic/Test`, in the order of their names.

    The world shows in the JSON; a world of one's own needs its `vocabulary`. `limit` reads the first few only.

    `channels`: the PNGs of the sprites world were written with red and blue exchanged, and published numbers were
    made with what they hold. That is "stored", the default; "rgb" exchanges them back to the colours of the JSON.
    The solid worlds are the same either way.

    `targets=False` is for sets without targets (SVIB's omni sets): the target scenes are then the source scenes,
    and there are no target images. Masks are None where no episode has one.

    A missing, damaged or ill-fitting file is refused in one sentence that names it.
    """
    _check_channels(channels)
    folder = Path(folder)
    with reading_trouble_named(folder):
        places = _episode_folders(folder, None if limit is None else whole_number("limit", limit, 1))
        source = _read_side(places, "source", channels, vocabulary)
        if not targets:
            return Episodes(source.scenes, source.scenes, source.images, source_masks=source.masks)
        if not _all_there([place / "target.json" for place in places]):
            raise InputError(f"{folder}: has no target.json; a set without targets is read with targets=False")
        target = _read_side(places, "target", channels, source.scenes.vocabulary)
    if target.images.shape != source.images.shape:
        raise InputError(f"{places[0] / 'target.png'}: is not of the size of the source")
    return Episodes(source.scenes, target.scenes, source.images, target.images, source.masks, target.masks)


def write_svib(episodes: Episodes, folder: str | Path, *, channels: Channels = "stored") -> None:
    """Writes episodes as released, so that `read_svib` gives back the same scenes, images and masks.

    `channels` says what the images hold, as in `read_svib`: images of the sprites world in the colours of their
    scenes are written with "rgb", and the files then have red and blue exchanged, like the released ones.
    Without target images only the sources are written, without masks no masks. Masks have the released colours, which
    `alebrije.data.mask_colors` extends to more than two objects.

    Each episode appears whole or not at all, and the same call continues a killed one: an episode that is there is
    left alone if its scenes and pictures are the same, made again if it is damaged and refused if it is another. A
    folder with anything else in it is refused. Images and masks may also be numpy arrays.

    >>> import tempfile, torch
    >>> scenes = Scenes.of(SPRITES, factors=[[[0, 0, 2], [3, 1, 0]]], position=[[[0.5, 0.25], [0.2, 0.8]]])
    >>> black = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_svib(Episodes(scenes, scenes, black, black), folder)
    ...     read_svib(folder).target.describe()
    ['green circle medium, orange triangle tiny']
    """
    _check_channels(channels)
    folder = Path(folder)
    sides = {"source": _Side(episodes.source, *_drawn(episodes, "source"))}
    if episodes.target_images is not None:
        sides["target"] = _Side(episodes.target, *_drawn(episodes, "target"))
        if sides["target"].images.shape != sides["source"].images.shape:
            raise InputError("source_images and target_images must be of one size")
    size = (sides["source"].images.shape[-1], sides["source"].images.shape[-2])
    records = {name: scenes_to_json(side.scenes, size) for name, side in sides.items()}

    def write(row: int) -> None:
        place = folder / f"{row:08d}"
        files: dict[str, Callable[[], bytes]] = {}
        for name, side in sides.items():
            files |= side.files(name, row, records[name][row], channels)
        if place.exists():
            if _is_done(place, files):
                return
            shutil.rmtree(place)  # what is left of it after a power cut
        with new_folder(place, sync=False) as temporary:  # a sync per file would take longer than all else
            for name, content in files.items():
                (temporary / name).write_bytes(content())

    with disk_trouble_named(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_other_things(folder, len(episodes))
        _each(write, range(len(episodes)))
        drop_leftovers(folder)


@dataclass(frozen=True)
class _Side:
    """All sources, or all targets."""

    scenes: Scenes
    images: Tensor
    masks: Tensor | None

    def files(
        self, name: str, row: int, record: Mapping[str, Any], channels: Channels
    ) -> dict[str, Callable[[], bytes]]:
        """How each file of an episode's source or target is made."""
        vocabulary, solid = self.scenes.vocabulary, is_solid(self.scenes.vocabulary)
        files = {
            f"{name}.json": lambda: json.dumps(record, indent=2).encode(),
            f"{name}.png": lambda: _png(
                _swapped(self.images[row].permute(1, 2, 0).cpu().numpy(), vocabulary, channels), opaque=solid
            ),
        }
        if self.masks is not None:
            labels, palette = self.masks[row].cpu().numpy(), mask_palette(vocabulary, len(record["objects"]))
            files[f"{name}_mask.png"] = lambda: _png(color_mask(labels, palette), opaque=solid)
        return files


def _read_side(places: Sequence[Path], name: str, channels: Channels, vocabulary: Vocabulary | None) -> _Side:
    """The sources or the targets of episodes."""
    paths = [place / f"{name}.json" for place in places]
    records = _each(_read_json, paths)
    world = vocabulary or _recognised(records, paths)
    scenes = _scenes(world, records, paths)
    objects = scenes.present.sum(dim=1).tolist()
    palettes = {count: mask_palette(world, count) for count in set(objects)}

    def image(row: int) -> Bytes:
        return _swapped(_read_png(places[row] / f"{name}.png"), world, channels).transpose(2, 0, 1)

    def mask(row: int) -> Bytes:
        path = places[row] / f"{name}_mask.png"
        picture = _read_png(path)
        try:
            return labels_of_mask(picture, palettes[objects[row]], exact=is_exact(world))
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    images = _stacked(image, [place / f"{name}.png" for place in places])
    masks = [place / f"{name}_mask.png" for place in places]
    if not _all_there(masks):
        return _Side(scenes, images, None)
    labels = _stacked(mask, masks)
    if labels.shape[1:] != images.shape[2:]:
        raise InputError(f"{masks[0]}: is not of the size of the image beside it")
    return _Side(scenes, images, labels)


def _all_there(paths: Sequence[Path]) -> bool:
    """Whether these files are there; if only some of them are, the first that is missing is named."""
    there = _each(Path.exists, paths)
    if any(there) and not all(there):
        missing, other = paths[there.index(False)], paths[there.index(True)]
        raise InputError(f"{missing}: is missing, while {other} is there")
    return all(there)


def _stacked(decode: Callable[[int], Bytes], paths: Sequence[Path]) -> Tensor:
    """One array of all pictures, which must be of one size."""
    first = decode(0)
    stack = np.empty((len(paths), *first.shape), np.uint8)

    def fill(row: int) -> None:
        picture = decode(row)
        if picture.shape != first.shape:
            (height, width), (wanted_height, wanted_width) = picture.shape[-2:], first.shape[-2:]
            raise InputError(f"{paths[row]}: is {width} x {height}, those before it {wanted_width} x {wanted_height}")
        stack[row] = picture

    _each(fill, range(len(paths)))
    return torch.from_numpy(stack)


def _each(function: Callable[[_A], _B], items: Iterable[_A]) -> list[_B]:
    """The function of every item, in threads: reading, zlib and PNG leave the interpreter free."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(function, items))  # the first error drops what has not begun


def _episode_folders(folder: Path, limit: int | None) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    places = sorted(path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())
    if places:
        return places[:limit]
    below = sorted(_folders_of_episodes(folder, _DEEPEST))
    if not below:
        raise InputError(f"{folder}: holds no episodes, folders named by a number such as 00000000")
    more = f" and {len(below) - _LISTED} more" if len(below) > _LISTED else ""
    listed = ", ".join(str(path.relative_to(folder)) for path in below[:_LISTED])
    raise InputError(f"{folder}: holds no episodes itself, but these folders in it do: {listed}{more}")


def _folders_of_episodes(folder: Path, levels: int) -> Iterator[Path]:
    children = [path for path in folder.iterdir() if path.is_dir()]
    if any(path.name.isdecimal() and (path / "source.json").exists() for path in children):
        yield folder
    elif levels > 0:
        for path in children:
            yield from _folders_of_episodes(path, levels - 1)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON, or was cut short ({error})") from error
    if not isinstance(record, dict) or not isinstance(record.get("objects"), list):
        raise InputError(f"{path}: is not a scene, which has a list of objects")
    return record


def _recognised(records: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> Vocabulary:
    """The world whose layout the first scene with an object has."""
    for record, path in zip(records, paths, strict=True):
        if not record["objects"]:
            continue
        one = record["objects"][0]
        keys = one.keys() if isinstance(one, dict) else set()
        if "2d_coords" in keys:
            return SPRITES
        if "ground_material" in record:
            return CLEVRTEX
        if "background" in record:
            return COAT
        if {"color", "material", "size"} <= keys:
            return CLEVR_MANY if one["size"] in CLEVR_MANY["size"].codes else CLEVR
        raise InputError(f"{path}: is of no known world; read it with the vocabulary of its own")
    raise InputError(f"{paths[0].parent.parent}: no scene has an object to tell the world by")


def _scenes(vocabulary: Vocabulary, records: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> Scenes:
    try:
        return scenes_from_json(vocabulary, records)
    except InputError:
        for record, path in zip(records, paths, strict=True):  # which of them was it?
            try:
                scenes_from_json(vocabulary, [record])
            except InputError as error:
                fault = str(error).replace(" of scene 0", "").replace("scene 0", "the scene", 1)  # a scene by itself
                raise InputError(f"{path}: {fault}") from error
        raise


def _read_png(path: Path) -> Bytes:
    """A PNG file as [H, W, 3]."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        mode, picture = _decoded(content)
    except _DamagedError as error:
        raise InputError(f"{path}: is not a PNG image, or one that was cut short ({error})") from error
    if mode not in ("RGB", "RGBA"):
        raise InputError(f"{path}: must be an RGB or RGBA image, not {mode}")
    if mode == "RGBA" and (picture[..., 3] != 255).any():
        raise InputError(f"{path}: is transparent in places; the alpha channel must be 255 everywhere")
    return picture[..., :3]


class _DamagedError(Exception):
    """The content of a file is not what its name says."""


def _decoded(content: bytes) -> tuple[str, Bytes]:
    """Mode and pixels of a PNG file."""
    try:
        _check_chunks(content)
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            return image.mode, np.asarray(image)
    except Exception as error:  # a damaged PNG fails in a dozen ways
        raise _DamagedError(type(error).__name__) from error


def _check_chunks(content: bytes) -> None:
    """Compares the checksums of a PNG file's chunks, which Pillow leaves to chance."""
    place, kind = len(_SIGNATURE), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", content, place)
        end = place + 8 + length
        if struct.unpack_from(">I", content, end)[0] != zlib.crc32(content[place + 4 : end]):
            raise ValueError("checksum")
        place = end + 4
    if not content.startswith(_SIGNATURE) or place != len(content):
        raise ValueError("begin or end")


def _png(picture: Bytes, *, opaque: bool) -> bytes:
    """A picture [H, W, 3] as a PNG file: RGB, or RGBA and opaque."""
    if opaque:
        picture = np.concatenate([picture, np.full_like(picture[..., :1], 255)], axis=-1)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(buffer, "PNG")
    return buffer.getvalue()


def _swapped(picture: Bytes, vocabulary: Vocabulary, channels: Channels) -> Bytes:
    """Between what the files of flat worlds hold and the colours of their JSON; either way it is the same."""
    return picture[..., ::-1] if channels == "rgb" and not is_solid(vocabulary) else picture


def _check_channels(channels: str) -> None:
    if channels not in ("stored", "rgb"):
        raise InputError(f"channels must be 'stored' or 'rgb', not {channels!r}")


def _drawn(episodes: Episodes, name: str) -> tuple[Tensor, Tensor | None]:
    """Images and masks of the sources or targets, checked."""
    images, masks = getattr(episodes, f"{name}_images"), getattr(episodes, f"{name}_masks")
    scenes: Scenes = getattr(episodes, name)
    if images is None:
        raise InputError(f"episodes without {name}_images cannot be written; draw them first")
    images, masks = _tensor(images, f"{name}_images"), None if masks is None else _tensor(masks, f"{name}_masks")
    if len(scenes) == 0:
        raise InputError("there are no episodes to write")
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[:2] != (len(scenes), 3) or not images.numel():
        wanted = f"uint8 of the shape [{len(scenes)}, 3, height, width]"
        raise InputError(f"{name}_images must be {wanted}, not {images.dtype} {list(images.shape)}")
    if masks is not None and (masks.dtype != torch.uint8 or masks.shape != (len(scenes), *images.shape[2:])):
        wanted = f"uint8 of the shape {[len(scenes), *images.shape[2:]]}"
        raise InputError(f"{name}_masks must be {wanted}, not {masks.dtype} {list(masks.shape)}")
    if bool((scenes.present[:, 1:] & ~scenes.present[:, :-1]).any()):
        raise InputError("absent objects must come after those that are present, because the files do not list them")
    if masks is not None:
        objects, labels = scenes.present.sum(dim=1).cpu(), masks.flatten(1).amax(dim=1).cpu()
        for row in (labels > objects).nonzero().flatten().tolist()[:1]:
            fault = f"has the label {int(labels[row])} in a scene of {int(objects[row])} objects"
            raise InputError(f"{name}_masks[{row}] {fault}")
        mask_palette(scenes.vocabulary, int(objects.max()))  # refuses more objects than there are colours
    return images, masks


def _tensor(values: object, name: str) -> Tensor:
    """Images or masks as a tensor; numpy's share their memory."""
    if isinstance(values, Tensor):
        return values
    if not isinstance(values, np.ndarray) or values.dtype != np.uint8:
        kind = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
        raise InputError(f"{name} must be a tensor or a numpy array of uint8, not {kind}")
    usable = values.flags.writeable and min(values.strides, default=1) >= 0  # torch takes no others
    return torch.from_numpy(values if usable else values.copy())


def _refuse_other_things(folder: Path, count: int) -> None:
    """Only episodes of these numbers, and what a killed writer left, may be there."""
    for path in folder.iterdir():
        is_episode = len(path.name) == 8 and path.name.isdecimal() and int(path.name) < count
        if not is_episode and not is_leftover(path):
            raise InputError(f"{folder}: holds other things, such as {path.name}; episodes need a folder of their own")


def _is_done(place: Path, files: Mapping[str, Callable[[], bytes]]) -> bool:
    """Whether this very episode is there whole; another one is refused, even if some of its files are damaged."""
    there = {path.name for path in place.iterdir()}
    if there - files.keys():
        raise InputError(f"{place}: holds other files than this episode would")
    whole = there == files.keys()
    for name in sorted(there):
        try:
            if not _is_same(name, (place / name).read_bytes(), files[name]()):
                raise InputError(f"{place}: holds another episode, {name} differs; write to an empty folder")
        except _DamagedError:
            whole = False
    return whole


def _is_same(name: str, found: bytes, wanted: bytes) -> bool:
    """Whether two files tell the same, however they were written."""
    if found == wanted:
        return True
    if name.endswith(".png"):
        (mode, picture), (wanted_mode, wanted_picture) = _decoded(found), _decoded(wanted)
        return mode == wanted_mode and np.array_equal(picture, wanted_picture)
    try:
        return bool(json.loads(found) == json.loads(wanted))
    except (ValueError, RecursionError) as error:
        raise _DamagedError(type(error).__name__) from error
