"""COAT: do the codes of scenes add and subtract like the scenes do? (Xie et al. 2022)"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from alebrije.errors import InputError
from alebrije.metrics.arrays import Array, answer_like
from alebrije.metrics.record import Score, register
from alebrije.metrics.slots import (
    RESIDUALS_AT_ONCE,
    Grams,
    check_numbers,
    check_shapes,
    exact,
    greedy_match,
    split_cases,
    take_slots,
)

Loss = Literal["squared-l2", "l2", "acos"]
Chance = Literal["released", "paper"]
HARD_NEGATIVES = ("drop", "object", "color", "material", "shape", "size", "pixel")
AT_ONCE = 1 << 21  # numbers of a role that are read at once: 16 MB as float64
_LANES = 16  # rows that a processor takes at once


@dataclass(frozen=True)
class HardNegativeTest:
    """One-sample proportion test that D fits its analogy better than the hard negative D' does."""

    p_hat: float
    p_value: float
    passed: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class CoatScore(Score):
    """COAT. The paper reports `score` only where `passed`: a code that fails a hard negative may take a shortcut.

    `passed` is true only if every test did, and false where there was none. `per_case` [T] is each case's share of the
    chance loss, so `score` is 1 minus its mean; `losses` [T] are the losses before the division.
    """

    passed: bool
    tests: Mapping[str, HardNegativeTest]
    per_case: Any
    losses: Any

    @property
    def cases(self) -> Any:
        """1 minus each case's share of the chance loss, where that is defined."""
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
)
def coat(
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    negatives: Mapping[str, Array],
    loss: Loss = "squared-l2",
    group: int = 64,
    level: float = 0.005,
    chance: Chance = "released",
) -> CoatScore:
    """1 - the loss of the analogy b - a + c = d over the loss expected for a random d, averaged over cases.

    Codes are vectors [T, D] or slots [T, K, D]; `negatives` maps the name of each hard negative to the codes of D'. A
    case is won against a negative where d has the smaller loss; a tie, such as a D' with the code of d, is lost.
    The losses are ``"squared-l2"`` (what the published numbers were made with), ``"l2"`` (the paper's text) and
    ``"acos"``, the angle in radians between b - a and d - c (a right angle if either is zero). The expectation is over
    the d of the case's group of `group` consecutive cases, its own included, as released; the last cases share the last
    full group. Slots are matched anew for every quadruple that is scored, and then count as one long vector.

    ``chance="released"`` draws (c, d) together for the angle of vectors, as the published numbers did; ``"paper"``
    draws d alone, as Equation 1 says. The two differ nowhere else. A distance that is 0 by chance too (a constant code)
    leaves nothing to compare: the score is not a number. The angle of a constant code is a right one throughout: 0.

    Codes are read some cases at a time, so besides arrays anything will do that has a shape and gives an array for a
    slice of its rows, such as a file of codes that do not fit the memory.

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
    named = {"a": a, "b": b, "c": c, "d": d, **{f"negatives.{name}": code for name, code in negatives.items()}}
    check_shapes(named)
    codes = _Codes.of(named)
    losses, *of_negatives = _losses(codes, loss)
    tests = {
        name: _proportion_test(losses < others, level) for name, others in zip(negatives, of_negatives, strict=True)
    }
    expected = _chance_losses(codes, loss, group, chance)
    ratios = losses / expected  # not a number where both are 0
    bad = ~ratios.isfinite()
    defined = not bool(bad.all()) and len(losses) > 1
    return CoatScore(
        score=float(1.0 - ratios[~bad].mean()) if defined else math.nan,
        reason=_reason(len(losses), int(bad.sum())),
        passed=bool(tests) and all(test.passed for test in tests.values()),
        tests=tests,
        per_case=answer_like(d, ratios.cpu().numpy()),
        losses=answer_like(d, losses.cpu().numpy() * codes.scale ** {"squared-l2": 2, "l2": 1, "acos": 0}[loss]),
        settings={"loss": loss, "group": group, "level": level, "chance": chance},
    )


@dataclass(frozen=True, eq=False)
class _Codes:
    """Codes of scenes by their roles, of which some cases at a time become float64, shifted and scaled.

    By a shift b - a + c - d and d - c do not change, and after scaling no square over- or underflows.
    """

    named: Mapping[str, Array]
    shift: torch.Tensor
    scale: float

    @classmethod
    def of(cls, named: Mapping[str, Array]) -> _Codes:
        shift = _mean_code(named["a"], "a")
        far = max(_farthest(codes, name, shift) for name, codes in named.items())
        return cls(named, shift, far or 1.0)

    def __call__(self, role: str, rows: slice) -> torch.Tensor:
        return (exact(self.named[role][rows], role) - self.shift) / self.scale

    @property
    def shape(self) -> tuple[int, ...]:
        """[T, D] or [T, K, D]"""
        return tuple(np.shape(self.named["a"]))


def blocks(shape: Sequence[int]) -> list[slice]:
    """The rows of codes of some shape, as many at a time as are read at once.

    They are multiples of the rows that a processor takes at once, and of those whose slots are matched at once, so that
    no value depends on where a block ends: the angle of a row alone and of a row in a vector differ in the last digit.

    >>> blocks([1600, 49152])[:2]
    [slice(0, 32, None), slice(32, 64, None)]
    """
    unit = _LANES if len(shape) == 2 else max(RESIDUALS_AT_ONCE["cpu"] // shape[1] ** 4, 1)
    size = max(AT_ONCE // math.prod(shape[1:]) // unit, 1) * unit
    return [slice(first, min(first + size, shape[0])) for first in range(0, shape[0], size)]


def _mean_code(codes: Array, name: str) -> torch.Tensor:
    """The mean over all scenes and slots [D]; the only thing for which a whole role is held, so that it is one sum."""
    shape = np.shape(codes)
    whole = exact(codes[:1], name).new_empty(*shape)
    for rows in blocks(shape):
        whole[rows] = exact(codes[rows], name)
    return whole.reshape(-1, shape[-1]).mean(0)


def _farthest(codes: Array, name: str, shift: torch.Tensor) -> float:
    """The largest difference of any number from the shift; codes that are no numbers are refused."""
    endless, largest, far = 0, 0.0, 0.0
    for rows in blocks(np.shape(codes)):
        block = exact(codes[rows], name)
        endless += int((~block.isfinite()).sum())
        largest = max(largest, float(block.abs().max()))
        far = max(far, float((block - shift).abs().max()))
    check_numbers(name, endless, largest)
    return far


def _losses(codes: _Codes, loss: Loss) -> list[torch.Tensor]:
    """The loss of each case [T] with d, then with each of its hard negatives."""
    answers = [role for role in codes.named if role not in ("a", "b", "c")]
    measure = _slot_losses if len(codes.shape) == 3 else _vector_losses
    found = []
    for rows in blocks(codes.shape):
        a, b, c = (codes(role, rows) for role in "abc")
        found.append(torch.stack([measure(a, b, c, codes(role, rows), loss) for role in answers]))
    return list(torch.cat(found, 1))


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
    """Is the share of wins above one half? z = (p - 1/2) / sqrt(1/4n), one-sided."""
    share = float(wins.double().mean())
    z = (share - 0.5) * 2.0 * math.sqrt(len(wins))
    p_value = 0.5 * math.erfc(z / math.sqrt(2.0))
    return HardNegativeTest(share, p_value, p_value < level)


def _length(squared: torch.Tensor, loss: Loss) -> torch.Tensor:
    return squared.sqrt() if loss == "l2" else squared


def _above_rounding(squared: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Squared distances that were found as differences of `sizes`, 0 where only their rounding is left."""
    return squared.masked_fill(squared <= 64 * torch.finfo(squared.dtype).eps * sizes, 0.0)


def _angle(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Angles between the rows of two matrices, exact also where they are nearly parallel."""
    norms = left.norm(dim=1), right.norm(dim=1)
    none = (norms[0] == 0) | (norms[1] == 0)
    u, v = left / norms[0].clamp_min(1e-300)[:, None], right / norms[1].clamp_min(1e-300)[:, None]
    angle = 2 * torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1))
    return angle.masked_fill_(none, math.pi / 2)


def _angle_from_products(product: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """Angles from inner products and products of squared lengths, 0 where only rounding is left of them."""
    none = squares <= 0
    cosine = product / squares.masked_fill(none, 1.0).sqrt()
    parallel = cosine >= 1 - 64 * torch.finfo(cosine.dtype).eps
    return cosine.clamp(-1, 1).acos().masked_fill_(parallel, 0.0).masked_fill_(none, math.pi / 2)


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
        one, two, three, four = (take_slots(scene, picks[:, i]).flatten(1) for i, scene in enumerate(part))
        losses.append(_vector_losses(one, two, three, four, loss))
    return torch.cat(losses)


def _chance_losses(codes: _Codes, loss: Loss, group: int, chance: Chance) -> torch.Tensor:
    """The mean loss of each case [T] over the d of its group."""
    cases, expected = codes.shape[0], []
    measure = _slot_chance if len(codes.shape) == 3 else _vector_chance
    for start in range(0, cases, group):
        last = min(start + group, cases)
        own = [codes(role, slice(start, last)) for role in "abc"]
        around = slice(max(last - group, 0), last)
        partners = own[2] if around.start == start else codes("c", around), codes("d", around)
        expected.append(measure(own, partners, loss, chance).mean(1))
    return torch.cat(expected)


def _vector_chance(
    own: list[torch.Tensor], partners: tuple[torch.Tensor, torch.Tensor], loss: Loss, chance: Chance
) -> torch.Tensor:
    """Losses [cases, partners] of every case of a group with every d of it."""
    a, b, c = own
    other_c, d = partners
    if loss != "acos":
        target = b - a + c
        sizes = target.square().sum(1)[:, None] + d.square().sum(1)
        return _length(_above_rounding(sizes - 2 * target @ d.T, sizes), loss)
    step = b - a
    lengths = step.square().sum(1)[:, None]
    if chance == "released":
        moves = d - other_c
        return _angle_from_products(step @ moves.T, lengths * moves.square().sum(1))
    products = step @ d.T - (step * c).sum(1)[:, None]
    sizes = c.square().sum(1)[:, None] + d.square().sum(1)
    return _angle_from_products(products, lengths * _above_rounding(sizes - 2 * c @ d.T, sizes))


def _slot_chance(
    own: list[torch.Tensor], partners: tuple[torch.Tensor, torch.Tensor], loss: Loss, chance: Chance
) -> torch.Tensor:
    """As `_vector_chance`, with the slots of every quadruple matched on its own; only d is exchanged."""
    d, losses = partners[1], []
    for a, b, c in split_cases(own, partners=len(d)):
        grams = _crossed_grams(a, b, c, d)
        losses.append(_loss_from_grams(grams, greedy_match(grams), loss).view(len(a), len(d)))
    return torch.cat(losses)


def _crossed_grams(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> Grams:
    """Grams of every case [n, K, D] with every d [m, K, D]: n x m quadruples, case by case."""
    many = len(d)

    def own(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left @ right.transpose(1, 2)).repeat_interleave(many, 0)

    def crossed(left: torch.Tensor) -> torch.Tensor:
        return (left[:, None] @ d.transpose(1, 2)[None]).flatten(0, 1)

    dd = (d @ d.transpose(1, 2)).repeat(len(a), 1, 1)
    return Grams(
        own(a, a), own(b, b), own(c, c), dd, own(a, b), own(a, c), crossed(a), own(b, c), crossed(b), crossed(c)
    )


def _loss_from_grams(grams: Grams, picks: torch.Tensor, loss: Loss) -> torch.Tensor:
    """The loss of matched quadruples [Q], slots taken as one long vector."""
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
