"""Tasks: a world, a rule and a split. They make the episodes of SVIB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from alebrije.errors import InputError
from alebrije.scenes import Combination, Episodes, Rule, Scenes, Split, apply_rule, split
from alebrije.scenes import rule as published_rule
from alebrije.worlds.release import released_sprites
from alebrije.worlds.streams import OMNI, TEST, TRAIN, Flags, combination_table, draw_stream, whole_number
from alebrije.worlds.world import Progress, World, get, names

Seed = int | Literal["released"]


@dataclass(frozen=True)
class Task:
    """What happens between two frames (`rule`), in which `world`, and which combinations are shown (`split`)."""

    world: World
    rule: Rule
    split: Split

    def apply(self, scenes: Scenes) -> Scenes:
        """The scenes that the rule makes of source scenes."""
        if scenes.vocabulary != self.world.vocabulary:
            raise InputError(
                f"a task of the world {self.world.name} applies to scenes of the vocabulary "
                f"{self.world.vocabulary.name}, not of {scenes.vocabulary.name}"
            )
        return apply_rule(self.rule, scenes)

    def train(self, n: int, seed: Seed = 0, start: int = 0, progress: Progress | None = None) -> Episodes:
        """Training episodes `start` to `start + n` of the stream of `seed`; objects are of `split.train`.

        As with `World.sample`, an episode depends on the seed and on its number alone. Training, test and omni
        episodes never share random numbers, whatever their seeds. In the solid worlds the objects of source and
        target are well visible; in `clevrtex` those of the target do not touch either. Sprites with the released split
        and `seed="released"` are SVIB's own training episodes, 64,000 for each alpha of 0, 0.2, 0.4 and 0.6.
        `progress` is told how many episodes are done, of how many.

        >>> from alebrije import worlds
        >>> task = worlds.task("sprites", "S-A", alpha=0.2)
        >>> episodes = task.train(2, seed="released")
        >>> episodes.source.describe()[0], "->", episodes.target.describe()[0]
        ('orange square medium, orange square large', '->', 'orange square medium, orange square large')
        """
        return self._episodes(n, seed, start, TRAIN, self.split.train, self.split.alpha, progress)

    def test(self, n: int, seed: Seed = 0, start: int = 0, progress: Progress | None = None) -> Episodes:
        """Test episodes, of combinations that training never shows; there are 8,000 released ones of sprites."""
        return self._episodes(n, seed, start, TEST, self.split.test, "test", progress)

    def omni(self, n: int, seed: int = 0, start: int = 0, progress: Progress | None = None) -> Episodes:
        """Episodes of all combinations.

        Their sources are those of which the rule makes a good target, so in the solid worlds they are not drawn as
        SVIB's omni-composition set is: that is `task.world.sample(n)`.
        """
        return self._episodes(n, seed, start, OMNI, None, None, progress)

    def _episodes(
        self,
        n: int,
        seed: Seed,
        start: int,
        stream: int,
        combinations: tuple[Combination, ...] | None,
        released: float | Literal["test"] | None,
        progress: Progress | None,
    ) -> Episodes:
        if seed == "released":
            source = self._released(released, whole_number(n, "n"), whole_number(start, "start"))
            if progress is not None:
                progress(n, n)
        else:
            table = combination_table(self.world.vocabulary, combinations)
            source = draw_stream(
                lambda generator: self.world.sampler.block(generator, table, self._has_good_target),
                n,
                seed,
                start,
                stream,
                progress,
            )
        return Episodes(source, self.apply(source))

    def _has_good_target(self, scenes: Scenes) -> Flags:
        return self.world.sampler.fits_as_target(self.apply(scenes))

    def _released(self, part: float | Literal["test"] | None, n: int, start: int) -> Scenes:
        if part is None or self.world.name != "sprites" or self.split.seed is not None:
            raise InputError(
                "released scenes can only be drawn again for the training and test of sprites with the released split, "
                f"not for {self.world.name}" + ("" if self.split.seed is None else " with a split of its own")
            )
        return released_sprites(part, n, start)


def task(world: str | World, rule: str | Rule, alpha: float = 0.6, seed: int | None = None) -> Task:
    """A task of SVIB: one of the worlds with two objects, a rule by name or of your own, and a split.

    `rule` is "S-A", "S-NA", "M-A" or "M-NA", or one of the sixteen of the analysis (`alebrije.scenes.rule`). `alpha` is
    the part of the non-core combinations that training shows. Without a seed the split is the released one, the same
    for all rules; with one it is drawn afresh (`alebrije.scenes.split`).

    >>> from alebrije import worlds
    >>> task = worlds.task("clevr", "M-NA", alpha=0.4)
    >>> len(task.split.train), len(task.split.test), task.rule.targets
    (62, 27, ('color', 'size'))
    """
    place = world if isinstance(world, World) else get(world)
    if not place.sampler.pairs:
        able = ", ".join(name for name in names() if get(name).sampler.pairs)
        raise InputError(f"rules need two objects in every scene, which {place.name} has not; {able} have")
    law = rule if isinstance(rule, Rule) else published_rule(rule)
    made = Task(place, law, split(place.vocabulary, alpha, seed))
    factors = torch.zeros(1, 2, len(place.vocabulary.factors), dtype=torch.int64)
    made.apply(Scenes.of(place.vocabulary, factors, np.zeros((1, 2, 2))))  # a factor that is not there shows now
    return made
