"""The codes of a corpus, and what COAT does with slots before it matches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.adapters import Encoder
from alebrije.adapters.embeddings import Embeddings
from alebrije.arrays import Array
from alebrije.errors import InputError
from alebrije.instruments.analogy.images import ROLES, ROLES_WITH_SCENES, Corpus
from alebrije.instruments.analogy.long_codes import Codes, collect_codes
from alebrije.metrics import drop_duplicate_slots, drop_invisible_slots, labels_from_masks
from alebrije.metrics.coat import row_blocks
from alebrije.studies.encode import NotExaminedError, batches, check_codes_finite, examining, join_codes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, Model, TrainedModel, View
from alebrije.studies.references import Oracle

VARIANTS = ("raw", "no-duplicates", "no-duplicates+no-invisible")  # of slots: the rows of Table 1 of Xie et al.
NO_MASKS = "the slots have no masks, so it is unknown which of them are invisible"
_BATCH = 64


@dataclass(frozen=True, eq=False)
class CorpusCodes:
    """What a model returns for a corpus."""

    codes: Mapping[str, Codes]  # role -> vectors [T, D] or slots [T, K, D]
    visible: Mapping[str, Tensor] | None = None  # role -> whether a slot has the largest mask at some pixel [T, K]
    groups: Tensor | None = None  # the group of each pixel of d [T, H, W]


def has_slots(model: Model, pixels: int) -> bool:
    """Whether a model returns slots to which variants apply. The slots of references are never changed.

    A model without a fixed image size is tried on images of `pixels` pixels a side.
    """
    if isinstance(model, TrainedModel):
        return model.plan.record.has_slots
    if isinstance(model, LoadedModel):
        try:
            return _kind(model.encoder, pixels) == "slots"
        except InputError:  # raised again, and stored, by the cells of the model
            return False
    return getattr(model, "kind", None) == "slots"


def _kind(encoder: Encoder, pixels: int) -> str:
    if encoder.preprocessing.size is not None or isinstance(encoder.model, Embeddings):
        return encoder.kind
    noise = torch.rand(2, 3, pixels, pixels, generator=torch.Generator().manual_seed(0))
    return "vector" if encoder(noise).slots is None else "slots"


def encode_corpus(
    model: Model, corpus: Corpus, folder: ResultFolder, device: str = "cpu", *, cache: bool
) -> CorpusCodes:
    """The codes of a corpus. Slots should be cached, because three variants use them."""
    views = corpus.views(folder, device)
    if not cache:
        return _encode(model, views, folder.path)
    settings = {"name": "slots", "version": 1, "subject": dict(model.identity), "corpus": corpus.settings}
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


def _encode(model: Model, views: Mapping[str, View], folder: Path | None = None) -> CorpusCodes:
    """The codes of all roles that the model can see. Long codes are kept in files in the folder if there is one."""
    codes: dict[str, Codes] = {}
    visible: dict[str, Tensor] = {}
    for role, view in views.items():
        if role not in ROLES_WITH_SCENES and isinstance(model, Oracle):
            continue
        seen: list[Tensor] = []
        codes[role] = collect_codes(_code_batches(model, view, seen), len(view), folder)
        if seen:
            visible[role] = torch.cat(seen)
    join_codes([each[:1] for each in codes.values()])  # raises if the shapes differ
    grouped = (model.group(batch) for batch in batches(views["d"], _BATCH))
    groups = [group.cpu().to(torch.int32) for group in grouped if group is not None]
    return CorpusCodes(codes, visible or None, torch.cat(groups) if groups else None)


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
    """Whether each slot [B, K] has the largest mask at some pixel."""
    winners = labels_from_masks(masks.detach()).flatten(1)
    return F.one_hot(winners, masks.shape[1]).bool().any(1).cpu()


def _small_masks(visible: Tensor) -> Tensor:
    """Masks [T, K, 1, K] in which exactly the visible slots [T, K] have the largest mask at some pixel."""
    slots = torch.arange(visible.shape[1]).expand_as(visible)
    winners = torch.where(visible, slots, visible.long().argmax(1, keepdim=True))
    return F.one_hot(winners, visible.shape[1]).transpose(1, 2)[:, :, None].float()
