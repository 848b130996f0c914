"""Streams: scenes drawn in blocks of fixed length, so that a scene depends on its seed and its number alone.

The first hundred scenes are the same whether a hundred or a million are asked for, and any part of a stream can be
drawn on its own: `start` costs nothing but the rest of a block. Streams of different kinds never share random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Table = npt.NDArray[np.int64]

BLOCK = 64  # scenes: what the visibility pass handles best at once; a single scene costs as much as a block
SAMPLE, TRAIN, TEST, OMNI, OCCLUDED_ANALOGIES, CLEAR_ANALOGIES = range(6)  # the kinds of streams
_ROUNDS = 2_000  # of one block; the least likely scenes of any published world are accepted in a few dozen


def whole_number(value: Any, name: str) -> int:
    """A count, a start or a seed that a user gave."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 0:
        raise InputError(f"{name} must be a whole number from 0 on, not {value!r}")
    return int(value)


def generator_of(seed: int, stream: int, block: int) -> np.random.Generator:
    """The random numbers of one block of one stream."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, block)))


def draw_stream(
    draw: Callable[[np.random.Generator], Scenes],
    n: int,
    seed: int,
    start: int,
    stream: int,
    progress: Callable[[int, int], object] | None = None,
) -> Scenes:
    """Scenes `start` to `start + n` of a stream whose blocks `draw` makes; `progress` hears how many are done."""
    n, seed, start = whole_number(n, "n"), whole_number(seed, "seed"), whole_number(start, "start")
    first, last = start // BLOCK, max(start + n - 1, start) // BLOCK
    blocks = []
    for block in range(first, last + 1):
        blocks.append(draw(generator_of(seed, stream, block)))
        if progress is not None:
            progress(min((block + 1) * BLOCK - start, n), n)
    return Scenes.concatenate(blocks)[start - first * BLOCK : start - first * BLOCK + n]


def until_accepted(draw: Callable[[Rows], tuple[Scenes, Flags]], count: int) -> Scenes:
    """`count` scenes: `draw` makes some of them and says which are good; the others are drawn again until all are."""
    rows, found, owners = np.arange(count), [], []
    for _ in range(_ROUNDS):
        scenes, good = draw(rows)
        found.append(scenes[torch.from_numpy(np.flatnonzero(good))])
        owners.append(rows[good])
        rows = rows[~good]
        if not rows.size:
            return Scenes.concatenate(found)[torch.from_numpy(np.argsort(np.concatenate(owners)))]
    raise InputError(f"some scene was drawn {_ROUNDS} times and its objects were never all visible")


def combination_table(vocabulary: Vocabulary, combinations: Sequence[Sequence[int]] | None) -> Table | None:
    """Combinations that a user gave as an array [K, F]; None stands for all."""
    if combinations is None:
        return None
    try:
        table = np.asarray(combinations)
    except ValueError:
        table = np.empty(0)
    if table.ndim != 2 or not len(table) or table.shape[1] != len(vocabulary.factors) or table.dtype.kind not in "iu":
        raise InputError(
            f"combinations of {vocabulary.name} must be a list of indices ({', '.join(vocabulary.names)}), at least one"
        )
    if not bool(((table >= 0) & (table < np.array(vocabulary.counts))).all()):
        raise InputError(f"combinations must lie below {vocabulary.counts} and not below 0 in {vocabulary.name}")
    return table.astype(np.int64)


def draw_combinations(
    generator: np.random.Generator, vocabulary: Vocabulary, table: Table | None, shape: tuple[int, int]
) -> Table:
    """Combinations [B, N, F], uniform and with replacement, from a table of them or from all."""
    if table is not None:
        return np.asarray(table[generator.integers(len(table), size=shape)])
    flat = generator.integers(vocabulary.size, size=shape)
    return np.stack(np.unravel_index(flat, vocabulary.counts), axis=-1).astype(np.int64)
