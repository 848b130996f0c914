"""The released SVIB sprites, scene by scene, bit for bit.

The release drew its sprites from one seeded stream of random numbers, so its scenes can be drawn again instead of being
shipped. (Those of the solid worlds were drawn unseeded.) NumPy promises that `RandomState`, unlike `Generator`, never
changes its stream.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch

from alebrije.errors import InputError
from alebrije.scenes import Scenes
from alebrije.scenes.combinations import Combinations, sprites_core_and_test, sprites_train
from alebrije.worlds.vocabularies import SPRITES

RELEASED_SPRITES_ALPHAS = (0.0, 0.2, 0.4, 0.6)
TRAIN_SCENES = 64_000
TEST_SCENES = 8_000

_Drawn = list[tuple[int, int, tuple[float, float], tuple[float, float]]]  # two combinations' indices, two positions


def released_sprites(part: float | Literal["test"], count: int, start: int = 0) -> Scenes:
    """Source scenes `start` to `start + count` of the released sprites: training at an alpha, or the test.

    There are 64,000 training scenes for each alpha of 0, 0.2, 0.4 and 0.6 and 8,000 test scenes; all four tasks share
    them. The test scenes follow the training scenes of alpha 0 in the stream, so the first of them costs half a
    second, once in a process. The names are the numbers of the released folders.

    >>> released_sprites(0.2, 2).describe()
    ['orange square medium, orange square large', 'blue star small, blue circle large']
    >>> released_sprites(0.0, 1, start=41).names
    ('00000041',)
    """
    most = TEST_SCENES if part == "test" else TRAIN_SCENES
    if not 0 <= start <= start + count <= most:
        raise InputError(f"the released sprites of {part} are 0 to {most}, not {start} to {start + count}")
    state, combinations = _begin(part)
    drawn = _draw(state, combinations, start + count)[start:]
    chosen = [[combinations[first], combinations[second]] for first, second, _, _ in drawn]
    return Scenes.of(
        SPRITES,
        factors=torch.tensor(chosen, dtype=torch.int64).reshape(count, 2, 3),
        position=torch.tensor([scene[2:] for scene in drawn], dtype=torch.float64).reshape(count, 2, 2),
        names=[f"{number:08d}" for number in range(start, start + count)],
    )


def _begin(part: float | str) -> tuple[np.random.RandomState, Combinations]:
    """The stream where the scenes of a part begin, and the combinations that they choose from."""
    state = np.random.RandomState(0)
    core, test = sprites_core_and_test(state)
    if part == "test":
        state.set_state(_state_after_training())
        return state, test
    alphas = [alpha for alpha in RELEASED_SPRITES_ALPHAS if not isinstance(part, str) and abs(alpha - part) < 1e-9]
    if not alphas:
        raise InputError(f'sprites were released for the alphas 0, 0.2, 0.4 and 0.6 and for "test", not for {part!r}')
    if alphas[0] == 0:
        return state, core
    state = np.random.RandomState(0)  # each further alpha was a run of its own, with the core and the test of the first
    return state, sprites_train(state, core, test, alphas[0])


@lru_cache(maxsize=1)
def _state_after_training() -> Any:
    state, core = _begin(0.0)
    _draw(state, core, TRAIN_SCENES)
    return state.get_state()


def _draw(state: np.random.RandomState, combinations: Combinations, count: int) -> _Drawn:
    """The next `count` scenes of the stream. Plain numbers: on arrays of two objects NumPy would be the slower one."""
    sizes = [SPRITES["size"].codes[size] for _, _, size in combinations]
    drawn: _Drawn = []
    for _ in range(count):
        first, second = state.randint(0, len(combinations), 2).tolist()
        state.random_sample(4)  # positions that the release drew before it knew the sizes, and threw away
        one, other = sizes[first], sizes[second]
        while True:
            x, y, u, v = state.random_sample(4).tolist()
            here = (x * (1 - 0.8 * one) + 0.4 * one, y * (1 - 0.8 * one) + 0.4 * one)
            there = (u * (1 - 0.8 * other) + 0.4 * other, v * (1 - 0.8 * other) + 0.4 * other)
            if math.sqrt((here[0] - there[0]) ** 2 + (here[1] - there[1]) ** 2) >= 0.4 * (one + other):
                break
        state.random_sample(2)  # and rotations that it did not use
        drawn.append((first, second, here, there))
    return drawn
