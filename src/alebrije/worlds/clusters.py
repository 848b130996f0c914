"""Clusters: objects close to the first one, as in COAT's correlated scenes."""

from __future__ import annotations

import numpy as np

from alebrije.arrays import Flags, Floats
from alebrije.scenes.placement import ground_axes, place_in_turn

SPREAD = 2.0  # our choice, see `place_clustered`
_REACH = 3.0


def place_clustered(
    generator: np.random.Generator, sizes: Floats, camera: Floats, present: Flags, corner: float | None
) -> tuple[Floats, Flags]:
    """Positions [B, N, 2] around each scene's first object, and which scenes had room for all their objects.

    The rules between objects are CLEVR's, as in `scenes.placement.place_apart`, but later objects are sampled within
    `SPREAD` of the first along x and y. The released generator uses three times its `pos_margin`, less if the first
    object is small; the value behind the published set was not recorded, so two units is our choice. Unlike the
    release, a scene without room after 50 samples of an object is reported, so that its sizes can be sampled again.
    """
    axes = ground_axes(camera, len(sizes))
    return place_in_turn(generator, sizes, axes, present, _REACH, SPREAD, gap=0.25, margin=0.4, corner=corner, tries=50)
