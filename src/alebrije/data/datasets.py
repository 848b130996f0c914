"""Datasets: the images of a world, or the episodes of a task, written to a folder and continued if interrupted.

A row, which is a scene or an episode, depends only on the dataset and on its index. So rows can be made in any order,
by any number of processes and on any device, and existing rows are not made again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from alebrije import __version__, worlds
from alebrije.arrays import Array
from alebrije.atomic import (
    PART,
    drop_leftovers,
    explain_read_errors,
    explain_write_errors,
    is_leftover,
    write_atomically,
)
from alebrije.checks import usable_device, whole_number
from alebrije.data.cache import check_same_settings, write_cache
from alebrije.data.svib import PNG_SIGNATURE, write_svib
from alebrije.errors import InputError
from alebrije.files import RECORDS, parse_json, read_bytes, read_json
from alebrije.scenes import Episodes, Scenes
from alebrije.worlds.user_worlds import user_world_inputs

Arrays = dict[str, Array]
Split = Literal["train", "test", "omni"]
Format = Literal["cache", "svib"]
ImageProgress = Callable[[int, int, int], None]  # called with (images done, images in total, images made by this call)

SPLITS: tuple[Split, ...] = ("train", "test", "omni")
SMALLEST, LARGEST = 8, 1024  # pixels a side
ALPHA, SIZE = 0.6, 128  # defaults
ROWS, SHARD_BYTES = 512, 16 * 2**20  # limits of a shard, which is the most that a killed process can lose
PIECE = 64  # rows that a process makes at a time: one block of the worlds' streams, so that no block is sampled twice
SCENE_ARRAYS = ("factors", "present", "position", "rotation", "background", "camera", "lamps", "path", "cameras")
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"  # the last chunk
SETTINGS = ".made.json"  # hidden, so that readers of an SVIB folder do not mistake it for an episode


@dataclass(frozen=True)
class Dataset:
    """Everything that determines the images: a world, or a task (world, rule, split), the image size and a seed.

    >>> Dataset("clevr", "M-NA", alpha=0.4).settings
    {'world': 'clevr', 'size': 128, 'seed': 0, 'rule': 'M-NA', 'split': 'train', 'alpha': 0.4}
    >>> sorted(Dataset("sprites", size=16).arrays(0, 3))
    ['background', 'factors', 'images', 'masks', 'position', 'present', 'rotation']
    """

    world: str
    rule: str | None = None
    alpha: float = ALPHA
    split: Split = "train"
    size: int = SIZE
    seed: int = 0

    def __post_init__(self) -> None:
        if not SMALLEST <= self.size <= LARGEST:
            raise InputError(f"size must be {SMALLEST} to {LARGEST} pixels, not {self.size}")
        if not 0 <= self.alpha <= 1:
            raise InputError(f"alpha must be a number from 0 to 1, not {self.alpha}")
        if self.seed < 0:
            raise InputError(f"seed must be at least 0, not {self.seed}")
        if self.rule is None:
            worlds.get(self.world)
        else:
            worlds.task(self.world, self.rule, self.alpha)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that identify its folder. Alpha is left out where the content does not depend on it."""
        settings: dict[str, Any] = {"world": self.world, "size": self.size, "seed": self.seed}
        if self.rule is not None:
            settings |= {"rule": self.rule, "split": self.split}
            settings |= {"alpha": self.alpha} if self.split == "train" else {}
        return settings | user_world_inputs(self.world)

    @property
    def sides(self) -> tuple[str, ...]:
        """The prefixes of its array names: empty for a world, source and target for a task."""
        return ("",) if self.rule is None else ("source_", "target_")

    @property
    def shard(self) -> int:
        """Rows per shard, which an accelerator renders at once: limited by bytes, a multiple of `PIECE`.

        >>> [Dataset("clevr", size=size).shard for size in (64, 128, 1024)], Dataset("clevr", "M-NA").shard
        ([512, 256, 64], 128)
        """
        row = len(self.sides) * 4 * self.size**2  # three bytes a pixel for the image and one for the mask
        return max(PIECE, min(ROWS, SHARD_BYTES // row) // PIECE * PIECE)

    def scenes(self, start: int, stop: int) -> dict[str, Scenes]:
        """The scenes of rows `start` to `stop`, by side."""
        if self.rule is None:
            return {"": worlds.get(self.world).sample(stop - start, self.seed, start=start)}
        task = worlds.task(self.world, self.rule, self.alpha)
        sample = {"train": task.train, "test": task.test, "omni": task.omni}[self.split]
        episodes = sample(stop - start, self.seed, start=start)
        return {"source_": episodes.source, "target_": episodes.target}

    def arrays(self, start: int, stop: int, device: str = "cpu", compiled: bool = False) -> Arrays:
        """Rows `start` to `stop`: images, masks and the tensors of `Scenes`; of videos boxes and float16 flow, too."""
        world, arrays = worlds.get(self.world), {}
        for side, scenes in self.scenes(start, stop).items():
            frames = world.render(scenes, size=self.size, device=device, compile=compiled)
            arrays[f"{side}images"] = frames.images.cpu().numpy()
            arrays[f"{side}masks"] = frames.masks.cpu().numpy()
            if frames.boxes is not None and frames.flow is not None:
                arrays["boxes"], arrays["flow"] = frames.boxes.cpu().numpy(), frames.flow.half().cpu().numpy()
            arrays |= {f"{side}{name}": tensor.numpy() for name, tensor in scenes.tensors() if name in SCENE_ARRAYS}
        return arrays


def datasets_for(
    name: str,
    *,
    rule: str | None = None,
    alpha: float | None = None,
    split: str | None = None,
    size: int = SIZE,
    seed: int = 0,
) -> dict[str, Dataset]:
    """The datasets for a name, by subfolder ("" if there is only one).

    `name` is a world, or a task as world/rule, which is the same as a world and a `rule`. The split of a task is
    "train" by default; "all" means all three. A world without a rule shows all combinations: it has no alpha and no
    splits.

    >>> list(datasets_for("sprites")), list(datasets_for("sprites/S-A", split="all"))
    ([''], ['train', 'test', 'omni'])
    """
    world, slash, named = name.partition("/")
    if slash and not named:
        worlds.get(world)
        raise InputError(f"{name} has no rule; a task is a world and a rule, such as clevr/M-NA")
    if named and rule is not None and named != rule:
        raise InputError(f"{name} already has a rule, which differs from --rule {rule}")
    law = named or rule
    if law is None:
        dataset = Dataset(world, size=size, seed=seed)
        for option, value in (("split", split), ("alpha", alpha)):
            if value is not None:
                raise InputError(f"--{option} {value} needs a task, such as clevr/M-NA; {world} alone has no rule")
        return {"": dataset}
    alpha = ALPHA if alpha is None else alpha
    if split == "all":
        return {part: Dataset(world, law, alpha, part, size, seed) for part in SPLITS}
    if split is not None and split not in SPLITS:
        raise InputError(f"split must be {', '.join(SPLITS)} or all, not {split!r}")
    return {"": Dataset(world, law, alpha, split or "train", size, seed)}


def scenes_from_arrays(arrays: Mapping[str, Array], world: str, side: str = "") -> Scenes:
    """The scenes stored in the arrays of a dataset."""
    given: dict[str, Any] = {name: arrays[f"{side}{name}"] for name in SCENE_ARRAYS if f"{side}{name}" in arrays}
    if missing := [name for name in ("factors", "position") if name not in given]:
        raise InputError(f"scenes need the array {side}{missing[0]}")
    return Scenes.of(worlds.get(world).vocabulary, **given)


def write_dataset(
    dataset: Dataset,
    n: int,
    folder: str | Path,
    *,
    format: Format = "cache",
    device: str = "cpu",
    workers: int = 1,
    compiled: bool = False,
    progress: ImageProgress | None = None,
) -> int:
    """Make the missing part of a dataset of `n` rows in `folder`; return how many images were made.

    Open a "cache" with `data.open_cache`, and read an "svib" folder with `data.read_svib`; for a world without a rule
    the latter has only sources. The same call continues an interrupted one; a folder of another dataset raises an
    InputError. `workers` processes share the work on the CPU; the files do not depend on their number. `compiled`
    renders with fused kernels, which takes a while to start.
    """
    n, workers = whole_number("n", n, least=1), whole_number("workers", workers, least=1)
    device = str(usable_device(device))
    piece = partial(make_piece, dataset, device=device, compiled=compiled)
    step = PIECE if device == "cpu" else dataset.shard
    pool = process_pool(workers) if device == "cpu" and workers > 1 else None
    maker = Maker(dataset, n, piece, step, pool, workers, progress)
    try:
        if format == "svib":
            _write_svib(dataset, n, Path(folder), maker)
        else:
            settings, shard = dataset.settings, dataset.shard
            write_cache(folder, settings=settings, total=n, make=maker.rows, shard=shard, progress=maker.report)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    return maker.images


def check_split_folders(folder: str | Path, sets: Mapping[str, Dataset]) -> None:
    """Raise an InputError if several splits would be written into a folder that is itself a dataset."""
    if set(sets) != {""} and any((Path(folder) / name).exists() for name in ("manifest.json", SETTINGS)):
        raise InputError(f"{folder}: is itself a dataset; the three splits need their own folder")


@dataclass(eq=False)
class Maker:
    """Makes rows on demand and counts images; with a pool, it works ahead."""

    dataset: Dataset
    total: int
    piece: Callable[[int, int], Arrays]
    step: int
    pool: ProcessPoolExecutor | None
    workers: int
    progress: ImageProgress | None
    images: int = 0
    pending: dict[int, Future[Arrays]] = field(default_factory=dict)

    def rows(self, start: int, stop: int) -> Arrays:
        """Rows `start` to `stop`; `start` must be a multiple of the step."""
        parts = []
        for begin in range(start, stop, self.step):
            end = min(begin + self.step, stop)
            parts.append(self._part(begin))
            self.images += len(self.dataset.sides) * (end - begin)
            self.report(end, self.total)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def report(self, done: int, total: int) -> None:
        """Report how many rows are done."""
        if self.progress is not None:
            sides = len(self.dataset.sides)
            self.progress(sides * done, sides * total, self.images)

    def _part(self, begin: int) -> Arrays:
        if self.pool is None:
            return self.piece(begin, min(begin + self.step, self.total))
        upcoming = range(begin, min(begin + 2 * self.workers * self.step, self.total), self.step)
        try:
            for start in upcoming:
                if start not in self.pending:
                    self.pending[start] = self.pool.submit(self.piece, start, min(start + self.step, self.total))
            return self.pending[begin].result()
        except BrokenProcessPool as error:
            fault = "a worker process was killed, perhaps because memory ran out"
            raise InputError(f"{fault}; repeat the command to continue, with fewer --workers if necessary") from error
        finally:
            self.pending.pop(begin, None)


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Processes that run `make_piece`."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)


def make_piece(dataset: Dataset, start: int, stop: int, device: str, compiled: bool = False) -> Arrays:
    """Rows `start` to `stop` of a dataset; an InputError if the device cannot make them."""
    try:
        return dataset.arrays(start, stop, device, compiled)
    except torch.OutOfMemoryError as error:
        raise InputError(f"{device} has too little memory for images of {dataset.size} pixels per side") from error
    except RuntimeError as error:
        if not compiled:
            raise
        raise InputError(f"compiling failed ({type(error).__name__}); run without --compile") from error


def _begin_worker() -> None:
    """Set up a worker: one thread, interrupts are left to the parent, and it exits when the parent does."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent.sentinel,), daemon=True).start()


def _exit_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)  # a killed parent cannot stop its workers, which would wait forever


def _write_svib(dataset: Dataset, n: int, folder: Path, maker: Maker) -> None:
    """Write episodes in pieces: each piece goes to a hidden folder, then its episodes are moved into place."""
    world = worlds.get(dataset.world)
    if world.whole is not None or not {"shape", "size"} <= set(world.vocabulary.names):
        wanted = "objects with a shape and a size at a position"
        raise InputError(f"SVIB's files need {wanted}, which {dataset.world} does not have; use a cache")
    first = world.sample(1)
    if first.frames or first.views:
        raise InputError(f"SVIB's files hold one image of a scene, and {dataset.world} has several; use a cache")
    _start_svib(folder, {"total": n, **dataset.settings}, dataset.sides)
    for start in range(0, n, maker.step):
        stop = min(start + maker.step, n)
        folders = _episode_folders(folder, start, stop)
        if not all(_is_complete(episode, dataset.sides) for episode in folders):
            episodes = _episodes(dataset, maker.rows(start, stop), [episode.name for episode in folders])
            hidden = folder / f".{start:08d}.{os.urandom(6).hex()}{PART}"
            try:
                write_svib(episodes, hidden)
                with explain_write_errors(folder):
                    _move_episodes(hidden, folders, dataset.sides)
            except InputError as error:  # the message may name the hidden folder
                raise InputError(str(error).replace(str(hidden), str(folder))) from error
            finally:
                shutil.rmtree(hidden, ignore_errors=True)
        maker.report(stop, n)
    with explain_write_errors(folder):
        drop_leftovers(folder)


def _episode_folders(folder: Path, start: int, stop: int) -> list[Path]:
    return [folder / f"{row:08d}" for row in range(start, stop)]


def _start_svib(folder: Path, settings: Mapping[str, Any], sides: tuple[str, ...]) -> None:
    """Write the settings of the folder, or check that it belongs to this dataset and version."""
    path = folder / SETTINGS
    if os.path.lexists(path):
        stored = _read_settings(path)
        library = stored.pop("library", "(unknown version)")
        check_same_settings(folder, stored, settings)
        folders = _episode_folders(folder, 0, stored["total"])
        if library != __version__ and not all(_is_complete(episode, sides) for episode in folders):
            raise InputError(
                f"{folder}: was started by alebrije {library}, but this is {__version__}; remove it to start over"
            )
        return
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(not is_leftover(item) and item.name != SETTINGS for item in folder.iterdir()):
            raise InputError(f"{folder}: is not empty; episodes need their own folder")
        write_atomically(path, json.dumps({"library": __version__, **settings}, indent=1))


def _read_settings(path: Path) -> dict[str, Any]:
    with explain_read_errors(path):
        content = read_bytes(path, RECORDS)
    try:
        stored = parse_json(content, path)
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise InputError(f"{path}: is damaged, so the settings of this folder are unknown")
    return stored


def _is_complete(episode: Path, sides: tuple[str, ...]) -> bool:
    """Whether an episode exists in full: after a power cut or a bad copy files may be empty or truncated."""
    stems = [side.removesuffix("_") or "source" for side in sides]
    try:
        for stem in stems:
            read_json(episode / f"{stem}.json", RECORDS)
        images = [read_bytes(episode / f"{stem}{end}.png", RECORDS) for stem in stems for end in ("", "_mask")]
    except (OSError, ValueError):
        return False
    return all(image.startswith(PNG_SIGNATURE) and image.endswith(_PNG_END) for image in images)


def _episodes(dataset: Dataset, arrays: Arrays, names: list[str]) -> Episodes:
    scenes = [replace(scenes_from_arrays(arrays, dataset.world, side), names=tuple(names)) for side in dataset.sides]
    images = [torch.from_numpy(arrays[f"{side}images"]) for side in dataset.sides]
    masks = [torch.from_numpy(arrays[f"{side}masks"]) for side in dataset.sides]
    if dataset.rule is None:
        return Episodes(scenes[0], scenes[0], images[0], source_masks=masks[0])
    return Episodes(scenes[0], scenes[1], images[0], images[1], masks[0], masks[1])


def _move_episodes(hidden: Path, folders: list[Path], sides: tuple[str, ...]) -> None:
    for row, episode in enumerate(folders):
        if not _is_complete(episode, sides):
            shutil.rmtree(episode, ignore_errors=True)
            os.rename(hidden / f"{row:08d}", episode)
