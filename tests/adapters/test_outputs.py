"""Which outputs are read as codes, and how others are refused."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from alebrije.adapters.outputs import read_output
from alebrije.encoding import Encoding
from alebrije.errors import InputError

Pair = namedtuple("Pair", "slots masks")


CODES, SLOTS, MASKS = torch.rand(7, 4), torch.rand(7, 2, 4), torch.rand(7, 2, 20, 20)


@pytest.mark.parametrize(
    "output",
    [
        CODES,
        CODES.double(),
        CODES.numpy(),
        Encoding(vector=CODES),
        {"codes": CODES, "logits": torch.rand(7, 9)},
        {"anything": CODES, "loss": 3.0},
        (CODES, torch.rand(7, 9)),
        [CODES],
        (Encoding(vector=CODES), None),
        CODES[:, :, None, None].expand(-1, -1, 3, 3),
        {"pooler_output": CODES[:, :, None, None], "last_hidden_state": torch.rand(7, 4, 3, 3)},
        {"last_hidden_state": CODES[:, None].expand(-1, 5, -1)},
        SimpleNamespace(image_embeds=CODES, text_embeds=None),
    ],
    ids=lambda output: type(output).__name__,
)
def test_vectors(output: Any, images: Tensor) -> None:
    encoding, _ = read_output(output, images)
    assert encoding.vector is not None
    torch.testing.assert_close(encoding.vector, CODES)


@pytest.mark.parametrize(
    "output",
    [
        Encoding(slots=SLOTS, masks=MASKS),
        {"masks": MASKS, "slots": SLOTS},
        {"masks": MASKS[:, :, None], "slots": SLOTS},
        SimpleNamespace(slots=SLOTS, masks=MASKS),
        Pair(SLOTS, MASKS),
        (SLOTS, torch.rand(7, 3, 20, 20), MASKS),
        (SLOTS, MASKS[:, :, None]),
        Encoding(slots=SLOTS, masks=MASKS[:, :, None]),
    ],
    ids=lambda output: type(output).__name__,
)
def test_slots_with_masks(output: Any, images: Tensor) -> None:
    encoding, _ = read_output(output, images)
    assert encoding.slots is not None
    assert encoding.masks is not None
    assert torch.equal(encoding.slots, SLOTS)
    assert torch.equal(encoding.masks, MASKS)


def test_a_reconstruction_is_kept(images: Tensor) -> None:
    encoding, description = read_output({"vector": CODES, "reconstruction": torch.rand(7, 3, 20, 20)}, images)
    assert encoding.reconstruction is not None
    assert description == "a vector [B, 4], under 'vector', with reconstruction"


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (None, "the model returned None; accepted are"),
        (CODES[:, 0], r"a tensor \[7\]; accepted are"),
        (torch.rand(7, 1, 2, 3, 4), r"a tensor \[7, 1, 2, 3, 4\]; accepted are"),
        (CODES[:5], "returned 5 codes for 7 images"),
        (torch.rand(7, 0), r"codes of shape \[7, 0\], which are empty"),
        (CODES.long(), "must be floats, not int64"),
        (torch.rand(7, 3, 20, 20), "returned images of the same shape as its input"),
        ((torch.rand(7, 3, 20, 20), CODES, CODES), "unclear which part has the codes"),
        ({"a": CODES, "b": CODES}, "a dictionary with 'a', 'b'"),
        ({}, "an empty dictionary"),
        ((), "an empty tuple"),
        (CODES.tolist(), "returned a list of 7 parts, each a list, and it is unclear"),
        ([[1.0], CODES], r"returned a list of a list and a tensor \[7, 4\], and"),
        ("codes", "an object of type str"),
        ({"slots": CODES}, r"slots that the model returned must have the shape \[B, K, D\]"),
        (np.array([None]), "must be floats, not object"),
        ({"slots": SLOTS, "masks": MASKS[:, :1]}, "2 slots but 1 masks"),
    ],
    ids=lambda output: type(output).__name__,
)
def test_other_outputs_are_refused(output: Any, sentence: str, images: Tensor) -> None:
    with pytest.raises(InputError, match=sentence):
        read_output(output, images)
