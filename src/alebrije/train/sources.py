"""Sources: where the batches of a run come from, already on the training device.

The item of a number is the same in every run of the same seed, so a run that was killed goes on with the very batches
it would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from joblib import Parallel, delayed
from torch import Tensor

from alebrije.models.learner import Batch
from alebrije.scenes import Episodes, Scenes
from alebrije.worlds import Task, World

BLOCK = {"cpu": 256, "cuda": 4096}  # items drawn and rendered at once
_OWN = 2**40  # training has streams that nobody names by chance: a world's first scenes are not those it learns from
_AGAIN = 2**80  # and those that are drawn again have further ones
_ORDER = 7_919  # keeps the shuffling of a held set apart from other uses of the same seed


Part = Literal["train", "validation", "test"]


class Source(Protocol):
    """Batches by the number of their first item."""

    def batch(self, first: int, count: int) -> Batch:
        """Items `first` to `first + count`; images are uint8."""


def seen(tensor: Tensor) -> Tensor:
    """Images as floats in 0..1 with three channels, as models see them; all else as it is."""
    if tensor.dtype != torch.uint8:
        return tensor
    return tensor.float().div(255.0).expand(-1, 3, -1, -1)


def in_parts(batch: Batch, count: int) -> Iterator[Batch]:
    """A batch in equal parts."""
    for rows in zip(*(tensor.chunk(count) for tensor in batch.values()), strict=True):
        yield dict(zip(batch, rows, strict=True))


def known_floats(scenes: Scenes) -> Tensor:
    """What is known of each object in numbers, about 0..1, as SVIB's Oracle reads it. [B, N, P]

    In sprites that is where it is; in solid worlds where it stands and its turn, then the lamps and the camera.
    """
    if scenes.camera is None or scenes.lamps is None:
        return scenes.position.float()
    place = scenes.position[..., :2] / 8 + 0.5
    around = torch.cat([scenes.lamps.flatten(1), scenes.camera], 1) / 20 + 0.5
    return torch.cat(
        [place, scenes.rotation[..., None] / 360, around[:, None].expand(-1, scenes.objects, -1)], -1
    ).float()


def known_factors(scenes: Scenes) -> Tensor:
    """The values of each object's factors and, where there are several, of the background. [B, N, F]"""
    if len(scenes.vocabulary.background.values) < 2:
        return scenes.factors
    ground = scenes.background[:, None, None].expand(-1, scenes.objects, 1)
    return torch.cat([scenes.factors, ground], -1)


class Drawing(Protocol):
    """What can be drawn: scenes by their numbers, without pixels, and the items that a model learns from."""

    def scenes(self, first: int, count: int) -> Any:
        """The scenes or episodes of these numbers."""

    def draw(self, scenes: Any, device: torch.device) -> Batch:
        """Their pictures, uint8, and what else is known of them, on a device."""


@dataclass(frozen=True)
class Images:
    """Pictures of a world; those of `held_out` are of another stream, to look at what was learned."""

    world: World
    size: int
    seed: int
    held_out: bool = False

    def scenes(self, first: int, count: int) -> Scenes:
        """The scenes of these numbers."""
        return self.world.sample(count, seed=_OWN + 2 * self.seed + self.held_out, start=first)

    def draw(self, scenes: Scenes, device: torch.device) -> Batch:
        """Their pictures, uint8."""
        images = self.world.images(scenes, self.size, device)
        # white on black needs one channel only; a view of three is made at the model's door
        return {"images": images[:, :1].clone() if self.world.name == "dsprites" else images}


@dataclass(frozen=True)
class AllImages(Images):
    """Every picture of dsprites or rooms, in the order of the original file."""

    def scenes(self, first: int, count: int) -> Scenes:
        """The scenes of these numbers."""
        return self.world.grid(range(first, first + count))


@dataclass(frozen=True)
class ImagesWithout(Images):
    """Pictures of dsprites or rooms, but none that shows all the values of `without` at once.

    A scene that does is drawn again from further streams, so the others are all as likely as they were to each other.
    """

    without: tuple[tuple[str, int], ...] = ()

    def scenes(self, first: int, count: int) -> Scenes:
        """The scenes of these numbers."""
        factors = super().scenes(first, count).factors[:, 0].clone()  # [B, F]
        again = 0
        while bool((bad := shows(self.world, factors, self.without)).any()):
            again += 1
            seed = again * _AGAIN + _OWN + 2 * self.seed + self.held_out
            factors[bad] = self.world.sample(count, seed=seed, start=first).factors[bad, 0]
        return self.world.grid(np.ravel_multi_index(tuple(factors.numpy().T), self.world.vocabulary.counts))


@dataclass(frozen=True)
class AllImagesWithout(ImagesWithout):
    """Every picture of dsprites or rooms but those, in the order of the original file."""

    def scenes(self, first: int, count: int) -> Scenes:
        """The scenes of these numbers."""
        return self.world.grid(left_over(self.world, self.without)[first : first + count])


def shows(world: World, factors: Tensor, values: tuple[tuple[str, int], ...]) -> Tensor:
    """Which rows of factors [B, F] have all of some values, named by their factors. [B]

    >>> from alebrije import worlds
    >>> rows = torch.tensor([[0, 2, 5, 0, 0, 0], [0, 2, 4, 0, 0, 0]])
    >>> shows(worlds.get("dsprites"), rows, (("shape", 2), ("scale", 5)))
    tensor([ True, False])
    """
    names = world.vocabulary.names
    return torch.stack([factors[..., names.index(name)] == value for name, value in values]).all(0)


@lru_cache(maxsize=4)
def left_over(world: World, without: tuple[tuple[str, int], ...]) -> npt.NDArray[np.int64]:
    """The numbers of all scenes of dsprites or rooms that do not show all the values of `without`."""
    counts, names = world.vocabulary.counts, world.vocabulary.names
    held = np.ones(counts, dtype=bool)
    for name, value in without:
        of_factor = np.arange(counts[names.index(name)]) == value
        held &= of_factor.reshape([-1 if each == name else 1 for each in names])
    return np.flatnonzero(~held)


@dataclass(frozen=True)
class TaskEpisodes:
    """Episodes of a task: of training, of the test, or of `validation`, which is training from another stream."""

    task: Task
    size: int
    seed: int
    part: Part = "train"

    def scenes(self, first: int, count: int) -> Episodes:
        """The episodes of these numbers."""
        draw = self.task.test if self.part == "test" else self.task.train
        return draw(count, seed=_OWN + 2 * self.seed + (self.part != "train"), start=first)

    def draw(self, scenes: Episodes, device: torch.device) -> Batch:
        """Their pictures, uint8, and what is known about the sources."""
        images = self.task.world.images
        return {
            "source": images(scenes.source, self.size, device),
            "target": images(scenes.target, self.size, device),
            "factors": known_factors(scenes.source).to(device),
            "floats": known_floats(scenes.source).to(device),
        }


@dataclass(frozen=True)
class TaskSources:
    """The sources of a task's episodes, for models that learn from images.

    Those of training and validation show no combination but `task.split.train`. Targets are left out: a rule makes
    combinations of its own, also those that are kept for the test.
    """

    task: Task
    size: int
    seed: int
    part: Part = "train"

    @property
    def world(self) -> World:
        """The world of the task."""
        return self.task.world

    def scenes(self, first: int, count: int) -> Scenes:
        """The sources of the episodes of these numbers."""
        return TaskEpisodes(self.task, self.size, self.seed, self.part).scenes(first, count).source

    def draw(self, scenes: Scenes, device: torch.device) -> Batch:
        """Their pictures, uint8."""
        return {"images": self.world.images(scenes, self.size, device)}


@dataclass(eq=False)
class Stream:
    """Fresh items without end: while a block is learned from, a thread draws the next, on a GPU in its own stream."""

    drawing: Drawing
    device: torch.device
    block: int = 0
    _number: int = -1
    _items: Batch = field(default_factory=dict)
    _next: tuple[int, Future[Batch]] | None = None
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __post_init__(self) -> None:
        self.block = self.block or BLOCK.get(self.device.type, BLOCK["cpu"])
        self._aside = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def batch(self, first: int, count: int) -> Batch:
        """Items `first` to `first + count`."""
        parts = []
        while count:
            number, offset = divmod(first, self.block)
            taken = min(count, self.block - offset)
            self._turn_to(number)
            parts.append({name: tensor[offset : offset + taken] for name, tensor in self._items.items()})
            first, count = first + taken, count - taken
        return parts[0] if len(parts) == 1 else {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _turn_to(self, number: int) -> None:
        if number == self._number:
            return
        ready = self._next[1] if self._next is not None and self._next[0] == number else self._ask(number)
        self._items, self._number = ready.result(), number
        if self._aside is not None:
            for tensor in self._items.values():  # its memory is not to be drawn into before training has read it
                tensor.record_stream(torch.cuda.current_stream())
        self._next = number + 1, self._ask(number + 1)

    def _ask(self, number: int) -> Future[Batch]:
        return self._thread.submit(self._drawn, number)

    def _drawn(self, number: int) -> Batch:
        with torch.cuda.stream(self._aside):
            items = self.drawing.draw(self.drawing.scenes(number * self.block, self.block), self.device)
            if self._aside is not None:
                self._aside.synchronize()  # the thread waits, the training does not
        return items


@dataclass(eq=False)
class Held:
    """A set of items on the device, gone through in another order in every epoch."""

    items: Batch
    seed: int
    _epoch: int = -1
    _order: Tensor = field(default_factory=lambda: torch.empty(0))

    def __len__(self) -> int:
        return len(next(iter(self.items.values())))

    def batch(self, first: int, count: int) -> Batch:
        """Items `first` to `first + count` of the endless row of epochs."""
        rows = []
        while count:
            epoch, offset = divmod(first, len(self))
            taken = min(count, len(self) - offset)
            rows.append(self._of_epoch(epoch)[offset : offset + taken])
            first, count = first + taken, count - taken
        chosen = rows[0] if len(rows) == 1 else torch.cat(rows)
        return {name: tensor[chosen] for name, tensor in self.items.items()}

    def _of_epoch(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            shuffle = torch.Generator().manual_seed((self.seed * _ORDER + epoch) % 2**63)
            device = next(iter(self.items.values())).device
            self._order, self._epoch = torch.randperm(len(self), generator=shuffle).to(device), epoch
        return self._order


def hold(
    drawing: Drawing,
    count: int,
    device: torch.device,
    workers: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> Batch:
    """The first `count` items of a drawing on the device, their scenes sampled by several processes if so wished."""
    block = BLOCK["cpu"]
    starts = range(0, count, block)
    jobs = (delayed(drawing.scenes)(first, min(block, count - first)) for first in starts)
    parts = []
    for scenes in Parallel(n_jobs=workers, return_as="generator")(jobs):
        parts.append(drawing.draw(scenes, device))
        if progress is not None:
            progress(min(len(parts) * block, count), count)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
