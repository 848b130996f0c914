"""Motion: objects that slide on the ground, lose speed to friction and bounce off each other.

Objects stand: they move on the plane and turn about the vertical, and their footprints are circles for contact. Between
two contacts they move in straight lines within a step, and the moment of every contact is computed, so no two objects
overlap. A contact removes energy by restitution and by friction between the two; the ground removes it by friction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alebrije.arrays import Flags, Floats
from alebrije.errors import InputError

STEPS_PER_SECOND, FRAMES_PER_SECOND = 240, 12


@dataclass(frozen=True)
class Bodies:
    """What the objects of B scenes are made of. Arrays are [B, N]."""

    present: Flags
    radius: Floats  # of the circle around the footprint
    mass: Floats
    sliding: Floats  # friction coefficient against the ground
    grip: Floats  # an object's factor of the friction coefficient of a contact; two objects multiply theirs
    bounce: Floats  # an object's factor of the restitution of a contact; two objects multiply theirs

    @property
    def inertia(self) -> Floats:
        """Of a disc, about the vertical. [B, N]"""
        return 0.5 * self.mass * self.radius**2


@dataclass
class Motion:
    """Position [B, N, 2], rotation [B, N], velocity [B, N, 2] and spin [B, N] of objects at one moment."""

    position: Floats
    rotation: Floats
    velocity: Floats
    spin: Floats

    def energy(self, bodies: Bodies) -> Floats:
        """Kinetic energy of each scene. [B]"""
        moving = 0.5 * bodies.mass * (self.velocity**2).sum(-1)
        turning = 0.5 * bodies.inertia * self.spin**2
        return np.asarray(((moving + turning) * bodies.present).sum(1))


def roll_out(bodies: Bodies, start: Motion, frames: int) -> Floats:
    """The poses of all objects in every frame: x, y and rotation. [B, N, frames, 3]

    The first frame is the start. An InputError if two objects overlap at the start.
    """
    if bool((_gaps(bodies, start.position) < 0).any()):
        raise InputError("objects overlap at the start")
    now = Motion(*(np.array(each, dtype=np.float64, order="C") for each in vars(start).values()))
    poses = [_pose(now)]
    for _ in range(frames - 1):
        advance(bodies, now, STEPS_PER_SECOND // FRAMES_PER_SECOND)
        poses.append(_pose(now))
    return np.stack(poses, 2)


def advance(bodies: Bodies, now: Motion, steps: int) -> None:
    """Move all objects on by some steps, in place."""
    from alebrije.worlds import contacts  # compiles

    contacts.advance(
        now.position,
        now.rotation,
        now.velocity,
        now.spin,
        bodies.present,
        bodies.radius,
        bodies.mass,
        bodies.sliding,
        bodies.grip,
        bodies.bounce,
        steps,
        1 / STEPS_PER_SECOND,
    )


def _pose(now: Motion) -> Floats:
    return np.concatenate([now.position, now.rotation[..., None]], -1)


def _gaps(bodies: Bodies, position: Floats) -> Floats:
    """The room between the circles of each pair, infinite where there is no pair. [B, N, N]"""
    offset = position[:, None] - position[:, :, None]
    gap = np.sqrt((offset**2).sum(-1)) - bodies.radius[:, None] - bodies.radius[:, :, None]
    pair = bodies.present[:, None] & bodies.present[:, :, None] & ~np.eye(position.shape[1], dtype=bool)
    return np.where(pair, gap, np.inf)
