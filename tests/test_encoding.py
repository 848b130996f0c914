"""Encodings: a vector or slots, and parts that fit together."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alebrije.encoding import Encoding
from alebrije.errors import InputError


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def test_codes_are_the_vector_or_the_slots() -> None:
    vector, slots = zeros(3, 10), zeros(4, 7, 64)
    assert Encoding(vector=vector).codes is vector
    assert Encoding(slots=slots).codes is slots
    assert (len(Encoding(vector=vector)), len(Encoding(slots=slots))) == (3, 4)


def test_parts_that_fit_together() -> None:
    encoding = Encoding(slots=zeros(2, 5, 8), masks=zeros(2, 5, 16, 16), reconstruction=zeros(2, 3, 16, 16))
    assert encoding.masks is not None
    assert encoding.vector is None
    assert len(Encoding(vector=zeros(0, 4), reconstruction=zeros(0, 3, 8, 8))) == 0


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "either a vector or slots"),
        ({"vector": zeros(2, 3), "slots": zeros(2, 1, 3)}, "either a vector or slots"),
        ({"reconstruction": zeros(2, 3, 8, 8)}, "either a vector or slots"),
        ({"vector": zeros(3)}, r"the vector of an encoding must have 2 axes, not shape \(3,\)"),
        ({"vector": zeros(2, 1, 3)}, r"the vector of an encoding must have 2 axes, not shape \(2, 1, 3\)"),
        ({"slots": zeros(2, 3)}, "the slots of an encoding must have 3 axes"),
        ({"slots": zeros(2, 5, 3), "masks": zeros(2, 5, 3, 8, 8)}, "the masks of an encoding must have 4 axes"),
        (
            {"vector": zeros(2, 3), "reconstruction": zeros(3, 8, 8)},
            "the reconstruction of an encoding must have 4 axes",
        ),
        ({"vector": zeros(2, 3), "reconstruction": zeros(1, 3, 8, 8)}, "codes of 2 images but reconstruction of 1"),
        ({"slots": zeros(2, 5, 3), "masks": zeros(3, 5, 8, 8)}, "codes of 2 images but masks of 3"),
        ({"slots": zeros(2, 5, 3), "masks": zeros(2, 6, 8, 8)}, "5 slots but 6 masks"),
    ],
)
def test_parts_that_do_not_fit_together(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Encoding(**parts)


def test_an_encoding_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Encoding(vector=zeros(1, 2)).vector = zeros(1, 3)  # type: ignore[misc]


def test_masks_may_keep_their_channel() -> None:
    encoding = Encoding(slots=zeros(2, 5, 8), masks=zeros(2, 5, 1, 16, 16))
    assert encoding.masks is not None
    assert encoding.masks.shape == (2, 5, 16, 16)
