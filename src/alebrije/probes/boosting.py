"""Gradient-boosted trees for many targets at once.

The algorithm is scikit-learn's ``GradientBoostingClassifier()`` (100 rounds, depth 3, rate 0.1, splits by squared
error on the residuals, Newton leaves, importance by impurity). Here all trees of a round, over all classes of all
targets, grow together: see `alebrije.probes.forest` and `alebrije.probes.growing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from alebrije.arrays import Array, Floats
from alebrije.errors import InputError

ROUNDS, RATE = 100, 0.1


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """`importance` [L, F], whose columns sum to 1, and `predictions` [M, F] for the new rows."""

    importance: Floats
    predictions: Floats


def boost_trees(inputs: Floats, targets: Sequence[Array], new_inputs: Floats) -> BoostedTrees:
    """Fit boosted trees from `inputs` [N, L] to each of F `targets` [N] and predict for `new_inputs` [M, L].

    Targets of integers are classes, targets of floats are regressed with squared error. As many threads as torch may
    use share the trees; their number changes nothing.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.normal(size=(500, 3))
    >>> trees = boost_trees(codes, [(codes[:, 1] > 0).astype(int)], codes)
    >>> int(trees.importance.argmax()), float((trees.predictions[:, 0] == (codes[:, 1] > 0)).mean())
    (1, 1.0)
    """
    from alebrije.probes.forest import Forest  # compiles its loops with numba, which takes long to import

    if len(inputs) < 2:
        raise InputError(f"boosted trees need at least 2 rows to fit, got {len(inputs)}")
    forest = Forest(inputs, targets, ROUNDS, RATE, torch.get_num_threads())
    return BoostedTrees(forest.importance, forest.predict(new_inputs))
