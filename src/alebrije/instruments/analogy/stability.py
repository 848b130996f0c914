"""COAT and the tests against hard negatives on the first cases of a corpus: how many cases are enough?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alebrije.arrays import to_numpy
from alebrije.metrics.coat import CoatScore

_FEWEST = 8  # cases


def first_cases(answer: CoatScore) -> dict[str, Any]:
    """Score, standard error and p-hat of each hard negative on the first 8, 16, 32 ... cases, and on all.

    The chance level of a case is that of its group in the whole corpus.

    >>> from alebrije.metrics import coat
    >>> a, b, c = np.random.default_rng(0).normal(size=(3, 20, 5))
    >>> found = first_cases(coat(a, b, c, b - a + c, {"object": b - a + c + 1}))
    >>> found["cases"], [round(score, 6) for score in found["score"]], found["p_hat"]
    ([8, 16, 20], [1.0, 1.0, 1.0], {'object': [1.0, 1.0, 1.0]})
    """
    ratios = to_numpy(answer.per_case).astype(np.float64)
    sizes = case_counts(len(ratios))
    defined = [ratios[:size][~np.isnan(ratios[:size])] for size in sizes]
    spread = [float(own.std(ddof=1)) / math.sqrt(len(own)) if len(own) > 1 else None for own in defined]
    return {
        "cases": sizes,
        "score": [1.0 - float(own.mean()) if len(own) else None for own in defined],
        "standard error": spread,
        "p_hat": {name: [float(to_numpy(won)[:size].mean()) for size in sizes] for name, won in answer.wins.items()},
    }


def case_counts(total: int) -> list[int]:
    """8, 16, 32 ... up to a number, and the number itself.

    >>> case_counts(32), case_counts(100), case_counts(3)
    ([8, 16, 32], [8, 16, 32, 64, 100], [3])
    """
    doubled = [_FEWEST * 2**power for power in range(40)]
    return [size for size in doubled if size < total] + [total]
