"""Sources: the batches of a run, on the training device, either streamed or preloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from alebrije.models.learner import Batch
from alebrije.train.scene_sets import SceneSet

BLOCK = {"cpu": 256, "cuda": 4096}  # items that are sampled and rendered at once
PIECE = 16  # images that a CPU renders at once: four seconds of the slowest world at 128 pixels
_SHUFFLE = 7_919  # separates the seeds of the shuffling from other uses of the same seed


class Source(Protocol):
    """Batches by the index of their first item."""

    def batch(self, first: int, count: int) -> Batch:
        """Return items `first` to `first + count`; images are uint8."""

    def close(self) -> None:
        """Stop working ahead; no more batches will be needed."""


def to_float(tensor: Tensor) -> Tensor:
    """Convert uint8 images to floats in 0..1 with three channels; return any other tensor unchanged."""
    if tensor.dtype != torch.uint8:
        return tensor
    return tensor.float().div(255.0).expand(*tensor.shape[:-3], 3, -1, -1)


def split_batch(batch: Batch, count: int) -> Iterator[Batch]:
    """Split a batch into equal parts."""
    for parts in zip(*(tensor.chunk(count) for tensor in batch.values()), strict=True):
        yield dict(zip(batch, parts, strict=True))


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Concatenate batches."""
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}


def rendered_pieces(scene_set: SceneSet, scenes: Any, count: int, device: torch.device) -> Iterator[tuple[Batch, int]]:
    """Render scenes a few at a time on a CPU, so that progress shows and Ctrl-C ends; yield how many are done, too."""
    size = PIECE if device.type == "cpu" else count
    for first in range(0, count, size):
        last = min(first + size, count)
        yield scene_set.render(scenes[first:last], device), last


@dataclass(eq=False)
class StreamedSource:
    """New items without end: a thread renders the next block while the model trains, on a GPU in its own stream."""

    scene_set: SceneSet
    device: torch.device
    block: int = 0
    _index: int = -1
    _items: Batch = field(default_factory=dict)
    _next: tuple[int, Future[Batch]] | None = None
    _closed: bool = False
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __post_init__(self) -> None:
        self.block = self.block or BLOCK.get(self.device.type, BLOCK["cpu"])
        self._stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def batch(self, first: int, count: int) -> Batch:
        """Return items `first` to `first + count`."""
        parts = []
        while count:
            index, offset = divmod(first, self.block)
            taken = min(count, self.block - offset)
            self._load_block(index)
            parts.append({name: tensor[offset : offset + taken] for name, tensor in self._items.items()})
            first, count = first + taken, count - taken
        return parts[0] if len(parts) == 1 else {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def close(self) -> None:
        """Stop rendering ahead, within the next few images: a process cannot end while a thread renders."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _load_block(self, index: int) -> None:
        if index == self._index:
            return
        ready = self._next[1] if self._next is not None and self._next[0] == index else self._submit(index)
        self._items, self._index = ready.result(), index
        if self._stream is not None:
            for tensor in self._items.values():  # its memory must not be reused before training has read it
                tensor.record_stream(torch.cuda.current_stream())
        self._next = index + 1, self._submit(index + 1)

    def _submit(self, index: int) -> Future[Batch]:
        return self._thread.submit(self._render_block, index)

    def _render_block(self, index: int) -> Batch:
        with torch.cuda.stream(self._stream):
            scenes = self.scene_set.scenes(index * self.block, self.block)
            pieces = []
            for piece, _ in rendered_pieces(self.scene_set, scenes, self.block, self.device):
                pieces.append(piece)
                if self._closed:
                    raise CancelledError  # nobody waits for this block
            items = join_batches(pieces)
            if self._stream is not None:
                self._stream.synchronize()  # this thread waits, the training does not
        return items


@dataclass(eq=False)
class PreloadedSource:
    """Items in device memory, reshuffled for every epoch."""

    items: Batch
    seed: int
    _epoch: int = -1
    _order: Tensor = field(default_factory=lambda: torch.empty(0))

    def __len__(self) -> int:
        return len(next(iter(self.items.values())))

    def batch(self, first: int, count: int) -> Batch:
        """Return items `first` to `first + count` of the endless sequence of epochs."""
        parts = []
        while count:
            epoch, offset = divmod(first, len(self))
            taken = min(count, len(self) - offset)
            parts.append(self._shuffled(epoch)[offset : offset + taken])
            first, count = first + taken, count - taken
        chosen = parts[0] if len(parts) == 1 else torch.cat(parts)
        return {name: tensor[chosen] for name, tensor in self.items.items()}

    def some(self, count: int) -> Batch:
        """Return `count` items chosen at random by the seed, or all if there are no more."""
        generator = torch.Generator().manual_seed(self.seed)
        device = next(iter(self.items.values())).device
        chosen = torch.randperm(len(self), generator=generator)[:count].to(device)
        return {name: tensor[chosen] for name, tensor in self.items.items()}

    def close(self) -> None:
        """Nothing is rendered ahead."""

    def _shuffled(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed((self.seed * _SHUFFLE + epoch) % 2**63)
            device = next(iter(self.items.values())).device
            self._order, self._epoch = torch.randperm(len(self), generator=generator).to(device), epoch
        return self._order
