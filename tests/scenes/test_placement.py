from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alebrije.errors import InputError
from alebrije.scenes.placement import ground_axes, place_apart, place_at_once, place_in_turn

CAMERA = np.array([7.48113, -6.50764, 5.34367])


def distances(positions: np.ndarray) -> np.ndarray:
    """Every pair's distance, [B, pairs], with the pairs' indices."""
    first, second = np.triu_indices(positions.shape[1], 1)
    return np.linalg.norm(positions[:, first] - positions[:, second], axis=-1)


def pair_sums(sizes: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(sizes.shape[1], 1)
    return sizes[:, first] + sizes[:, second]


def test_sprites_keep_their_distance_and_stay_in_their_frame() -> None:
    generator = np.random.default_rng(0)
    sizes = generator.choice([0.125, 0.225, 0.325, 0.425], (5000, 2))
    positions = place_at_once(generator, sizes, 0.4 * sizes, 1 - 0.4 * sizes, apart=0.4)
    assert (distances(positions) >= 0.4 * pair_sums(sizes)).all()
    assert (positions >= 0.4 * sizes[..., None]).all()
    assert (positions <= 1 - 0.4 * sizes[..., None]).all()


def test_solid_objects_keep_their_distance_and_the_field_is_used() -> None:
    generator = np.random.default_rng(1)
    sizes = generator.choice([1.0, 1.5, 2.0], (5000, 2))
    positions = place_at_once(generator, sizes, -3, 3, apart=1.0)
    assert (distances(positions) >= pair_sums(sizes)).all()
    assert positions.min() < -2.99
    assert positions.max() > 2.99
    # Rejection knows no direction and no order, so both objects are centred alike.
    assert np.abs(positions.mean(0)).max() < 0.12


def test_rejection_draws_from_the_uniform_law_of_accepted_pairs() -> None:
    sizes = np.full((20000, 2), 1.0)
    found = place_at_once(np.random.default_rng(2), sizes, -3, 3, apart=1.0)
    plain = np.random.default_rng(3).uniform(-3, 3, (40000, 2, 2))
    plain = plain[np.linalg.norm(plain[:, 0] - plain[:, 1], axis=-1) >= 2]
    quantiles = np.linspace(0.05, 0.95, 10)
    ours, theirs = (np.quantile(distances(sample), quantiles) for sample in (found, plain))
    np.testing.assert_allclose(ours, theirs, atol=0.06)


@settings(max_examples=30, deadline=None)
@given(scenes=st.integers(0, 20), objects=st.integers(0, 4), seed=st.integers(0, 2**32))
def test_places_any_number_of_small_objects_and_repeats(scenes: int, objects: int, seed: int) -> None:
    sizes = np.full((scenes, objects), 0.2)
    first = place_at_once(np.random.default_rng(seed), sizes, -3, 3, apart=1.0)
    again = place_at_once(np.random.default_rng(seed), sizes, -3, 3, apart=1.0)
    assert first.shape == (scenes, objects, 2)
    assert np.array_equal(first, again)
    assert (distances(first) >= 0.4).all()


def test_positions_are_the_same_on_every_machine() -> None:
    found = place_at_once(np.random.default_rng(0), [[1.0, 1.0]], -3, 3, apart=1.0)
    assert found[0, 0].tolist() == [0.8217701239287258, -1.3812797174167781]
    apart = place_apart(np.random.default_rng(0), [[0.7] * 10], [CAMERA])
    assert apart[0, 9].tolist() == [0.12377524751207636, -2.8018342185387093]


def clevr_would_accept(
    positions: np.ndarray, sizes: np.ndarray, camera: np.ndarray, here: np.ndarray, corner: float | None
) -> bool:
    """One scene, object by object, with the directions from a full camera matrix."""
    forward = -camera / np.linalg.norm(camera)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    directions = []
    for axis in (right, -right, forward, -forward):
        flat = np.array([axis[0], axis[1]])
        directions.append(flat / np.linalg.norm(flat))
    before: list[int] = []
    for k in np.flatnonzero(here):
        if before and corner is not None and abs(positions[k].sum()) > corner:
            return False
        for j in before:
            offset = positions[k] - positions[j]
            if np.linalg.norm(offset) - sizes[k] - sizes[j] < 0.25 - 1e-12:
                return False
            if any(1e-12 < offset @ direction < 0.4 - 1e-12 for direction in directions):
                return False
        before.append(int(k))
    return True


@pytest.mark.parametrize("corner", [None, 3.5])
def test_placed_apart_as_in_clevr(corner: float | None) -> None:
    generator = np.random.default_rng(4)
    sizes = generator.choice([0.35, 0.7], (150, 7))
    here = np.arange(7) < generator.integers(3, 8, (150, 1))
    camera = CAMERA + generator.uniform(-0.5, 0.5, (150, 3))
    positions = place_apart(generator, sizes, camera, present=here, corner=corner)
    assert np.abs(positions).max() <= 3
    assert (positions[~here] == 0).all()
    for scene in zip(positions, sizes, camera, here, strict=True):
        assert clevr_would_accept(*scene, corner)
    if corner is not None:  # the first object knows no corners
        assert np.abs(positions[:, 0].sum(-1)).max() > corner


def test_the_corner_rule_begins_with_the_second_object_that_is_there() -> None:
    here = np.tile([False, True, True], (400, 1))
    positions = place_apart(
        np.random.default_rng(5), np.full((400, 3), 0.35), np.tile(CAMERA, (400, 1)), present=here, corner=3.5
    )
    assert np.abs(positions[:, 1].sum(-1)).max() > 3.5
    assert np.abs(positions[:, 2].sum(-1)).max() <= 3.5


def test_ten_large_objects_still_fit() -> None:
    sizes = np.full((3, 10), 0.7)
    positions = place_apart(np.random.default_rng(6), sizes, np.tile(CAMERA, (3, 1)))
    assert (distances(positions) >= 1.4 + 0.25 - 1e-12).all()


def test_what_does_not_fit_is_said_in_a_sentence() -> None:
    generator = np.random.default_rng(7)
    with pytest.raises(InputError, match="5 objects of these sizes do not fit"):
        place_at_once(generator, np.full((2, 5), 3.0), -3, 3, apart=1.0, retries=200)
    with pytest.raises(InputError, match="20 objects of these sizes do not fit: no placement found in 30 samples"):
        place_apart(generator, np.full((1, 20), 0.7), [CAMERA], retries=30)
    with pytest.raises(InputError, match="low must not exceed high"):
        place_at_once(generator, [[1.0, 1.0]], 3, -3, apart=1.0)
    with pytest.raises(InputError, match=r"sizes must have the shape \[scenes, objects\]"):
        place_at_once(generator, [1.0, 1.0], -3, 3, apart=1.0)
    with pytest.raises(InputError, match="sizes must not be negative"):
        place_at_once(generator, [[1.0, np.nan]], -3, 3, apart=1.0)
    with pytest.raises(InputError, match=r"camera must have the shape \[1, 3\]"):
        place_apart(generator, [[1.0, 1.0]], CAMERA)
    with pytest.raises(InputError, match="straight above"):
        place_apart(generator, [[1.0, 1.0]], [[0.0, 0.0, 9.0]])
    with pytest.raises(InputError, match="present must have the shape of sizes"):
        place_apart(generator, [[1.0, 1.0]], [CAMERA], present=[[True]])


def placed_in_turn(
    generator: np.random.Generator, radii: np.ndarray, corner: float, spread: float
) -> np.ndarray | None:
    """The rules of `place_in_turn` for one scene, seen from the default camera; None without room."""
    away = -CAMERA[:2] / np.hypot(*CAMERA[:2])
    placed: list[np.ndarray] = []
    for radius in radii:
        for _ in range(50):
            uniform = generator.random(2)
            xy = 3 * (2 * uniform - 1)
            if placed and spread < 6:
                low, high = np.maximum(placed[0] - spread, -3), np.minimum(placed[0] + spread, 3)
                xy = low + uniform * (high - low)
            steps = [xy - other for other in placed]
            views = [abs(step @ axis) for step in steps for axis in (away, (away[1], -away[0]))]
            near = any(np.hypot(*step) - radius - r < 0.25 for step, r in zip(steps, radii, strict=False))
            if not (near or any(view < 0.4 for view in views) or (placed and abs(xy.sum()) > corner)):
                placed.append(xy)
                break
        else:
            return None
    return np.array(placed)


@pytest.mark.parametrize(("corner", "spread"), [(3.5, np.inf), (9.0, 2.0)])
def test_objects_are_placed_in_turn(corner: float, spread: float) -> None:
    axes, found = ground_axes(CAMERA[None], 1), []
    for seed in range(40):
        radii = np.random.default_rng(seed).choice([0.35, 0.7], 7)
        ours, alive = place_in_turn(
            np.random.default_rng(seed), radii[None], axes, np.ones((1, 7), bool), 3.0, spread, 0.25, 0.4, corner, 50
        )
        theirs = placed_in_turn(np.random.default_rng(seed), radii, corner, spread)
        assert alive[0] == (theirs is not None)
        if theirs is not None:
            np.testing.assert_allclose(ours[0], theirs, rtol=0, atol=1e-12)
        found.append(alive[0])
    assert 0 < sum(found) < 40
