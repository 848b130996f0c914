"""Datasets: the images of a world, or the episodes of a task, made into a folder and continued if interrupted.

A row of a dataset, a scene or an episode, depends on the dataset and on its number alone. So the rows can be made in
any order, by any number of processes and on any device, and what is on disk already need not be made again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from alebrije import __version__, data, worlds
from alebrije.atomic import PART, disk_trouble_named, drop_leftovers, is_leftover, write_atomically
from alebrije.data.checks import reading_trouble_named
from alebrije.errors import InputError
from alebrije.scenes import Episodes, Scenes
from alebrije.studies.own_worlds import own_world

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Split = Literal["train", "test", "omni"]
Format = Literal["cache", "svib"]
Progress = Callable[[int, int, int], None]  # images done, images in all, images made by this call

SPLITS: tuple[Split, ...] = ("train", "test", "omni")
SMALLEST, LARGEST = 8, 1024  # pixels a side
ALPHA, SIZE = 0.6, 128  # unless given
ROWS, SHARD_BYTES = 512, 16 * 2**20  # the most of a shard, which is all that a killed process can lose
PIECE = 64  # rows that one process makes at a time: a block of the worlds' streams, so that none is drawn twice
SCENE_ARRAYS = ("factors", "present", "position", "rotation", "background", "camera", "lamps")
_PNG_HEAD, _PNG_TAIL = b"\x89PNG\r\n\x1a\n", b"\0\0\0\0IEND\xaeB`\x82"  # the tail is the whole last chunk
SETTINGS = ".made.json"  # hidden, so that readers which list all files of an SVIB folder do not take it for an episode


@dataclass(frozen=True)
class Dataset:
    """All that decides what the images show: a world, or a rule in a world with a split; a size and a seed.

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
        """What tells its folder from others. The alpha is not there where the content does not depend on it."""
        settings: dict[str, Any] = {"world": self.world, "size": self.size, "seed": self.seed}
        if self.rule is not None:
            settings |= {"rule": self.rule, "split": self.split}
            settings |= {"alpha": self.alpha} if self.split == "train" else {}
        return settings | own_world(self.world)

    @property
    def sides(self) -> tuple[str, ...]:
        """What the names of its arrays begin with: nothing in a world, source and target in a task."""
        return ("",) if self.rule is None else ("source_", "target_")

    @property
    def shard(self) -> int:
        """Rows of a shard, and as many as an accelerator is asked for at once: by bytes, in pieces, at least one.

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
        draw = {"train": task.train, "test": task.test, "omni": task.omni}[self.split]
        episodes = draw(stop - start, self.seed, start=start)
        return {"source_": episodes.source, "target_": episodes.target}

    def arrays(self, start: int, stop: int, device: str = "cpu", compiled: bool = False) -> Arrays:
        """Rows `start` to `stop`: images, masks and all that `Scenes` holds, as `World.render` and `sample` give it."""
        world, found = worlds.get(self.world), {}
        for side, scenes in self.scenes(start, stop).items():
            frames = world.render(scenes, size=self.size, device=device, compile=compiled)
            found[f"{side}images"] = frames.images.cpu().numpy()
            found[f"{side}masks"] = frames.masks.cpu().numpy()
            found |= {f"{side}{name}": tensor.numpy() for name, tensor in scenes.tensors() if name in SCENE_ARRAYS}
        return found


def datasets(
    name: str,
    *,
    rule: str | None = None,
    alpha: float | None = None,
    split: str | None = None,
    size: int = SIZE,
    seed: int = 0,
) -> dict[str, Dataset]:
    """The datasets that a name means, by the folder below the given one that each goes to ("" for none).

    `name` is a world, or a task as world/rule, which is the same as a world and a `rule`. The split of a task is
    "train" unless given; "all" is all three. A world by itself shows all combinations: it has no alpha and no splits.

    >>> list(datasets("sprites")), list(datasets("sprites/S-A", split="all"))
    ([''], ['train', 'test', 'omni'])
    """
    world, slash, named = name.partition("/")
    if slash and not named:
        worlds.get(world)
        raise InputError(f"{name} names no rule; a task is a world and a rule, such as clevr/M-NA")
    if named and rule is not None and named != rule:
        raise InputError(f"{name} already names a rule, so --rule {rule} cannot be another")
    law = named or rule
    if law is None:
        found = Dataset(world, size=size, seed=seed)
        for option, value in (("split", split), ("alpha", alpha)):
            if value is not None:
                raise InputError(f"--{option} {value} belongs to a task, such as clevr/M-NA; {world} alone has no rule")
        return {"": found}
    alpha = ALPHA if alpha is None else alpha
    if split == "all":
        return {part: Dataset(world, law, alpha, part, size, seed) for part in SPLITS}
    if split is not None and split not in SPLITS:
        raise InputError(f"split must be {', '.join(SPLITS)} or all, not {split!r}")
    return {"": Dataset(world, law, alpha, split or "train", size, seed)}


def scenes_of(arrays: Mapping[str, Array], world: str, side: str = "") -> Scenes:
    """The scenes that arrays of a dataset hold."""
    given: dict[str, Any] = {name: arrays[f"{side}{name}"] for name in SCENE_ARRAYS if f"{side}{name}" in arrays}
    if missing := [name for name in ("factors", "position") if name not in given]:
        raise InputError(f"scenes cannot be told without {side}{missing[0]}")
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
    progress: Progress | None = None,
) -> int:
    """Makes what is missing of a dataset of `n` rows in `folder`; returns how many images were made.

    A "cache" is opened with `data.open_cache`, an "svib" folder read with `data.read_svib`; a world without a rule has
    sources alone there. The same call continues what was interrupted; a folder of another dataset is refused.
    `workers` processes share the work on the CPU; the files are the same whatever their number. `compiled` draws with
    fused kernels, which takes a while to begin.
    """
    if n < 1 or workers < 1:
        raise InputError(f"{'n' if n < 1 else 'workers'} must be at least 1, not {n if n < 1 else workers}")
    check_device(device)
    write = _write_svib if format == "svib" else _write_cache
    with _making(dataset, n, device, workers if device == "cpu" else 1, compiled, progress) as maker:
        write(dataset, n, Path(folder), maker)
    return maker.images


def refuse_parts_in_a_cache(folder: str | Path, sets: Mapping[str, Dataset]) -> None:
    """Folders of several splits must not go into a folder that is itself a dataset."""
    if set(sets) != {""} and any((Path(folder) / name).exists() for name in ("manifest.json", SETTINGS)):
        raise InputError(f"{folder}: is a dataset itself; the three splits need a folder of their own")


def check_device(device: str) -> None:
    """Refuses a device that this machine has not."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device, False):
        able = ", ".join(name for name, is_there in there.items() if is_there)
        raise InputError(f"there is no {device} here; there is {able}")


# ------------------------------------------------------------------------------------------------------------ making


@dataclass(eq=False)
class _Maker:
    """Makes rows when asked for, and keeps count; with a pool, further pieces are begun before they are asked for."""

    dataset: Dataset
    total: int
    piece: Callable[[int, int], Arrays]
    step: int
    pool: ProcessPoolExecutor | None
    workers: int
    progress: Progress | None
    images: int = 0

    def __post_init__(self) -> None:
        self.begun: dict[int, Future[Arrays]] = {}

    def rows(self, start: int, stop: int) -> Arrays:
        """Rows `start` to `stop`, of which `start` is a multiple of the step."""
        parts = []
        for begin in range(start, stop, self.step):
            parts.append(self._part(begin))
            self.images += len(self.dataset.sides) * (min(begin + self.step, stop) - begin)
            self.tell(min(begin + self.step, stop), self.total)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def tell(self, done: int, total: int) -> None:
        """Reports how many rows are there."""
        if self.progress is not None:
            each = len(self.dataset.sides)
            self.progress(each * done, each * total, self.images)

    def _part(self, begin: int) -> Arrays:
        if self.pool is None:
            return self.piece(begin, min(begin + self.step, self.total))
        ahead = range(begin, min(begin + 2 * self.workers * self.step, self.total), self.step)
        try:
            for start in ahead:
                if start not in self.begun:
                    self.begun[start] = self.pool.submit(self.piece, start, min(start + self.step, self.total))
            return self.begun[begin].result()
        except BrokenProcessPool as error:
            fault = "a worker process was ended from outside, perhaps for want of memory"
            raise InputError(f"{fault}; the same command continues, with fewer --workers if need be") from error
        finally:
            self.begun.pop(begin, None)


@contextmanager
def _making(
    dataset: Dataset, total: int, device: str, workers: int, compiled: bool, progress: Progress | None
) -> Iterator[_Maker]:
    piece = partial(_piece, dataset, device=device, compiled=compiled)
    step = PIECE if device == "cpu" else dataset.shard
    if workers == 1:
        yield _Maker(dataset, total, piece, step, None, 1, progress)
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
    try:
        yield _Maker(dataset, total, piece, step, pool, workers, progress)
    finally:
        pool.shutdown(cancel_futures=True)


def _piece(dataset: Dataset, start: int, stop: int, device: str, compiled: bool) -> Arrays:
    try:
        return dataset.arrays(start, stop, device, compiled)
    except torch.OutOfMemoryError as error:
        raise InputError(f"{device} has not enough memory for images of {dataset.size} pixels a side") from error
    except RuntimeError as error:
        if not compiled:
            raise
        raise InputError(f"compiling failed here ({type(error).__name__}); leave out --compile") from error


def _begin_worker() -> None:
    """One thread for each worker; an interrupt is left to the parent, and the worker ends when the parent does."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)  # a killed parent cannot tell its workers, which would wait for ever


# ----------------------------------------------------------------------------------------------------------- writing


def _write_cache(dataset: Dataset, n: int, folder: Path, maker: _Maker) -> None:
    data.write_cache(
        folder, settings=dataset.settings, total=n, make=maker.rows, shard=dataset.shard, progress=maker.tell
    )


def _write_svib(dataset: Dataset, n: int, folder: Path, maker: _Maker) -> None:
    """Episodes a piece at a time: each piece is written out of sight, then its episodes are moved to their places."""
    vocabulary = worlds.get(dataset.world).vocabulary
    if not {"shape", "size"} <= set(vocabulary.names):
        raise InputError(f"SVIB's files tell objects by shape and size, which {dataset.world} has not; use a cache")
    _begin_svib(folder, {"total": n, **dataset.settings}, dataset.sides)
    for start in range(0, n, maker.step):
        stop = min(start + maker.step, n)
        places = _places(folder, start, stop)
        if not all(_is_whole(place, dataset.sides) for place in places):
            episodes = _episodes(dataset, maker.rows(start, stop), [place.name for place in places])
            hidden = folder / f".{start:08d}.{os.urandom(6).hex()}{PART}"
            try:
                data.write_svib(episodes, hidden)
                with disk_trouble_named(folder):
                    _move(hidden, places, dataset.sides)
            except InputError as error:  # which may name the hidden folder
                raise InputError(str(error).replace(str(hidden), str(folder))) from error
            finally:
                shutil.rmtree(hidden, ignore_errors=True)
        maker.tell(stop, n)
    with disk_trouble_named(folder):
        drop_leftovers(folder)


def _places(folder: Path, start: int, stop: int) -> list[Path]:
    return [folder / f"{row:08d}" for row in range(start, stop)]


def _begin_svib(folder: Path, settings: Mapping[str, Any], sides: tuple[str, ...]) -> None:
    """Writes what the folder is of, or refuses a folder that is of something else or that another version began."""
    path = folder / SETTINGS
    if path.is_file():
        found = _read_settings(path)
        library = found.pop("library", "of an unknown version")
        if keys := [key for key in {**found, **settings} if found.get(key, ...) != settings.get(key, ...)]:
            were, are = (json.dumps({key: part[key] for key in keys if key in part}) for part in (found, settings))
            raise InputError(f"{folder}: was written with other settings: {were} there, {are} here")
        if library != __version__ and not all(_is_whole(place, sides) for place in _places(folder, 0, found["total"])):
            raise InputError(
                f"{folder}: was begun by alebrije {library} and this is {__version__}; remove it to start again"
            )
        return
    with disk_trouble_named(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(not is_leftover(item) and item.name != SETTINGS for item in folder.iterdir()):
            raise InputError(f"{folder}: holds other things; episodes need a folder of their own")
        write_atomically(path, json.dumps({"library": __version__, **settings}, indent=1))


def _read_settings(path: Path) -> dict[str, Any]:
    with reading_trouble_named(path):
        content = path.read_bytes()
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path}: is damaged, so it does not say what this folder is of")
    return found


def _is_whole(place: Path, sides: tuple[str, ...]) -> bool:
    """Whether an episode is there, in full: after a power cut or a bad copy files may be empty or cut short."""
    stems = [side.removesuffix("_") or "source" for side in sides]
    try:
        for stem in stems:
            json.loads((place / f"{stem}.json").read_bytes())
        return all(_is_whole_png(place / f"{stem}{end}.png") for stem in stems for end in ("", "_mask"))
    except (OSError, ValueError):
        return False


def _is_whole_png(path: Path) -> bool:
    content = path.read_bytes()
    return content.startswith(_PNG_HEAD) and content.endswith(_PNG_TAIL)


def _episodes(dataset: Dataset, arrays: Arrays, names: list[str]) -> Episodes:
    scenes = [replace(scenes_of(arrays, dataset.world, side), names=tuple(names)) for side in dataset.sides]
    images = [torch.from_numpy(arrays[f"{side}images"]) for side in dataset.sides]
    masks = [torch.from_numpy(arrays[f"{side}masks"]) for side in dataset.sides]
    if dataset.rule is None:
        return Episodes(scenes[0], scenes[0], images[0], source_masks=masks[0])
    return Episodes(scenes[0], scenes[1], images[0], images[1], masks[0], masks[1])


def _move(hidden: Path, places: list[Path], sides: tuple[str, ...]) -> None:
    for row, place in enumerate(places):
        if not _is_whole(place, sides):
            shutil.rmtree(place, ignore_errors=True)
            os.rename(hidden / f"{row:08d}", place)
