"""Rules: how the two objects of a scene change from source to target, written as data.

Every rule of SVIB is a few updates. An update sets one factor of an object to a sum of parents, modulo the number of
values of that factor. A parent is a factor, or the quadrant, of the object itself or of the other object. A move shifts
the object instead. All parents are read from the source, so the updates of a rule do not affect each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.scenes.scenes import Scenes
from alebrije.scenes.vocabulary import Vocabulary
from alebrije.suggest import did_you_mean

Parent = tuple[Literal["self", "other"], str]  # the object, and one of its factors or "quadrant"

FLAT_FIELD = 1.0  # side of the square of object positions in flat worlds
SOLID_FIELD = 6.0  # the same in solid worlds: [-3, 3] in world units


@dataclass(frozen=True)
class Update:
    """Set the factor `target` to the sum of `parents`, modulo the number of its values."""

    target: str
    parents: tuple[Parent, ...]


@dataclass(frozen=True)
class Move:
    """Shift by one of `steps`, as fractions of the field's side: the step with index `chooser`, or the only one."""

    steps: tuple[tuple[float, float], ...]
    chooser: Parent | None = None


@dataclass(frozen=True)
class Rule:
    """A name and the updates that apply to both objects at once.

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
                raise InputError(f"the rule {self.name!r} sets {update.target} without a parent; give at least one")
        parents = [parent for update in self.updates if isinstance(update, Update) for parent in update.parents]
        parents += [update.chooser for update in self.updates if isinstance(update, Move) and update.chooser]
        if wrong := [parent for parent in parents if not isinstance(parent, tuple) or len(parent) != 2]:
            raise InputError(f'a parent in the rule {self.name!r} is a pair like ("self", "shape"), not {wrong[0]!r}')
        if unknown := [owner for owner, _ in parents if owner not in ("self", "other")]:
            raise InputError(f'a parent in the rule {self.name!r} belongs to "self" or "other", not to {unknown[0]!r}')
        if len(set(self.targets)) < len(self.targets):
            raise InputError(f"the rule {self.name!r} sets a target twice: {', '.join(self.targets)}")

    @property
    def targets(self) -> tuple[str, ...]:
        """The names that the rule sets, in the order of its updates; a move sets "position"."""
        return tuple(update.target if isinstance(update, Update) else "position" for update in self.updates)


def _check_move(move: Move, name: str) -> None:
    try:
        steps = torch.tensor(move.steps, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        steps = torch.zeros(0)
    if steps.ndim != 2 or not len(steps) or steps.shape[1] != 2 or not bool(steps.isfinite().all()):
        raise InputError(f"a move in the rule {name!r} needs steps of two finite numbers each, at least one step")
    if len(steps) > 1 and move.chooser is None:
        raise InputError(f"a move in the rule {name!r} has {len(steps)} steps but no chooser")


# The eight updates that SVIB's analysis combines, under their released names. The prefix N marks the non-atomic form.
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
"""The sixteen rules of SVIB's rule analysis by kind, in the released order."""

BENCHMARK_RULES: tuple[str, ...] = ("S-A", "S-NA", "M-A", "M-NA")
"""The four tasks of the benchmark. The first two change one factor, the others two; NA is non-atomic."""

RULES: dict[str, Rule] = {
    "S-A": Rule("S-A", (_UPDATES["ShAASh"],)),
    "S-NA": Rule("S-NA", (_UPDATES["NShAASh"],)),
    "M-A": Rule("M-A", (_UPDATES["ShAC"], _UPDATES["CAASi"])),
    "M-NA": Rule("M-NA", (_UPDATES["NShAC"], _UPDATES["NCAASi"])),
    "M-NA-paper": Rule("M-NA-paper", (_UPDATES["NShAC"], Update("size", (("other", "color"), ("self", "quadrant"))))),
    **{name: Rule(name, (update,)) for name, update in _UPDATES.items()},
    **{name: Rule(name, (_UPDATES[first], _UPDATES[second])) for name, (first, second) in _PAIRS.items()},
}
"""Every published rule by name."""


def rule(name: str) -> Rule:
    """A published rule by name: a task of the benchmark, or one of the sixteen `ANALYSIS_RULES`.

    "M-NA" is the rule of the released episodes: the size depends on the other object's colour and the *other* object's
    quadrant. The paper prints the object's own quadrant; that form is "M-NA-paper". The tasks "S-A", "S-NA", "M-A" and
    "M-NA" are ShAASh, NShAASh, MMix2 and MNMix2 of the analysis.

    >>> rule("M-A").updates[1]
    Update(target='size', parents=(('other', 'color'),))
    """
    if not isinstance(name, str) or name not in RULES:
        known = f"choose from {', '.join(RULES)}"
        raise InputError(f"there is no rule {name!r}{did_you_mean(str(name), RULES, known)}")
    return RULES[name]


def quadrants(position: Tensor) -> Tensor:
    """The quadrant of every position [..., 2 or 3]: 1 to 4 counter-clockwise from the upper right, y up.

    The centre is 0.5 in flat worlds (two columns) and the origin in solid ones (three columns). Positions on a centre
    line count as right and upper.

    >>> quadrants(torch.tensor([[0.9, 0.9], [0.1, 0.9], [0.1, 0.1], [0.9, 0.1]])).tolist()
    [1, 2, 3, 4]
    """
    middle = 0.5 if position.shape[-1] == 2 else 0.0
    right, upper = position[..., 0] >= middle, position[..., 1] >= middle
    return torch.where(upper, torch.where(right, 1, 2), torch.where(right, 4, 3))


def apply_rule(rule: Rule, scenes: Scenes) -> Scenes:
    """The target scenes that `rule` makes from source scenes with two objects each; the source is not modified.

    "color" means the material in worlds without colours. Camera, lamps, background and names are kept; recorded pixel
    coordinates are dropped. In solid worlds an object whose size changes still stands on the ground, so its height
    becomes its new size.

    A move shifts by 0.3 of the field's side: 0.3 in the unit square of sprites, where the released analysis uses it,
    and the same fraction of the six units of a solid world, 1.8, which is our choice. Nothing is clipped, so an object
    may leave the image.

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
        raise InputError(f"the rule {rule.name} sets colour and material, the same factor in {scenes.vocabulary.name}")
    counts = scenes.present.sum(1)
    if wrong := (counts != 2).nonzero()[:, 0].tolist():
        raise InputError(
            f"the rule {rule.name} needs two objects in every scene, but scene {wrong[0]} has {int(counts[wrong[0]])}"
        )
    objects = scenes.present.nonzero()[:, 1].reshape(-1, 2)  # [B, 2]: indices of each scene's two objects
    rows = torch.arange(len(scenes), device=scenes.device)[:, None]
    source = _Pair(scenes.vocabulary, scenes.factors[rows, objects], scenes.position[rows, objects])
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
        factors=scenes.factors.index_put((rows, objects), factors),
        position=scenes.position.index_put((rows, objects), position),
        pixels=None,
    )


def _axis(vocabulary: Vocabulary, name: str) -> int:
    if name == "color" and name not in vocabulary and "material" in vocabulary:
        name = "material"  # SVIB-CLEVRTex has materials instead of colours
    return vocabulary.axis(name)


@dataclass(frozen=True, eq=False)
class _Pair:
    """The two objects of every source scene."""

    vocabulary: Vocabulary
    factors: Tensor  # [B, 2, F]
    position: Tensor  # [B, 2, 2 or 3]

    def value(self, parent: Parent) -> Tensor:
        """The value of `parent` for each of the two objects, [B, 2]."""
        owner, name = parent
        values = quadrants(self.position) if name == "quadrant" else self.factors[..., _axis(self.vocabulary, name)]
        return values if owner == "self" else values.flip(1)

    def step(self, move: Move) -> Tensor:
        """The shift of each of the two objects, [B, 2, 2]."""
        side = FLAT_FIELD if self.position.shape[-1] == 2 else SOLID_FIELD
        steps = side * torch.tensor(move.steps, dtype=self.position.dtype, device=self.position.device)
        if move.chooser is None:
            return steps[0].expand(*self.position.shape[:2], 2)
        return steps[self.value(move.chooser) % len(move.steps)]
