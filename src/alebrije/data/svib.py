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
import torch
from PIL import Image
from torch import Tensor

from alebrije.arrays import Bytes
from alebrije.atomic import drop_leftovers, explain_read_errors, explain_write_errors, is_leftover, new_folder
from alebrije.checks import whole_number
from alebrije.data.mask_colors import color_mask, is_exact, is_solid, mask_labels, mask_palette
from alebrije.errors import InputError
from alebrije.files import RECORDS, read_bytes, read_json
from alebrije.scenes import Episodes, Scenes, Vocabulary, scenes_from_json, scenes_to_json
from alebrije.worlds.vocabularies import CLEVR, CLEVR_MANY, CLEVRTEX, COAT, SPRITES

Channels = Literal["stored", "rgb"]
_A = TypeVar("_A")
_B = TypeVar("_B")

_THREADS = min(8, os.cpu_count() or 1)
_LISTED = 20
_MOST_PIXELS = 2**26  # of an image
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def read_svib(
    folder: str | Path,
    *,
    limit: int | None = None,
    channels: Channels = "stored",
    targets: bool = True,
    vocabulary: Vocabulary | None = None,
) -> Episodes:
    """The episodes of a folder, such as `CLEVR/Single_Atomic/Test`, in the order of their names.

    The world is recognised from the JSON; user worlds need a `vocabulary`. `limit` reads only the first few.

    `channels`: the PNGs of the sprites world were written with red and blue swapped, and the published numbers use them
    as they are. That is "stored", the default; "rgb" swaps them back to the colours of the JSON. It makes no difference
    in the solid worlds.

    `targets=False` is for sets without targets (SVIB's omni sets): the target scenes are then the source scenes, and
    there are no target images. Masks are None if no episode has one.

    A missing, damaged or inconsistent file raises an InputError that names it.
    """
    _check_channels(channels)
    folder = Path(folder)
    with explain_read_errors(folder):
        folders = _episode_folders(folder, None if limit is None else whole_number("limit", limit, 1))
        source = _read_side(folders, "source", channels, vocabulary)
        if not targets:
            return Episodes(source.scenes, source.scenes, source.images, source_masks=source.masks)
        if not _all_exist([episode / "target.json" for episode in folders]):
            raise InputError(f"{folder}: has no target.json; use targets=False to read a set without targets")
        target = _read_side(folders, "target", channels, source.scenes.vocabulary)
    if target.images.shape != source.images.shape:
        raise InputError(f"{folders[0] / 'target.png'}: differs in size from the source")
    return Episodes(source.scenes, target.scenes, source.images, target.images, source.masks, target.masks)


def write_svib(episodes: Episodes, folder: str | Path, *, channels: Channels = "stored") -> None:
    """Write episodes as released, so that `read_svib` returns the same scenes, images and masks.

    `channels` describes the images, as in `read_svib`: images of the sprites world in the colours of their scenes need
    "rgb", and the files then have red and blue swapped, like the released ones. Without target images only the sources
    are written; without masks no masks. Masks have the released colours, which `alebrije.data.mask_colors` extends to
    more than two objects.

    Each episode is written atomically, and the same call continues after a kill: an existing episode is kept if it is
    the same, rewritten if it is damaged, and raises an InputError if it is a different one. A folder with other files
    in it also raises an InputError. Images and masks may be numpy arrays.

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
    sides = {"source": _Side(episodes.source, *_images_and_masks(episodes, "source"))}
    if episodes.target_images is not None:
        sides["target"] = _Side(episodes.target, *_images_and_masks(episodes, "target"))
        if sides["target"].images.shape != sides["source"].images.shape:
            raise InputError("source_images and target_images must have the same size")
    size = (sides["source"].images.shape[-1], sides["source"].images.shape[-2])
    records = {name: scenes_to_json(side.scenes, size) for name, side in sides.items()}

    def write(row: int) -> None:
        episode = folder / f"{row:08d}"
        files: dict[str, Callable[[], bytes]] = {}
        for name, side in sides.items():
            files |= side.files(name, row, records[name][row], channels)
        if episode.exists():
            if _is_complete(episode, files):
                return
            shutil.rmtree(episode)  # damaged, for example by a power cut
        with new_folder(episode, sync=False) as temporary:  # a sync per file would take longer than everything else
            for name, content in files.items():
                (temporary / name).write_bytes(content())

    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _check_folder(folder, len(episodes))
        _parallel_map(write, range(len(episodes)))
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
        """The file names of an episode's source or target, and functions that return their content."""
        vocabulary, solid = self.scenes.vocabulary, is_solid(self.scenes.vocabulary)
        files = {
            f"{name}.json": lambda: json.dumps(record, indent=2).encode(),
            f"{name}.png": lambda: _png(
                _swap_channels(self.images[row].permute(1, 2, 0).cpu().numpy(), vocabulary, channels), opaque=solid
            ),
        }
        if self.masks is not None:
            labels, palette = self.masks[row].cpu().numpy(), mask_palette(vocabulary, len(record["objects"]))
            files[f"{name}_mask.png"] = lambda: _png(color_mask(labels, palette), opaque=solid)
        return files


def _read_side(folders: Sequence[Path], name: str, channels: Channels, vocabulary: Vocabulary | None) -> _Side:
    """Read the sources or the targets of episodes."""
    paths = [episode / f"{name}.json" for episode in folders]
    records = _parallel_map(_read_json, paths)
    world = vocabulary or _recognise_world(records, paths)
    scenes = _scenes(world, records, paths)
    objects = scenes.present.sum(dim=1).tolist()
    palettes = {count: mask_palette(world, count) for count in set(objects)}

    def image(row: int) -> Bytes:
        return _swap_channels(_read_png(folders[row] / f"{name}.png"), world, channels).transpose(2, 0, 1)

    def mask(row: int) -> Bytes:
        path = folders[row] / f"{name}_mask.png"
        pixels = _read_png(path)
        try:
            return mask_labels(pixels, palettes[objects[row]], exact=is_exact(world))
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    images = _stack(image, [episode / f"{name}.png" for episode in folders])
    masks = [episode / f"{name}_mask.png" for episode in folders]
    if not _all_exist(masks):
        return _Side(scenes, images, None)
    labels = _stack(mask, masks)
    if labels.shape[1:] != images.shape[2:]:
        raise InputError(f"{masks[0]}: differs in size from its image")
    return _Side(scenes, images, labels)


def _all_exist(paths: Sequence[Path]) -> bool:
    """Whether these files exist; an InputError if only some of them do."""
    exists = _parallel_map(Path.exists, paths)
    if any(exists) and not all(exists):
        missing, other = paths[exists.index(False)], paths[exists.index(True)]
        raise InputError(f"{missing}: is missing, but {other} exists")
    return all(exists)


def _stack(decode: Callable[[int], Bytes], paths: Sequence[Path]) -> Tensor:
    """All images or masks in one tensor; an InputError if their sizes differ."""
    first = decode(0)
    stack = np.empty((len(paths), *first.shape), np.uint8)

    def fill(row: int) -> None:
        pixels = decode(row)
        if pixels.shape != first.shape:
            (height, width), (wanted_height, wanted_width) = pixels.shape[-2:], first.shape[-2:]
            raise InputError(f"{paths[row]}: is {width} x {height}, but the first is {wanted_width} x {wanted_height}")
        stack[row] = pixels

    _parallel_map(fill, range(len(paths)))
    return torch.from_numpy(stack)


def _parallel_map(function: Callable[[_A], _B], items: Iterable[_A]) -> list[_B]:
    """Apply a function to every item in threads: reading, zlib and PNG release the GIL."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(function, items))  # the first error cancels the rest


def _episode_folders(folder: Path, limit: int | None) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    folders = sorted(path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())
    if folders:
        return folders[:limit]
    below = sorted(_folders_of_episodes(folder, levels=4))  # from the root of the release to its episodes
    if not below:
        raise InputError(f"{folder}: has no episodes (folders named by a number, such as 00000000)")
    more = f" and {len(below) - _LISTED} more" if len(below) > _LISTED else ""
    listed = ", ".join(str(path.relative_to(folder)) for path in below[:_LISTED])
    raise InputError(f"{folder}: has no episodes itself, but these folders in it do: {listed}{more}")


def _folders_of_episodes(folder: Path, levels: int) -> Iterator[Path]:
    children = [path for path in folder.iterdir() if path.is_dir()]
    if any(path.name.isdecimal() and (path / "source.json").exists() for path in children):
        yield folder
    elif levels > 0:
        for path in children:
            yield from _folders_of_episodes(path, levels - 1)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with explain_read_errors(path):
            record = read_json(path, RECORDS)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{path}: is not JSON, or truncated ({error})") from error
    if not isinstance(record, dict) or not isinstance(record.get("objects"), list):
        raise InputError(f"{path}: is not a scene: it has no list of objects")
    return record


def _recognise_world(records: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> Vocabulary:
    """The vocabulary whose layout matches the first scene with an object."""
    row = next((row for row, record in enumerate(records) if record["objects"]), None)
    if row is None:
        raise InputError(f"{paths[0].parent.parent}: no scene has an object, so the world cannot be recognised")
    first = records[row]["objects"][0]
    keys = first.keys() if isinstance(first, dict) else set()
    if "2d_coords" in keys:
        return SPRITES
    if "ground_material" in records[row]:
        return CLEVRTEX
    if "background" in records[row]:
        return COAT
    if {"color", "material", "size"} <= keys:
        return CLEVR_MANY if first["size"] in CLEVR_MANY["size"].codes else CLEVR
    raise InputError(f"{paths[row]}: belongs to no known world; give its vocabulary")


def _scenes(vocabulary: Vocabulary, records: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> Scenes:
    try:
        return scenes_from_json(vocabulary, records)
    except InputError:
        for record, path in zip(records, paths, strict=True):  # find the scene with the fault
            try:
                scenes_from_json(vocabulary, [record])
            except InputError as error:
                fault = str(error).replace(" of scene 0", "").replace("scene 0", "the scene", 1)
                raise InputError(f"{path}: {fault}") from error
        raise


def _read_png(path: Path) -> Bytes:
    """A PNG file as [H, W, 3]."""
    with explain_read_errors(path):
        content = read_bytes(path, RECORDS)
    try:
        mode, pixels = _decode(content)
    except _DamagedError as error:
        raise InputError(f"{path}: is not a PNG image, or truncated ({error})") from error
    if mode not in ("RGB", "RGBA"):
        raise InputError(f"{path}: must be an RGB or RGBA image, not {mode}")
    if mode == "RGBA" and (pixels[..., 3] != 255).any():
        raise InputError(f"{path}: is partly transparent; the alpha channel must be 255 everywhere")
    return pixels[..., :3]


class _DamagedError(Exception):
    """The content of a file does not match its format."""


def _decode(content: bytes) -> tuple[str, Bytes]:
    """Mode and pixels of a PNG file."""
    try:
        _check_chunks(content)
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise ValueError("more pixels than are plausible")
            return image.mode, np.asarray(image)
    except Exception as error:  # a damaged PNG fails in many ways
        raise _DamagedError(type(error).__name__) from error


def _check_chunks(content: bytes) -> None:
    """Compare the checksums of a PNG file's chunks, which Pillow does not do reliably."""
    offset, kind = len(PNG_SIGNATURE), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", content, offset)
        end = offset + 8 + length
        if struct.unpack_from(">I", content, end)[0] != zlib.crc32(content[offset + 4 : end]):
            raise ValueError("checksum")
        offset = end + 4
    if not content.startswith(PNG_SIGNATURE) or offset != len(content):
        raise ValueError("begin or end")


def _png(pixels: Bytes, *, opaque: bool) -> bytes:
    """An image [H, W, 3] as a PNG file: RGB, or RGBA if `opaque`."""
    if opaque:
        pixels = np.concatenate([pixels, np.full_like(pixels[..., :1], 255)], axis=-1)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG")
    return buffer.getvalue()


def _swap_channels(pixels: Bytes, vocabulary: Vocabulary, channels: Channels) -> Bytes:
    """Swap red and blue in flat worlds if `channels` is "rgb"."""
    return pixels[..., ::-1] if channels == "rgb" and not is_solid(vocabulary) else pixels


def _check_channels(channels: str) -> None:
    if channels not in ("stored", "rgb"):
        raise InputError(f"channels must be 'stored' or 'rgb', not {channels!r}")


def _images_and_masks(episodes: Episodes, name: str) -> tuple[Tensor, Tensor | None]:
    """Images and masks of the sources or targets, checked."""
    images, masks = getattr(episodes, f"{name}_images"), getattr(episodes, f"{name}_masks")
    scenes: Scenes = getattr(episodes, name)
    if images is None:
        raise InputError(f"episodes without {name}_images cannot be written; render them first")
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
        raise InputError("absent objects must come last, because the files do not list them")
    if masks is not None:
        objects, labels = scenes.present.sum(dim=1).tolist(), masks.flatten(1).amax(dim=1).tolist()
        for row, (label, count) in enumerate(zip(labels, objects, strict=True)):
            if label > count:
                raise InputError(f"{name}_masks[{row}] has the label {label} in a scene of {count} objects")
        mask_palette(scenes.vocabulary, max(objects))  # raises if there are more objects than colours
    return images, masks


def _tensor(values: object, name: str) -> Tensor:
    """Images or masks as a tensor, sharing memory with numpy where possible."""
    if isinstance(values, Tensor):
        return values
    if not isinstance(values, np.ndarray) or values.dtype != np.uint8:
        kind = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
        raise InputError(f"{name} must be a tensor or a numpy array of uint8, not {kind}")
    usable = values.flags.writeable and min(values.strides, default=1) >= 0  # as torch requires
    return torch.from_numpy(values if usable else values.copy())


def _check_folder(folder: Path, count: int) -> None:
    """Raise an InputError if the folder has anything but these episodes and leftovers of a killed process."""
    for path in folder.iterdir():
        is_episode = len(path.name) == 8 and path.name.isdecimal() and int(path.name) < count
        if not is_episode and not is_leftover(path):
            raise InputError(f"{folder}: has other files, such as {path.name}; episodes need their own folder")


def _is_complete(episode: Path, files: Mapping[str, Callable[[], bytes]]) -> bool:
    """Whether this episode exists and is complete; an InputError if another one is there, even a damaged one."""
    existing = {path.name for path in episode.iterdir()}
    if existing - files.keys():
        raise InputError(f"{episode}: has files that do not belong to this episode")
    complete = existing == files.keys()
    for name in sorted(existing):
        try:
            if not _is_same(name, read_bytes(episode / name, RECORDS), files[name]()):
                raise InputError(f"{episode}: holds a different episode ({name} differs); write to an empty folder")
        except _DamagedError:
            complete = False
    return complete


def _is_same(name: str, existing: bytes, wanted: bytes) -> bool:
    """Whether two files have the same content, however it is encoded."""
    if existing == wanted:
        return True
    if name.endswith(".png"):
        (mode, pixels), (wanted_mode, wanted_pixels) = _decode(existing), _decode(wanted)
        return mode == wanted_mode and np.array_equal(pixels, wanted_pixels)
    try:
        return bool(json.loads(existing) == json.loads(wanted))
    except (ValueError, RecursionError) as error:
        raise _DamagedError(type(error).__name__) from error
