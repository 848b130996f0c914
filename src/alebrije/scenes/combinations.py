"""Combination splits: which combinations of factor values a model sees in training and which only in the test.

The core combinations show every value of every factor at least once. A fifth of all others is kept for the test, and
alpha says how large a part of them, in addition to the core, is shown in training.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from numbers import Real
from typing import Any

import numpy as np

from alebrije.errors import InputError
from alebrije.scenes.vocabulary import Combination, Vocabulary

Combinations = tuple[Combination, ...]

TEST_FRACTION = 0.2
RELEASED_ALPHAS = tuple(0.01 * step for step in range(81))


@dataclass(frozen=True)
class Split:
    """Core, test and training combinations. The training ones begin with the core and hold none of the test ones."""

    core: Combinations
    test: Combinations
    train: Combinations
    alpha: float
    seed: int | None = None  # None: the released split


def core_combinations(vocabulary: Vocabulary) -> Combinations:
    """The fewest combinations that show every value: the diagonal of SVIB's Algorithm 1.

    There are as many as the largest factor has values; the smaller factors start over.

    >>> from alebrije.worlds.vocabularies import CLEVR
    >>> core_combinations(CLEVR)
    ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 0), (3, 3, 0, 1), (4, 0, 1, 0), (5, 1, 2, 1))
    """
    return _diagonal(vocabulary.counts)


def _diagonal(counts: tuple[int, ...]) -> Combinations:
    return tuple(tuple(step % count for count in counts) for step in range(max(counts)))


def split(vocabulary: Vocabulary, alpha: float, seed: int | None = None) -> Split:
    """The combinations of one training split of a world: the released ones, or with a seed fresh ones.

    `alpha`, from 0 to 1, is a fraction of the non-core combinations, as in the released code and data; SVIB's paper
    reads as if it were one of what core and test leave over. A fifth of the non-core combinations belongs to the
    test, so from 0.8 on training holds everything else and a larger alpha adds nothing.

    Without a seed this is the split behind the published numbers, for `sprites` (core + floor(60 alpha)), `clevr` and
    `clevrtex` (core + ceil(alpha x non-core)), derived as it was drawn:

    - `clevr` and `clevrtex` have one independent draw for each alpha of 0.00, 0.01, ..., 0.80, not nested. Any other
      alpha takes that many from one fixed shuffle of what the test leaves over, nested among themselves.
    - `sprites` has a random core instead of Algorithm 1's, and is nested in alpha.

    With a seed the core is Algorithm 1's in every world, the test is floor(a fifth of the non-core) and training is
    core + ceil(alpha x non-core), nested in alpha: one `numpy.random.default_rng(seed)` permutation of the non-core
    combinations in lexicographic order gives first the test, then the training ones.

    >>> from alebrije.worlds.vocabularies import CLEVR
    >>> released = split(CLEVR, 0.2)
    >>> len(released.core), len(released.test), len(released.train)
    (6, 27, 34)
    >>> set(split(CLEVR, 0.2, seed=7).train) < set(split(CLEVR, 0.4, seed=7).train)
    True
    """
    alpha = _fraction(alpha)
    if seed is not None:
        return _fresh_split(vocabulary, alpha, seed)
    if _RELEASED_COUNTS.get(vocabulary.name) != vocabulary.counts:
        released = ", ".join(_RELEASED_COUNTS)
        raise InputError(f"{vocabulary.name} has no released split, only {released} have one: give a seed to draw one")
    if vocabulary.name == "sprites":
        core, test = sprites_core_and_test(np.random.RandomState(0))
        train = sprites_train(np.random.RandomState(0), core, test, alpha)
    else:
        core, test, train = _solid_split(vocabulary, alpha)
    return Split(core, test, train, alpha)


def _fraction(alpha: Any) -> float:
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 <= float(alpha) <= 1:
        raise InputError(f"alpha must be a number from 0 to 1, not {alpha!r}")
    exact, short = float(alpha), round(float(alpha), 6)
    # 0.2 that went through single precision is meant as 0.2; 1/3 is not meant as 0.333333
    return short if abs(exact - short) < 1e-7 else exact


def _floor(value: float) -> int:
    # A product such as 60 * (0.7 - 0.1) falls short of its integer by a rounding error, which is not meant to count.
    return math.floor(round(value, 9))


def _ceil(value: float) -> int:
    return math.ceil(round(value, 9))


def _others(vocabulary: Vocabulary, core: Sequence[Combination]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The non-core combinations [n, F], last factor fastest."""
    flat = np.delete(
        np.arange(vocabulary.size), np.ravel_multi_index(tuple(zip(*core, strict=True)), vocabulary.counts)
    )
    return np.stack(np.unravel_index(flat, vocabulary.counts), axis=1).astype(np.int64)


def _fresh_split(vocabulary: Vocabulary, alpha: float, seed: int) -> Split:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"the seed of a split must be an integer from 0 on, not {seed!r}")
    core = core_combinations(vocabulary)
    others = _others(vocabulary, core)
    others = others[np.random.default_rng(seed).permutation(len(others))]
    tested = _floor(TEST_FRACTION * len(others))
    shown = others[tested : tested + _ceil(alpha * len(others))]
    test, train = (tuple(map(tuple, part.tolist())) for part in (others[:tested], shown))
    return Split(core, test, core + train, alpha, int(seed))


# ---------------------------------------------------------------------------------------------- the released splits

_RELEASED_COUNTS = {"sprites": (4, 4, 4), "clevr": (6, 4, 3, 2), "clevrtex": (8, 3, 8)}
# Of core, test and the 81 training draws. The draws pick from a set in the order in which it iterates, which is the
# same on every 64-bit CPython but promised by no one.
_DIGESTS = {"clevr": "f1e2672e947dafa5", "clevrtex": "70953333d067ae48"}


@lru_cache
def _released_draws(name: str) -> tuple[Combinations, Combinations, tuple[Combinations, ...]]:
    """Core, test and, for each of the 81 alphas, the non-core training combinations in the order of their draw."""
    generator = random.Random(0)
    counts = _RELEASED_COUNTS[name]
    core = _diagonal(counts)
    others = set(product(*(range(count) for count in counts))).difference(set(core))
    test = generator.sample(tuple(others), math.floor(TEST_FRACTION * len(others)))
    rest = others - set(test)
    draws = tuple(tuple(generator.sample(tuple(rest), math.ceil(len(others) * alpha))) for alpha in RELEASED_ALPHAS)
    found = hashlib.sha256(json.dumps([core, test, draws]).encode()).hexdigest()[:16]
    if found != _DIGESTS[name]:
        raise InputError(
            "this Python orders sets differently from 64-bit CPython, so the released splits cannot be derived on it: "
            "use that, or give a seed to draw fresh ones"
        )
    return core, tuple(test), draws


def _solid_split(vocabulary: Vocabulary, alpha: float) -> tuple[Combinations, Combinations, Combinations]:
    core, test, draws = _released_draws(vocabulary.name)
    step = round(100 * alpha)
    if step < len(draws) and abs(alpha - RELEASED_ALPHAS[step]) < 1e-9:
        return core, test, core + draws[step]
    rest = sorted(set(vocabulary.combinations()).difference(core, test))
    shuffled = np.random.default_rng(0).permutation(len(rest)).tolist()
    wanted = _ceil(alpha * (len(rest) + len(test)))
    return core, test, core + tuple(rest[index] for index in shuffled[:wanted])


def _draw_without_replacement(state: np.random.RandomState, pool: list[Combination], count: int) -> list[Combination]:
    return [pool.pop(int(state.randint(0, len(pool)))) for _ in range(count)]


def sprites_core_and_test(state: np.random.RandomState) -> tuple[Combinations, Combinations]:
    """Core and test combinations of the released sprites, drawn from `state`, which is left where scenes begin.

    `numpy.random.RandomState(0)` gives the released ones. The core matches shuffled colours, shapes and sizes.
    """
    color, shape, size = (state.permutation(4).tolist() for _ in range(3))
    core = tuple(zip(color, shape, size, strict=True))
    pool = sorted(set(product(range(4), repeat=3)).difference(core))
    _draw_without_replacement(state, list(pool), len(pool))  # the release drew a training order and did not use it
    test = _draw_without_replacement(state, pool, _floor(TEST_FRACTION * len(pool)))
    return core, tuple(test)


def sprites_train(
    state: np.random.RandomState, core: Sequence[Combination], test: Sequence[Combination], alpha: float
) -> Combinations:
    """Training combinations of the released sprites, drawn from a fresh `numpy.random.RandomState(0)`.

    The order is that of the draw, core first: released scenes choose from it by index.
    """
    pool = sorted(set(product(range(4), repeat=3)).difference(core, test))
    wanted = min(_floor(alpha * (64 - len(core))), len(pool))
    return (*core, *_draw_without_replacement(state, pool, wanted))
