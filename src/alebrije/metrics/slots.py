"""Match the slots of four scenes, which have no order, and blank slots that repeat or are invisible.

The greedy matching of Xie et al. 2022 (Appendix E) repeatedly picks the four unused slots with the smallest
``||b - a + c - d||``. The residuals follow from inner products between slots, so they are read from K x K Gram
matrices, for many cases at once. The K^4 sums of a case are kept for one pick only.

The first of equal residuals wins; residuals are equal if they differ only by rounding. Scenes are sorted before they
are matched, so that first does not mean the first of the model's slots or neurons: the same slots in another order give
the same matching.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor
from alebrije.checks import checked
from alebrije.errors import InputError
from alebrije.metrics.inputs import LARGEST, answer_like, as_tensor, widest_float
from alebrije.metrics.masks import check_masks

ROUNDING = 64  # in units of the last place of the squared lengths that a residual is computed from
RESIDUALS_AT_ONCE = {"cpu": 1 << 21, "cuda": 1 << 26}  # 16 MB fit the cache of a CPU


@dataclass(frozen=True, eq=False)
class Grams:
    """Inner products between the slots of four scenes; each field is [Q, K, K] for Q quadruples of scenes."""

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
        """The inner products of four scenes, each [Q, K, D]."""
        pairs = ((a, a), (b, b), (c, c), (d, d), (a, b), (a, c), (a, d), (b, c), (b, d), (c, d))
        return cls(*(left @ right.transpose(-1, -2) for left, right in pairs))


@dataclass(frozen=True, eq=False)
class SlotMatching:
    """The slots of each scene in matched order [T, K, D], their original indices [T, 4, K], and the cost [T].

    The cost is the squared residual, summed over slots.
    """

    a: Any
    b: Any
    c: Any
    d: Any
    indices: Any
    cost: Any


@checked
def match_slots(a: ArrayOrTensor, b: ArrayOrTensor, c: ArrayOrTensor, d: ArrayOrTensor) -> SlotMatching:
    """Match slots [T, K, D] of four scenes greedily, so that b - a + c - d is small for each slot.

    Ties do not depend on the order of the slots.

    >>> scene, other = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]), torch.tensor([[[5.0, 5.0], [9.0, 7.0]]])
    >>> match_slots(scene, scene.flip(1), other, other).indices.tolist()
    [[[1, 0], [0, 1], [0, 1], [0, 1]]]
    """
    named = {"a": a, "b": b, "c": c, "d": d}
    scenes = check_scenes(named, slots=True)
    neurons = neuron_order(scenes)
    orders = [slot_order(scene[..., neurons]) for scene in scenes]
    sorted_scenes = [take_slots(scene[..., neurons], order) for scene, order in zip(scenes, orders, strict=True)]
    picks = []
    for part in split_cases(sorted_scenes):
        shift = part[0].mean((0, 1))  # leaves b - a + c - d unchanged, and small numbers cancel with less rounding
        picks.append(greedy_match(Grams.of(*(scene - shift for scene in part))))
    indices = torch.stack(
        [order.gather(1, pick) for order, pick in zip(orders, torch.cat(picks).unbind(1), strict=True)], 1
    )
    matched = [take_slots(scene, indices[:, i]) for i, scene in enumerate(scenes)]
    residual = matched[1] - matched[0] + matched[2] - matched[3]
    answers = [answer_like(a, x) for x in (*matched, indices, residual.square().sum((1, 2)))]
    return SlotMatching(**dict(zip(("a", "b", "c", "d", "indices", "cost"), answers, strict=True)))


def greedy_match(grams: Grams) -> torch.Tensor:
    """The slots of a, b, c and d in the order they are picked [Q, 4, K]; the first of equal residuals wins."""
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
    rounding = rounding_error(torch.stack([a, b, c, d]).amax(2).sum(0))
    unused = dict.fromkeys("abcd", torch.arange(slots, device=a.device).expand(cases, -1))
    picks = []
    for size in range(slots, 0, -1):
        best = first_of_smallest(_residuals(tables), rounding)
        index = dict(zip("abcd", torch.unravel_index(best, (size,) * 4), strict=True))
        picks.append(torch.stack([unused[s].gather(1, index[s][:, None])[:, 0] for s in "abcd"], 1))
        kept = {s: torch.arange(size, device=a.device) != index[s][:, None] for s in "abcd"}
        unused = {s: unused[s][kept[s]].view(cases, size - 1) for s in "abcd"}
        tables = {
            pair: table[kept[pair[0]][:, :, None] & kept[pair[1]][:, None, :]].view(cases, size - 1, size - 1)
            for pair, table in tables.items()
        }
    return torch.stack(picks, 2)


def _residuals(tables: dict[str, torch.Tensor]) -> torch.Tensor:
    """The sums of the six tables over (a, b, c, d), flat for each case."""
    abd = tables["ab"][:, :, :, None] + tables["ad"][:, :, None, :] + tables["bd"][:, None, :, :]
    abc = tables["ac"][:, :, None, :] + tables["bc"][:, None, :, :]
    residual = abc[..., None] + tables["cd"][:, None, None]  # [Q, a, b, c, d]
    residual += abd[:, :, :, None]
    return residual.flatten(1)


def rounding_error(sizes: torch.Tensor) -> torch.Tensor:
    """How far rounding may move a residual that is a difference of numbers of these `sizes`."""
    return ROUNDING * torch.finfo(sizes.dtype).eps * sizes


def first_of_smallest(residuals: torch.Tensor, rounding: torch.Tensor) -> torch.Tensor:
    """The index of the first of the residuals [Q, n] of each case that equals the smallest up to `rounding` [Q]."""
    limit = residuals.amin(1) + rounding
    return (residuals <= limit[:, None]).byte().argmax(1)


def greedy_pairs(residuals: torch.Tensor, rounding: torch.Tensor) -> torch.Tensor:
    """The column that is matched to each row of `residuals` [Q, K, K], the smallest first; the first of equals wins."""
    cases, slots, _ = residuals.shape
    left = residuals.clone()
    case = torch.arange(cases, device=residuals.device)
    columns = torch.empty(cases, slots, dtype=torch.int64, device=residuals.device)
    for _ in range(slots):
        best = first_of_smallest(left.flatten(1), rounding)
        row, column = best // slots, best % slots
        columns[case, row] = column
        left[case, row], left[case, :, column] = torch.inf, torch.inf
    return columns


def neuron_order(scenes: Iterable[torch.Tensor]) -> torch.Tensor:
    """An order of the neurons of scenes [T, K, D] that depends on their values only, not on the order of the slots.

    Neurons are compared by their sorted values in the first scene, then in the next, and so on.
    """
    ranks = torch.zeros(0)
    for scene in scenes:
        values = scene.sort(1).values.flatten(0, 1)  # [T * K, D]
        columns = torch.cat([ranks[None].to(values), values]) if len(ranks) else values
        ranks = torch.unique(columns, dim=1, return_inverse=True)[1]
        if int(ranks.max()) + 1 == len(ranks):
            break
    return ranks.argsort(stable=True)


def slot_order(scene: torch.Tensor) -> torch.Tensor:
    """The order [T, K] that sorts the slots of scenes [T, K, D] by the first neuron, then by the second, and so on."""
    values, order = scene[:, :, 0].sort(dim=1, stable=True)
    if bool((values[:, 1:] != values[:, :-1]).all()):
        return order
    order = torch.arange(scene.shape[1], device=scene.device).expand(scene.shape[:2])
    for neuron in scene.unbind(2)[::-1]:
        order = order.gather(1, neuron.gather(1, order).argsort(stable=True))
    return order


def take_slots(slots: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Slots [Q, K, D] in the order of `indices` [Q, K]."""
    return slots.gather(1, indices[:, :, None].expand(-1, -1, slots.shape[2]))


def split_cases(scenes: list[torch.Tensor], partners: int = 1, power: int = 4) -> list[tuple[torch.Tensor, ...]]:
    """Split scenes so that the residuals of a part fit in memory: K^power for each of `partners` per case."""
    at_once = RESIDUALS_AT_ONCE.get(scenes[0].device.type, RESIDUALS_AT_ONCE["cpu"])
    size = max(at_once // (partners * scenes[0].shape[1] ** power), 1)
    return list(zip(*(torch.split(scene, size) for scene in scenes), strict=True))


@checked
def drop_duplicate_slots(slots: ArrayOrTensor, cosine: float = 0.955, blank: ArrayOrTensor | None = None) -> Any:
    """Replace slots [T, K, D] with nearly the same direction as an earlier slot by the blank slot.

    As released, the earlier slot may itself be a duplicate: of three slots at 0, 15 and 30 degrees only the first is
    kept. So which slots are kept depends on their order. 0.955 is the released threshold: half the distance between the
    unit vectors is below 0.15. The blank slot is the mean over all slots of the batch, as released, unless `blank` [D]
    is given (in the paper's text it is the mean of the other slots).

    >>> drop_duplicate_slots(torch.tensor([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]]), blank=torch.zeros(2)).tolist()
    [[[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]]
    """
    (codes,) = check_scenes({"slots": slots}, slots=True)
    unit = torch.nn.functional.normalize(codes, dim=2)
    alike = unit @ unit.transpose(1, 2) > float(cosine)  # [T, K, K]
    return _blanked(slots, codes, ~alike.tril(-1).any(2), blank)


@checked
def drop_invisible_slots(
    slots: ArrayOrTensor, masks: ArrayOrTensor, least_share: float = 0.0, blank: ArrayOrTensor | None = None
) -> Any:
    """Replace slots [T, K, D] that win no more than `least_share` of the pixels by the blank slot.

    `masks` [T, K, H, W] or [T, K, 1, H, W] come from the decoder; the strongest mask wins a pixel. As released, all
    masks that are equally strong win it, and a mask of 0 never does. With the default of 0, a slot is invisible if it
    wins no pixel, as released. `blank` is as in `drop_duplicate_slots`.
    """
    (codes,) = check_scenes({"slots": slots}, slots=True)
    weights = check_masks(as_tensor(masks, "masks").to(codes.device), video=False)
    if weights.shape[:2] != codes.shape[:2]:
        raise InputError(
            f"masks must have shape [T, K, H, W] with the slots' T and K, got {list(weights.shape)} "
            f"for slots {list(codes.shape)}"
        )
    return _blanked(slots, codes, won_share(weights) > float(least_share), blank)


def won_share(masks: torch.Tensor) -> torch.Tensor:
    """The share of pixels [T, K] that each of the masks [T, K, H, W] wins: it is the strongest, or one of several.

    >>> won_share(torch.tensor([[[[0.5, 0.2]], [[0.5, 0.8]]]])).tolist()
    [[0.5, 1.0]]
    """
    wins = (masks == masks.amax(1, keepdim=True)) & (masks != 0)
    return wins.flatten(2).to(widest_float(masks.device)).mean(2)


def _blanked(reference: ArrayOrTensor, codes: torch.Tensor, kept: torch.Tensor, blank: ArrayOrTensor | None) -> Any:
    filler = codes.mean((0, 1)) if blank is None else as_tensor(blank, "blank").to(codes)
    if filler.shape != codes.shape[2:]:
        raise InputError(f"blank must have shape [{codes.shape[2]}], got {list(filler.shape)}")
    return answer_like(reference, torch.where(kept[:, :, None], codes, filler))


def check_scenes(named: Mapping[str, ArrayOrTensor], slots: bool = False) -> list[torch.Tensor]:
    """The codes of scenes as float64 tensors of one shape: [T, K, D] for `slots`, else [T, D] or [T, K, D]."""
    check_shapes(named, slots)
    scenes = []
    for name, codes in named.items():
        scenes.append(as_widest(codes, name))
        check_extremes(name, int((~scenes[-1].isfinite()).sum()), float(scenes[-1].abs().max()))
    return scenes


def check_shapes(named: Mapping[str, ArrayOrTensor], slots: bool = False) -> None:
    """Raise an InputError unless all codes of scenes have the same shape; their values are not read."""
    wanted, dims = ("[T, K, D]", (3,)) if slots else ("[T, D] or [T, K, D]", (2, 3))
    first, *_ = shapes = {name: list(np.shape(codes)) for name, codes in named.items()}
    for name, shape in shapes.items():
        if len(shape) not in dims or 0 in shape:
            raise InputError(f"{name} must have shape {wanted} with no empty axis, got {shape}")
        if shape != shapes[first]:
            raise InputError(f"{name} must have the shape of {first}, {shapes[first]}, got {shape}")


def as_widest(codes: ArrayOrTensor, name: str) -> torch.Tensor:
    """Codes as float64, or float32 on MPS, which has no float64."""
    scene = as_tensor(codes, name)
    return scene.to(widest_float(scene.device))


def check_extremes(name: str, bad: int, largest: float) -> None:
    """Raise an InputError if `bad` values are not finite, or if the largest is too large."""
    if bad:
        raise InputError(f"{name} must be finite: {bad} values are NaN or infinite")
    if largest > LARGEST:
        raise InputError(f"{name} must be smaller than {LARGEST:g} in size, got {largest:.3g}")
