"""Made-up representations and segmentations whose virtues and faults are known, to see which metric notices what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

Codes = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

FACTOR_NAMES = ("color", "material", "shape", "size")
VALUES = 2  # of each factor


def all_combinations(repeats: int) -> Labels:
    """Every combination of the four factors [repeats x 16, 4], equally often."""
    return np.array(list(product(range(VALUES), repeat=len(FACTOR_NAMES))) * repeats)


def disentangled(factors: Labels, draw: np.random.Generator) -> Codes:
    """One neuron per factor, with a little noise."""
    return np.asarray(factors + 0.05 * draw.normal(size=factors.shape))


def rotated(factors: Labels, draw: np.random.Generator) -> Codes:
    """The same, turned: each neuron mixes all four factors in equal parts, and nothing is lost."""
    return np.asarray(disentangled(factors, draw) @ scipy.linalg.hadamard(4) / 2)


def exclusive_or(factors: Labels, draw: np.random.Generator, values: int = VALUES) -> Codes:
    """The construction of Theorem 3.1 of Mahon et al. 2024: two neurons tell a factor, neither alone tells anything.

    A neuron in [0, 1) has a coarse digit and the rest; factor i is the sum, modulo the number of values, of the coarse
    digit of neuron i and the next digit of neuron i + 1.
    """
    rest = draw.random(factors.shape)  # what is left of each neuron behind its coarse digit
    coarse = (factors - np.floor(np.roll(rest, -1, axis=1) * values)) % values
    return np.asarray((coarse + rest) / values)


def collapsed(factors: Labels, draw: np.random.Generator) -> Codes:
    """The same code for every scene."""
    return np.ones(factors.shape)


REPRESENTATIONS: Mapping[str, Callable[[Labels, np.random.Generator], Codes]] = {
    "disentangled": disentangled,
    "rotated": rotated,
    "XOR-entangled": exclusive_or,
    "collapsed": collapsed,
}


def analogy_codes(
    encode: Callable[[Labels, np.random.Generator], Codes], cases: int, seed: int
) -> dict[str, npt.NDArray[Any]]:
    """Codes of analogies in which one factor changes alike from A to B and from C to D, and of hard negatives of D."""
    draw = np.random.default_rng(seed)
    scenes = {name: draw.integers(VALUES, size=(cases, len(FACTOR_NAMES))) for name in "ac"}
    rows, changed = np.arange(cases), draw.integers(len(FACTOR_NAMES), size=cases)
    scenes["c"][rows, changed] = scenes["a"][rows, changed]
    step = draw.integers(1, VALUES, size=cases)
    for before, after in ("ab", "cd"):
        scenes[after] = scenes[before].copy()
        scenes[after][rows, changed] = (scenes[before][rows, changed] + step) % VALUES
    for factor, name in enumerate(FACTOR_NAMES):
        negative = scenes["d"].copy()
        negative[:, factor] = (negative[:, factor] + draw.integers(1, VALUES, size=cases)) % VALUES
        scenes[f"negatives.{name}"] = negative
    return {name: encode(factors, draw) for name, factors in sorted(scenes.items())}


@dataclass(frozen=True, eq=False)
class Segmentations:
    """True label maps [B, H, W], background 0, and made-up predictions of them."""

    true: Labels
    predictions: dict[str, Labels]


def segmentations(images: int, seed: int, size: int = 64) -> Segmentations:
    """Four boxes on a ground in each image, grouped perfectly, merged in pairs, split in halves, and at random."""
    draw = np.random.default_rng(seed)
    half = size // 2
    truth = np.zeros((images, size, size), dtype=np.int64)
    halves = np.zeros_like(truth)
    for image in range(images):
        for box, (top, left) in enumerate(product((0, half), repeat=2)):
            high, wide = draw.integers(half // 3, half - 4, size=2)
            y, x = top + draw.integers(1, half - high), left + draw.integers(1, half - wide)
            truth[image, y : y + high, x : x + wide] = box + 1
            halves[image, y : y + high, x + wide // 2 : x + wide] = 1
    return Segmentations(
        truth,
        {
            "perfect": np.array([3, 0, 4, 1, 2])[truth],
            "merged": np.array([0, 1, 1, 2, 2])[truth],
            "split": np.where(truth > 0, 2 * truth + halves, 0),
            "random": draw.integers(5, size=truth.shape),
        },
    )


def slot_number_curve(most: int = 40, cells: int = 4, cell_size: int = 30) -> dict[int, tuple[Labels, Labels]]:
    """Figure 9 of Zimmermann et al. 2023: the truth, 4 x 4 squares, and predictions with 1 to `most` classes.

    Fewer classes come from merging neighbouring squares one by one, more from cutting squares in two one by one.
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
