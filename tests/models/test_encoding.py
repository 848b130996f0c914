"""Encodings: a vector or slots, and nothing that does not go together."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from alebrije.encoding import Encoding
from alebrije.errors import InputError


def of(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def test_codes_are_whichever_there_are() -> None:
    vector, slots = of(3, 10), of(4, 7, 64)
    assert Encoding(vector=vector).codes is vector
    assert Encoding(slots=slots).codes is slots
    assert (len(Encoding(vector=vector)), len(Encoding(slots=slots))) == (3, 4)


def test_all_that_goes_together() -> None:
    encoding = Encoding(slots=of(2, 5, 8), masks=of(2, 5, 16, 16), reconstruction=of(2, 3, 16, 16))
    assert encoding.masks is not None
    assert encoding.vector is None
    assert len(Encoding(vector=of(0, 4), reconstruction=of(0, 3, 8, 8))) == 0


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "either a vector or slots"),
        ({"vector": of(2, 3), "slots": of(2, 1, 3)}, "either a vector or slots"),
        ({"reconstruction": of(2, 3, 8, 8)}, "either a vector or slots"),
        ({"vector": of(3)}, r"the vector of an encoding must have 2 axes, not shape \(3,\)"),
        ({"vector": of(2, 1, 3)}, r"the vector of an encoding must have 2 axes, not shape \(2, 1, 3\)"),
        ({"slots": of(2, 3)}, "the slots of an encoding must have 3 axes"),
        ({"slots": of(2, 5, 3), "masks": of(2, 5, 1, 8, 8)}, "the masks of an encoding must have 4 axes"),
        ({"vector": of(2, 3), "reconstruction": of(3, 8, 8)}, "the reconstruction of an encoding must have 4 axes"),
        ({"vector": of(2, 3), "reconstruction": of(1, 3, 8, 8)}, "2 images but its reconstruction 1"),
        ({"slots": of(2, 5, 3), "masks": of(3, 5, 8, 8)}, "2 images but its masks 3"),
        ({"slots": of(2, 5, 3), "masks": of(2, 6, 8, 8)}, "5 slots but 6 masks"),
    ],
)
def test_what_does_not_go_together(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Encoding(**parts)


def test_an_encoding_stays_as_it_is() -> None:
    with pytest.raises(AttributeError):
        Encoding(vector=of(1, 2)).vector = of(1, 3)  # type: ignore[misc]
