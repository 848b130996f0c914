"""What each slot of a case shows: its image and its mask, how alike it is to others, and how much of the image it wins.

As in Figures A10 to A12 and A15 of Xie et al. 2022, slots are matched first, and the last row is decoded from
B - A + C. Before clean-up these are the raw slots; after it, blanked slots show the blank slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.instruments.analogy.images import QUADRUPLE
from alebrije.instruments.analogy.long_codes import Codes
from alebrije.instruments.analogy.trained import Checkpoint
from alebrije.metrics import match_slots
from alebrije.studies.model import LoadedModel, Model, TrainedModel

ROWS = (*QUADRUPLE, "b - a + c")
SIDE = 64  # most pixels a side of a picture


def slot_arrays(model: Model, codes: Mapping[str, Codes], raw: Mapping[str, Codes], case: int) -> dict[str, Any]:
    """The arrays of one case, with an axis for `ROWS` and one for the K slots; none if the model decodes no slots.

    `slot_images` uint8 [5, K, 3, S, S], `slot_masks` uint8 [5, K, S, S] that sum to 255, `slot_cosines` [5, K] to the
    nearest other slot, `slot_masses` [5, K], the share of the image, and `slot_blanked` [4, K].
    """
    own = [codes[role][case : case + 1] for role in QUADRUPLE]
    if own[0].ndim != 3:
        return {}
    matched = match_slots(*own)
    slots = torch.cat([matched.a, matched.b, matched.c, matched.d, matched.b - matched.a + matched.c]).float()
    decoded = _decode_slots(model, slots)
    if decoded is None:
        return {}
    images, masks = decoded
    blanked = [
        (one != raw[role][case : case + 1]).any(-1).gather(1, matched.indices[:, place])
        for place, (role, one) in enumerate(zip(QUADRUPLE, own, strict=True))
    ]
    return {
        "slot_images": _as_bytes(torch.stack([_at_most(scene, SIDE) for scene in images])).numpy(),
        "slot_masks": _as_bytes(_at_most(masks, SIDE)).numpy(),
        "slot_cosines": nearest_cosines(slots).numpy(),
        "slot_masses": masks.mean((2, 3)).numpy(),
        "slot_blanked": torch.cat(blanked).numpy(),
        "slot_case": case,
    }


def nearest_cosines(slots: Tensor) -> Tensor:
    """The cosine [B, K] between each slot and the most similar other slot of its scene; 0 for a single slot.

    >>> nearest_cosines(torch.tensor([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]])).tolist()
    [[1.0, 1.0, 0.0]]
    """
    unit = F.normalize(slots, dim=2)
    cosines = unit @ unit.transpose(1, 2)
    if slots.shape[1] == 1:
        return cosines[:, :, 0] * 0.0
    return cosines.masked_fill(torch.eye(slots.shape[1], dtype=torch.bool), -1.0).amax(2)


def _decode_slots(model: Model, slots: Tensor) -> tuple[Tensor, Tensor] | None:
    """The image [B, K, 3, S, S] in 0..1 and the mask [B, K, S, S] of each slot, by a model that has `decode_slots`.

    None if it has none, or if the method fails or gives something else: a picture never costs a score.
    """
    if not isinstance(model, (LoadedModel, TrainedModel, Checkpoint)):
        return None
    encoder = model.encoder if isinstance(model, LoadedModel) else model.encoder()
    decoder = getattr(encoder.model, "decode_slots", None)
    if decoder is None:
        return None
    try:
        with torch.no_grad():
            images, masks = decoder(slots.to(encoder.device))
        images, masks = images.float().cpu(), masks.float().cpu()
    except Exception:  # a user's method may fail in any way
        return None
    if masks.ndim == 5 and masks.shape[2] == 1:
        masks = masks[:, :, 0]
    fits = masks.ndim == 4 and masks.shape[:2] == slots.shape[:2]
    return (images, masks) if fits and images.shape == (*slots.shape[:2], 3, *masks.shape[2:]) else None


def _at_most(images: Tensor, side: int) -> Tensor:
    """Images [B, C, H, W], made smaller if they are larger."""
    return F.interpolate(images, (side, side), mode="area") if images.shape[-1] > side else images


def _as_bytes(images: Tensor) -> Tensor:
    return (images.clamp(0, 1) * 255).round().byte()
