"""Worlds: a vocabulary, a sampler of scenes and a renderer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import torch
from torch import Tensor

from alebrije.checks import usable_device, whole_number
from alebrije.errors import InputError
from alebrije.imports import import_object
from alebrije.render.frames import Frames
from alebrije.render.fusing import fusing, is_fusing
from alebrije.scenes import Scenes, Vocabulary
from alebrije.scenes.grid import combinations_at
from alebrije.suggest import did_you_mean
from alebrije.worlds.samplers import Crowd, Grid, Sampler, SolidPairs, SpritePairs
from alebrije.worlds.scripted import Scripted
from alebrije.worlds.streams import SAMPLE, check_combinations, sample_stream
from alebrije.worlds.threads import in_threads
from alebrije.worlds.videos import Around, Collisions, Furnished
from alebrije.worlds.vocabularies import (
    ARM,
    CLEVR,
    CLEVR_MANY,
    CLEVRTEX,
    COAT,
    DSPRITES,
    FURNITURE,
    MOVING_TEXTURED,
    ROOMS,
    SPRITES,
)

Painter = Callable[..., Frames]
Progress = Callable[[int, int], object]  # called with (done, total)

_MAX_BATCH = 16_384
_MIN_PER_THREAD = 4  # images


@dataclass(frozen=True)
class World:
    """A named world: its `vocabulary`, a sampler of scenes (`sample`) and a renderer (`render`).

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
    size: int  # default pixels per side of its images, not necessarily the published size
    memory: int = 64  # approximate bytes per pixel while rendering
    looks: tuple[str, ...] = ()  # options that `render` passes on to the painter
    shows: Literal["images", "videos", "views"] = "images"  # one image of a scene, its frames, or several views

    def sample(
        self,
        n: int,
        seed: int = 0,
        combinations: Sequence[Sequence[int]] | None = None,
        start: int = 0,
        progress: Progress | None = None,
    ) -> Scenes:
        """Scenes `start` to `start + n` of the endless stream of `seed`, the same on every machine.

        A scene depends only on the seed and on its index in the stream, so `sample(100)` is the beginning of
        `sample(1000)`, and `sample(900, start=100)` the rest of it. Objects are sampled with replacement from
        `combinations`, such as those of a split, or from all; the latter gives SVIB's omni-composition set.
        `progress(done, n)` is called after each block.

        >>> from alebrije import worlds
        >>> world = worlds.get("sprites")
        >>> world.sample(10).equals(world.sample(100)[:10]), world.sample(5, start=95).equals(world.sample(100)[95:])
        (True, True)
        >>> world.sample(1, combinations=[(0, 1, 2)]).describe()
        ['green triangle medium, green triangle medium']
        """
        allowed = check_combinations(self.vocabulary, combinations)
        return sample_stream(lambda generator: self.sampler.block(generator, allowed), n, seed, start, SAMPLE, progress)

    @property
    def whole(self) -> int | None:
        """The number of scenes in a world of all combinations, such as dsprites; None for endless worlds."""
        return self.vocabulary.size if isinstance(self.sampler, Grid) else None

    def require_images(self, who: str) -> None:
        """Raise an InputError if a scene has several images: frames of a video, or views."""
        if self.shows != "images":
            others = ", ".join(world.name for world in _WORLDS.values() if world.shows == "images")
            raise InputError(f"{who} needs single images, and {self.name} has {self.shows}; worlds of images: {others}")

    def grid(self, indices: Any) -> Scenes:
        """The scenes of dsprites, rooms or arm at these indices of the original file, last factor fastest.

        >>> from alebrije import worlds
        >>> worlds.get("rooms").grid([0, 479_999]).factors[:, 0].tolist()
        [[0, 0, 0, 0, 0, 0], [9, 9, 9, 7, 3, 14]]
        """
        if not isinstance(self.sampler, Grid):
            raise InputError(f"{self.name} is not a grid of all combinations; dsprites, rooms and arm are")
        return self.sampler.scenes(combinations_at(indices, self.vocabulary.counts).numpy()[:, None])

    def render(
        self,
        scenes: Scenes,
        size: int | None = None,
        device: str | torch.device = "cpu",
        progress: Progress | None = None,
        compile: bool = False,
        **look: Any,
    ) -> Frames:
        """Images and masks of scenes, `size` pixels per side (default `World.size`), rendered and kept on `device`.

        The scenes may be on any device. They are rendered in batches; `progress(done, total)` is called after each.
        With `compile` the ray tracer uses torch.compile where it is plain torch: minutes for the first batch, then
        faster. A GPU with Triton has kernels of its own and ignores it. `look` goes to the renderer: sprites accept
        `path`, `channels` and `masks` (`alebrije.render.sprites.render_sprites`), the other worlds nothing.

        The default size is 128, or 64 in dsprites, rooms and arm; CLEVR's own images are 320 x 240, COAT's 240 x 240.
        """
        if scenes.vocabulary != self.vocabulary:
            raise InputError(
                f"the world {self.name} renders scenes of the vocabulary {self.vocabulary.name}, "
                f"not of {scenes.vocabulary.name}"
            )
        if "material" in self.vocabulary and scenes.position.shape[-1] != 3:
            raise InputError(f"objects of {self.name} have 3 coordinates, not {scenes.position.shape[-1]}")
        if unknown := [name for name in look if name not in self.looks]:
            known = f"it has {', '.join(self.looks)}" if self.looks else "it has no options"
            raise InputError(f"the renderer of {self.name} has no option {unknown[0]!r}; {known}")
        target = usable_device(device)
        side = self.size if size is None else whole_number("size", size, least=1)
        pictures = scenes.frames or scenes.views or 1  # of each scene
        step = _part_size(len(scenes), max(1, self._batch_size(target, side) // pictures), _threads(target, compile))
        parts = [scenes[begin : begin + step] for begin in range(0, max(len(scenes), 1), step)]
        frames = []
        with fusing() if compile else nullcontext():
            threads = min(_threads(target, is_fusing()), len(parts))
            for part in in_threads(partial(self.painter, size=side, device=target, **look), parts, threads):
                frames.append(part)
                if progress is not None:
                    progress(min(len(frames) * step, len(scenes)), len(scenes))
        return frames[0] if len(frames) == 1 else Frames.concatenate(frames)

    def images(self, scenes: Scenes, size: int | None = None, device: str | torch.device = "cpu") -> Tensor:
        """The images [B, 3, H, W] uint8 of `render`, without masks where these take extra time.

        >>> from alebrije import worlds
        >>> world = worlds.get("sprites")
        >>> world.images(world.sample(3), size=64).shape
        torch.Size([3, 3, 64, 64])
        """
        look: dict[str, Any] = {"masks": False} if "masks" in self.looks else {}
        return self.render(scenes, size, device, **look).images

    def _batch_size(self, device: torch.device, size: int) -> int:
        """How many images to render at once: on a CPU what fits its caches, on a GPU three quarters of its memory."""
        if device.type == "cuda" and torch.cuda.is_available():
            # memory that torch has cached is free; large batches matter because each one launches all kernels
            cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            room = (torch.cuda.mem_get_info(device)[0] + cached) * 3 // 4
        else:
            room = 2**28 if device.type == "cpu" else 2**30
        return int(min(_MAX_BATCH, max(1, room // (self.memory * size * size))))


def _part_size(count: int, most: int, threads: int = 1) -> int:
    """The size of equal parts of `count` images, at most `most` each, with as many parts for every thread.

    A small last part costs nearly as much as a whole one, and a thread without a part is idle; but a thread is not
    worth starting for fewer than `_MIN_PER_THREAD` images.
    """
    fewest = math.ceil(count / most)
    parts = max(fewest, min(math.ceil(fewest / threads) * threads, count // _MIN_PER_THREAD))
    return max(1, math.ceil(count / max(1, parts)))


def _threads(device: torch.device, compile: bool) -> int:
    """How many parts to render at a time: on a CPU one per torch thread."""
    return 1 if device.type != "cpu" or compile or is_fusing() else torch.get_num_threads()


# Renderers are imported on first use, because sampling scenes needs none of them.


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


def _paint_arm(scenes: Scenes, **look: Any) -> Frames:
    from alebrije.render.arm import render_arm

    return render_arm(scenes, **look)


def _paint_frames(scenes: Scenes, **look: Any) -> Frames:
    from alebrije.render.video import render_frames

    return render_frames(scenes, **look)


def _clevr_many(name: str, most: int) -> World:
    # CLEVR requires 200 pixels of 320 x 240. Our square images have the same field of view in width, so the same part
    # of an object's surface is 200 x (128 / 320)^2 = 32 pixels at 128 x 128.
    return World(name, CLEVR_MANY, Crowd(CLEVR_MANY, 3, most, size=128, least=32), _paint_solid, 128, memory=192)


def _coat(name: str, correlated: bool) -> World:
    sampler = Crowd(COAT, 3, 6, size=240, least=200, corner=3.5, correlated=correlated)
    return World(name, COAT, sampler, _paint_solid, 128, memory=192)


def _clevr3d() -> World:
    sampler = Around(Crowd(CLEVR_MANY, 3, 6, size=128, least=32))
    return World("clevr3d", CLEVR_MANY, sampler, _paint_frames, 64, memory=192, shows="views")


_WORLDS = {
    world.name: world
    for world in (
        World("sprites", SPRITES, SpritePairs(SPRITES), _paint_sprites, 128, looks=("path", "channels", "masks")),
        World("clevr", CLEVR, SolidPairs(CLEVR, targets_apart=False), _paint_solid, 128, memory=192),
        World("clevrtex", CLEVRTEX, SolidPairs(CLEVRTEX, targets_apart=True), _paint_solid, 128, memory=1024),
        World("dsprites", DSPRITES, Grid(DSPRITES, columns=2), _paint_dsprites, 64),
        World("rooms", ROOMS, Grid(ROOMS, columns=3), _paint_rooms, 64),
        World("arm", ARM, Grid(ARM, columns=3), _paint_arm, 64),
        _clevr_many("clevr6", most=6),
        _clevr_many("clevr10", most=10),
        _coat("coat", correlated=False),
        _coat("coat-correlated", correlated=True),
        World("moving", CLEVR_MANY, Collisions(CLEVR_MANY), _paint_frames, 64, memory=192, shows="videos"),
        World(
            "moving-textured",
            MOVING_TEXTURED,
            Collisions(MOVING_TEXTURED, shell=True),
            _paint_frames,
            64,
            memory=1024,
            shows="videos",
        ),
        World("scripted", CLEVR_MANY, Scripted(CLEVR_MANY), _paint_frames, 64, memory=192, shows="videos"),
        _clevr3d(),
        World(
            "furniture",
            FURNITURE,
            Around(Furnished(FURNITURE), turned=True),
            _paint_frames,
            64,
            memory=768,
            shows="views",
        ),
    )
}


def names() -> tuple[str, ...]:
    """The names of all worlds: the six, the variants of CLEVR with many objects, then videos and several views.

    >>> names()
    ('sprites', 'clevr', 'clevrtex', 'dsprites', 'rooms', 'arm', 'clevr6', 'clevr10', 'coat', 'coat-correlated',
     'moving', 'moving-textured', 'scripted', 'clevr3d', 'furniture')
    """
    return tuple(_WORLDS)


def get(name: str) -> World:
    """A world by its name.

    - `sprites`, `clevr`, `clevrtex`: the three of SVIB, two objects in every scene.
    - `dsprites`, `rooms`, `arm`: one object, all combinations of the factors of dSprites, 3D Shapes and MPI3D.
    - `clevr6`, `clevr10`: CLEVR's own scenes, of 3 to 6 or to 10 objects.
    - `coat`, `coat-correlated`: COAT's training scenes, of 3 to 6 objects on grounds of five colours; in the correlated
      world all objects of a scene share colour and material and stand close together.
    - `moving`, `moving-textured`, `scripted`: videos like MOVi-A, MOVi-C and CATER.
    - `clevr3d`, `furniture`: scenes like those of CLEVR and of MultiShapeNet from three sides.

    A world of your own is `package.module:object`, where the object is a `World`.

    >>> get("clevr").vocabulary.names
    ('color', 'shape', 'size', 'material')
    """
    if isinstance(name, str) and name not in _WORLDS and ":" in name:
        return _user_world(name)
    if not isinstance(name, str) or name not in _WORLDS:
        raise InputError(f"there is no world {name!r}{did_you_mean(str(name), _WORLDS)}")
    return _WORLDS[name]


@cache
def _user_world(name: str) -> World:
    """A world that a user wrote, named by its import path."""
    module, _, attribute = name.partition(":")
    world = import_object(module, attribute)
    if not isinstance(world, World):  # never call it: the name may come from a file
        raise InputError(f"{name} is {type(world).__name__}, not a World")
    return replace(world, name=name)
