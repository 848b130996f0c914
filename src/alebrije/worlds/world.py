"""Worlds: a vocabulary, a sampler of scenes and a renderer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.named import object_named
from alebrije.render.frames import Frames
from alebrije.render.fusing import fusing, is_fusing
from alebrije.scenes import Scenes, Vocabulary
from alebrije.worlds.samplers import Crowd, Grid, Sampler, SolidPairs, SpritePairs
from alebrije.worlds.streams import SAMPLE, combination_table, draw_stream, whole_number
from alebrije.worlds.vocabularies import CLEVR, CLEVR_MANY, CLEVRTEX, COAT, DSPRITES, ROOMS, SPRITES

Painter = Callable[..., Frames]
Progress = Callable[[int, int], object]  # how many are done, of how many

_MOST_AT_A_TIME = 16_384
_WORTH_A_LANE = 4  # images


@dataclass(frozen=True)
class World:
    """A world by name: `vocabulary` says what its objects can be, `sample` draws scenes and `render` draws pictures.

    >>> from alebrije import worlds
    >>> world = worlds.get("sprites")
    >>> scenes = world.sample(3, seed=1)
    >>> scenes.describe()[0]
    'blue square large, orange square tiny'
    >>> world.render(scenes, size=64).images.shape
    torch.Size([3, 3, 64, 64])
    """

    name: str
    vocabulary: Vocabulary
    sampler: Sampler
    painter: Painter
    size: int  # of its pictures by default, in pixels a side: 64 or 128, which need not be the size published
    memory: int = 64  # bytes that a pixel takes while it is drawn, about
    looks: tuple[str, ...] = ()  # what `render` passes on to the painter

    def sample(
        self,
        n: int,
        seed: int = 0,
        combinations: Sequence[Sequence[int]] | None = None,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Scenes:
        """Scenes `start` to `start + n` of the endless stream that belongs to `seed`, the same on every machine.

        A scene depends on the seed and on its number in the stream and on nothing else, so `sample(100)` is the
        beginning of `sample(1000)`, and `sample(900, start=100)` the rest of it. Objects are drawn from
        `combinations`, such as those of a split, or from all, with replacement: all of them make what SVIB calls the
        omni-composition set. They are drawn a block at a time; after each, `progress` is told how many are done, of
        how many.

        >>> from alebrije import worlds
        >>> world = worlds.get("sprites")
        >>> world.sample(10).equals(world.sample(100)[:10]), world.sample(5, start=95).equals(world.sample(100)[95:])
        (True, True)
        >>> world.sample(1, combinations=[(0, 1, 2)]).describe()
        ['green triangle medium, green triangle medium']
        """
        table = combination_table(self.vocabulary, combinations)
        return draw_stream(lambda generator: self.sampler.block(generator, table), n, seed, start, SAMPLE, progress)

    @property
    def whole(self) -> int | None:
        """How many scenes there are in a world of all combinations, such as dsprites; None for endless worlds."""
        return self.vocabulary.size if isinstance(self.sampler, Grid) else None

    def grid(self, indices: Any) -> Scenes:
        """The scenes of dSprites or rooms by their index in the original file, the last factor fastest.

        >>> from alebrije import worlds
        >>> worlds.get("rooms").grid([0, 479_999]).factors[:, 0].tolist()
        [[0, 0, 0, 0, 0, 0], [9, 9, 9, 7, 3, 14]]
        """
        if not isinstance(self.sampler, Grid):
            raise InputError(f"{self.name} is no grid of all combinations; dsprites and rooms are")
        index = np.asarray(indices)
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise InputError(f"indices must be a list of whole numbers, not {index.dtype} of shape {list(index.shape)}")
        if index.size and not 0 <= int(index.min()) <= int(index.max()) < self.vocabulary.size:
            raise InputError(f"indices must lie in 0..{self.vocabulary.size - 1} in {self.name}")
        factors = np.stack(np.unravel_index(index.astype(np.int64), self.vocabulary.counts), axis=-1)
        return self.sampler.scenes(factors[:, None])

    def render(
        self,
        scenes: Scenes,
        size: int | None = None,
        device: str | torch.device = "cpu",
        progress: Progress | None = None,
        compile: bool = False,
        **look: Any,
    ) -> Frames:
        """Pictures and masks of scenes, `size` pixels a side (by default `World.size`), drawn and left on `device`.

        The scenes may lie on any device. They are drawn a batch at a time; after each, `progress` is told how many are
        done, of how many. With `compile` the ray tracer goes through torch.compile: minutes for the first batch,
        then several times faster on a GPU. `look` goes to the renderer: sprites know `path`,
        `channels` and `masks` (`alebrije.render.sprites.render_sprites`), the other worlds nothing.

        The default size is 128, or 64 in dsprites and rooms; CLEVR's own pictures are 320 x 240, COAT's 240 x 240.
        """
        if scenes.vocabulary != self.vocabulary:
            raise InputError(
                f"the world {self.name} renders scenes of the vocabulary {self.vocabulary.name}, "
                f"not of {scenes.vocabulary.name}"
            )
        if "material" in self.vocabulary and scenes.position.shape[-1] != 3:
            raise InputError(f"objects of {self.name} have 3 coordinates, not {scenes.position.shape[-1]}")
        if strange := [name for name in look if name not in self.looks]:
            known = f"it knows {', '.join(self.looks)}" if self.looks else "it has nothing to choose"
            raise InputError(f"the look of {self.name} has no {strange[0]!r}; {known}")
        place = _usable(device)
        side = self.size if size is None else whole_number(size, "size")
        if side < 1:
            raise InputError("size must be at least one pixel")
        step = _evenly(len(scenes), self._at_a_time(place, side), _lanes(place, compile))
        parts = [scenes[begin : begin + step] for begin in range(0, max(len(scenes), 1), step)]
        frames = []
        with fusing() if compile else nullcontext():
            for part in _side_by_side(partial(self.painter, size=side, device=place, **look), parts, place):
                frames.append(part)
                if progress is not None:
                    progress(min(len(frames) * step, len(scenes)), len(scenes))
        return frames[0] if len(frames) == 1 else Frames.concatenate(frames)

    def images(self, scenes: Scenes, size: int | None = None, device: str | torch.device = "cpu") -> Tensor:
        """The pictures alone, [B, 3, H, W] uint8: those of `render`, without masks where these take time to draw.

        >>> from alebrije import worlds
        >>> world = worlds.get("sprites")
        >>> world.images(world.sample(3), size=64).shape
        torch.Size([3, 3, 64, 64])
        """
        look: dict[str, Any] = {"masks": False} if "masks" in self.looks else {}
        return self.render(scenes, size, device, **look).images

    def _at_a_time(self, device: torch.device, size: int) -> int:
        """How many images to draw at once: on a CPU what its caches hold, on a GPU what three quarters of it hold."""
        if device.type == "cuda" and torch.cuda.is_available():
            # what torch keeps of earlier batches is as good as free; every part has to launch all kernels anew
            kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            room = (torch.cuda.mem_get_info(device)[0] + kept) * 3 // 4
        else:
            room = 2**28 if device.type == "cpu" else 2**30
        return int(min(_MOST_AT_A_TIME, max(1, room // (self.memory * size * size))))


def _evenly(count: int, most: int, lanes: int = 1) -> int:
    """The largest of equal parts of `count` that hold at most `most`, as many of them in every lane.

    A small last part costs nearly a whole one, and a lane without a part has nothing to do; but a lane for a handful
    of images is not worth its while.
    """
    fewest = math.ceil(count / most)
    parts = max(fewest, min(math.ceil(fewest / lanes) * lanes, count // _WORTH_A_LANE))
    return max(1, math.ceil(count / max(1, parts)))


def _lanes(device: torch.device, compile: bool) -> int:
    """How many parts are drawn at a time: on a CPU one in each thread that torch may use."""
    return 1 if device.type != "cpu" or compile or is_fusing() else torch.get_num_threads()


def _side_by_side(draw: Callable[[Scenes], Frames], parts: list[Scenes], device: torch.device) -> Iterator[Frames]:
    """Draw parts one after another or, on a CPU, one in each thread that torch may use.

    The ray tracer works on many short lists, which torch's own threads split badly.
    """
    threads = min(_lanes(device, is_fusing()), len(parts))
    if threads < 2:
        yield from map(draw, parts)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(draw, parts)
    finally:
        torch.set_num_threads(before)


def _usable(device: str | torch.device) -> torch.device:
    """A device that a user named, if there is one here."""
    try:
        place = torch.device(device)
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        if "out of memory" in str(error):
            raise InputError(f"{device} has no memory left, not even for one number; other programs hold it") from None
        raise InputError(f'device must be one that torch can use here, such as "cpu", not {device!r}') from None
    return place


# Renderers are imported when they are first used: drawing scenes needs none of them.


def _paint_sprites(scenes: Scenes, **look: Any) -> Frames:
    from alebrije.render.sprites import render_sprites

    return render_sprites(scenes, **look)


def _paint_solid(scenes: Scenes, **look: Any) -> Frames:
    from alebrije.render.solid import render_solid

    return render_solid(scenes, **look)


def _paint_dsprites(scenes: Scenes, **look: Any) -> Frames:
    from alebrije.render.dsprites import render_dsprites

    return render_dsprites(scenes, **look)


def _paint_rooms(scenes: Scenes, **look: Any) -> Frames:
    from alebrije.render.rooms import render_rooms

    return render_rooms(scenes, **look)


def _clevr_many(name: str, most: int) -> World:
    # CLEVR asks for 200 pixels of 320 x 240. Our pictures are square and as wide as those are, in the same scene, so
    # the same part of an object's surface is 200 x (128 / 320)^2 = 32 pixels at 128 x 128.
    return World(name, CLEVR_MANY, Crowd(CLEVR_MANY, 3, most, size=128, least=32), _paint_solid, 128, memory=192)


def _coat(name: str, correlated: bool) -> World:
    sampler = Crowd(COAT, 3, 6, size=240, least=200, corner=3.5, correlated=correlated)
    return World(name, COAT, sampler, _paint_solid, 128, memory=192)


_WORLDS = {
    world.name: world
    for world in (
        World("sprites", SPRITES, SpritePairs(SPRITES), _paint_sprites, 128, looks=("path", "channels", "masks")),
        World("clevr", CLEVR, SolidPairs(CLEVR, targets_apart=False), _paint_solid, 128, memory=192),
        World("clevrtex", CLEVRTEX, SolidPairs(CLEVRTEX, targets_apart=True), _paint_solid, 128, memory=1024),
        World("dsprites", DSPRITES, Grid(DSPRITES, columns=2), _paint_dsprites, 64),
        World("rooms", ROOMS, Grid(ROOMS, columns=3), _paint_rooms, 64),
        _clevr_many("clevr6", most=6),
        _clevr_many("clevr10", most=10),
        _coat("coat", correlated=False),
        _coat("coat-correlated", correlated=True),
    )
}


def names() -> tuple[str, ...]:
    """The names of all worlds: the five, then the variants of CLEVR with many objects.

    >>> names()
    ('sprites', 'clevr', 'clevrtex', 'dsprites', 'rooms', 'clevr6', 'clevr10', 'coat', 'coat-correlated')
    """
    return tuple(_WORLDS)


def get(name: str) -> World:
    """A world by its name.

    - `sprites`, `clevr`, `clevrtex`: the three of SVIB, two objects in every scene.
    - `dsprites`, `rooms`: one object, all combinations of the factors of dSprites and 3D Shapes.
    - `clevr6`, `clevr10`: CLEVR's own scenes, of 3 to 6 or to 10 objects.
    - `coat`, `coat-correlated`: COAT's training scenes, of 3 to 6 objects on grounds of five colours; correlated, all
      objects of a scene share colour and material and stand close together.

    A world of your own is `package.module:object`, where the object is a `World`.

    >>> get("clevr").vocabulary.names
    ('color', 'shape', 'size', 'material')
    """
    if isinstance(name, str) and name not in _WORLDS and ":" in name:
        return _of_a_stranger(name)
    if not isinstance(name, str) or name not in _WORLDS:
        raise InputError(f"there is no world {name!r}; there are {', '.join(_WORLDS)}")
    return _WORLDS[name]


@cache
def _of_a_stranger(name: str) -> World:
    """A world that someone else has written, under the name by which it was asked for."""
    module, _, attribute = name.partition(":")
    world = object_named(module, attribute)
    if not isinstance(world, World):  # and it is not called: the name may come from a file
        raise InputError(f"{name} is {type(world).__name__}, not a World")
    return replace(world, name=name)
