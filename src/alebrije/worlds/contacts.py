"""The loop behind `alebrije.worlds.motion`: friction, contacts and impulses, scene by scene.

Arrays are those of `Bodies` and `Motion`, and `now` is changed in place.
"""

from __future__ import annotations

import math

from alebrije.arrays import Flags, Floats
from alebrije.compiled import compiled

GRAVITY = 10.0
SLACK = 1e-6  # contact is a little before the circles touch, so that rounding never makes them overlap
RESTING = 1e-7  # speed of approach below which two objects stay as they are
SOFT = 0.02  # speed of approach below which a contact no longer bounces, so that contacts end
CONTACTS = 200  # per step; what is left of a step after that is skipped


@compiled
def advance(
    position: Floats,
    rotation: Floats,
    velocity: Floats,
    spin: Floats,
    present: Flags,
    radius: Floats,
    mass: Floats,
    sliding: Floats,
    grip: Floats,
    bounce: Floats,
    steps: int,
    seconds: float,
) -> None:
    """Take some steps of `seconds` in every scene."""
    scenes, objects = radius.shape
    for b in range(scenes):
        for _ in range(steps):
            for i in range(objects):  # friction of the ground slows objects and their spin, and reverses neither
                loss = sliding[b, i] * GRAVITY * seconds
                speed = math.sqrt(velocity[b, i, 0] ** 2 + velocity[b, i, 1] ** 2)
                kept = max(speed - loss, 0.0) / max(speed, 1e-12)
                velocity[b, i, 0] *= kept
                velocity[b, i, 1] *= kept
                turning = abs(spin[b, i])  # a disc that presses evenly loses 4/3 mu g / r
                drop = 4.0 / 3.0 * loss / max(radius[b, i], 1e-12)
                spin[b, i] *= max(turning - drop, 0.0) / max(turning, 1e-12)
            left = seconds
            for _ in range(CONTACTS):
                soonest, first, second = left, -1, -1
                for i in range(objects):
                    for j in range(i + 1, objects):
                        if present[b, i] and present[b, j]:
                            x = position[b, j, 0] - position[b, i, 0]
                            y = position[b, j, 1] - position[b, i, 1]
                            u = velocity[b, j, 0] - velocity[b, i, 0]
                            v = velocity[b, j, 1] - velocity[b, i, 1]
                            closing = x * u + y * v
                            square = x * x + y * y
                            if closing < -RESTING * math.sqrt(square):
                                reach = radius[b, i] + radius[b, j] + SLACK
                                rate = u * u + v * v
                                root = closing * closing - rate * (square - reach * reach)
                                if root >= 0.0:
                                    moment = max((-closing - math.sqrt(root)) / rate, 0.0)
                                    if moment < soonest:
                                        soonest, first, second = moment, i, j
                for i in range(objects):
                    position[b, i, 0] += velocity[b, i, 0] * soonest
                    position[b, i, 1] += velocity[b, i, 1] * soonest
                    rotation[b, i] += spin[b, i] * soonest
                left -= soonest
                if first < 0:
                    break
                collide(position[b], velocity[b], spin[b], radius[b], mass[b], grip[b], bounce[b], first, second)


@compiled
def collide(
    position: Floats,
    velocity: Floats,
    spin: Floats,
    radius: Floats,
    mass: Floats,
    grip: Floats,
    bounce: Floats,
    i: int,
    j: int,
) -> None:
    """Exchange the impulses of a contact of two objects of a scene."""
    x, y = position[j, 0] - position[i, 0], position[j, 1] - position[i, 1]
    distance = math.sqrt(x * x + y * y)
    x, y = x / distance, y / distance  # the normal; the tangent is (-y, x)
    lighter = 1.0 / mass[i] + 1.0 / mass[j]
    u, v = velocity[j, 0] - velocity[i, 0], velocity[j, 1] - velocity[i, 1]
    approach = -(u * x + v * y)
    rebound = 0.0 if approach < SOFT else bounce[i] * bounce[j]
    push = (1.0 + rebound) * approach / lighter
    slip = v * x - u * y - spin[i] * radius[i] - spin[j] * radius[j]
    inertia_i, inertia_j = 0.5 * mass[i] * radius[i] ** 2, 0.5 * mass[j] * radius[j] ** 2  # of discs
    yielding = lighter + radius[i] ** 2 / inertia_i + radius[j] ** 2 / inertia_j
    limit = grip[i] * grip[j] * push
    rub = min(max(-slip / yielding, -limit), limit)
    velocity[i, 0] -= (push * x - rub * y) / mass[i]
    velocity[i, 1] -= (push * y + rub * x) / mass[i]
    velocity[j, 0] += (push * x - rub * y) / mass[j]
    velocity[j, 1] += (push * y + rub * x) / mass[j]
    spin[i] -= rub * radius[i] / inertia_i
    spin[j] -= rub * radius[j] / inertia_j
