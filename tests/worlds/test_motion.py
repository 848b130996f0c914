"""Physics of sliding objects: energy, contacts, friction, momentum."""

from __future__ import annotations

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.worlds.motion import FRAMES_PER_SECOND, STEPS_PER_SECOND, Bodies, Motion, advance, roll_out

GRAVITY = 10.0


def discs(count: int, objects: int, seed: int = 0, **changes: float) -> tuple[Bodies, Motion]:
    """Scenes of discs on a grid with random velocities, radii, masses and coefficients."""
    random = np.random.default_rng(seed)
    shape = (count, objects)
    side = int(np.ceil(np.sqrt(objects)))
    grid = np.stack(np.divmod(np.arange(objects), side), -1) * 1.6 - 1.6 * side / 2
    drawn = {
        "radius": random.uniform(0.3, 0.75, shape),
        "mass": random.uniform(0.3, 6.0, shape),
        "sliding": random.uniform(0.1, 0.3, shape),
        "grip": random.uniform(0.3, 0.9, shape),
        "bounce": random.uniform(0.3, 0.7, shape),
    }
    drawn |= {name: np.full(shape, value) for name, value in changes.items()}
    position = np.broadcast_to(grid, (*shape, 2)) + random.uniform(-0.04, 0.04, (*shape, 2))
    velocity = random.uniform(-4, 4, (*shape, 2)) - position
    start = Motion(position, np.zeros(shape), velocity, random.uniform(-3, 3, shape))
    return Bodies(random.random(shape) < 0.9, **drawn), start


def overlap(bodies: Bodies, position: np.ndarray) -> float:
    """How deep the circles of any two present objects overlap; negative if none do."""
    distance = np.linalg.norm(position[:, None] - position[:, :, None], axis=-1)
    depth = bodies.radius[:, None] + bodies.radius[:, :, None] - distance
    pair = bodies.present[:, None] & bodies.present[:, :, None] & ~np.eye(position.shape[1], dtype=bool)
    return float(depth[pair].max())


def test_energy_never_grows_and_nothing_overlaps() -> None:
    bodies, now = discs(40, 9)
    energy = now.energy(bodies)
    for _ in range(2 * STEPS_PER_SECOND):
        advance(bodies, now, 1)
        less = now.energy(bodies)
        assert (less <= energy * (1 + 1e-12)).all()
        assert overlap(bodies, now.position) < 0
        energy = less
    assert energy.max() < 0.3 * 9 * 6.0 * 32  # friction has taken most of it


def test_contacts_keep_momentum_where_nothing_slides() -> None:
    bodies, now = discs(20, 9, sliding=0.0)
    mass = (bodies.mass * bodies.present)[..., None]
    before = (mass * now.velocity).sum(1)
    speed = now.velocity.copy()
    advance(bodies, now, STEPS_PER_SECOND)
    assert np.abs(now.velocity - speed).max() > 1  # there were contacts
    np.testing.assert_allclose((mass * now.velocity).sum(1), before, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("speed", "sliding"), [(3.0, 0.12), (5.0, 0.24)])
def test_a_single_object_stops_when_friction_has_taken_its_speed(speed: float, sliding: float) -> None:
    bodies, now = discs(1, 1, sliding=sliding, radius=0.5)
    now.position[:], now.velocity[:], now.spin[:] = 0.0, (speed, 0.0), 0.0
    seconds = speed / (sliding * GRAVITY)
    last = int(np.floor(seconds * STEPS_PER_SECOND))
    advance(bodies, now, last - 1)
    assert now.velocity[0, 0, 0] > 0
    advance(bodies, now, 2)
    assert now.velocity[0, 0, 0] == 0
    assert now.position[0, 0, 0] == pytest.approx(speed**2 / (2 * sliding * GRAVITY), abs=speed / STEPS_PER_SECOND)


def test_a_head_on_hit_of_equal_objects_follows_restitution() -> None:
    bodies, now = discs(1, 2, sliding=0.0, radius=0.5, mass=2.0, bounce=0.7, grip=0.0)
    bodies.present[:] = True
    now.position[:] = [[[-1.0, 0.0], [1.0, 0.0]]]
    now.velocity[:], now.spin[:] = [[[1.0, 0.0], [-1.0, 0.0]]], 0.0
    advance(bodies, now, STEPS_PER_SECOND)
    np.testing.assert_allclose(now.velocity, [[[-0.49, 0.0], [0.49, 0.0]]], atol=1e-9)


def test_a_glancing_hit_makes_objects_spin() -> None:
    bodies, now = discs(1, 2, sliding=0.0, radius=0.5, mass=1.0, bounce=0.5, grip=0.8)
    bodies.present[:] = True
    now.position[:] = [[[-1.5, 0.6], [0.0, 0.0]]]
    now.velocity[:], now.spin[:] = [[[3.0, 0.0], [0.0, 0.0]]], 0.0
    turning = (now.position[..., 0] * now.velocity[..., 1] - now.position[..., 1] * now.velocity[..., 0]).sum()
    advance(bodies, now, STEPS_PER_SECOND)
    assert (np.abs(now.spin) > 0.5).all()
    orbit = (now.position[..., 0] * now.velocity[..., 1] - now.position[..., 1] * now.velocity[..., 0]).sum()
    assert orbit + (bodies.inertia * now.spin).sum() == pytest.approx(turning, abs=1e-5)  # angular momentum stays


def test_a_scene_does_not_depend_on_the_others() -> None:
    bodies, start = discs(6, 5)
    together = roll_out(bodies, start, 24)
    for row in range(6):
        alone = Bodies(*(each[row : row + 1] for each in vars(bodies).values()))
        own = Motion(*(each[row : row + 1] for each in vars(start).values()))
        assert np.array_equal(roll_out(alone, own, 24), together[row : row + 1])
    assert together.shape == (6, 5, 24, 3)
    assert np.array_equal(together[:, :, 0, :2], start.position)
    assert STEPS_PER_SECOND % FRAMES_PER_SECOND == 0


def test_objects_that_overlap_at_the_start_are_refused() -> None:
    bodies, start = discs(1, 2, radius=0.7)
    bodies.present[:] = True
    start.position[0, 1] = start.position[0, 0] + 0.5
    with pytest.raises(InputError, match="overlap at the start"):
        roll_out(bodies, start, 2)
