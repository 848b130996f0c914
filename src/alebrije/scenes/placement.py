"""Placement: sample object positions until no two objects are too close, for many scenes at once.

Only rejected scenes are sampled again, all of them together, so the number of NumPy calls depends on the hardest scene
and not on the number of scenes. Objects that are placed one after another take a compiled loop. A generator in the same
state gives the same positions on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from alebrije.arrays import Flags, Floats, Integers
from alebrije.errors import InputError

Propose = Callable[[Integers], tuple[Floats, Flags]]  # scene indices -> their positions, and which are accepted

_RETRIES = 20_000  # per scene; ten large objects in CLEVR's field need about 100
_AT_ONCE = 512


def place_at_once(
    generator: np.random.Generator,
    sizes: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    apart: float,
    retries: int = _RETRIES,
) -> Floats:
    """Uniform positions [B, N, 2] from `low` to `high`, sampling all objects of a scene at once.

    A scene is sampled again while two of its objects are closer than `apart` times the sum of their `sizes` [B, N].
    `low` and `high` are numbers, or arrays [B, N] if they depend on the object. As released: sprites of size s lie from
    0.4 s to 1 - 0.4 s with `apart` 0.4, and the objects of solid worlds from -3 to 3 with `apart` 1.

    >>> sizes = np.array([[0.425, 0.325], [0.125, 0.225]])
    >>> positions = place_at_once(np.random.default_rng(0), sizes, 0.4 * sizes, 1 - 0.4 * sizes, apart=0.4)
    >>> positions.shape, bool((np.linalg.norm(positions[:, 0] - positions[:, 1], axis=-1) >= 0.4 * sizes.sum(1)).all())
    ((2, 2, 2), True)
    """
    radii = _radii(sizes)
    lowest, highest = (
        np.broadcast_to(np.asarray(bound, dtype=np.float64), radii.shape)[..., None] for bound in (low, high)
    )
    if not bool((lowest <= highest).all()):
        raise InputError("low must not exceed high")

    def propose(rows: Integers) -> tuple[Floats, Flags]:
        sampled = generator.random((len(rows), radii.shape[1], 2))
        sampled = lowest[rows] + sampled * (highest - lowest)[rows]
        gaps = sampled[:, :, None] - sampled[:, None]  # [b, N, N, 2]
        reach = apart * (radii[rows][:, :, None] + radii[rows][:, None])
        close = np.sqrt((gaps**2).sum(-1)) < reach
        close[:, range(radii.shape[1]), range(radii.shape[1])] = False
        return sampled, ~close.any((1, 2))

    return _sample_until_accepted(propose, radii, retries)


def place_apart(
    generator: np.random.Generator,
    sizes: npt.ArrayLike,
    camera: npt.ArrayLike,
    *,
    present: npt.ArrayLike | None = None,
    reach: float = 3.0,
    gap: float = 0.25,
    margin: float = 0.4,
    corner: float | None = None,
    tries: int = 50,
    retries: int = _RETRIES,
) -> Floats:
    """Positions [B, N, 2] as in CLEVR: one object after another, uniform from -`reach` to `reach`.

    A position is sampled again if the object is closer than `gap` to the edge of an earlier one (`sizes` [B, N] are
    radii), or if, seen from `camera` [B, 3], the two are less than `margin` apart on the ground, sideways or in depth.
    With `corner`, 3.5 in COAT, objects after the first satisfy |x + y| <= `corner`. After `tries` samples of one object
    the whole scene starts over with the same sizes; CLEVR would sample the sizes again too. Absent objects (`present`
    [B, N] false) are at 0.

    >>> sizes = np.full((4, 6), 0.7)
    >>> positions = place_apart(np.random.default_rng(0), sizes, camera=[[7.5, -6.5, 5.3]] * 4)
    >>> positions.shape
    (4, 6, 2)
    """
    radii = _radii(sizes)
    exists = np.ones(radii.shape, dtype=bool) if present is None else np.asarray(present, dtype=bool)
    if exists.shape != radii.shape:
        raise InputError(f"present must have the shape of sizes, {list(radii.shape)}, not {list(exists.shape)}")
    axes = ground_axes(np.asarray(camera, dtype=np.float64), len(radii))

    def propose(rows: Integers) -> tuple[Floats, Flags]:
        return place_in_turn(
            generator, radii[rows], axes[rows], exists[rows], reach, math.inf, gap, margin, corner, tries
        )

    return _sample_until_accepted(propose, radii, retries)


def place_in_turn(
    generator: np.random.Generator,
    radii: Floats,
    axes: Floats,
    exists: Flags,
    reach: float,
    spread: float,
    gap: float,
    margin: float,
    corner: float | None,
    tries: int,
) -> tuple[Floats, Flags]:
    """Positions [B, N, 2] of one object after another, and which scenes had room for all; see `place_apart`.

    Objects after the first are sampled within `spread` of it along x and y.
    """
    from alebrije.scenes.turns import place_all  # compiled with numba, which takes long to import

    positions, alive = np.zeros((*radii.shape, 2)), np.ones(len(radii), dtype=bool)
    arrays = np.ascontiguousarray(radii), np.ascontiguousarray(axes), np.ascontiguousarray(exists)
    rules = float(reach), float(spread), float(gap), float(margin), math.inf if corner is None else float(corner)
    place_all(generator, *arrays, *rules, tries, positions, alive)
    return positions, alive


def _sample_until_accepted(propose: Propose, radii: Floats, retries: int) -> Floats:
    """Sample all scenes, then the rejected ones again, until all are accepted or one fails `retries` times."""
    positions = np.zeros((*radii.shape, 2))
    rows, done, copies = np.arange(len(radii)), 0, 1
    while rows.size and done < retries:
        sampled, good = (part.reshape(len(rows), copies, *part.shape[1:]) for part in propose(np.repeat(rows, copies)))
        solved = good.any(1)
        positions[rows[solved]] = sampled[solved, good[solved].argmax(1)]  # the first accepted copy
        rows, done = rows[~solved], done + copies
        # The last few scenes are often the hard ones: sampling each many times at once costs no more calls.
        copies = max(1, min(_AT_ONCE // max(1, len(rows)), retries - done))
    if rows.size:
        raise InputError(f"{radii.shape[1]} objects of these sizes do not fit: no placement found in {done} samples")
    return positions


def _radii(sizes: npt.ArrayLike) -> Floats:
    radii = np.asarray(sizes, dtype=np.float64)
    if radii.ndim != 2:
        raise InputError(f"sizes must have the shape [scenes, objects], not {list(radii.shape)}")
    if not bool((radii >= 0).all()):
        raise InputError("sizes must not be negative or NaN")
    return radii


def ground_axes(camera: Floats, count: int) -> Floats:
    """Unit vectors [B, 2, 2] on the ground: to the right in the image, and away from a camera aimed at the origin."""
    if camera.shape != (count, 3):
        raise InputError(f"camera must have the shape [{count}, 3], not {list(camera.shape)}")
    away = -camera[:, :2]
    length = np.sqrt((away**2).sum(-1, keepdims=True))
    if not bool((length > 0).all()):
        raise InputError("a camera straight above the scene has no left and right on the ground")
    away = away / length
    return np.stack([np.stack([away[:, 1], -away[:, 0]], axis=-1), away], axis=1)
