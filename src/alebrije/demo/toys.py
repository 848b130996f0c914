"""Synthetic representations and segmentations with known faults, to see which metric detects which fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy

from alebrije.arrays import Array, Floats, Integers

FACTOR_NAMES = ("color", "material", "shape", "size")
VALUES = 2  # per factor


def all_combinations(repeats: int) -> Integers:
    """Every combination of the four factors [repeats x 16, 4], equally often."""
    return np.array(list(product(range(VALUES), repeat=len(FACTOR_NAMES))) * repeats)


def disentangled(factors: Integers, generator: np.random.Generator) -> Floats:
    """One neuron per factor, with a little noise."""
    return np.asarray(factors + 0.05 * generator.normal(size=factors.shape))


def rotated(factors: Integers, generator: np.random.Generator) -> Floats:
    """The disentangled codes, rotated: each neuron mixes all four factors equally, and no information is lost."""
    return np.asarray(disentangled(factors, generator) @ scipy.linalg.hadamard(4) / 2)


def exclusive_or(factors: Integers, generator: np.random.Generator, values: int = VALUES) -> Floats:
    """The construction of Theorem 3.1 of Mahon et al. 2024: two neurons determine a factor, one alone says nothing.

    A neuron in [0, 1) has a first digit and a rest. Factor i is the sum, modulo the number of values, of the first
    digit of neuron i and the second digit of neuron i + 1.
    """
    rest = generator.random(factors.shape)  # each neuron after its first digit
    first = (factors - np.floor(np.roll(rest, -1, axis=1) * values)) % values
    return np.asarray((first + rest) / values)


def collapsed(factors: Integers, generator: np.random.Generator) -> Floats:
    """The same code for every scene."""
    return np.ones(factors.shape)


REPRESENTATIONS: Mapping[str, Callable[[Integers, np.random.Generator], Floats]] = {
    "disentangled": disentangled,
    "rotated": rotated,
    "XOR-entangled": exclusive_or,
    "collapsed": collapsed,
}


def analogy_codes(encode: Callable[[Integers, np.random.Generator], Floats], cases: int, seed: int) -> dict[str, Array]:
    """Codes of analogies, where the same factor changes from A to B and from C to D, and of hard negatives of D."""
    generator = np.random.default_rng(seed)
    scenes = {name: generator.integers(VALUES, size=(cases, len(FACTOR_NAMES))) for name in "ac"}
    rows, changed = np.arange(cases), generator.integers(len(FACTOR_NAMES), size=cases)
    scenes["c"][rows, changed] = scenes["a"][rows, changed]
    step = generator.integers(1, VALUES, size=cases)
    for before, after in ("ab", "cd"):
        scenes[after] = scenes[before].copy()
        scenes[after][rows, changed] = (scenes[before][rows, changed] + step) % VALUES
    for factor, name in enumerate(FACTOR_NAMES):
        negative = scenes["d"].copy()
        negative[:, factor] = (negative[:, factor] + generator.integers(1, VALUES, size=cases)) % VALUES
        scenes[f"negatives.{name}"] = negative
    return {name: encode(factors, generator) for name, factors in sorted(scenes.items())}


@dataclass(frozen=True, eq=False)
class Segmentations:
    """True label maps [B, H, W], with background 0, and synthetic predictions."""

    true: Integers
    predictions: dict[str, Integers]


def segmentations(images: int, seed: int, size: int = 64) -> Segmentations:
    """Four boxes on a background per image; predictions are perfect, merged in pairs, split in halves, or random."""
    generator = np.random.default_rng(seed)
    half = size // 2
    truth = np.zeros((images, size, size), dtype=np.int64)
    halves = np.zeros_like(truth)
    for image in range(images):
        for box, (top, left) in enumerate(product((0, half), repeat=2)):
            high, wide = generator.integers(half // 3, half - 4, size=2)
            y, x = top + generator.integers(1, half - high), left + generator.integers(1, half - wide)
            truth[image, y : y + high, x : x + wide] = box + 1
            halves[image, y : y + high, x + wide // 2 : x + wide] = 1
    return Segmentations(
        truth,
        {
            "perfect": np.array([3, 0, 4, 1, 2])[truth],
            "merged": np.array([0, 1, 1, 2, 2])[truth],
            "split": np.where(truth > 0, 2 * truth + halves, 0),
            "random": generator.integers(5, size=truth.shape),
        },
    )


def slot_number_curve(most: int = 40, cells: int = 4, cell_size: int = 30) -> dict[int, tuple[Integers, Integers]]:
    """Figure 9 of Zimmermann et al. 2023: the truth, 4 x 4 squares, and predictions with 1 to `most` classes.

    Merging squares one by one gives fewer classes, cutting squares in two one by one gives more.
    """
    index = np.arange(cells * cell_size) // cell_size
    truth = (index[:, None] * cells + index[None])[None]
    columns = np.arange(cells * cell_size) % cell_size
    count = cells**2
    curve = {count: (truth, truth)}
    for classes in range(1, count):
        curve[classes] = truth, np.maximum(truth, count - classes)  # the first squares share one label
    cut = truth.copy()
    for classes in range(count + 1, most + 1):
        part, square = divmod(classes - count - 1, count)
        edge = cell_size // 2 if part == 0 else cell_size // 4
        cut = np.where((truth == square) & (columns[None, None] < edge), classes, cut)
        curve[classes] = truth, cut
    return dict(sorted(curve.items()))
