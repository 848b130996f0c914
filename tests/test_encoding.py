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
        ({"vector": zeros(3)}, r"the vector of an encoding must have the shape \[B, D\], not \[3\]"),
        ({"vector": zeros(2, 1, 3)}, r"must have the shape \[B, D\], not \[2, 1, 3\]"),
        ({"slots": zeros(2, 3)}, r"the slots of an encoding must have the shape \[B, K, D\] or \[B, T, K, D\]"),
        ({"slots": zeros(2, 5, 3), "masks": zeros(2, 5, 3, 8, 8)}, "5 slots but 3 masks"),
        (
            {"slots": zeros(2, 5, 3), "masks": zeros(2, 5, 8)},
            r"masks of an encoding must have the shape \[B, K, H, W\]",
        ),
        ({"slots": zeros(2, 4, 5, 3), "masks": zeros(2, 5, 8, 8)}, "slots of 4 frames or views but masks of no frames"),
        ({"slots": zeros(2, 4, 5, 3), "masks": zeros(2, 3, 5, 8, 8)}, "slots of 4 frames or views but masks of 3"),
        (
            {"slots": zeros(2, 5, 3), "masks": zeros(2, 3, 5, 8, 8), "reconstruction": zeros(2, 3, 8, 8)},
            "masks of 3 frames or views but reconstruction of no",
        ),
        (
            {"vector": zeros(2, 3), "reconstruction": zeros(3, 8, 8)},
            r"the reconstruction of an encoding must have the shape \[B, 3, H, W\]",
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


def test_videos_and_views() -> None:
    video = Encoding(slots=zeros(2, 6, 5, 8), masks=zeros(2, 6, 5, 16, 16), reconstruction=zeros(2, 6, 3, 16, 16))
    views = Encoding(slots=zeros(2, 5, 8), masks=zeros(2, 3, 5, 16, 16))
    assert (video.frames, views.frames, Encoding(slots=zeros(2, 5, 8)).frames) == (6, 3, None)
    assert [tuple(part.shape) for part in video.frame(-1).parts().values()] == [
        (2, 5, 8),
        (2, 5, 16, 16),
        (2, 3, 16, 16),
    ]
    assert views.frame(2).parts().keys() == {"slots", "masks"}
    assert views.frame(2).slots is views.slots
    with pytest.raises(IndexError, match="no frame or view 3 among 3"):
        views.frame(3)
    with pytest.raises(InputError, match="an encoding of images has no frames or views"):
        Encoding(slots=zeros(2, 5, 8)).frame(0)


def test_masks_of_videos_may_keep_their_channel_and_one_slot_is_no_channel() -> None:
    video = Encoding(slots=zeros(2, 6, 5, 8), masks=zeros(2, 6, 5, 1, 16, 16))
    one_slot = Encoding(slots=zeros(2, 1, 8), masks=zeros(2, 3, 1, 16, 16))
    assert video.masks is not None
    assert video.masks.shape == (2, 6, 5, 16, 16)
    assert one_slot.frames == 3


def test_a_selection_of_rows() -> None:
    slots, masks = torch.arange(24.0).view(4, 3, 2), torch.rand(4, 3, 8, 8)
    encoding = Encoding(slots=slots, masks=masks)
    assert torch.equal(encoding[1:3].codes, slots[1:3])
    assert torch.equal(encoding[-1].codes, slots[3:])
    picked = encoding[torch.tensor([2, 0])]
    assert picked.masks is not None
    assert torch.equal(picked.masks, masks[[2, 0]])
    with pytest.raises(IndexError, match="no row 4 among 4"):
        encoding[4]
