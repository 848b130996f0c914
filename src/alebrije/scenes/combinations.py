"""Combination splits: which combinations of factor values appear in training and which only in the test.

The core combinations show every value of every factor at least once. A fifth of all other combinations is kept for the
test. Alpha is the fraction of the non-core combinations that training shows in addition to the core.
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

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.scenes.vocabulary import Combination, Vocabulary

Combinations = tuple[Combination, ...]

TEST_FRACTION = 0.2
RELEASED_ALPHAS = tuple(0.01 * step for step in range(81))


@dataclass(frozen=True)
class Split:
    """Core, test and training combinations. Training starts with the core and excludes the test combinations."""

    core: Combinations
    test: Combinations
    train: Combinations
    alpha: float
    seed: int | None = None  # None: the released split


def core_combinations(vocabulary: Vocabulary) -> Combinations:
    """The smallest set of combinations that shows every value: the diagonal of SVIB's Algorithm 1.

    It has as many combinations as the largest factor has values; the indices of smaller factors wrap around.

    >>> from alebrije.worlds.vocabularies import CLEVR
    >>> core_combinations(CLEVR)
    ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 0), (3, 3, 0, 1), (4, 0, 1, 0), (5, 1, 2, 1))
    """
    return _diagonal(vocabulary.counts)


def _diagonal(counts: tuple[int, ...]) -> Combinations:
    return tuple(tuple(step % count for count in counts) for step in range(max(counts)))


def split(vocabulary: Vocabulary, alpha: float, seed: int | None = None) -> Split:
    """A split of a vocabulary's combinations: the released one, or a new one if a seed is given.

    `alpha`, from 0 to 1, is a fraction of the non-core combinations, as in the released code and data; SVIB's paper
    reads as if it were a fraction of what core and test leave over. A fifth of the non-core combinations belongs to the
    test, so from 0.8 on training contains all others and a larger alpha adds nothing.

    Without a seed this is the split behind the published numbers, for `sprites` (core + floor(60 alpha)), `clevr` and
    `clevrtex` (core + ceil(alpha x non-core)), computed as it was sampled:

    - `clevr` and `clevrtex` have one independent sample for each alpha of 0.00, 0.01, ..., 0.80, not nested. Any other
      alpha takes that many from one fixed shuffle of the non-test combinations; these are nested in alpha.
    - `sprites` has a random core instead of Algorithm 1's, and is nested in alpha.

    With a seed the core is Algorithm 1's in every world, the test is floor(a fifth of the non-core) and training is
    core + ceil(alpha x non-core), nested in alpha: one `numpy.random.default_rng(seed)` permutation of the non-core
    combinations in lexicographic order gives the test first, then the training combinations.

    >>> from alebrije.worlds.vocabularies import CLEVR
    >>> released = split(CLEVR, 0.2)
    >>> len(released.core), len(released.test), len(released.train)
    (6, 27, 34)
    >>> set(split(CLEVR, 0.2, seed=7).train) < set(split(CLEVR, 0.4, seed=7).train)
    True
    """
    alpha = _check_alpha(alpha)
    if seed is not None:
        return _seeded_split(vocabulary, alpha, seed)
    if _RELEASED_COUNTS.get(vocabulary.name) != vocabulary.counts:
        released = ", ".join(_RELEASED_COUNTS)
        raise InputError(f"{vocabulary.name} has no released split, only {released} do; give a seed to sample one")
    if vocabulary.name == "sprites":
        core, test = sprites_core_and_test(np.random.RandomState(0))
        train = sprites_train(np.random.RandomState(0), core, test, alpha)
    else:
        core, test, train = _solid_split(vocabulary, alpha)
    return Split(core, test, train, alpha)


def _check_alpha(alpha: Any) -> float:
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 <= float(alpha) <= 1:
        raise InputError(f"alpha must be a number from 0 to 1, not {alpha!r}")
    exact, rounded = float(alpha), round(float(alpha), 6)
    # a float32 0.2 becomes 0.2 again, but 1/3 does not become 0.333333
    return rounded if abs(exact - rounded) < 1e-7 else exact


def _floor(value: float) -> int:
    # rounding first, because a product such as 60 * (0.7 - 0.1) is slightly below its integer
    return math.floor(round(value, 9))


def _ceil(value: float) -> int:
    return math.ceil(round(value, 9))


def _seeded_split(vocabulary: Vocabulary, alpha: float, seed: int) -> Split:
    seed = whole_number("seed", seed)
    core = core_combinations(vocabulary)
    taken = np.ravel_multi_index(tuple(zip(*core, strict=True)), vocabulary.counts)
    others = np.delete(np.arange(vocabulary.size), taken)
    shuffled = others[np.random.default_rng(seed).permutation(len(others))]
    combinations = tuple(map(tuple, np.stack(np.unravel_index(shuffled, vocabulary.counts), axis=1).tolist()))
    test_count = _floor(TEST_FRACTION * len(others))
    extra = combinations[test_count : test_count + _ceil(alpha * len(others))]
    return Split(core, combinations[:test_count], core + extra, alpha, seed)


_RELEASED_COUNTS = {"sprites": (4, 4, 4), "clevr": (6, 4, 3, 2), "clevrtex": (8, 3, 8)}
# Checksums of core, test and the 81 training samples. These depend on the iteration order of a set, which is the same
# on every 64-bit CPython but not guaranteed.
_DIGESTS = {"clevr": "f1e2672e947dafa5", "clevrtex": "70953333d067ae48"}


@lru_cache
def _released_samples(name: str) -> tuple[Combinations, Combinations, tuple[Combinations, ...]]:
    """Core, test and, for each of the 81 alphas, the non-core training combinations in sampling order."""
    generator = random.Random(0)
    counts = _RELEASED_COUNTS[name]
    core = _diagonal(counts)
    others = set(product(*(range(count) for count in counts))).difference(set(core))
    test = generator.sample(tuple(others), math.floor(TEST_FRACTION * len(others)))
    rest = others - set(test)
    samples = tuple(tuple(generator.sample(tuple(rest), math.ceil(len(others) * alpha))) for alpha in RELEASED_ALPHAS)
    digest = hashlib.sha256(json.dumps([core, test, samples]).encode()).hexdigest()[:16]
    if digest != _DIGESTS[name]:
        raise InputError(
            "this Python orders sets differently from 64-bit CPython, so the released splits cannot be computed here; "
            "use 64-bit CPython, or give a seed to sample new splits"
        )
    return core, tuple(test), samples


def _solid_split(vocabulary: Vocabulary, alpha: float) -> tuple[Combinations, Combinations, Combinations]:
    core, test, samples = _released_samples(vocabulary.name)
    step = round(100 * alpha)
    if step < len(samples) and abs(alpha - RELEASED_ALPHAS[step]) < 1e-9:
        return core, test, core + samples[step]
    rest = sorted(set(vocabulary.combinations()).difference(core, test))
    shuffled = np.random.default_rng(0).permutation(len(rest)).tolist()
    count = _ceil(alpha * (len(rest) + len(test)))
    return core, test, core + tuple(rest[index] for index in shuffled[:count])


def _sample_without_replacement(state: np.random.RandomState, pool: list[Combination], count: int) -> list[Combination]:
    return [pool.pop(int(state.randint(0, len(pool)))) for _ in range(count)]


def sprites_core_and_test(state: np.random.RandomState) -> tuple[Combinations, Combinations]:
    """Core and test combinations of the released sprites, sampled from `state`.

    `numpy.random.RandomState(0)` gives the released ones and is then in the state in which sampling of scenes begins.
    The core pairs shuffled colours, shapes and sizes.
    """
    color, shape, size = (state.permutation(4).tolist() for _ in range(3))
    core = tuple(zip(color, shape, size, strict=True))
    pool = sorted(set(product(range(4), repeat=3)).difference(core))
    _sample_without_replacement(state, list(pool), len(pool))  # the release sampled a training order and did not use it
    test = _sample_without_replacement(state, pool, _floor(TEST_FRACTION * len(pool)))
    return core, tuple(test)


def sprites_train(
    state: np.random.RandomState, core: Sequence[Combination], test: Sequence[Combination], alpha: float
) -> Combinations:
    """Training combinations of the released sprites, sampled from a fresh `numpy.random.RandomState(0)`.

    They are in sampling order, core first: released scenes choose from them by index.
    """
    pool = sorted(set(product(range(4), repeat=3)).difference(core, test))
    count = min(_floor(alpha * (64 - len(core))), len(pool))
    return (*core, *_sample_without_replacement(state, pool, count))
