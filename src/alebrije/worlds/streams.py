"""Streams: scenes sampled in blocks of fixed length, so that a scene depends only on its seed and its index.

The first hundred scenes are the same whether a hundred or a million are requested, and any part of a stream can be
sampled on its own; `start` costs at most the rest of a block. Streams of different kinds never share random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from alebrije.arrays import Flags, Integers
from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary

BLOCK = 64  # scenes; the visibility check is fastest at this size, and one scene costs as much as a block
SAMPLE, TRAIN, TEST, OMNI, OCCLUDED_ANALOGIES, CLEAR_ANALOGIES = range(6)  # the kinds of streams
_ROUNDS = 2_000  # per block; published worlds need a few dozen at most


def block_generator(seed: int, stream: int, block: int) -> np.random.Generator:
    """The random generator of one block of one stream."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, block)))


def sample_stream(
    sample_block: Callable[[np.random.Generator], Scenes],
    n: int,
    seed: int,
    start: int,
    stream: int,
    progress: Callable[[int, int], object] | None = None,
) -> Scenes:
    """Scenes `start` to `start + n` of a stream; `sample_block` makes one block; `progress(done, n)` reports."""
    n, seed, start = whole_number("n", n), whole_number("seed", seed), whole_number("start", start)
    first, last = start // BLOCK, max(start + n - 1, start) // BLOCK
    blocks = []
    for block in range(first, last + 1):
        blocks.append(sample_block(block_generator(seed, stream, block)))
        if progress is not None:
            progress(min((block + 1) * BLOCK - start, n), n)
    return Scenes.concatenate(blocks)[start - first * BLOCK : start - first * BLOCK + n]


def sample_until_accepted(propose: Callable[[Integers], tuple[Scenes, Flags]], count: int) -> Scenes:
    """`count` scenes: `propose` makes scenes and flags the good ones; the others are sampled again until all are."""
    rows, accepted, owners = np.arange(count), [], []
    for _ in range(_ROUNDS):
        scenes, good = propose(rows)
        accepted.append(scenes[torch.from_numpy(np.flatnonzero(good))])
        owners.append(rows[good])
        rows = rows[~good]
        if not rows.size:
            return Scenes.concatenate(accepted)[torch.from_numpy(np.argsort(np.concatenate(owners)))]
    raise InputError(f"a scene was sampled {_ROUNDS} times, but its objects were never all visible")


def check_combinations(vocabulary: Vocabulary, combinations: Sequence[Sequence[int]] | None) -> Integers | None:
    """A user's combinations as an array [K, F]; None means all combinations."""
    if combinations is None:
        return None
    try:
        rows = np.asarray(combinations)
    except ValueError:
        rows = np.empty(0)
    if rows.ndim != 2 or not len(rows) or rows.shape[1] != len(vocabulary.factors) or rows.dtype.kind not in "iu":
        raise InputError(
            f"combinations of {vocabulary.name} must be a non-empty list of indices ({', '.join(vocabulary.names)})"
        )
    if not bool(((rows >= 0) & (rows < np.array(vocabulary.counts))).all()):
        raise InputError(f"combinations must lie below {vocabulary.counts} and not below 0 in {vocabulary.name}")
    return rows.astype(np.int64)


def sample_combinations(
    generator: np.random.Generator, vocabulary: Vocabulary, combinations: Integers | None, shape: tuple[int, int]
) -> Integers:
    """Combinations [B, N, F], uniform and with replacement, from `combinations` [K, F] or from all."""
    if combinations is not None:
        return np.asarray(combinations[generator.integers(len(combinations), size=shape)])
    flat = generator.integers(vocabulary.size, size=shape)
    return np.stack(np.unravel_index(flat, vocabulary.counts), axis=-1).astype(np.int64)
