"""Rules: what happens to the two objects of a scene between source and target, written as data.

Every rule of SVIB is a few updates. An update sets one factor of an object to a sum of parents, modulo the number of
values of that factor; a parent is a factor of the object itself or of the other one, or one of their quadrants. A move
shifts the object instead. All parents are read from the source, so the updates of a rule cannot disturb each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.scenes.scenes import Scenes
from alebrije.scenes.vocabulary import Vocabulary

Parent = tuple[Literal["self", "other"], str]  # whose, and which factor of theirs; or "quadrant"

FLAT_FIELD = 1.0  # the side of the square in which objects are placed, in flat worlds
SOLID_FIELD = 6.0  # and in solid ones, [-3, 3] in world units


@dataclass(frozen=True)
class Update:
    """Set the factor `target` to the sum of `parents`, modulo the number of its values."""

    target: str
    parents: tuple[Parent, ...]


@dataclass(frozen=True)
class Move:
    """Shift by one of `steps`, fractions of the field's side: the one whose index is `chooser`, or the only one."""

    steps: tuple[tuple[float, float], ...]
    chooser: Parent | None = None


@dataclass(frozen=True)
class Rule:
    """A name and the updates that both objects undergo at once.

    >>> Rule("swap colours", (Update("color", (("other", "color"),)),)).targets
    ('color',)
    """

    name: str
    updates: tuple[Update | Move, ...]

    def __post_init__(self) -> None:
        for update in self.updates:
            if isinstance(update, Move):
                _check_move(update, self.name)
            elif not isinstance(update, Update):
                raise InputError(f"the rule {self.name!r} consists of updates and moves, not of {update!r}")
            elif not update.parents:
                raise InputError(f"the rule {self.name!r} sets {update.target} without a parent: give at least one")
        parents = [parent for update in self.updates if isinstance(update, Update) for parent in update.parents]
        parents += [update.chooser for update in self.updates if isinstance(update, Move) and update.chooser]
        if odd := [parent for parent in parents if not isinstance(parent, tuple) or len(parent) != 2]:
            raise InputError(f'a parent in the rule {self.name!r} is a pair like ("self", "shape"), not {odd[0]!r}')
        if strangers := [owner for owner, _ in parents if owner not in ("self", "other")]:
            raise InputError(
                f'a parent in the rule {self.name!r} belongs to "self" or "other", not to {strangers[0]!r}'
            )
        if len(set(self.targets)) < len(self.targets):
            raise InputError(f"the rule {self.name!r} sets the same thing twice: {', '.join(self.targets)}")

    @property
    def targets(self) -> tuple[str, ...]:
        """What the rule sets, in the order of its updates; a move sets "position"."""
        return tuple(update.target if isinstance(update, Update) else "position" for update in self.updates)


def _check_move(move: Move, name: str) -> None:
    try:
        steps = torch.tensor(move.steps, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        steps = torch.zeros(0)
    if steps.ndim != 2 or not len(steps) or steps.shape[1] != 2 or not bool(steps.isfinite().all()):
        raise InputError(f"a move in the rule {name!r} needs steps of two finite numbers each, at least one step")
    if len(steps) > 1 and move.chooser is None:
        raise InputError(f"a move in the rule {name!r} has {len(steps)} steps but no chooser that picks one")


# The eight updates that SVIB's analysis combines, under their released names. An N in front is the non-atomic form.
_UPDATES: dict[str, Update | Move] = {
    "CP": Move(((0.3, 0.0),)),
    "ShAC": Update("color", (("self", "shape"),)),
    "ShAASh": Update("shape", (("other", "shape"),)),
    "CAASi": Update("size", (("other", "color"),)),
    "NCP": Move(((0.0, -0.3), (0.0, 0.3), (-0.3, 0.0), (0.3, 0.0)), chooser=("other", "size")),
    "NShAC": Update("color", (("self", "shape"), ("self", "quadrant"))),
    "NShAASh": Update("shape", (("self", "shape"), ("other", "shape"))),
    "NCAASi": Update("size", (("other", "color"), ("other", "quadrant"))),
}
_PAPER_SIZE = Update("size", (("other", "color"), ("self", "quadrant")))

_PAIRS: dict[str, tuple[str, str]] = {
    "MIntra": ("CP", "ShAC"),
    "MMix2": ("ShAC", "CAASi"),
    "MMix1": ("CP", "ShAASh"),
    "MInter": ("ShAASh", "CAASi"),
    "MNIntra": ("NCP", "NShAC"),
    "MNMix2": ("NShAC", "NCAASi"),
    "MNMix1": ("NCP", "NShAASh"),
    "MNInter": ("NShAASh", "NCAASi"),
}

ANALYSIS_RULES: dict[str, tuple[str, ...]] = {
    "single atomic": ("CP", "ShAC", "ShAASh", "CAASi"),
    "single non-atomic": ("NCP", "NShAC", "NShAASh", "NCAASi"),
    "multiple atomic": ("MIntra", "MMix2", "MMix1", "MInter"),
    "multiple non-atomic": ("MNIntra", "MNMix2", "MNMix1", "MNInter"),
}
"""The sixteen rules of SVIB's rule analysis by kind, four each, in the released order."""

BENCHMARK_RULES: tuple[str, ...] = ("S-A", "S-NA", "M-A", "M-NA")
"""The four tasks of the benchmark. The first two change one factor, the others two; NA is non-atomic."""

RULES: dict[str, Rule] = {
    "S-A": Rule("S-A", (_UPDATES["ShAASh"],)),
    "S-NA": Rule("S-NA", (_UPDATES["NShAASh"],)),
    "M-A": Rule("M-A", (_UPDATES["ShAC"], _UPDATES["CAASi"])),
    "M-NA": Rule("M-NA", (_UPDATES["NShAC"], _UPDATES["NCAASi"])),
    "M-NA-paper": Rule("M-NA-paper", (_UPDATES["NShAC"], _PAPER_SIZE)),
    **{name: Rule(name, (update,)) for name, update in _UPDATES.items()},
    **{name: Rule(name, (_UPDATES[first], _UPDATES[second])) for name, (first, second) in _PAIRS.items()},
}
"""Every published rule by name."""


def rule(name: str) -> Rule:
    """A published rule: a task of the benchmark, or one of the sixteen of the analysis (`ANALYSIS_RULES`).

    "M-NA" is the rule that the released episodes follow: the size comes from the other's colour and the *other's*
    quadrant. The paper prints the object's own quadrant there; that form is "M-NA-paper". The tasks "S-A", "S-NA",
    "M-A" and "M-NA" are the analysis' ShAASh, NShAASh, MMix2 and MNMix2.

    >>> rule("M-A").updates[1]
    Update(target='size', parents=(('other', 'color'),))
    """
    if not isinstance(name, str) or name not in RULES:
        raise InputError(f"there is no rule {name!r}; there are {', '.join(RULES)}")
    return RULES[name]


def quadrants(position: Tensor) -> Tensor:
    """The quadrant of every position [..., 2 or 3], counted 1 to 4 against the clock from the upper right, y up.

    The middle is 0.5 in flat worlds (two columns) and the origin of the ground in solid ones (three columns); what
    lies on a middle line belongs to the right and to the upper side.

    >>> quadrants(torch.tensor([[0.9, 0.9], [0.1, 0.9], [0.1, 0.1], [0.9, 0.1]])).tolist()
    [1, 2, 3, 4]
    """
    middle = 0.5 if position.shape[-1] == 2 else 0.0
    right, upper = position[..., 0] >= middle, position[..., 1] >= middle
    return torch.where(upper, torch.where(right, 1, 2), torch.where(right, 4, 3))


def apply_rule(rule: Rule, scenes: Scenes) -> Scenes:
    """The target scenes that `rule` makes of source scenes with two objects each; the source is left as it is.

    "color" stands for the material in worlds without colours. Camera, lamps, background and names stay; recorded
    pixel coordinates do not. In solid worlds an object whose size changes stands on the ground again, so its height
    becomes its new size.

    A move shifts by 0.3 of the field's side: 0.3 in the unit square of sprites, where the released analysis uses it,
    and by the same fraction of the six units of a solid world, 1.8, where it is our reading. Nothing is clipped, so
    an object may leave the frame.

    >>> from alebrije.worlds.vocabularies import SPRITES
    >>> source = Scenes.of(SPRITES, factors=[[[0, 1, 2], [1, 3, 0]]], position=[[[0.2, 0.2], [0.8, 0.7]]])
    >>> source.describe()
    ['green triangle medium, magenta star tiny']
    >>> apply_rule(RULES["S-A"], source).describe()
    ['green star medium, magenta triangle tiny']
    >>> apply_rule(RULES["CP"], source).position[0].tolist()
    [[0.5, 0.2], [1.1, 0.7]]
    """
    axes = [_axis(scenes.vocabulary, update.target) for update in rule.updates if isinstance(update, Update)]
    if len(set(axes)) < len(axes):
        raise InputError(f"the rule {rule.name} sets colour and material, which are one in {scenes.vocabulary.name}")
    counts = scenes.present.sum(1)
    if wrong := (counts != 2).nonzero()[:, 0].tolist():
        raise InputError(
            f"the rule {rule.name} needs two objects in every scene, but scene {wrong[0]} has {int(counts[wrong[0]])}"
        )
    place = scenes.present.nonzero()[:, 1].reshape(-1, 2)  # [B, 2]: where each scene's two objects are
    rows = torch.arange(len(scenes), device=scenes.device)[:, None]
    source = _Pair(scenes.vocabulary, scenes.factors[rows, place], scenes.position[rows, place])
    factors, position = source.factors.clone(), source.position.clone()
    for update in rule.updates:
        if isinstance(update, Move):
            position[..., :2] += source.step(update)
            continue
        axis = _axis(scenes.vocabulary, update.target)
        total = torch.stack([source.value(parent) for parent in update.parents]).sum(0)
        factors[..., axis] = total % scenes.vocabulary.counts[axis]
        if update.target == "size" and position.shape[-1] == 3:
            sizes = torch.tensor(scenes.vocabulary["size"].codes, dtype=position.dtype, device=scenes.device)
            position[..., 2] = sizes[factors[..., axis]]
    return replace(
        scenes,
        factors=scenes.factors.index_put((rows, place), factors),
        position=scenes.position.index_put((rows, place), position),
        pixels=None,
    )


def _axis(vocabulary: Vocabulary, name: str) -> int:
    if name == "color" and name not in vocabulary and "material" in vocabulary:
        name = "material"  # SVIB-CLEVRTex: surfaces take the part of colours
    return vocabulary.axis(name)


@dataclass(frozen=True, eq=False)
class _Pair:
    """The two objects of every source scene."""

    vocabulary: Vocabulary
    factors: Tensor  # [B, 2, F]
    position: Tensor  # [B, 2, 2 or 3]

    def value(self, parent: Parent) -> Tensor:
        """What `parent` is for each of the two objects, [B, 2]."""
        owner, name = parent
        is_place = name == "quadrant"
        values = quadrants(self.position) if is_place else self.factors[..., _axis(self.vocabulary, name)]
        return values if owner == "self" else values.flip(1)

    def step(self, move: Move) -> Tensor:
        """How far each of the two objects is moved, [B, 2, 2]."""
        side = FLAT_FIELD if self.position.shape[-1] == 2 else SOLID_FIELD
        steps = side * torch.tensor(move.steps, dtype=self.position.dtype, device=self.position.device)
        if move.chooser is None:
            return steps[0].expand(*self.position.shape[:2], 2)
        return steps[self.value(move.chooser) % len(move.steps)]
