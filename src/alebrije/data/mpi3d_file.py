"""Write every image of a world to one file in the format of MPI3D: an `.npz` that `data.read_mpi3d` reads."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alebrije import worlds
from alebrije.atomic import explain_write_errors, new_file, remove_folder
from alebrije.checks import usable_device
from alebrije.data.cache import Cache, check_same_settings, write_cache
from alebrije.data.datasets import PIECE, Arrays, Dataset, ImageProgress, Maker, make_piece, process_pool
from alebrije.errors import InputError
from alebrije.scenes import Scenes

SIDE = 64
_ROWS = ".rows"  # the cache of images, from which the file is written in the end
_FACTORS = ("color", "shape", "size", "camera height", "background", "horizontal", "vertical")


@dataclass(frozen=True)
class EveryImage(Dataset):
    """All images of a world in the order of its grid, without masks."""

    size: int = SIDE

    def scenes(self, start: int, stop: int) -> dict[str, Scenes]:
        """The scenes of rows `start` to `stop`."""
        return {"": worlds.get(self.world).grid(range(start, stop))}

    def arrays(self, start: int, stop: int, device: str = "cpu", compiled: bool = False) -> Arrays:
        """The images of rows `start` to `stop`."""
        return {"images": super().arrays(start, stop, device, compiled)["images"]}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that identify its folder."""
        return {"world": self.world, "size": self.size, "order": "grid"}


def mpi3d_path(folder: str | Path, world: str) -> Path:
    """The file that `write_mpi3d` makes.

    >>> mpi3d_path("images", "arm").name
    'mpi3d_arm.npz'
    """
    return Path(folder) / f"mpi3d_{world.rpartition(':')[2]}.npz"


def write_mpi3d(
    world: str, folder: str | Path, *, device: str = "cpu", workers: int = 1, progress: ImageProgress | None = None
) -> int:
    """Write all images of a world with MPI3D's factors to `mpi3d_path`; return how many images were rendered.

    The same call continues an interrupted one. Until the file is complete, its images take as much space again.
    """
    every, folder = worlds.get(world), Path(folder)
    if every.whole is None or every.vocabulary.names != _FACTORS:
        raise InputError(f"MPI3D's file holds its seven factors in every combination, as arm does; {world} does not")
    path, rows = mpi3d_path(folder, world), folder / _ROWS
    if path.exists():
        return 0
    device, dataset = str(usable_device(device)), EveryImage(world)
    step = PIECE if device == "cpu" else dataset.shard
    pool = process_pool(workers) if device == "cpu" and workers > 1 else None
    maker = Maker(dataset, every.whole, partial(make_piece, dataset, device=device), step, pool, workers, progress)
    try:
        with explain_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        cache = write_cache(
            rows, settings=dataset.settings, total=every.whole, make=maker.rows, shard=dataset.shard,
            progress=maker.report,
        )  # fmt: skip
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    check_same_settings(rows, cache.settings, dataset.settings)
    with explain_write_errors(folder):
        _pack(cache, path, dataset.shard)
        remove_folder(rows)
    return maker.images


def _pack(cache: Cache, path: Path, step: int) -> None:
    """The images of a cache as the array `images` [N, 64, 64, 3] of an `.npz`."""
    images = cache["images"]
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(images), SIDE, SIDE, 3)}
    with (
        new_file(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("images.npy", "w", force_zip64=True) as stream,
    ):
        np.lib.format.write_array_header_1_0(stream, header)
        for start in range(0, len(images), step):
            stream.write(np.ascontiguousarray(images[start : start + step].transpose(0, 2, 3, 1)).data)
