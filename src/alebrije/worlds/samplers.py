"""Samplers: how the scenes of each published world are sampled, and which samples are accepted.

A sampler makes a block of scenes and samples the rejected ones again. Visibility is checked on silhouettes, always on
the CPU, so a world has the same scenes on every device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.random import Generator

from alebrije.arrays import Flags, Floats, Integers
from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary
from alebrije.scenes.placement import place_apart, place_at_once
from alebrije.worlds.clusters import place_clustered
from alebrije.worlds.streams import BLOCK, sample_combinations, sample_until_accepted

Check = Callable[[Scenes], Flags]

CAMERA = (7.48113, -6.50764, 5.34367)
LAMPS = ((6.44671, -2.90517, 4.2584), (-1.1685, 2.64602, 5.81574), (-4.67112, -4.0136, 3.01122))  # key, back, fill
CAMERA_JITTER, LAMP_JITTER = 0.5, 1.0  # in both directions along each axis
_RAYS_AT_ONCE = 2_000_000
_COARSER, _AMPLE = 4, 2.5  # the coarse check has 4 times fewer pixels a side and wants 2.5 times the area
_CLUSTER_ROUNDS = 1_000


class Sampler(Protocol):
    """Samples the scenes of a world."""

    @property
    def pairs(self) -> bool:
        """Whether every scene has two objects, so that rules apply."""
        ...

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block of scenes with these combinations [K, F] (None: all) that are valid and pass `accept`."""
        ...

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """Which scenes are valid as targets of a rule."""
        ...


class Surroundings(NamedTuple):
    """The camera, lamps and background of scenes."""

    camera: Floats  # [B, 3]
    lamps: Floats  # [B, 3, 3]
    background: Integers  # [B]


def sample_surroundings(
    generator: Generator, vocabulary: Vocabulary, count: int, first_background: int = 0
) -> Surroundings:
    """CLEVR's camera and lamps with uniform jitter along every axis, and random backgrounds."""
    camera = np.array(CAMERA) + CAMERA_JITTER * (2 * generator.random((count, 3)) - 1)
    lamps = np.array(LAMPS) + LAMP_JITTER * (2 * generator.random((count, 3, 3)) - 1)
    return Surroundings(camera, lamps, generator.integers(first_background, len(vocabulary.background), size=count))


def well_visible(scenes: Scenes, size: int, least: int) -> Flags:
    """Whether every object and the ground cover at least `least` pixels of a `size` x `size` image. [B]

    A coarse image with a sixteenth of the pixels settles most scenes: if every object has ample area there, it has
    enough in the full image. Only the other scenes are checked at full size.
    """
    good = _visible(scenes, size // _COARSER, _AMPLE * least / _COARSER**2)
    rest = np.flatnonzero(~good)
    good[rest] = _visible(scenes[torch.from_numpy(rest)], size, least)
    return good


def _visible(scenes: Scenes, size: int, least: float) -> Flags:
    from alebrije.render.silhouettes import SilhouettePixels

    step = max(1, _RAYS_AT_ONCE // (scenes.objects * size * size))
    good = []
    for begin in range(0, len(scenes), step):
        part = scenes[begin : begin + step]
        pixels = SilhouettePixels.of(part, size)
        visible = (pixels.visible() >= least) | ~part.present
        good.append(visible.all(1) & (pixels.uncovered() >= least))
    return torch.cat(good).numpy() if good else np.zeros(0, dtype=bool)


def object_sizes(vocabulary: Vocabulary, factors: Integers) -> Floats:
    """The sizes [B, N] of combinations [B, N, F]."""
    return np.array(vocabulary["size"].codes, dtype=np.float64)[factors[..., vocabulary.axis("size")]]


def passes_checks(scenes: Scenes, *checks: Check | None) -> Flags:
    """Which scenes pass all checks; each check sees only the scenes that passed the ones before it."""
    good = np.ones(len(scenes), dtype=bool)
    for check in checks:
        rows = np.flatnonzero(good)
        if check is not None and rows.size:
            good[rows] = check(scenes[torch.from_numpy(rows)])
    return good


@dataclass(frozen=True)
class SpritePairs:
    """Two sprites of size s, from 0.4 s to 1 - 0.4 s, at least 0.4 of the sum of their sizes apart, as in SVIB."""

    vocabulary: Vocabulary
    pairs: ClassVar[bool] = True

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block; sprites may overlap and may hide each other."""

        def propose(rows: Integers) -> tuple[Scenes, Flags]:
            factors = sample_combinations(generator, self.vocabulary, combinations, (len(rows), 2))
            sizes = object_sizes(self.vocabulary, factors)
            position = place_at_once(generator, sizes, 0.4 * sizes, 1 - 0.4 * sizes, apart=0.4)
            scenes = Scenes.of(self.vocabulary, factors, position)
            return scenes, passes_checks(scenes, accept)

        return sample_until_accepted(propose, BLOCK)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """All scenes: in the release targets may overlap and leave the image."""
        return np.ones(len(scenes), dtype=bool)


@dataclass(frozen=True)
class SolidPairs:
    """Two solid objects in [-3, 3]^2 that do not touch, both well visible, as in SVIB.

    Camera, lamps and ground are sampled per scene, and sampled again with everything else if the scene is rejected.
    Each object and the ground must cover 100 pixels at 128 x 128. With `targets_apart` the objects of a rule's targets
    must not touch either.
    """

    vocabulary: Vocabulary
    targets_apart: bool
    pairs: ClassVar[bool] = True

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block."""

        def propose(rows: Integers) -> tuple[Scenes, Flags]:
            factors = sample_combinations(generator, self.vocabulary, combinations, (len(rows), 2))
            sizes = object_sizes(self.vocabulary, factors)
            flat = place_at_once(generator, sizes, -3.0, 3.0, apart=1.0)
            around = sample_surroundings(generator, self.vocabulary, len(rows))
            position = np.concatenate([flat, sizes[..., None]], axis=-1)
            scenes = Scenes.of(self.vocabulary, factors, position, **around._asdict())
            return scenes, passes_checks(scenes, self._visible, accept)

        return sample_until_accepted(propose, BLOCK)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """Which targets are as visible as a source and, with `targets_apart`, have objects that do not touch."""
        return passes_checks(scenes, self._apart, self._visible)

    def _visible(self, scenes: Scenes) -> Flags:
        return well_visible(scenes, size=128, least=100)

    def _apart(self, scenes: Scenes) -> Flags:
        if not self.targets_apart:
            return np.ones(len(scenes), dtype=bool)
        position, sizes = scenes.position[..., :2].numpy(), scenes.codes("size").numpy()
        return np.asarray(np.sqrt(((position[:, 0] - position[:, 1]) ** 2).sum(-1)) >= sizes.sum(-1))


@dataclass(frozen=True)
class Crowd:
    """`fewest` to `most` objects as in CLEVR and COAT, each covering at least `least` of `size` x `size` pixels.

    The number of objects, the camera, the lamps and the ground of a scene are sampled once; everything else is sampled
    again if the scene is rejected. `corner` is COAT's rule about corners. In a `correlated` scene all objects share
    colour and material and stand close together.
    """

    vocabulary: Vocabulary
    fewest: int
    most: int
    size: int
    least: int
    corner: float | None = None
    correlated: bool = False
    pairs: ClassVar[bool] = False

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block."""
        around = sample_surroundings(generator, self.vocabulary, BLOCK)
        counts = generator.integers(self.fewest, self.most + 1, size=BLOCK)

        def propose(rows: Integers) -> tuple[Scenes, Flags]:
            present = np.arange(self.most) < counts[rows, None]
            own = Surroundings(around.camera[rows], around.lamps[rows], around.background[rows])
            scenes = self.candidates(generator, combinations, present, own)
            return scenes, passes_checks(scenes, self._visible, accept)

        return sample_until_accepted(propose, BLOCK)

    def candidates(
        self, generator: Generator, combinations: Integers | None, present: Flags, around: Surroundings
    ) -> Scenes:
        """Scenes with objects where `present` [B, N] is true, before the visibility check."""
        if self.correlated:
            factors, flat = self._clustered(generator, combinations, present, around.camera)
        else:
            factors = sample_combinations(generator, self.vocabulary, combinations, present.shape)
            sizes = object_sizes(self.vocabulary, factors)
            flat = place_apart(generator, sizes, around.camera, present=present, corner=self.corner)
        rotation = 2 * np.pi * generator.random(present.shape)
        position = np.concatenate([flat, object_sizes(self.vocabulary, factors)[..., None]], axis=-1)
        return Scenes.of(self.vocabulary, factors, position, present=present, rotation=rotation, **around._asdict())

    def _clustered(
        self, generator: Generator, combinations: Integers | None, present: Flags, camera: Floats
    ) -> tuple[Integers, Floats]:
        """Combinations and positions of clusters; scenes without room are sampled again with new sizes, as released."""
        factors = np.zeros((*present.shape, len(self.vocabulary.factors)), dtype=np.int64)
        flat, rows = np.zeros((*present.shape, 2)), np.arange(len(present))
        for _ in range(_CLUSTER_ROUNDS):
            tried = np.repeat(rows, max(1, 2 * BLOCK // len(rows)))  # a few rows cost as much as many
            sampled = self._alike(generator, combinations, (len(tried), present.shape[1]))
            sizes = object_sizes(self.vocabulary, sampled)
            positions, placed = place_clustered(generator, sizes, camera[tried], present[tried], self.corner)
            solved, first = np.unique(tried[placed], return_index=True)
            factors[solved], flat[solved] = sampled[placed][first], positions[placed][first]
            rows = np.setdiff1d(rows, solved)
            if not rows.size:
                return factors, flat
        raise InputError("objects of these combinations are too large to stand close together")

    def _alike(self, generator: Generator, combinations: Integers | None, shape: tuple[int, int]) -> Integers:
        """Combinations [B, N, F] that share colour and material with the first, uniform among those available."""
        every = np.array(self.vocabulary.combinations()) if combinations is None else combinations
        first = every[generator.integers(len(every), size=(shape[0], 1))]
        shared = [self.vocabulary.axis("color"), self.vocabulary.axis("material")]
        same = (every[:, shared] == first[..., shared]).all(-1)  # [B, K]
        odds = generator.random((shape[0], shape[1] - 1, len(every)))
        others = np.where(same[:, None], odds, -1.0).argmax(-1)
        return np.concatenate([first, every[others]], axis=1)

    def _visible(self, scenes: Scenes) -> Flags:
        return well_visible(scenes, self.size, self.least)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """None: no rule is defined for these scenes."""
        return np.zeros(len(scenes), dtype=bool)


@dataclass(frozen=True)
class Grid:
    """One object, all combinations equally likely. The factors determine everything: positions and rotations are 0."""

    vocabulary: Vocabulary
    columns: int
    pairs: ClassVar[bool] = False

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block."""
        return self.scenes(sample_combinations(generator, self.vocabulary, combinations, (BLOCK, 1)))

    def scenes(self, factors: Integers) -> Scenes:
        """The scenes of combinations [B, 1, F]."""
        return Scenes.of(self.vocabulary, factors, np.zeros((*factors.shape[:2], self.columns)))

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """None: no rule is defined for these scenes."""
        return np.zeros(len(scenes), dtype=bool)
