"""Codes of the scenes of a corpus, and what COAT does with slots before it matches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.adapters import Adapted
from alebrije.adapters.embeddings import Embeddings
from alebrije.errors import InputError
from alebrije.metrics import drop_duplicate_slots, drop_invisible_slots, labels_from_masks
from alebrije.metrics.analogy import blocks
from alebrije.studies.analogy_corpora import BEHIND, ROLES, Corpus
from alebrije.studies.analogy_files import Rows, gathered
from alebrije.studies.folder import Folder
from alebrije.studies.subjects import Model, Oracle, Subject, Trained, View
from alebrije.studies.views import NotExaminedError, check_finite, joined, looking, parts

VARIANTS = ("raw", "no-duplicates", "no-duplicates+no-invisible")  # the rows of Table 1 of Xie et al.
NO_SCENE = "there is no scene behind it, and this subject reads scenes"
NO_MASKS = "the slots come without masks, so it is not known which of them are invisible"
_AT_ONCE = 64  # images; masks of many images would fill the memory


@dataclass(frozen=True, eq=False)
class Codes:
    """What a subject makes of a corpus.

    `codes` are vectors [T, D] or slots [T, K, D] of each role that it can see, `visible` [T, K] says which slots win a
    pixel, and `groups` [T, H, W] is the group of each pixel of D; None where the subject does not tell.
    """

    codes: dict[str, Rows]
    visible: dict[str, Tensor] | None = None
    groups: Tensor | None = None


def has_slots(subject: Subject, pixels: int) -> bool:
    """Whether a subject answers with slots that can be processed in several ways; references are taken as they are.

    A model of unknown size is tried with images of so many pixels a side.
    """
    if isinstance(subject, Trained):
        return subject.plan.record.place.startswith("slot_attention")
    if isinstance(subject, Model):
        try:
            return _kind(subject.adapted, pixels) == "slots"
        except InputError:  # a model that cannot be called fails in its own cell, not here
            return False
    return getattr(subject, "kind", None) == "slots"


def _kind(adapted: Adapted, pixels: int) -> str:
    if adapted.preprocessing.size is not None or isinstance(adapted.model, Embeddings):
        return adapted.kind
    noise = torch.rand(2, 3, pixels, pixels, generator=torch.Generator().manual_seed(0))
    return "vector" if adapted(noise).slots is None else "slots"


def codes_of(subject: Subject, corpus: Corpus, folder: Folder, device: str = "cpu", *, kept: bool) -> Codes:
    """The codes of a corpus. Those of slots are to be kept in the folder, since three variants look at them."""
    views = corpus.views(folder, device)
    if not kept:
        return _look(subject, views, folder.path)
    settings = {"name": "slots", "version": 1, "subject": dict(subject.identity), "corpus": corpus.settings}
    return _from_arrays(folder.made(settings, lambda: _to_arrays(_look(subject, views))))


def processed(seen: Codes, variant: str | None) -> Mapping[str, Rows]:
    """The codes of each role after the processing of a variant; the blank slot is the mean of all slots."""
    for codes in seen.codes.values():
        for rows in blocks(codes.shape):
            check_finite(codes[rows])
    if variant in (None, "raw"):
        return seen.codes
    if variant not in VARIANTS:
        raise InputError(f"variant must be one of {', '.join(VARIANTS)}, not {variant!r}")
    roles = list(seen.codes)
    slots = torch.cat([seen.codes[role][:] for role in roles])
    blank = slots.double().mean((0, 1))
    kept = drop_duplicate_slots(slots, blank=blank)
    if variant == VARIANTS[2]:
        if seen.visible is None:
            raise NotExaminedError(NO_MASKS)
        kept = drop_invisible_slots(kept, _few_pixels(torch.cat([seen.visible[role] for role in roles])), blank=blank)
    return dict(zip(roles, kept.split(len(seen.codes[roles[0]])), strict=True))


def whole_scene(codes: Tensor) -> Tensor:
    """One vector for each scene [T, D]: slots have no order, so it is their sum."""
    return codes.sum(1) if codes.ndim == 3 else codes


def _look(subject: Subject, views: Mapping[str, View], place: Path | None = None) -> Codes:
    """The codes of each role, which slots are seen, and the groups of D; long codes are put into files in `place`."""
    codes: dict[str, Rows] = {}
    visible: dict[str, Tensor] = {}
    for role, view in views.items():
        if role not in BEHIND and isinstance(subject, Oracle):
            continue
        wins: list[Tensor] = []
        codes[role] = gathered(_encoded(subject, view, wins), len(view), place)
        if wins:
            visible[role] = torch.cat(wins)
    joined([each[:1] for each in codes.values()])
    groups = (subject.group(part) for part in parts(views["d"], _AT_ONCE))
    there = [each.cpu().to(torch.int32) for each in groups if each is not None]
    return Codes(codes, visible or None, torch.cat(there) if there else None)


def _encoded(subject: Subject, view: View, wins: list[Tensor]) -> Iterator[Tensor]:
    """The codes of some images after others; which of their slots win a pixel is added to `wins`."""
    for part in parts(view, _AT_ONCE):
        with looking(subject):
            encoding = subject.encode(part)
        if encoding.slots is not None and encoding.masks is not None:
            wins.append(_wins_a_pixel(encoding.masks))
        yield encoding.codes.detach().float().cpu()


def _to_arrays(seen: Codes) -> Mapping[str, npt.ArrayLike]:
    """As arrays that can be kept."""
    arrays = {f"codes-{role}": codes[:].numpy() for role, codes in seen.codes.items()}
    arrays |= {f"visible-{role}": each.numpy() for role, each in (seen.visible or {}).items()}
    return arrays if seen.groups is None else {**arrays, "groups": seen.groups.numpy()}


def _from_arrays(arrays: Mapping[str, Any]) -> Codes:
    def of(kind: str) -> dict[str, Tensor]:
        there = {role: arrays[f"{kind}-{role}"] for role in ROLES if f"{kind}-{role}" in arrays}
        return {role: torch.from_numpy(np.asarray(array)) for role, array in there.items()}

    groups = torch.from_numpy(np.asarray(arrays["groups"])) if "groups" in arrays else None
    return Codes(dict(of("codes")), of("visible") or None, groups)


def _wins_a_pixel(masks: Tensor) -> Tensor:
    """Which slots [B, K] are the strongest anywhere."""
    winners = labels_from_masks(masks.detach()).flatten(1)
    return F.one_hot(winners, masks.shape[1]).bool().any(1).cpu()


def _few_pixels(visible: Tensor) -> Tensor:
    """Masks [T, K, 1, K] in which those slots win a pixel that are visible [T, K], and no others."""
    slots = torch.arange(visible.shape[1]).expand_as(visible)
    winners = torch.where(visible, slots, visible.long().argmax(1, keepdim=True))
    return F.one_hot(winners, visible.shape[1]).transpose(1, 2)[:, :, None].float()
