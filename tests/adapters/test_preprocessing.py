"""Resizing and normalisation, and settings that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alebrije.adapters import Preprocessing, load
from alebrije.errors import InputError
from tests.adapters.user_models import mean_colour


def test_a_known_answer() -> None:
    image = torch.full((1, 3, 4, 4), 51, dtype=torch.uint8)  # 0.2
    prepared = Preprocessing(size=2, mean=(0.2, 0.1, 0.0), std=(1.0, 0.5, 0.1))(image)
    assert prepared.shape == (1, 3, 2, 2)
    torch.testing.assert_close(prepared[0, :, 0, 0], torch.tensor([0.0, 0.2, 2.0]))


def test_shrinking_is_antialiased() -> None:
    stripes = torch.zeros(1, 3, 64, 64)
    stripes[..., ::4] = 1  # plain interpolation would skip these columns
    torch.testing.assert_close(Preprocessing(size=16)(stripes).mean(), torch.tensor(0.25), rtol=0, atol=0.02)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"size": 0}, r"pixels \(size\) must be at least 1"),
        ({"size": 2.5}, r"pixels \(size\) must be a whole number"),
        ({"mean": (0.5, 0.5)}, "mean must be one finite number for each of the three channels"),
        ({"std": (1.0, 0.0, 1.0)}, "std must be greater than 0"),
        ({"mean": float("nan")}, "mean must be one finite number for each"),
        ({"mean": "grey"}, "mean must be one number or three"),
        ({"batch": 0}, "batch must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(mean_colour, **settings)
