"""Objects that are placed one after another: the loop over samples, compiled."""

from __future__ import annotations

import numpy as np

from alebrije.arrays import Flags, Floats
from alebrije.compiled import compiled


@compiled
def place_all(
    generator: np.random.Generator,
    radii: Floats,
    axes: Floats,
    exists: Flags,
    reach: float,
    spread: float,
    gap: float,
    margin: float,
    corner: float,
    tries: int,
    positions: Floats,
    alive: Flags,
) -> None:
    """Store positions [B, N, 2], and which scenes had room for all objects; see `placement.place_in_turn`.

    Each try of an object takes two random numbers for every scene that still lacks it, scenes in ascending order.
    """
    waiting = np.empty(len(radii), dtype=np.int64)
    for index in range(radii.shape[1]):
        count = 0
        for scene in range(len(radii)):
            if alive[scene] and exists[scene, index]:
                waiting[count] = scene
                count += 1
        for _ in range(tries):
            left = 0
            for place in range(count):
                scene = waiting[place]
                for axis in range(2):
                    uniform = generator.random()
                    if index == 0 or np.isinf(spread):
                        positions[scene, index, axis] = reach * (2 * uniform - 1)
                    else:
                        low = max(positions[scene, 0, axis] - spread, -reach)
                        high = min(positions[scene, 0, axis] + spread, reach)
                        positions[scene, index, axis] = low + uniform * (high - low)
                if _is_refused(positions[scene], index, radii[scene], axes[scene], exists[scene], gap, margin, corner):
                    waiting[left] = scene
                    left += 1
            count = left
        for place in range(count):
            alive[waiting[place]] = False


@compiled
def _is_refused(
    positions: Floats,
    index: int,
    radii: Floats,
    axes: Floats,
    exists: Flags,
    gap: float,
    margin: float,
    corner: float,
) -> bool:
    """Whether an object is too close to an earlier one, or in a corner though it is not the first."""
    x, y = positions[index]
    for other in range(index):
        if not exists[other]:
            continue
        if abs(x + y) > corner:
            return True
        dx, dy = x - positions[other, 0], y - positions[other, 1]
        sideways, depth = abs(dx * axes[0, 0] + dy * axes[0, 1]), abs(dx * axes[1, 0] + dy * axes[1, 1])
        if 0 < sideways < margin or 0 < depth < margin:
            return True
        if np.sqrt(dx * dx + dy * dy) - radii[index] - radii[other] < gap:
            return True
    return False
