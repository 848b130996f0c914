"""The released SVIB sprites, scene by scene, bit for bit.

The release sampled its sprites from one seeded stream of random numbers, so its scenes can be computed instead of
shipped. (Scenes of the solid worlds were sampled without a seed.) NumPy guarantees that the stream of `RandomState`,
unlike that of `Generator`, never changes.
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

_Pairs = list[tuple[int, int, tuple[float, float], tuple[float, float]]]  # two combination indices, two positions


def released_sprites(part: float | Literal["test"], count: int, start: int = 0) -> Scenes:
    """Source scenes `start` to `start + count` of the released sprites: training at an alpha, or the test.

    There are 64,000 training scenes for each alpha of 0, 0.2, 0.4 and 0.6, and 8,000 test scenes; all four tasks share
    them. The test scenes follow the training scenes of alpha 0 in the stream, so the first call for them in a process
    takes half a second longer. The names are the numbers of the released folders.

    >>> released_sprites(0.2, 2).describe()
    ['orange square medium, orange square large', 'blue star small, blue circle large']
    >>> released_sprites(0.0, 1, start=41).names
    ('00000041',)
    """
    most = TEST_SCENES if part == "test" else TRAIN_SCENES
    if not 0 <= start <= start + count <= most:
        raise InputError(f"the released sprites of {part} are 0 to {most}, not {start} to {start + count}")
    state, combinations = _start(part)
    sampled = _sample_scenes(state, combinations, start + count)[start:]
    chosen = [[combinations[first], combinations[second]] for first, second, _, _ in sampled]
    return Scenes.of(
        SPRITES,
        factors=torch.tensor(chosen, dtype=torch.int64).reshape(count, 2, 3),
        position=torch.tensor([scene[2:] for scene in sampled], dtype=torch.float64).reshape(count, 2, 2),
        names=[f"{number:08d}" for number in range(start, start + count)],
    )


def _start(part: float | str) -> tuple[np.random.RandomState, Combinations]:
    """The random state at the first scene of a part, and the combinations that its scenes choose from."""
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
    state = np.random.RandomState(0)  # each other alpha was a separate run with the same core and test
    return state, sprites_train(state, core, test, alphas[0])


@lru_cache(maxsize=1)
def _state_after_training() -> Any:
    state, core = _start(0.0)
    _sample_scenes(state, core, TRAIN_SCENES)
    return state.get_state()


def _sample_scenes(state: np.random.RandomState, combinations: Combinations, count: int) -> _Pairs:
    """The next `count` scenes of the stream, in plain Python, which is faster than NumPy for two objects."""
    sizes = [SPRITES["size"].codes[size] for _, _, size in combinations]
    sampled: _Pairs = []
    for _ in range(count):
        first, second = state.randint(0, len(combinations), 2).tolist()
        state.random_sample(4)  # the release sampled positions before it knew the sizes, and discarded them
        size, other = sizes[first], sizes[second]
        while True:
            x, y, u, v = state.random_sample(4).tolist()
            a = (x * (1 - 0.8 * size) + 0.4 * size, y * (1 - 0.8 * size) + 0.4 * size)
            b = (u * (1 - 0.8 * other) + 0.4 * other, v * (1 - 0.8 * other) + 0.4 * other)
            if math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) >= 0.4 * (size + other):
                break
        state.random_sample(2)  # the release sampled rotations and did not use them
        sampled.append((first, second, a, b))
    return sampled
