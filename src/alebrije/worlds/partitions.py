"""Partitions of a scene's objects into the three parts of an analogy, and the occlusion of each partition.

Which parts cover a pixel depends only on the set of objects that cover it. With at most eight objects there are 256
such sets, so one histogram of them per scene gives the occlusion of every partition at once.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from alebrije.arrays import Integers

SETS = 256  # sets of eight objects, as bit patterns


@cache
def partitions(objects: int) -> tuple[Integers, Integers]:
    """All ways [P, 3] to partition objects for an analogy, as bit patterns, and their pixel residues [P, 256].

    The parts are the objects of A, the added objects, and the objects of C. As released: A and C have at least three
    objects, B at most six, and all objects are used. The residue is |B - A + C - D| in a pixel that a set of objects
    covers.

    >>> parts, residue = partitions(7)
    >>> len(parts), [bin(part).count("1") for part in parts[0].tolist()]
    (140, [3, 1, 3])
    """
    triples = []
    for own in range(3, objects - 3):
        for first in combinations(range(objects), own):
            rest = [item for item in range(objects) if item not in first]
            for extra in range(1, min(len(rest) - 3, 6 - own) + 1):
                for added in combinations(rest, extra):
                    last = [item for item in rest if item not in added]
                    triples.append([sum(1 << item for item in part) for part in (first, added, last)])
    parts = np.array(triples, dtype=np.int64)
    own_part, added_part, last_part = parts.T
    a, b, c, d = (
        (part[:, None] & np.arange(SETS)) != 0
        for part in (own_part, own_part | added_part, last_part, added_part | last_part)
    )
    return parts, np.abs(b.astype(np.int64) - a + c - d)


def covered_twice() -> Integers:
    """Flags [256] of the sets with two objects or more."""
    return np.array([pattern.bit_count() > 1 for pattern in range(SETS)], dtype=np.int64)
