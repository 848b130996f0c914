from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alebrije.errors import InputError
from alebrije.scenes import Factor, Split, Vocabulary, combinations, core_combinations, split
from alebrije.worlds.vocabularies import CLEVR, CLEVR_MANY, CLEVRTEX, COAT, DSPRITES, ROOMS, SPRITES

RELEASED = {world.name: world for world in (SPRITES, CLEVR, CLEVRTEX)}
ALPHAS = [0.01 * step for step in range(81)]


def counts(vocabulary: Vocabulary, alphas: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6)) -> list[int]:
    return [len(split(vocabulary, alpha).train) for alpha in alphas]


def must_be_a_split(vocabulary: Vocabulary, found: Split) -> None:
    everything = set(vocabulary.combinations())
    core, test, train = set(found.core), set(found.test), set(found.train)
    assert core <= train <= everything
    assert test <= everything
    assert not train & test
    assert found.train[: len(found.core)] == found.core
    assert len(train) == len(found.train)
    assert len(test) == len(found.test)
    for axis, size in enumerate(vocabulary.counts):
        assert {combination[axis] for combination in core} == set(range(size))


def test_the_core_is_the_diagonal_that_starts_over() -> None:
    assert core_combinations(SPRITES) == tuple((i, i, i) for i in range(4))
    assert core_combinations(CLEVRTEX) == tuple((i, i % 3, i) for i in range(8))
    assert len(core_combinations(DSPRITES)) == 40


@pytest.mark.parametrize("world", ["clevr", "clevrtex"])
def test_released_splits_equal_the_released_lists(svib_combinations: Path, world: str) -> None:
    def listed(name: str) -> set[tuple[int, ...]]:
        return {tuple(bind) for bind in json.loads((svib_combinations / f"{world}_{name}.json").read_text())["binds"]}

    for alpha in (0.0, 0.2, 0.4, 0.6):
        found = split(RELEASED[world], alpha)
        assert set(found.core) == listed("core_binds")
        assert set(found.test) == listed("test_binds_alpha_0.20")
        assert set(found.train) == listed(f"train_binds_alpha_{alpha:.2f}")


def test_released_counts() -> None:
    assert counts(SPRITES) == [4, 16, 28, 40]
    assert counts(CLEVR) == [6, 34, 62, 89]
    assert counts(CLEVRTEX) == [8, 45, 82, 119]
    assert [len(split(world, 0).test) for world in RELEASED.values()] == [12, 27, 36]
    assert set(split(SPRITES, 0).core) == {(0, 3, 1), (1, 1, 2), (2, 0, 3), (3, 2, 0)}


@pytest.mark.parametrize("world", RELEASED)
@pytest.mark.parametrize("seed", [None, 0])
def test_all_released_alphas_give_splits_that_never_show_a_test_combination(world: str, seed: int | None) -> None:
    vocabulary = RELEASED[world]
    others = vocabulary.size - len(core_combinations(vocabulary))
    for step, alpha in enumerate(ALPHAS):
        found = split(vocabulary, alpha, seed)
        must_be_a_split(vocabulary, found)
        wanted = others * step // 100 if (world, seed) == ("sprites", None) else -(-others * step // 100)
        assert len(found.train) - len(found.core) == min(wanted, others - len(found.test))
        if seed is None:  # the release knew no rounding, and it made no difference there
            whole = math.floor if world == "sprites" else math.ceil
            assert wanted == whole(others * alpha)


def test_the_released_solid_splits_are_independent_draws_and_the_sprites_are_nested() -> None:
    trains = [set(split(CLEVR, alpha).train) for alpha in (0.2, 0.4, 0.6)]
    assert not trains[0] <= trains[1]
    assert not trains[1] <= trains[2]
    nested = [set(split(SPRITES, alpha).train) for alpha in ALPHAS]
    assert all(small <= large for small, large in pairwise(nested))


@pytest.mark.parametrize("world", RELEASED)
@pytest.mark.parametrize("seed", [None, 3])
def test_above_four_fifths_training_holds_everything_but_the_test(world: str, seed: int | None) -> None:
    vocabulary = RELEASED[world]
    everything = set(vocabulary.combinations())
    for alpha in (0.8, 0.81, 0.9, 1.0, 1):
        found = split(vocabulary, alpha, seed)
        assert set(found.train) == everything - set(found.test)


def test_alphas_between_the_released_ones_are_drawn_and_nested() -> None:
    some, more = split(CLEVR, 0.333), split(CLEVR, 0.555)
    must_be_a_split(CLEVR, some)
    assert len(some.train) == 6 + math.ceil(0.333 * 138)
    assert set(some.train) < set(more.train)
    assert some.test == split(CLEVR, 0.2).test
    assert split(CLEVR, 0.333) == some


@pytest.mark.parametrize("world", RELEASED.values(), ids=RELEASED)
def test_rounding_errors_in_alpha_do_not_count(world: Vocabulary) -> None:
    for near, exact in ((0.1 + 0.2, 0.3), (0.7 - 0.1, 0.6), (0.9 - 0.5, 0.4), (3 * 0.2, 0.6), (1 - 0.8, 0.2)):
        assert split(world, near).train == split(world, exact).train
        assert split(world, near, seed=5).train == split(world, exact, seed=5).train
    assert split(world, np.float64(0.4)).train == split(world, 0.4).train


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    alpha=st.floats(0, 1),
    larger=st.floats(0, 1),
    seed=st.integers(0, 2**40),
)
def test_fresh_splits_of_any_vocabulary(sizes: list[int], alpha: float, larger: float, seed: int) -> None:
    factors = tuple(Factor(f"factor {k}", tuple(range(size))) for k, size in enumerate(sizes))
    vocabulary = Vocabulary("any", factors)
    alpha, larger = sorted((alpha, larger))
    small, large = split(vocabulary, alpha, seed), split(vocabulary, larger, seed)
    must_be_a_split(vocabulary, small)
    assert small.core == core_combinations(vocabulary)
    assert small.test == large.test
    assert large.train[: len(small.train)] == small.train
    assert len(small.test) == (vocabulary.size - len(small.core)) // 5


@pytest.mark.parametrize("world", [CLEVR_MANY, COAT, ROOMS, DSPRITES], ids=lambda world: world.name)
def test_worlds_without_a_release_need_a_seed(world: Vocabulary) -> None:
    with pytest.raises(InputError, match=f"{world.name} has no released split.*give a seed"):
        split(world, 0.2)
    found = split(world, 0.001, seed=1)
    others = world.size - len(found.core)
    assert len(found.test) == others // 5
    assert len(found.train) == len(found.core) + math.ceil(0.001 * others)
    assert not set(found.test) & set(found.train)


def test_a_vocabulary_of_ones_own_is_not_taken_for_a_released_one() -> None:
    with pytest.raises(InputError, match="no released split"):
        split(Vocabulary("clevr", CLEVR.factors[:2]), 0.2)


def test_seeds_differ_and_repeat() -> None:
    assert split(CLEVR, 0.4, seed=1) == split(CLEVR, 0.4, seed=1)
    assert split(CLEVR, 0.4, seed=1).test != split(CLEVR, 0.4, seed=2).test
    assert split(CLEVR, 0.4, seed=0).test[:2] == ((1, 2, 1, 1), (1, 3, 1, 1))  # the same on every machine


def test_an_interpreter_that_orders_sets_differently_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(random.Random):
        def sample(self, population, k):  # type: ignore[no-untyped-def, override]
            return super().sample(population[::-1], k)

    combinations._released_samples.cache_clear()
    monkeypatch.setattr(random, "Random", Backwards)
    with pytest.raises(InputError, match="orders sets differently"):
        split(CLEVR, 0.2)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, math.inf, "0.2", None, True])
def test_bad_alphas_are_named(alpha: object) -> None:
    with pytest.raises(InputError, match="alpha must be a number from 0 to 1, not"):
        split(CLEVR, alpha)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 0.5, "a", True])
def test_bad_seeds_are_named(seed: object) -> None:
    with pytest.raises(InputError, match="seed must be"):
        split(CLEVR, 0.2, seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("world", [SPRITES, CLEVR, CLEVRTEX])
def test_single_precision_gives_the_same_split(world: Vocabulary) -> None:
    for step in range(81):
        wanted = split(world, 0.01 * step)
        assert split(world, np.float32(0.01 * step)) == wanted  # type: ignore[arg-type]
        assert split(world, round(0.01 * step, 2)) == wanted
        assert split(world, np.float32(0.01 * step), seed=3) == split(world, 0.01 * step, seed=3)  # type: ignore[arg-type]


def test_thirds_stay_thirds() -> None:
    assert len(split(SPRITES, 1 / 3).train) == 4 + 20
    assert len(split(CLEVR, 2 / 3).train) == 6 + 92
