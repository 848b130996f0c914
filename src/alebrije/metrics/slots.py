"""Slots have no order: matching those of four scenes, and blanking those that repeat or show nothing.

The greedy matching of Xie et al. 2022 (Appendix E) takes, again and again, the four unused slots with the smallest
``||b - a + c - d||``. All those residuals follow from inner products between slots, so they are looked up in K x K
Gram matrices, for many cases at once; the K^4 sums of one case are never kept longer than one pick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from alebrije.errors import InputError
from alebrije.metrics.arrays import LARGEST, Array, as_tensor, in_kind
from alebrije.metrics.grouping import labels_from_masks

RESIDUALS_AT_ONCE = {"cpu": 1 << 21, "cuda": 1 << 26}  # 16 MB fit a processor's cache


@dataclass(frozen=True, eq=False)
class Grams:
    """Inner products of the slots of four scenes, pair by pair: each field [Q, K, K] for Q quadruples of scenes."""

    aa: torch.Tensor
    bb: torch.Tensor
    cc: torch.Tensor
    dd: torch.Tensor
    ab: torch.Tensor
    ac: torch.Tensor
    ad: torch.Tensor
    bc: torch.Tensor
    bd: torch.Tensor
    cd: torch.Tensor

    @classmethod
    def of(cls, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> Grams:
        """Of scenes [Q, K, D] each."""
        pairs = ((a, a), (b, b), (c, c), (d, d), (a, b), (a, c), (a, d), (b, c), (b, d), (c, d))
        return cls(*(left @ right.transpose(-1, -2) for left, right in pairs))


@dataclass(frozen=True, eq=False)
class SlotMatching:
    """The slots of each scene in matched order [T, K, D], where they stood [T, 4, K], and the total residual^2 [T]."""

    a: Any
    b: Any
    c: Any
    d: Any
    indices: Any
    cost: Any


def match_slots(a: Array, b: Array, c: Array, d: Array) -> SlotMatching:
    """Greedy four-way matching of slots [T, K, D] such that b - a + c - d is small slot by slot.

    >>> scene, other = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.tensor([[[5.0, 5.0], [9.0, 7.0]]])
    >>> match_slots(scene, scene.flip(1), other, other).indices.tolist()
    [[[0, 1], [1, 0], [0, 1], [0, 1]]]
    """
    scenes = check_scenes({"a": a, "b": b, "c": c, "d": d}, slots=True)
    picks = []
    for part in split_cases(scenes):
        shift = part[0].mean((0, 1))  # b - a + c - d does not change, and small numbers cancel better
        picks.append(greedy_match(Grams.of(*(scene - shift for scene in part))))
    indices = torch.cat(picks)
    matched = [take_slots(scene, indices[:, i]) for i, scene in enumerate(scenes)]
    residual = matched[1] - matched[0] + matched[2] - matched[3]
    answers = [in_kind(a, x) for x in (*matched, indices, residual.square().sum((1, 2)))]
    return SlotMatching(**dict(zip(("a", "b", "c", "d", "indices", "cost"), answers, strict=True)))


def greedy_match(grams: Grams) -> torch.Tensor:
    """The slots of a, b, c and d in the order they are picked [Q, 4, K]; of equal residuals the first wins."""
    a, b, c, d = (g.diagonal(dim1=1, dim2=2) for g in (grams.aa, grams.bb, grams.cc, grams.dd))
    tables = {
        "ab": a[:, :, None] + b[:, None, :] - 2 * grams.ab,
        "ac": c[:, None, :] - 2 * grams.ac,
        "bc": 2 * grams.bc,
        "ad": d[:, None, :] + 2 * grams.ad,
        "bd": -2 * grams.bd,
        "cd": -2 * grams.cd,
    }
    cases, slots = a.shape
    left = dict.fromkeys("abcd", torch.arange(slots, device=a.device).expand(cases, -1))
    picks = []
    for size in range(slots, 0, -1):
        best = _smallest_residual(tables)
        place = dict(zip("abcd", torch.unravel_index(best, (size,) * 4), strict=True))
        picks.append(torch.stack([left[s].gather(1, place[s][:, None])[:, 0] for s in "abcd"], 1))
        stay = {s: torch.arange(size, device=a.device) != place[s][:, None] for s in "abcd"}
        left = {s: left[s][stay[s]].view(cases, size - 1) for s in "abcd"}
        tables = {
            pair: table[stay[pair[0]][:, :, None] & stay[pair[1]][:, None, :]].view(cases, size - 1, size - 1)
            for pair, table in tables.items()
        }
    return torch.stack(picks, 2)


def _smallest_residual(tables: dict[str, torch.Tensor]) -> torch.Tensor:
    """The flat index over (a, b, c, d) of the smallest sum of the six tables, for each case."""
    abd = tables["ab"][:, :, :, None] + tables["ad"][:, :, None, :] + tables["bd"][:, None, :, :]
    abc = tables["ac"][:, :, None, :] + tables["bc"][:, None, :, :]
    residual = abc[..., None] + tables["cd"][:, None, None]  # [Q, a, b, c, d]
    residual += abd[:, :, :, None]
    return residual.flatten(1).argmin(1)


def take_slots(slots: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Slots [Q, K, D] in the order of `indices` [Q, K]."""
    return slots.gather(1, indices[:, :, None].expand(-1, -1, slots.shape[2]))


def split_cases(scenes: list[torch.Tensor], partners: int = 1) -> list[tuple[torch.Tensor, ...]]:
    """The same scenes in chunks whose residuals, K^4 for each of `partners` quadruples a case, fit in memory."""
    at_once = RESIDUALS_AT_ONCE.get(scenes[0].device.type, RESIDUALS_AT_ONCE["cpu"])
    size = max(at_once // (partners * scenes[0].shape[1] ** 4), 1)
    return list(zip(*(torch.split(scene, size) for scene in scenes), strict=True))


def drop_duplicate_slots(slots: Array, cosine: float = 0.955, blank: Array | None = None) -> Any:
    """Slots [T, K, D] in which any that points almost where an earlier one does is replaced by the blank slot.

    0.955 is the released threshold, half the distance of the unit vectors below 0.15. The blank slot is the mean over
    all slots of the batch, as released, unless `blank` [D] is given (the paper's text: the mean of the other slots).

    >>> drop_duplicate_slots(torch.tensor([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]]), blank=torch.zeros(2)).tolist()
    [[[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]]
    """
    (codes,) = check_scenes({"slots": slots}, slots=True)
    unit = torch.nn.functional.normalize(codes, dim=2)
    alike = unit @ unit.transpose(1, 2) > cosine  # [T, K, K]
    kept = torch.ones(codes.shape[:2], dtype=torch.bool, device=codes.device)
    for slot in range(1, codes.shape[1]):
        kept[:, slot] = ~(alike[:, slot, :slot] & kept[:, :slot]).any(1)
    return _blanked(slots, codes, kept, blank)


def drop_invisible_slots(slots: Array, masks: Array, least_share: float = 0.0, blank: Array | None = None) -> Any:
    """Slots [T, K, D] in which any that wins no more than `least_share` of the pixels is replaced by the blank slot.

    `masks` [T, K, H, W] are the decoder's; a pixel goes to its strongest mask. With the default 0, a slot is invisible
    if it wins nowhere, as released. `blank` is as in `drop_duplicate_slots`.
    """
    (codes,) = check_scenes({"slots": slots}, slots=True)
    weights = as_tensor(masks, "masks").to(codes.device)
    if weights.ndim != 4 or weights.shape[:2] != codes.shape[:2]:
        raise InputError(
            f"masks must have shape [T, K, H, W] with the slots' T and K, got {list(weights.shape)} "
            f"for slots {list(codes.shape)}"
        )
    winners = labels_from_masks(weights).flatten(1)  # [T, H * W]
    share = torch.nn.functional.one_hot(winners, codes.shape[1]).to(codes.dtype).mean(1)
    return _blanked(slots, codes, share > least_share, blank)


def _blanked(reference: Array, codes: torch.Tensor, kept: torch.Tensor, blank: Array | None) -> Any:
    filler = codes.mean((0, 1)) if blank is None else as_tensor(blank, "blank").to(codes)
    if filler.shape != codes.shape[2:]:
        raise InputError(f"blank must have shape [{codes.shape[2]}], got {list(filler.shape)}")
    return in_kind(reference, torch.where(kept[:, :, None], codes, filler))


def check_scenes(named: Mapping[str, Array], slots: bool | None = None) -> list[torch.Tensor]:
    """The codes of scenes as float64 tensors of one shape: [T, D], or [T, K, D] for slots."""
    check_shapes(named, slots)
    scenes = []
    for name, codes in named.items():
        scenes.append(exact(codes, name))
        check_numbers(name, int((~scenes[-1].isfinite()).sum()), float(scenes[-1].abs().max()))
    return scenes


def check_shapes(named: Mapping[str, Array], slots: bool | None = None) -> None:
    """Refuses codes of scenes that are not all of one shape; nothing is read."""
    wanted = {True: "[T, K, D]", False: "[T, D]", None: "[T, D] or [T, K, D]"}[slots]
    dims = {True: (3,), False: (2,), None: (2, 3)}[slots]
    first, *_ = shapes = {name: list(np.shape(codes)) for name, codes in named.items()}
    for name, shape in shapes.items():
        if len(shape) not in dims or 0 in shape:
            raise InputError(f"{name} must have shape {wanted} with no empty axis, got {shape}")
        if shape != shapes[first]:
            raise InputError(f"{name} must have the shape of {first}, {shapes[first]}, got {shape}")


def exact(codes: Array, name: str) -> torch.Tensor:
    """Codes as float64, or as exact as their device can."""
    scene = as_tensor(codes, name)
    return scene.to(torch.float32 if scene.device.type == "mps" else torch.float64)


def check_numbers(name: str, endless: int, largest: float) -> None:
    """Refuses codes of which so many numbers are not finite, or whose largest is too large."""
    if endless:
        raise InputError(f"{name} must be finite: {endless} values are not")
    if largest > LARGEST:
        raise InputError(f"{name} must be smaller than {LARGEST:g} in size, got {largest:.3g}")
