"""The codes of a corpus, and what COAT does with slots before it matches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije.adapters import Encoder
from alebrije.adapters.embeddings import Embeddings
from alebrije.adapters.tokens import MOST_SLOTS
from alebrije.arrays import Array
from alebrije.errors import InputError
from alebrije.instruments.analogy.images import ROLES, ROLES_WITH_SCENES, Corpus
from alebrije.instruments.analogy.long_codes import Codes, collect_codes
from alebrije.instruments.analogy.trained import Checkpoint
from alebrije.metrics import drop_duplicate_slots, drop_invisible_slots
from alebrije.metrics.coat import row_blocks
from alebrije.metrics.slots import won_share
from alebrije.studies.encode import NotExaminedError, batches, check_codes_finite, examining, join_codes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, Model, TrainedModel, View
from alebrije.studies.references import Oracle
from alebrije.studies.untrained import RandomProjection, Untrained

VARIANTS = ("raw", "no-duplicates", "no-duplicates+no-invisible")  # of slots: the rows of Table 1 of Xie et al.
NO_MASKS = "the slots have no masks, so it is unknown which of them are invisible"
_BATCH = 64
_SLOT_COUNTS: WeakKeyDictionary[Encoder, dict[int, int]] = WeakKeyDictionary()  # by the side of images
_POOLED = (LoadedModel, TrainedModel, Checkpoint, Untrained, RandomProjection)  # all but references


@dataclass(frozen=True, eq=False)
class CorpusCodes:
    """What a model returns for a corpus."""

    codes: Mapping[str, Codes]  # role -> vectors [T, D] or slots [T, K, D]
    visible: Mapping[str, Tensor] | None = None  # role -> whether a slot has the largest mask at some pixel [T, K]
    groups: Tensor | None = None  # the group of each pixel of d [T, H, W]
    pooled: int = 0  # the number of slots that each vector is the mean of, if there were too many to match

    @property
    def details(self) -> dict[str, Any]:
        """How they were pooled, for the details of a value."""
        return {"codes": f"the mean over {self.pooled} slots, too many to match"} if self.pooled else {}


def has_slots(model: Model, pixels: int) -> bool:
    """Whether a model returns slots that are matched and to which variants apply. References have no variants.

    Matching K slots takes time in K^5. With more than `MOST_SLOTS`, as from a transformer with a token for each patch,
    the code of an image is the mean over its slots. A model without a fixed image size is tried on images of `pixels`
    pixels a side.
    """
    if isinstance(model, (Untrained, RandomProjection)):
        model = model.of
    if isinstance(model, (TrainedModel, Checkpoint)):
        return model.plan.record.has_slots and model.plan.settings.get("slots", 0) <= MOST_SLOTS
    if isinstance(model, LoadedModel):
        try:
            counts = _SLOT_COUNTS.setdefault(model.encoder, {})
            if pixels not in counts:
                counts[pixels] = _slot_count(model.encoder, pixels)
            return 0 < counts[pixels] <= MOST_SLOTS
        except InputError:  # raised again, and stored, by the cells of the model
            return False
    return getattr(model, "kind", None) == "slots"


def _slot_count(encoder: Encoder, pixels: int) -> int:
    """The number of slots that a model returns for an image; 0 if it returns a vector."""
    if isinstance(encoder.model, Embeddings):
        slots = next(iter(encoder.model.stored.values())).slots
    else:
        side = encoder.preprocessing.size or pixels
        slots = encoder(torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))).slots
    return 0 if slots is None else slots.shape[1]


def encode_corpus(
    model: Model, corpus: Corpus, folder: ResultFolder, device: str = "cpu", *, cache: bool, group: bool = True
) -> CorpusCodes:
    """The codes of a corpus. Slots should be cached, because three variants use them.

    Without `group`, pixels need not be grouped.
    """
    views = corpus.views(folder, device)
    if not cache:
        return _encode(model, views, folder.path, pool=isinstance(model, _POOLED), group=group)
    settings = {"name": "slots", "version": 2, "subject": dict(model.identity), "corpus": corpus.settings}
    return _from_arrays(folder.cached(settings, lambda: _to_arrays(_encode(model, views))))


def apply_variant(encoded: CorpusCodes, variant: str | None) -> Mapping[str, Codes]:
    """The codes of each role after a variant has replaced some slots by the blank slot, the mean of all slots."""
    for codes in encoded.codes.values():
        for rows in row_blocks(codes.shape):
            check_codes_finite(codes[rows])
    if variant in (None, "raw"):
        return encoded.codes
    if variant not in VARIANTS:
        raise InputError(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    roles = list(encoded.codes)
    slots = torch.cat([encoded.codes[role][:] for role in roles])
    blank = slots.double().mean((0, 1))
    kept = drop_duplicate_slots(slots, blank=blank)
    if variant == VARIANTS[2]:
        if encoded.visible is None:
            raise NotExaminedError(NO_MASKS)
        masks = _small_masks(torch.cat([encoded.visible[role] for role in roles]))
        kept = drop_invisible_slots(kept, masks, blank=blank)
    return dict(zip(roles, kept.split(len(encoded.codes[roles[0]])), strict=True))


def scene_vectors(codes: Tensor) -> Tensor:
    """One vector per scene [T, D]. Slots are summed because they have no order."""
    return codes.sum(1) if codes.ndim == 3 else codes


def _encode(
    model: Model, views: Mapping[str, View], folder: Path | None = None, *, pool: bool = False, group: bool = True
) -> CorpusCodes:
    """The codes of all roles that the model can see. Long codes are kept in files in the folder if there is one.

    With `pool`, slots that are too many to match are averaged.
    """
    codes: dict[str, Codes] = {}
    visible: dict[str, Tensor] = {}
    pooled: set[int] = set()
    for role, view in views.items():
        if role not in ROLES_WITH_SCENES and isinstance(model, Oracle):
            continue
        seen: list[Tensor] = []
        encoded = _code_batches(model, view, seen)
        codes[role] = collect_codes(_pooled(encoded, pooled) if pool else encoded, len(view), folder)
        if seen:
            visible[role] = torch.cat(seen)
    join_codes([each[:1] for each in codes.values()])  # raises if the shapes differ
    groups = _groups(model, views["d"]) if group else []
    return CorpusCodes(codes, visible or None, torch.cat(groups) if groups else None, max(pooled, default=0))


def _groups(model: Model, view: View) -> list[Tensor]:
    """The group of each pixel, in batches; none if the model groups no pixels of the first batch."""
    groups: list[Tensor] = []
    for batch in batches(view, _BATCH):
        found = model.group(batch)
        if found is None:
            break
        groups.append(found.cpu().to(torch.int32))
    return groups


def _pooled(encoded: Iterator[Tensor], counts: set[int]) -> Iterator[Tensor]:
    """Codes, where slots [B, K, D] that are too many to match become their mean. Adds their number to `counts`."""
    for codes in encoded:
        if codes.ndim == 3 and codes.shape[1] > MOST_SLOTS:
            counts.add(codes.shape[1])
            yield codes.mean(1)
        else:
            yield codes


def _code_batches(model: Model, view: View, visible: list[Tensor]) -> Iterator[Tensor]:
    """The codes of each batch. Appends which of its slots are visible to `visible`."""
    for batch in batches(view, _BATCH):
        with examining(model):
            encoding = model.encode(batch)
        if encoding.slots is not None and encoding.masks is not None:
            visible.append(_visible_slots(encoding.masks))
        yield encoding.codes.detach().float().cpu()


def _to_arrays(encoded: CorpusCodes) -> Mapping[str, npt.ArrayLike]:
    arrays = {f"codes-{role}": codes[:].numpy() for role, codes in encoded.codes.items()}
    arrays |= {f"visible-{role}": visible.numpy() for role, visible in (encoded.visible or {}).items()}
    return arrays if encoded.groups is None else {**arrays, "groups": encoded.groups.numpy()}


def _from_arrays(arrays: Mapping[str, Array]) -> CorpusCodes:
    def by_role(kind: str) -> dict[str, Tensor]:
        found = {role: arrays[f"{kind}-{role}"] for role in ROLES if f"{kind}-{role}" in arrays}
        return {role: torch.from_numpy(np.asarray(array)) for role, array in found.items()}

    groups = torch.from_numpy(np.asarray(arrays["groups"])) if "groups" in arrays else None
    return CorpusCodes(by_role("codes"), by_role("visible") or None, groups)


def _visible_slots(masks: Tensor) -> Tensor:
    """Whether each slot [B, K] has the largest mask at some pixel, or one of several equal ones."""
    return (won_share(masks.detach()) > 0).cpu()


def _small_masks(visible: Tensor) -> Tensor:
    """Masks [T, K, 1, 1] of one pixel, which exactly the visible slots [T, K] share."""
    return visible[:, :, None, None].float()
