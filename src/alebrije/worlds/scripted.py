"""A world of scripted actions, like CATER: objects slide, are lifted, and turn, while the camera moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from alebrije.arrays import Flags, Floats, Integers
from alebrije.scenes import Scenes, Vocabulary
from alebrije.scenes.placement import place_apart
from alebrije.worlds.samplers import Check, passes_checks
from alebrije.worlds.streams import BLOCK, sample_until_accepted
from alebrije.worlds.videos import GAP, near_cameras, sample_standing, turned_about, video_scenes

FIELD = 3.0  # centres stay from -3 to 3, as in CLEVR
_SLOT = 8  # frames of one action
_LIFT = 2.5  # how high an object is lifted
_TRIES = 30  # targets, before an object turns instead
SLIDE, LIFT, TURN = range(3)


@dataclass(frozen=True)
class Scripted:
    """Videos in which at most two objects move at a time; each slides, is lifted to another place, or turns.

    The camera moves around the scene by up to 40 degrees and up or down by up to 1.5.
    """

    vocabulary: Vocabulary
    fewest: int = 5
    most: int = 10
    frames: int = 33
    pairs: ClassVar[bool] = False

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block of videos."""

        def propose(rows: Integers) -> tuple[Scenes, Flags]:
            scenes = self._videos(generator, combinations, len(rows))
            return scenes, passes_checks(scenes, accept)

        return sample_until_accepted(propose, BLOCK)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """None: no rule is defined for videos."""
        return np.zeros(len(scenes), dtype=bool)

    def _videos(self, generator: Generator, combinations: Integers | None, count: int) -> Scenes:
        standing = sample_standing(generator, self.vocabulary, combinations, (self.fewest, self.most), count)
        camera = near_cameras(generator, count)
        flat = place_apart(
            generator, standing.radius, camera, present=standing.present, reach=FIELD, gap=GAP, margin=0.0
        )
        turn = 2 * np.pi * generator.random(standing.present.shape)
        path = np.zeros((*standing.present.shape, self.frames, 4))
        path[..., :2], path[..., 3] = flat[:, :, None], turn[..., None]
        path[..., 2] = standing.sizes[..., None]
        for own, radius, present in zip(path, standing.radius, standing.present, strict=True):
            for first in range(0, self.frames - 1, _SLOT):
                _act(generator, own, radius, present, first)
        return video_scenes(self.vocabulary, standing, path, camera, generator, self._cameras(generator, camera))

    def _cameras(self, generator: Generator, camera: Floats) -> Floats:
        """The camera of every frame. [B, T, 3]"""
        share = _eased(self.frames)
        angle = np.radians(80 * generator.random(len(camera)) - 40)[:, None] * share
        cameras = turned_about(np.repeat(camera[:, None], self.frames, 1), angle)
        cameras[..., 2] += (3 * generator.random(len(camera)) - 1.5)[:, None] * share
        return cameras


def _eased(count: int) -> Floats:
    """From 0 to 1 in `count` frames, slowly at both ends."""
    share = np.linspace(0.0, 1.0, count)
    return np.asarray(share**2 * (3 - 2 * share))


def _act(generator: Generator, path: Floats, radius: Floats, present: Flags, first: int) -> None:
    """Let one or two objects of a video [N, T, 4] act in the frames after `first`; they stay where they end.

    At most one is lifted: it rises, moves above the others, and is put down.
    """
    last = min(first + _SLOT, path.shape[1] - 1)
    movers = generator.permutation(np.flatnonzero(present))[: generator.integers(1, 3)]
    share = _eased(last - first + 1)
    lifted = False
    for mover in movers:
        action = int(generator.integers(3))
        action = SLIDE if lifted and action == LIFT else action
        start = path[mover, first].copy()
        end = None if action == TURN else _free_target(generator, path, radius, present, mover, first, last, action)
        if end is None:
            path[mover, first : last + 1, 3] = start[3] + share * generator.uniform(-np.pi, np.pi)
        else:
            along = np.interp(share, (0.3, 0.7), (0.0, 1.0)) if action == LIFT else share
            path[mover, first : last + 1, :2] = start[:2] + along[:, None] * (end - start[:2])
        if end is not None and action == LIFT:
            path[mover, first : last + 1, 2] += _LIFT * np.interp(share, (0.0, 0.3, 0.7, 1.0), (0.0, 1.0, 1.0, 0.0))
            lifted = True
        path[mover, last + 1 :] = path[mover, last]


def _free_target(
    generator: Generator,
    path: Floats,
    radius: Floats,
    present: Flags,
    mover: int,
    first: int,
    last: int,
    action: int,
) -> Floats | None:
    """Where an object can go; None if no place was found. A slide needs a free way, a lift only a free place."""
    others = present.copy()
    others[mover] = False
    room = radius[others] + radius[mover] + GAP
    where = path[others, first : last + 1, :2]  # [K, t, 2] of objects that may be moving, too
    share = _eased(last - first + 1)
    for _ in range(_TRIES):
        end = generator.uniform(-FIELD, FIELD, 2)
        start = path[mover, first, :2]
        way = start + share[:, None] * (end - start) if action == SLIDE else end[None]
        apart = _nearest(where, start, end) if action == SLIDE else np.sqrt(((where - way) ** 2).sum(-1)).min(1)
        if bool((apart >= room).all()):
            return np.asarray(end)
    return None


def _nearest(where: Floats, start: Floats, end: Floats) -> Floats:
    """How near each of K objects [K, t, 2] comes to the straight way from start to end. [K]"""
    along = end - start
    length = max(float((along**2).sum()), 1e-12)
    share = np.clip(((where - start) @ along) / length, 0.0, 1.0)
    return np.asarray(np.sqrt(((where - start - share[..., None] * along) ** 2).sum(-1)).min(1))
