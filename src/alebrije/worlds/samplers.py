"""Samplers: how the scenes of each published world are drawn, and which drawn scenes count.

A sampler draws a block of scenes and redraws those that are rejected. The visibility rules look at silhouettes, always
on the CPU, so a world has the same scenes whatever draws its pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary
from alebrije.scenes.placement import place, place_apart
from alebrije.worlds.clusters import place_clustered
from alebrije.worlds.streams import BLOCK, Flags, Rows, Table, draw_combinations, until_accepted

Floats = npt.NDArray[np.float64]
Check = Callable[[Scenes], Flags]

CAMERA = (7.48113, -6.50764, 5.34367)
LAMPS = ((6.44671, -2.90517, 4.2584), (-1.1685, 2.64602, 5.81574), (-4.67112, -4.0136, 3.01122))  # key, back, fill
CAMERA_JITTER, LAMP_JITTER = 0.5, 1.0  # either way along each axis
_RAYS_AT_ONCE = 2_000_000
_COARSER, _AMPLE = 4, 2.5  # a first look has so many times fewer pixels a side, and wants so many times the area
_CLUSTER_ROUNDS = 1_000


class Sampler(Protocol):
    """Draws the scenes of a world."""

    @property
    def pairs(self) -> bool:
        """Whether every scene has two objects, so that rules apply."""
        ...

    def block(self, generator: np.random.Generator, table: Table | None, also: Check | None = None) -> Scenes:
        """One block of scenes with combinations from `table`, each good in itself and by `also`."""
        ...

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """Which scenes may be what a rule makes of a source."""
        ...


class View(NamedTuple):
    """What scenes have besides objects."""

    camera: Floats  # [B, 3]
    lamps: Floats  # [B, 3, 3]
    background: Rows  # [B]


def jittered_view(generator: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """CLEVR's camera [B, 3] and lamps [B, 3, 3], each moved a little along every axis."""
    camera = np.array(CAMERA) + CAMERA_JITTER * (2 * generator.random((count, 3)) - 1)
    lamps = np.array(LAMPS) + LAMP_JITTER * (2 * generator.random((count, 3, 3)) - 1)
    return camera, lamps


def well_visible(scenes: Scenes, size: int, least: int) -> Flags:
    """Where every object, and the ground, is seen in at least `least` pixels of a picture of `size` pixels a side.

    A look at a picture with a sixteenth of the pixels settles most scenes: where that shows ample room for every
    object, the full picture cannot show too little. Only the others are looked at in full.
    """
    good = _visible(scenes, size // _COARSER, _AMPLE * least / _COARSER**2)
    rest = np.flatnonzero(~good)
    good[rest] = _visible(scenes[torch.from_numpy(rest)], size, least)
    return good


def _visible(scenes: Scenes, size: int, least: float) -> Flags:
    from alebrije.render.silhouettes import silhouettes, visible_pixels

    step = max(1, _RAYS_AT_ONCE // (scenes.objects * size * size))
    good = []
    for begin in range(0, len(scenes), step):
        part = scenes[begin : begin + step]
        depth = silhouettes(part, size)
        seen = (visible_pixels(depth) >= least) | ~part.present
        ground = depth.isinf().all(1).flatten(1).sum(1) >= least
        good.append(seen.all(1) & ground)
    return torch.cat(good).numpy() if good else np.zeros(0, dtype=bool)


def sizes_of(vocabulary: Vocabulary, factors: Table) -> Floats:
    """The sizes [B, N] that combinations [B, N, F] have."""
    return np.array(vocabulary["size"].codes, dtype=np.float64)[factors[..., vocabulary.axis("size")]]


def checked(scenes: Scenes, *checks: Check | None) -> Flags:
    """Which scenes pass all checks; each check sees only what passed the ones before it."""
    good = np.ones(len(scenes), dtype=bool)
    for check in checks:
        rows = np.flatnonzero(good)
        if check is not None and rows.size:
            good[rows] = check(scenes[torch.from_numpy(rows)])
    return good


@dataclass(frozen=True)
class SpritePairs:
    """Two sprites of size s, from 0.4 s to 1 - 0.4 s, 0.4 of the sum of their sizes apart, as SVIB draws them."""

    vocabulary: Vocabulary
    pairs: ClassVar[bool] = True

    def block(self, generator: np.random.Generator, table: Table | None, also: Check | None = None) -> Scenes:
        """One block; sprites may overlap and may hide each other."""

        def draw(rows: Rows) -> tuple[Scenes, Flags]:
            factors = draw_combinations(generator, self.vocabulary, table, (len(rows), 2))
            sizes = sizes_of(self.vocabulary, factors)
            position = place(generator, sizes, 0.4 * sizes, 1 - 0.4 * sizes, apart=0.4)
            scenes = Scenes.of(self.vocabulary, factors, position)
            return scenes, checked(scenes, also)

        return until_accepted(draw, BLOCK)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """All of them: the release lets targets overlap and leave the frame."""
        return np.ones(len(scenes), dtype=bool)


@dataclass(frozen=True)
class SolidPairs:
    """Two solid objects in [-3, 3]^2 that do not touch, both well visible, as SVIB draws them.

    Camera, lamps and ground are drawn for each scene, and again with all the rest if the scene is rejected. At 128
    pixels each object and the ground must be seen in 100 of them. `targets_apart`: the targets of rules must not
    touch either.
    """

    vocabulary: Vocabulary
    targets_apart: bool
    pairs: ClassVar[bool] = True

    def block(self, generator: np.random.Generator, table: Table | None, also: Check | None = None) -> Scenes:
        """One block."""

        def draw(rows: Rows) -> tuple[Scenes, Flags]:
            factors = draw_combinations(generator, self.vocabulary, table, (len(rows), 2))
            sizes = sizes_of(self.vocabulary, factors)
            flat = place(generator, sizes, -3.0, 3.0, apart=1.0)
            camera, lamps = jittered_view(generator, len(rows))
            ground = generator.integers(len(self.vocabulary.background), size=len(rows))
            position = np.concatenate([flat, sizes[..., None]], axis=-1)
            scenes = Scenes.of(self.vocabulary, factors, position, camera=camera, lamps=lamps, background=ground)
            return scenes, checked(scenes, self._visible, also)

        return until_accepted(draw, BLOCK)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """Targets that are as visible as a source must be and, where this is asked for, whose objects do not touch."""
        return checked(scenes, self._apart, self._visible)

    def _visible(self, scenes: Scenes) -> Flags:
        return well_visible(scenes, size=128, least=100)

    def _apart(self, scenes: Scenes) -> Flags:
        if not self.targets_apart:
            return np.ones(len(scenes), dtype=bool)
        position, sizes = scenes.position[..., :2].numpy(), scenes.codes("size").numpy()
        return np.asarray(np.sqrt(((position[:, 0] - position[:, 1]) ** 2).sum(-1)) >= sizes.sum(-1))


@dataclass(frozen=True)
class Crowd:
    """`fewest` to `most` objects as in CLEVR and COAT, each seen in at least `least` of `size` x `size` pixels.

    The number of objects, the camera, the lamps and the ground of a scene are drawn once; everything else is drawn
    again if the scene is rejected. `corner` is COAT's rule about corners. In a `correlated` scene all objects have
    one colour and one material and stand close together.
    """

    vocabulary: Vocabulary
    fewest: int
    most: int
    size: int
    least: int
    corner: float | None = None
    correlated: bool = False
    pairs: ClassVar[bool] = False

    def block(self, generator: np.random.Generator, table: Table | None, also: Check | None = None) -> Scenes:
        """One block."""
        camera, lamps = jittered_view(generator, BLOCK)
        ground = generator.integers(len(self.vocabulary.background), size=BLOCK)
        counts = generator.integers(self.fewest, self.most + 1, size=BLOCK)

        def draw(rows: Rows) -> tuple[Scenes, Flags]:
            present = np.arange(self.most) < counts[rows, None]
            view = View(camera[rows], lamps[rows], ground[rows])
            scenes = self.candidates(generator, table, present, view)
            return scenes, checked(scenes, self._visible, also)

        return until_accepted(draw, BLOCK)

    def candidates(self, generator: np.random.Generator, table: Table | None, present: Flags, view: View) -> Scenes:
        """Scenes with objects where `present` [B, N] is true, not yet asked whether all are seen."""
        if self.correlated:
            factors, flat = self._clustered(generator, table, present, view.camera)
        else:
            factors = draw_combinations(generator, self.vocabulary, table, present.shape)
            sizes = sizes_of(self.vocabulary, factors)
            flat = place_apart(generator, sizes, view.camera, present=present, corner=self.corner)
        turn = 2 * np.pi * generator.random(present.shape)
        position = np.concatenate([flat, sizes_of(self.vocabulary, factors)[..., None]], axis=-1)
        return Scenes.of(self.vocabulary, factors, position, present=present, rotation=turn, **view._asdict())

    def _clustered(
        self, generator: np.random.Generator, table: Table | None, present: Flags, camera: Floats
    ) -> tuple[Table, Floats]:
        """Combinations and positions of clusters; what finds no room is drawn again, sizes included, as released."""
        factors = np.zeros((*present.shape, len(self.vocabulary.factors)), dtype=np.int64)
        flat, rows = np.zeros((*present.shape, 2)), np.arange(len(present))
        for _ in range(_CLUSTER_ROUNDS):
            tried = np.repeat(rows, max(1, 2 * BLOCK // len(rows)))  # few rows cost no more than many
            drawn = self._alike(generator, table, (len(tried), present.shape[1]))
            sizes = sizes_of(self.vocabulary, drawn)
            spots, placed = place_clustered(generator, sizes, camera[tried], present[tried], self.corner)
            found, first = np.unique(tried[placed], return_index=True)
            factors[found], flat[found] = drawn[placed][first], spots[placed][first]
            rows = np.setdiff1d(rows, found)
            if not rows.size:
                return factors, flat
        raise InputError("objects of these combinations are too large to stand close together")

    def _alike(self, generator: np.random.Generator, table: Table | None, shape: tuple[int, int]) -> Table:
        """Combinations [B, N, F] that share the colour and the material of the first; uniform among those there are."""
        every = np.array(self.vocabulary.combinations()) if table is None else table
        first = every[generator.integers(len(every), size=(shape[0], 1))]
        shared = [self.vocabulary.axis("color"), self.vocabulary.axis("material")]
        same = (every[:, shared] == first[..., shared]).all(-1)  # [B, K]
        odds = generator.random((shape[0], shape[1] - 1, len(every)))
        others = np.where(same[:, None], odds, -1.0).argmax(-1)
        return np.concatenate([first, every[others]], axis=1)

    def _visible(self, scenes: Scenes) -> Flags:
        return well_visible(scenes, self.size, self.least)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """No rule is defined here."""
        return np.zeros(len(scenes), dtype=bool)


@dataclass(frozen=True)
class Grid:
    """One object, every combination as likely; the factors say everything, so positions and rotations are 0."""

    vocabulary: Vocabulary
    columns: int
    pairs: ClassVar[bool] = False

    def block(self, generator: np.random.Generator, table: Table | None, also: Check | None = None) -> Scenes:
        """One block."""
        return self.scenes(draw_combinations(generator, self.vocabulary, table, (BLOCK, 1)))

    def scenes(self, factors: Table) -> Scenes:
        """The scenes of combinations [B, 1, F]."""
        return Scenes.of(self.vocabulary, factors, np.zeros((*factors.shape[:2], self.columns)))

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """No rule is defined here."""
        return np.zeros(len(scenes), dtype=bool)
