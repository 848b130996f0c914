"""COAT: whether the codes of scenes add and subtract like the scenes do (Xie et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from alebrije.arrays import ArrayOrTensor
from alebrije.errors import InputError
from alebrije.metrics.inputs import answer_like
from alebrije.metrics.record import Score, register
from alebrije.metrics.slots import (
    RESIDUALS_AT_ONCE,
    Grams,
    as_widest,
    check_extremes,
    check_shapes,
    greedy_match,
    greedy_pairs,
    neuron_order,
    rounding_error,
    slot_order,
    split_cases,
    take_slots,
)

Loss = Literal["squared-l2", "l2", "acos"]
Chance = Literal["released", "paper"]
HARD_NEGATIVES = ("drop", "object", "color", "material", "shape", "size", "pixel")
VALUES_AT_ONCE = 1 << 21  # values of one scene role that are read at once: 16 MB as float64
_LANES = 16  # rows that a CPU processes at once


@dataclass(frozen=True)
class HardNegativeTest:
    """One-sample proportion test that D fits the analogy better than the hard negative D' does."""

    p_hat: float
    p_value: float
    passed: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class CoatScore(Score):
    """COAT. The paper reports `score` only if `passed`: a code that fails a hard negative may use a shortcut.

    `passed` is true if there are tests and all of them pass. `per_case` [T] is the loss of each case divided by its
    chance loss, so `score` is 1 minus its mean; `losses` [T] are the losses before the division. `wins` has for each
    hard negative whether D fits better [T].
    """

    passed: bool
    tests: Mapping[str, HardNegativeTest]
    per_case: Any
    losses: Any
    wins: Mapping[str, Any]

    @property
    def cases(self) -> Any:
        """1 minus `per_case`, where that is not NaN."""
        return 1.0 - self.per_case[self.per_case == self.per_case]


@register(
    "coat",
    title="COAT, squared distance",
    instrument="analogy",
    inputs=("a", "b", "c", "d", "negatives"),
    range=(-math.inf, 1.0),
    cites="Xie et al. 2022, Equation 1; squared as in the released numbers",
    invariances=("neuron permutation", "scaling", "slot permutation", "dtype", "device"),
    also={
        "coat-l2": {"title": "COAT, distance", "settings": {"loss": "l2"}, "cites": "Xie et al. 2022, Equation 1"},
        "coat-acos": {"title": "COAT, angle", "settings": {"loss": "acos"}, "cites": "Xie et al. 2022, Equation 1"},
    },
    version=2,
)
def coat(
    a: ArrayOrTensor,
    b: ArrayOrTensor,
    c: ArrayOrTensor,
    d: ArrayOrTensor,
    negatives: Mapping[str, ArrayOrTensor],
    loss: Loss = "squared-l2",
    group: int = 64,
    level: float = 0.005,
    chance: Chance = "released",
) -> CoatScore:
    """1 - the loss of the analogy b - a + c = d over the expected loss for a random d, averaged over cases.

    Codes are vectors [T, D] or slots [T, K, D]; `negatives` maps the name of each hard negative to the codes of D'. A
    case is won against a negative if d has the smaller loss; a tie, such as a D' with the code of d, is lost.
    The losses are ``"squared-l2"`` (used for the published numbers), ``"l2"`` (the paper's text) and ``"acos"``, the
    angle in radians between b - a and d - c (a right angle if either is zero). The expectation is over a group of
    `group` consecutive cases, including the case itself, as released; the last cases share the last full group. Slots
    are matched and then treated as one long vector.

    ``chance="released"`` (the default) computes the expectation as for the published numbers, so these scores stand
    beside them. ``chance="paper"`` exchanges d alone, as in Equation 1. They differ in two cases:

    - Angle of vectors: as released, c and d stay and (a, b) of the other cases are exchanged together.
    - Slots: as released, a, b and c stay as they were matched with the true d, and only the exchanged d is matched to
      them. Random slots then score above 0: 0.03 with 2 slots, 0.05 with 4, 0.10 with 7 (16 normal numbers each,
      squared distance). With "paper", all four scenes are matched for every exchanged d, and random slots score 0.

    If the expected distance is 0 too (a constant code), the score is NaN. All angles of a constant code are right
    angles, so its score is 0.

    Residuals of slots that are equal up to rounding are decided by the values of the codes, not by the order of slots
    or neurons. Codes rounded to another data type may have other ties.

    Version 2 follows the release in both cases above; version 1 exchanged (c, d) for the angle of vectors, and matched
    slots as "paper" does. Version 1 also decided equal residuals by the order of the slots.

    Codes are read in blocks of cases. They may be any object that has a shape and returns an array for a slice of its
    rows, such as a file of codes that does not fit in memory.

    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.normal(size=(3, 128, 5))
    >>> result = coat(a, b, c, b - a + c, {"object": b - a + c + 1})
    >>> round(result.score, 6), result.passed
    (1.0, True)
    """
    _check_settings(loss, chance, group, level)
    if not isinstance(negatives, Mapping):
        raise InputError(
            f"negatives must map the name of each hard negative to its codes, got {type(negatives).__name__}"
        )
    roles = {"a": a, "b": b, "c": c, "d": d, **{f"negatives.{name}": code for name, code in negatives.items()}}
    check_shapes(roles)
    codes = _Codes.of(roles)
    losses, *negative_losses = _losses(codes, loss)
    wins = {name: losses < others for name, others in zip(negatives, negative_losses, strict=True)}
    tests = {name: _proportion_test(won, level) for name, won in wins.items()}
    expected = _chance_losses(codes, loss, group, chance)
    ratios = losses / expected  # NaN where both are 0
    bad = ~ratios.isfinite()
    defined = not bool(bad.all()) and len(losses) > 1
    return CoatScore(
        score=float(1.0 - ratios[~bad].mean()) if defined else math.nan,
        reason=_reason(len(losses), int(bad.sum())),
        passed=bool(tests) and all(test.passed for test in tests.values()),
        tests=tests,
        per_case=answer_like(d, ratios),
        losses=answer_like(d, losses * codes.scale ** {"squared-l2": 2, "l2": 1, "acos": 0}[loss]),
        wins={name: answer_like(d, won) for name, won in wins.items()},
        settings={"loss": loss, "group": group, "level": level, "chance": chance},
    )


@dataclass(frozen=True, eq=False)
class _Codes:
    """Codes of scenes by role; each block of cases is converted to float64, shifted and scaled when it is read.

    The shift does not change b - a + c - d and d - c. After scaling no square overflows or underflows. Slots are
    sorted: then neither their order nor that of the neurons changes the result.
    """

    by_role: Mapping[str, ArrayOrTensor]
    shift: torch.Tensor
    scale: float
    neurons: torch.Tensor | None  # their order for slots

    @classmethod
    def of(cls, by_role: Mapping[str, ArrayOrTensor]) -> _Codes:
        neurons = _neuron_order(by_role) if len(np.shape(by_role["a"])) == 3 else None
        shift = _mean_code(by_role["a"], "a", neurons)
        largest = max(_largest_difference(codes, role, shift, neurons) for role, codes in by_role.items())
        return cls(by_role, shift, largest or 1.0, neurons)

    def __call__(self, role: str, rows: slice) -> torch.Tensor:
        return (_sorted_slots(as_widest(self.by_role[role][rows], role), self.neurons) - self.shift) / self.scale

    @property
    def shape(self) -> tuple[int, ...]:
        """[T, D] or [T, K, D]"""
        return tuple(np.shape(self.by_role["a"]))


def _neuron_order(by_role: Mapping[str, ArrayOrTensor]) -> torch.Tensor:
    shape = np.shape(by_role["a"])
    return neuron_order(as_widest(codes[rows], role) for role, codes in by_role.items() for rows in row_blocks(shape))


def _sorted_slots(codes: torch.Tensor, neurons: torch.Tensor | None) -> torch.Tensor:
    """Slots [T, K, D] in an order that depends on their values only; vectors are returned as they are."""
    if neurons is None:
        return codes
    codes = codes[..., neurons]
    return take_slots(codes, slot_order(codes))


def row_blocks(shape: Sequence[int]) -> list[slice]:
    """Slices of rows of codes with this shape, each small enough to read at once.

    Block sizes are multiples of the rows that a CPU processes at once, or whose slots are matched at once. So no value
    depends on where a block ends: a row computed alone and in a vector differ in the last digit of the angle.

    >>> row_blocks([1600, 49152])[:2]
    [slice(0, 32, None), slice(32, 64, None)]
    """
    unit = _LANES if len(shape) == 2 else max(RESIDUALS_AT_ONCE["cpu"] // shape[1] ** 4, 1)
    size = max(VALUES_AT_ONCE // math.prod(shape[1:]) // unit, 1) * unit
    return [slice(first, min(first + size, shape[0])) for first in range(0, shape[0], size)]


def _mean_code(codes: ArrayOrTensor, name: str, neurons: torch.Tensor | None) -> torch.Tensor:
    """The mean over all scenes and slots [D].

    It needs all codes in memory at once: one sum does not depend on the block size.
    """
    shape = np.shape(codes)
    whole = as_widest(codes[:1], name).new_empty(*shape)
    for rows in row_blocks(shape):
        whole[rows] = _sorted_slots(as_widest(codes[rows], name), neurons)
    return whole.reshape(-1, shape[-1]).mean(0)


def _largest_difference(codes: ArrayOrTensor, name: str, shift: torch.Tensor, neurons: torch.Tensor | None) -> float:
    """The largest absolute difference from `shift`; an InputError if any value is NaN, infinite or too large."""
    bad, largest, difference = 0, 0.0, 0.0
    for rows in row_blocks(np.shape(codes)):
        block = as_widest(codes[rows], name)
        bad += int((~block.isfinite()).sum())
        largest = max(largest, float(block.abs().max()))
        block = block if neurons is None else block[..., neurons]
        difference = max(difference, float((block - shift).abs().max()))
    check_extremes(name, bad, largest)
    return difference


def _losses(codes: _Codes, loss: Loss) -> list[torch.Tensor]:
    """The loss of each case [T] with d, then with each hard negative."""
    candidates = [role for role in codes.by_role if role not in ("a", "b", "c")]
    measure = _slot_losses if len(codes.shape) == 3 else _vector_losses
    losses = []
    for rows in row_blocks(codes.shape):
        a, b, c = (codes(role, rows) for role in "abc")
        losses.append(torch.stack([measure(a, b, c, codes(role, rows), loss) for role in candidates]))
    return list(torch.cat(losses, 1))  # [candidates, T]


def _check_settings(loss: str, chance: str, group: int, level: float) -> None:
    if loss not in ("squared-l2", "l2", "acos"):
        raise InputError(f"loss must be 'squared-l2', 'l2' or 'acos', got {loss!r}")
    if chance not in ("released", "paper"):
        raise InputError(f"chance must be 'released' or 'paper', got {chance!r}")
    if group < 2:
        raise InputError(f"group must be at least 2, got {group}")
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level}")


def _reason(cases: int, bad: int) -> str | None:
    if cases == 1:
        return "with a single case there is no other d to set the chance level"
    return f"in {bad} of {cases} cases every d of the group has the same code" if bad else None


def _proportion_test(wins: torch.Tensor, level: float) -> HardNegativeTest:
    """Test one-sided whether the share of wins p is above 1/2: z = (p - 1/2) / sqrt(1/4n)."""
    share = float(wins.double().mean())
    z = (share - 0.5) * 2.0 * math.sqrt(len(wins))
    p_value = 0.5 * math.erfc(z / math.sqrt(2.0))
    return HardNegativeTest(share, p_value, p_value < level)


def _length(squared: torch.Tensor, loss: Loss) -> torch.Tensor:
    return squared.sqrt() if loss == "l2" else squared


def _above_rounding(squared: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Squared distances computed as differences of `sizes`, set to 0 where they are only rounding error."""
    return squared.masked_fill(squared <= rounding_error(sizes), 0.0)


def _angle(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Angles between the rows of two matrices, accurate also for nearly parallel rows."""
    norms = left.norm(dim=1), right.norm(dim=1)
    undefined = (norms[0] == 0) | (norms[1] == 0)
    u, v = left / norms[0].clamp_min(1e-300)[:, None], right / norms[1].clamp_min(1e-300)[:, None]
    angle = 2 * torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1))
    return angle.masked_fill_(undefined, math.pi / 2)


def _angle_from_products(product: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """Angles from inner products and products of squared lengths, 0 where they are only rounding error."""
    undefined = squares <= 0
    cosine = product / squares.masked_fill(undefined, 1.0).sqrt()
    parallel = cosine >= 1 - 64 * torch.finfo(cosine.dtype).eps
    return cosine.clamp(-1, 1).acos().masked_fill_(parallel, 0.0).masked_fill_(undefined, math.pi / 2)


def _vector_losses(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, loss: Loss) -> torch.Tensor:
    """The loss of each case [T]."""
    if loss == "acos":
        return _angle(b - a, d - c)
    return _length((b - a + c - d).square().sum(1), loss)


def _slot_losses(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, loss: Loss) -> torch.Tensor:
    """The loss of each case [T] after matching its slots."""
    losses = []
    for part in split_cases([a, b, c, d]):
        picks = greedy_match(Grams.of(*part))
        a, b, c, d = (take_slots(scene, picks[:, i]).flatten(1) for i, scene in enumerate(part))  # each [T, K * D]
        losses.append(_vector_losses(a, b, c, d, loss))
    return torch.cat(losses)


def _chance_losses(codes: _Codes, loss: Loss, group: int, chance: Chance) -> torch.Tensor:
    """The mean loss of each case [T] over the quadruples that its group gives."""
    cases, expected = codes.shape[0], []
    measure = _slot_chance if len(codes.shape) == 3 else _vector_chance
    for start in range(0, cases, group):
        last = min(start + group, cases)
        own = [codes(role, slice(start, last)) for role in "abcd"]
        full = slice(max(last - group, 0), last)
        others = own if full.start == start else [codes(role, full) for role in "abcd"]
        expected.append(measure(own, others, loss, chance).mean(1))
    return torch.cat(expected)


def _vector_chance(own: list[torch.Tensor], others: list[torch.Tensor], loss: Loss, chance: Chance) -> torch.Tensor:
    """Losses [cases, others] of every case with every other case of its group, scenes in the order a, b, c, d."""
    a, b, c, own_d = own
    other_a, other_b, _, d = others
    if loss != "acos":
        target = b - a + c
        sizes = target.square().sum(1)[:, None] + d.square().sum(1)
        return _length(_above_rounding(sizes - 2 * target @ d.T, sizes), loss)
    if chance == "released":
        step, other_steps = own_d - c, other_b - other_a
        squares = step.square().sum(1)[:, None] * other_steps.square().sum(1)
        return _angle_from_products(step @ other_steps.T, squares)
    step = b - a
    products = step @ d.T - (step * c).sum(1)[:, None]
    sizes = c.square().sum(1)[:, None] + d.square().sum(1)
    lengths = step.square().sum(1)[:, None]
    return _angle_from_products(products, lengths * _above_rounding(sizes - 2 * c @ d.T, sizes))


def _slot_chance(own: list[torch.Tensor], others: list[torch.Tensor], loss: Loss, chance: Chance) -> torch.Tensor:
    """As `_vector_chance` with only d exchanged; slots are matched again, all or as released only those of d."""
    if chance == "released":
        return _rematched_chance(own, others[3], loss)
    d, losses = others[3], []
    for a, b, c in split_cases(own[:3], partners=len(d)):
        grams = _crossed_grams(a, b, c, d)
        losses.append(_loss_from_grams(grams, greedy_match(grams), loss).view(len(a), len(d)))
    return torch.cat(losses)


def _rematched_chance(own: list[torch.Tensor], d: torch.Tensor, loss: Loss) -> torch.Tensor:
    """Losses [cases, others] with a, b and c matched with their own d, and then every other d matched to b - a + c."""
    losses = []
    for case in split_cases(own):
        picks = greedy_match(Grams.of(*case))
        matched = [take_slots(scene, picks[:, i]) for i, scene in enumerate(case[:3])]
        for a, b, c in split_cases(matched, partners=len(d), power=2):
            grams = _crossed_grams(a, b, c, d)
            columns = greedy_pairs(*_residuals(b - a + c, d))
            kept = torch.arange(d.shape[1], device=d.device).expand_as(columns)
            picked = torch.stack([kept, kept, kept, columns], 1)
            losses.append(_loss_from_grams(grams, picked, loss).view(len(a), len(d)))
    return torch.cat(losses)


def _residuals(targets: torch.Tensor, d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared distances [n * m, K, K] of the slots of n targets from those of m scenes d, and their rounding."""
    sizes = targets.square().sum(2)[:, None, :, None] + d.square().sum(2)[None, :, None, :]
    residuals = sizes - 2 * (targets[:, None] @ d.transpose(1, 2)[None])
    return residuals.flatten(0, 1), rounding_error(sizes.amax((2, 3)).flatten())


def _crossed_grams(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> Grams:
    """Grams of every case [n, K, D] with every d [m, K, D]: n x m quadruples, ordered by case."""

    def own(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left @ right.transpose(1, 2)).repeat_interleave(len(d), 0)

    def crossed(left: torch.Tensor) -> torch.Tensor:
        return (left[:, None] @ d.transpose(1, 2)[None]).flatten(0, 1)

    dd = (d @ d.transpose(1, 2)).repeat(len(a), 1, 1)
    return Grams(
        own(a, a), own(b, b), own(c, c), dd, own(a, b), own(a, c), crossed(a), own(b, c), crossed(b), crossed(c)
    )


def _loss_from_grams(grams: Grams, picks: torch.Tensor, loss: Loss) -> torch.Tensor:
    """The loss of matched quadruples [Q], with slots as one long vector."""
    a, b, c, d = picks.unbind(1)

    def total(gram: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        rows = gram.gather(1, left[:, :, None].expand_as(gram))
        return rows.gather(2, right[:, :, None])[:, :, 0].sum(1)

    ab_size, cd_size = total(grams.aa, a, a) + total(grams.bb, b, b), total(grams.cc, c, c) + total(grams.dd, d, d)
    ab_step = _above_rounding(ab_size - 2 * total(grams.ab, a, b), ab_size)  # |b - a|^2
    cd_step = _above_rounding(cd_size - 2 * total(grams.cd, c, d), cd_size)
    product = total(grams.bd, b, d) - total(grams.bc, b, c) - total(grams.ad, a, d) + total(grams.ac, a, c)
    if loss == "acos":
        return _angle_from_products(product, ab_step * cd_step)
    return _length(_above_rounding(ab_step + cd_step - 2 * product, ab_size + cd_size), loss)
