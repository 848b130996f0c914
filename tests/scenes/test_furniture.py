"""Pieces of furniture are boxes that touch but do not overlap, as large as MultiShapeNet's."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from alebrije.scenes.furniture import FURNITURE, MOST, Box, half_height

OVERLAP = 1e-9


def overlap(first: Box, second: Box) -> float:
    """The volume that two boxes share."""
    sides = zip(first.low, first.high, second.low, second.high, strict=True)
    return math.prod(max(0.0, min(b, d) - max(a, c)) for a, b, c, d in sides)


@pytest.mark.parametrize("name", FURNITURE)
def test_boxes_do_not_overlap_and_stand_on_the_ground(name: str) -> None:
    boxes = FURNITURE[name]
    assert len(boxes) <= MOST
    assert all(overlap(first, second) < OVERLAP for first, second in combinations(boxes, 2))
    assert min(box.low[2] for box in boxes) == 0
    assert 0 < sum(box.is_trim for box in boxes) < len(boxes)


@pytest.mark.parametrize("name", FURNITURE)
def test_every_box_touches_another(name: str) -> None:
    boxes = FURNITURE[name]
    for box in boxes:
        grown = Box("", *(tuple(np.add(corner, step)) for corner, step in ((box.low, -0.01), (box.high, 0.01))), False)  # type: ignore[arg-type]
        assert any(overlap(grown, other) > 0 for other in boxes if other is not box)


@pytest.mark.parametrize("name", FURNITURE)
def test_the_longest_diagonal_is_two(name: str) -> None:
    corners = np.array([corner for box in FURNITURE[name] for corner in (box.low, box.high)])
    assert np.linalg.norm(np.ptp(corners, axis=0)) == pytest.approx(2.0)
    assert half_height(name) == pytest.approx(float(corners[:, 2].max()) / 2)


def test_half_sizes_keep_the_surface() -> None:
    cube = Box("", (0.0, 0.0, 0.0), (2.0, 2.0, 2.0), is_trim=False)
    assert cube.half_size == 1.0
    assert cube.centre == cube.halves == (1.0, 1.0, 1.0)
