"""Split rows into a part to fit on and a held-out part."""

from __future__ import annotations

import numpy as np

from alebrije.arrays import Integers
from alebrije.errors import InputError


def split_rows(rows: int, held_out: float, seed: int) -> tuple[Integers, Integers]:
    """Split row indices at random into those to fit on and those to score on, a share of `held_out`.

    >>> [len(part) for part in split_rows(9, held_out=1 / 3, seed=0)]
    [6, 3]
    """
    if not 0 < held_out < 1:
        raise InputError(f"held_out must lie between 0 and 1, got {held_out}")
    test = min(max(round(rows * held_out), 1), rows - 1)
    order = np.random.default_rng(seed).permutation(rows)
    return order[test:], order[:test]
