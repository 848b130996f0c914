"""The head that predicts images part by part."""

from __future__ import annotations

import pytest
import torch

from alebrije.errors import InputError
from alebrije.models.head import PartsHead, pixel_points


def test_the_order_of_slots_does_not_matter() -> None:
    torch.manual_seed(0)
    head, codes = PartsHead(5, slots=True), torch.randn(2, 4, 5)
    points, ground = pixel_points(4), torch.rand(2, 16, 3)
    assert torch.allclose(head(codes, points, ground), head(codes[:, [2, 0, 3, 1]], points, ground), atol=1e-5)
    with pytest.raises(InputError, match=r"\[B, K, 5\]"):
        head(torch.zeros(2, 5), points, ground)
    with pytest.raises(InputError, match=r"\[B, 5\]"):
        PartsHead(5, slots=False)(codes, points, ground)
