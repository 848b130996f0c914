"""Placement: positions drawn until no two objects are too close, for many scenes at once.

Scenes are redrawn together, but only those that were rejected, so the number of NumPy calls depends on the unluckiest
scene and not on how many there are. The same generator in the same state gives the same positions on every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from alebrije.errors import InputError

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Draw = Callable[[Rows], tuple[Floats, Flags]]  # positions of these scenes, and which of them are accepted

_RETRIES = 20_000  # of one scene; what fits at all fits in far fewer: ten large objects in CLEVR's field need about 100
_AT_ONCE = 512


def place(
    generator: np.random.Generator,
    sizes: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    apart: float,
    retries: int = _RETRIES,
) -> Floats:
    """Positions [B, N, 2] of objects with `sizes` [B, N], uniform from `low` to `high`, all of a scene drawn at once.

    A scene is drawn afresh as long as two objects of it are closer than `apart` times the sum of their sizes. `low`
    and `high` are numbers, or arrays [B, N] where they depend on the object. As released: sprites of size s lie from
    0.4 s to 1 - 0.4 s with `apart` 0.4, and the solid worlds' objects from -3 to 3 with `apart` 1.

    >>> sizes = np.array([[0.425, 0.325], [0.125, 0.225]])
    >>> positions = place(np.random.default_rng(0), sizes, 0.4 * sizes, 1 - 0.4 * sizes, apart=0.4)
    >>> positions.shape, bool((np.linalg.norm(positions[:, 0] - positions[:, 1], axis=-1) >= 0.4 * sizes.sum(1)).all())
    ((2, 2, 2), True)
    """
    radii = _radii(sizes)
    lowest, highest = (
        np.broadcast_to(np.asarray(bound, dtype=np.float64), radii.shape)[..., None] for bound in (low, high)
    )
    if not bool((lowest <= highest).all()):
        raise InputError("objects must be placed from a low to a high bound, but a low one lies above its high one")

    def draw(rows: Rows) -> tuple[Floats, Flags]:
        drawn = generator.random((len(rows), radii.shape[1], 2))
        drawn = lowest[rows] + drawn * (highest - lowest)[rows]
        gaps = drawn[:, :, None] - drawn[:, None]  # [b, N, N, 2]
        reach = apart * (radii[rows][:, :, None] + radii[rows][:, None])
        close = np.sqrt((gaps**2).sum(-1)) < reach
        close[:, range(radii.shape[1]), range(radii.shape[1])] = False
        return drawn, ~close.any((1, 2))

    return _until_accepted(draw, radii, retries)


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

    A position is drawn again if the object comes closer than `gap` to the edge of an earlier one (`sizes` [B, N] are
    radii), or if, seen from `camera` [B, 3], it is neither clearly left nor clearly right of an earlier one, or
    neither clearly before nor clearly behind it: by less than `margin` along the ground. With `corner`, 3.5 in COAT,
    objects after the first stay where |x + y| is at most that. After `tries` draws of one object the whole scene
    starts over; sizes stay, whereas CLEVR would draw these again too. Absent objects (`present` [B, N] false) are at 0.

    >>> sizes = np.full((4, 6), 0.7)
    >>> positions = place_apart(np.random.default_rng(0), sizes, camera=[[7.5, -6.5, 5.3]] * 4)
    >>> positions.shape
    (4, 6, 2)
    """
    radii = _radii(sizes)
    here = np.ones(radii.shape, dtype=bool) if present is None else np.asarray(present, dtype=bool)
    if here.shape != radii.shape:
        raise InputError(f"present must have the shape of sizes, {list(radii.shape)}, not {list(here.shape)}")
    views = _ground_axes(np.asarray(camera, dtype=np.float64), len(radii))

    def accepted(xy: Floats, earlier: Floats, rows: Rows, place: int) -> Flags:
        offsets = xy[:, None] - earlier  # [b, place, 2]
        distance = np.sqrt((offsets**2).sum(-1)) - radii[rows, place, None] - radii[rows, :place]
        along = np.abs((offsets[:, :, None] * views[rows][:, None]).sum(-1))  # [b, place, 2]: sideways, in depth
        unclear = ((along > 0) & (along < margin)).any(-1)
        good = ~(((distance < gap) | unclear) & here[rows, :place]).any(-1)
        if corner is not None:
            good &= (np.abs(xy.sum(-1)) <= corner) | ~here[rows, :place].any(-1)
        return np.asarray(good)

    def draw(rows: Rows) -> tuple[Floats, Flags]:
        drawn, alive = np.zeros((len(rows), radii.shape[1], 2)), np.ones(len(rows), dtype=bool)
        for place in range(radii.shape[1]):
            waiting = np.flatnonzero(alive & here[rows, place])
            for _ in range(tries):
                if not waiting.size:
                    break
                drawn[waiting, place] = reach * (2 * generator.random((len(waiting), 2)) - 1)
                good = accepted(drawn[waiting, place], drawn[waiting, :place], rows[waiting], place)
                waiting = waiting[~good]
            alive[waiting] = False
        return drawn, alive

    return _until_accepted(draw, radii, retries)


def _until_accepted(draw: Draw, radii: Floats, retries: int) -> Floats:
    """Draw all scenes, then again those that were rejected, until none is left or one was rejected `retries` times."""
    positions = np.zeros((*radii.shape, 2))
    rows, done, copies = np.arange(len(radii)), 0, 1
    while rows.size and done < retries:
        drawn, good = (part.reshape(len(rows), copies, *part.shape[1:]) for part in draw(np.repeat(rows, copies)))
        found = good.any(1)
        positions[rows[found]] = drawn[found, good[found].argmax(1)]  # the first that was accepted, as if in turn
        rows, done = rows[~found], done + copies
        # The last few scenes are often the hard ones: drawing each of them many times at once costs no more calls.
        copies = max(1, min(_AT_ONCE // max(1, len(rows)), retries - done))
    if rows.size:
        raise InputError(f"{radii.shape[1]} objects of these sizes do not fit: no placement found in {done} draws")
    return positions


def _radii(sizes: npt.ArrayLike) -> Floats:
    radii = np.asarray(sizes, dtype=np.float64)
    if radii.ndim != 2:
        raise InputError(f"sizes must have the shape [scenes, objects], not {list(radii.shape)}")
    if not bool((radii >= 0).all()):
        raise InputError("sizes must not be negative or missing")
    return radii


def _ground_axes(camera: Floats, count: int) -> Floats:
    """Unit vectors [B, 2, 2] on the ground: to the right of the picture, and away from a camera aimed at the origin."""
    if camera.shape != (count, 3):
        raise InputError(f"camera must have the shape [{count}, 3], not {list(camera.shape)}")
    away = -camera[:, :2]
    length = np.sqrt((away**2).sum(-1, keepdims=True))
    if not bool((length > 0).all()):
        raise InputError("a camera straight above the scene has no left and right on the ground")
    away = away / length
    return np.stack([np.stack([away[:, 1], -away[:, 0]], axis=-1), away], axis=1)
