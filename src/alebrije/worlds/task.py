"""Tasks: a world, a rule and a split, which together define SVIB's episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.scenes import Combination, Episodes, Rule, Scenes, Split, apply_rule, split
from alebrije.scenes import rule as published_rule
from alebrije.worlds.released_sprites import released_sprites
from alebrije.worlds.streams import OMNI, TEST, TRAIN, check_combinations, sample_stream
from alebrije.worlds.world import Progress, World, get, names

Seed = int | Literal["released"]


@dataclass(frozen=True)
class Task:
    """A `world`, a `rule` from source to target, and a `split` of the combinations."""

    world: World
    rule: Rule
    split: Split

    def apply(self, scenes: Scenes) -> Scenes:
        """The target scenes that the rule makes from source scenes."""
        if scenes.vocabulary != self.world.vocabulary:
            raise InputError(
                f"a task of the world {self.world.name} applies to scenes of the vocabulary "
                f"{self.world.vocabulary.name}, not of {scenes.vocabulary.name}"
            )
        return apply_rule(self.rule, scenes)

    def train(self, n: int, seed: Seed = 0, start: int = 0, progress: Progress | None = None) -> Episodes:
        """Training episodes `start` to `start + n` of the stream of `seed`, with objects from `split.train`.

        As with `World.sample`, an episode depends only on the seed and on its index. Training, test and omni episodes
        never share random numbers, whatever their seeds. In the solid worlds the objects of source and target are well
        visible; in `clevrtex` the objects of the target do not touch either. Sprites with the released split and
        `seed="released"` are SVIB's own training episodes, 64,000 for each alpha of 0, 0.2, 0.4 and 0.6.
        `progress(done, n)` is called after each block.

        >>> from alebrije import worlds
        >>> task = worlds.task("sprites", "S-A", alpha=0.2)
        >>> episodes = task.train(2, seed="released")
        >>> episodes.source.describe()[0], "->", episodes.target.describe()[0]
        ('orange square medium, orange square large', '->', 'orange square medium, orange square large')
        """
        return self._episodes(n, seed, start, TRAIN, self.split.train, self.split.alpha, progress)

    def test(self, n: int, seed: Seed = 0, start: int = 0, progress: Progress | None = None) -> Episodes:
        """Test episodes, with combinations that training never shows; 8,000 of sprites were released."""
        return self._episodes(n, seed, start, TEST, self.split.test, "test", progress)

    def omni(self, n: int, seed: int = 0, start: int = 0, progress: Progress | None = None) -> Episodes:
        """Episodes of all combinations.

        Only sources whose target is valid are used, so in the solid worlds these differ from SVIB's omni-composition
        set, which is `task.world.sample(n)`.
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
            source = self._released(released, whole_number("n", n), whole_number("start", start))
            if progress is not None:
                progress(n, n)
        else:
            allowed, sampler = check_combinations(self.world.vocabulary, combinations), self.world.sampler

            def block(generator: np.random.Generator) -> Scenes:
                return sampler.block(generator, allowed, lambda scenes: sampler.fits_as_target(self.apply(scenes)))

            source = sample_stream(block, n, seed, start, stream, progress)
        return Episodes(source, self.apply(source))

    def _released(self, part: float | Literal["test"] | None, n: int, start: int) -> Scenes:
        if part is None or self.world.name != "sprites" or self.split.seed is not None:
            raise InputError(
                "released scenes exist only for the training and test of sprites with the released split, "
                f"not for {self.world.name}" + ("" if self.split.seed is None else " with another split")
            )
        return released_sprites(part, n, start)


def task(world: str | World, rule: str | Rule, alpha: float = 0.6, seed: int | None = None) -> Task:
    """A task of SVIB: a world with two objects, a rule by name or of your own, and a split.

    `rule` is "S-A", "S-NA", "M-A" or "M-NA", or one of the sixteen of the analysis (`alebrije.scenes.rule`). `alpha` is
    the fraction of the non-core combinations that training shows. Without a seed the split is the released one, the
    same for all rules; with a seed it is a new one (`alebrije.scenes.split`).

    >>> from alebrije import worlds
    >>> task = worlds.task("clevr", "M-NA", alpha=0.4)
    >>> len(task.split.train), len(task.split.test), task.rule.targets
    (62, 27, ('color', 'size'))
    """
    chosen = world if isinstance(world, World) else get(world)
    if not chosen.sampler.pairs:
        able = ", ".join(name for name in names() if get(name).sampler.pairs)
        raise InputError(f"rules need two objects in every scene; {able} have them, {chosen.name} does not")
    rule = rule if isinstance(rule, Rule) else published_rule(rule)
    result = Task(chosen, rule, split(chosen.vocabulary, alpha, seed))
    factors = torch.zeros(1, 2, len(chosen.vocabulary.factors), dtype=torch.int64)
    result.apply(Scenes.of(chosen.vocabulary, factors, np.zeros((1, 2, 2))))  # raises now if a factor is missing
    return result
