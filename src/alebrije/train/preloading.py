"""Preloading: images rendered before training, kept in the run folder until the run is complete.

They are kept in parts (`alebrije.data.cache`), so a run that is stopped while it renders continues there.
"""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed
from torch import Tensor

from alebrije.arrays import Array
from alebrije.atomic import remove_folder
from alebrije.data import Cache, write_cache
from alebrije.errors import InputError
from alebrije.models.learner import Batch
from alebrije.train.options import PreloadProgress
from alebrije.train.process_group import process_count
from alebrije.train.scene_sets import SceneSet
from alebrije.train.sources import join_batches, rendered_pieces

FOLDER = "images"  # in a run folder
_LEAST, _MOST = 64, 4096  # items that are sampled, rendered and written at once
_PART_BYTES = 2**23
_NO_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM)
_LOG = logging.getLogger("alebrije")


@dataclass(frozen=True)
class Store:
    """Where rendered images are kept, and everything that decides them."""

    folder: Path
    settings: Mapping[str, Any]


def preload(
    scene_set: SceneSet,
    count: int,
    device: torch.device,
    workers: int = 1,
    progress: PreloadProgress | None = None,
    store: Store | None = None,
) -> Batch:
    """Render the first `count` items to the device; `workers` processes sample the scenes.

    With a store, finished parts are kept there and not rendered again.
    """
    item_bytes = sum(tensor.nbytes for tensor in scene_set.render(scene_set.scenes(0, 1), device).values())
    part = min(max(_PART_BYTES // item_bytes, _LEAST), _MOST, count)
    renderer = _Renderer(scene_set, count, part, device, workers, progress)
    if store is None or not _fits(store, count * item_bytes):
        starts = range(0, count, part)
        return join_batches([renderer.render(first, min(first + part, count)) for first in starts])
    return _read(_write(renderer, store), device)


@dataclass(eq=False)
class _Renderer:
    """Renders parts in order; scenes of later parts are sampled ahead."""

    scene_set: SceneSet
    count: int
    part: int
    device: torch.device
    workers: int
    progress: PreloadProgress | None
    _next: int = -1
    _sampled: Iterator[Any] = field(default_factory=lambda: iter(()))

    def render(self, first: int, last: int) -> Batch:
        """Items `first` to `last`."""
        if first != self._next:
            starts = range(first, self.count, self.part)
            jobs = (delayed(self.scene_set.scenes)(start, min(self.part, self.count - start)) for start in starts)
            self._sampled = iter(Parallel(n_jobs=self.workers, return_as="generator")(jobs))
        scenes, self._next = next(self._sampled), last
        pieces = []
        for piece, done in rendered_pieces(self.scene_set, scenes, last - first, self.device):
            pieces.append(piece)
            if self.progress is not None:
                self.progress(first + done, self.count)
        return join_batches(pieces)

    def arrays(self, first: int, last: int) -> dict[str, Array]:
        """The same as arrays."""
        return {name: tensor.cpu().numpy() for name, tensor in self.render(first, last).items()}


def _fits(store: Store, needed: int) -> bool:
    """Whether the disk has room for the images and as much again; a message if not."""
    free = shutil.disk_usage(store.folder.parent).free
    if free < 2 * needed:
        _LOG.info(
            "%s has %.1f GB free, so the %.1f GB of images are not kept if the run is stopped",
            store.folder.parent,
            free / 1e9,
            needed / 1e9,
        )
    return free >= 2 * needed


def _write(renderer: _Renderer, store: Store) -> Cache:
    """Render the missing parts. Images that are damaged, or of other settings, are removed and rendered again."""

    def write() -> Cache:
        settings, total, shard = store.settings, renderer.count, renderer.part
        return write_cache(store.folder, settings=settings, total=total, shard=shard, make=renderer.arrays)

    found = store.folder.is_dir()
    try:
        return write()
    except InputError as error:
        cause = error.__cause__
        if not found or process_count() > 1 or (isinstance(cause, OSError) and cause.errno in _NO_WRITING):
            raise
        _LOG.info("rendering all images again: %s", error)
    remove_folder(store.folder)
    renderer._next = -1
    return write()


def _read(cache: Cache, device: torch.device) -> Batch:
    """All arrays on a device, copied part by part."""
    batch: dict[str, Tensor] = {}
    for name in cache.arrays:
        array = cache[name]
        for first in range(0, len(array), _MOST):
            part = torch.from_numpy(array[first : first + _MOST])
            if name not in batch:
                batch[name] = torch.empty(array.shape, dtype=part.dtype, device=device)
            batch[name][first : first + _MOST] = part.to(device)
    return batch
