"""Patterns: where rings and bricks lie."""

from __future__ import annotations

import pytest
import torch

from alebrije.render.patterns import flemish_bond, linked_rings, running_bond
from tests.render.tiles import tile


def test_a_ring_is_solid_on_its_circle_and_empty_inside() -> None:
    angle = torch.linspace(0, 6.28, 60)
    centre, around = torch.tensor([0.5 / 17, 0.5 / 24]), torch.stack((angle.cos(), angle.sin()), -1)
    for radius, solid in ((0.0221, 1.0), (0.010, 0.0)):
        uv = centre + radius * around
        assert (linked_rings(uv, columns=17, rows=24, radius=0.0221, wire=0.0025).solid == solid).all()


def test_headers_lie_centred_over_stretchers() -> None:
    courses, pairs = 4, 2
    along = (torch.arange(3000) + 0.5) / 3000
    first, second = (
        flemish_bond(torch.stack((along, torch.full_like(along, (row + 0.5) / courses)), -1), courses, pairs)
        for row in (0, 1)
    )
    header = second.column % 2 == 1
    assert header.float().mean() == pytest.approx(1 / 3, abs=2e-3)
    # The middle of every header is above the middle of a stretcher.
    middles = torch.tensor([1 / 3, 1 / 3 + 1]) / pairs * 3000
    assert all(header[int(middle)] and first.column[int(middle)] % 2 == 0 for middle in middles)


def test_points_lie_inside_their_brick() -> None:
    parts = running_bond(tile(), courses=8, bricks=3, seed=1)
    assert parts.inside.min() >= -1e-5
    assert parts.inside.max() <= 0.5
    assert len(torch.unique(parts.row * 3 + parts.column)) == 24
