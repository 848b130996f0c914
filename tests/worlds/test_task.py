from __future__ import annotations

from functools import cache

import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.render.silhouettes import silhouettes, visible_masks
from alebrije.scenes import Episodes, Rule, Scenes, rule, split
from alebrije.scenes.rules import RULES, Update
from alebrije.worlds.released_sprites import released_sprites
from alebrije.worlds.streams import BLOCK
from alebrije.worlds.vocabularies import CLEVR

PAIRS = ("sprites", "clevr", "clevrtex")


@cache
def episodes(world: str, part: str) -> Episodes:
    found = getattr(worlds.task(world, "M-NA", alpha=0.4), part)(BLOCK + 6)
    assert isinstance(found, Episodes)
    return found


def used(scenes: Scenes) -> set[tuple[int, ...]]:
    return set(map(tuple, scenes.factors.flatten(0, 1).tolist()))


@pytest.mark.parametrize("world", PAIRS)
def test_training_and_test_show_their_own_combinations(world: str) -> None:
    task = worlds.task(world, "M-NA", alpha=0.4)
    train, test = episodes(world, "train"), episodes(world, "test")
    assert used(train.source) <= set(task.split.train)
    assert used(test.source) <= set(task.split.test)
    assert not used(train.source) & used(test.source)


@pytest.mark.parametrize("world", PAIRS)
def test_targets_follow_the_rule(world: str) -> None:
    task = worlds.task(world, "M-NA", alpha=0.4)
    for part in ("train", "test"):
        found = episodes(world, part)
        assert found.target.equals(task.apply(found.source))
        assert not found.target.equals(found.source)


def test_single_atomic_swaps_the_shapes() -> None:
    found = worlds.task("clevr", "S-A", alpha=0.2).train(20)
    assert torch.equal(found.target.factor("shape"), found.source.factor("shape").flip(1))
    assert torch.equal(found.target.factor("color"), found.source.factor("color"))


@pytest.mark.parametrize("world", ["clevr", "clevrtex"])
def test_sources_and_targets_are_well_visible(world: str) -> None:
    for part in ("train", "test"):
        for scenes in (episodes(world, part).source, episodes(world, part).target):
            masks = visible_masks(silhouettes(scenes, 128)).flatten(1)
            assert all(int((masks == value).sum(1).min()) >= 100 for value in (0, 1, 2))


def test_targets_touch_in_clevr_but_not_in_clevrtex() -> None:
    def room(world: str) -> torch.Tensor:
        target = episodes(world, "train").target
        return (target.position[:, 0, :2] - target.position[:, 1, :2]).norm(dim=-1) - target.codes("size").sum(1)

    assert float(room("clevrtex").min()) >= 0
    assert float(room("clevr").min()) < 0


@pytest.mark.parametrize("world", PAIRS)
def test_an_episode_depends_on_the_seed_and_its_number_alone(world: str) -> None:
    task = worlds.task(world, "M-NA", alpha=0.4)
    for part, again in (("train", task.train), ("test", task.test)):
        whole = episodes(world, part)
        rest = again(5, start=BLOCK + 1)
        assert rest.source.equals(whole.source[BLOCK + 1 :])
        assert rest.target.equals(whole.target[BLOCK + 1 :])
    assert task.train(3).source.equals(episodes(world, "train").source[:3])
    assert not task.train(3, seed=1).source.equals(episodes(world, "train").source[:3])


def test_training_test_omni_and_samples_share_no_random_numbers() -> None:
    task = worlds.task("sprites", "S-A")
    parts = [task.train(50).source, task.test(50).source, task.omni(50).source, task.world.sample(50)]
    places = torch.cat([part.position.flatten() for part in parts])
    assert len(places.unique()) == len(places)


def test_omni_shows_every_combination() -> None:
    assert len(used(worlds.task("sprites", "S-A").omni(400).source)) == 64


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_a_task_of_every_world_of_pairs(name: str) -> None:
    for world in PAIRS:
        assert worlds.task(world, name).rule == rule(name)


def test_moves_stay_in_sight_in_the_solid_worlds() -> None:
    found = worlds.task("clevr", "NCP").train(10)
    steps = (found.target.position - found.source.position)[..., :2].norm(dim=-1)
    assert torch.allclose(steps, torch.full_like(steps, 1.8))
    assert bool(((visible_masks(silhouettes(found.target, 128)).flatten(1) == 2).sum(1) >= 100).all())


def test_splits_are_the_released_ones_or_fresh() -> None:
    assert worlds.task("clevr", "S-A", alpha=0.2).split == split(CLEVR, 0.2)
    assert worlds.task("clevr", "S-A", alpha=0.2, seed=3).split == split(CLEVR, 0.2, seed=3)
    fresh = worlds.task("clevr", "S-A", alpha=0.2, seed=3)
    assert used(fresh.test(20).source) <= set(fresh.split.test)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.4, 0.6])
def test_released_sprites_are_the_released_ones(alpha: float) -> None:
    task = worlds.task("sprites", "M-A", alpha=alpha)
    train, test = task.train(5, seed="released", start=7), task.test(5, seed="released", start=7)
    assert train.source.equals(released_sprites(alpha, 5, start=7))
    assert test.source.equals(released_sprites("test", 5, start=7))
    assert train.target.equals(task.apply(train.source))


def test_what_was_not_released_is_refused() -> None:
    with pytest.raises(InputError, match="not for clevr"):
        worlds.task("clevr", "S-A").train(1, seed="released")
    with pytest.raises(InputError, match="with another split"):
        worlds.task("sprites", "S-A", seed=1).test(1, seed="released")
    with pytest.raises(InputError, match=r"alphas 0, 0\.2, 0\.4 and 0\.6"):
        worlds.task("sprites", "S-A", alpha=0.3).train(1, seed="released")
    with pytest.raises(InputError, match="training and test"):
        worlds.task("sprites", "S-A").omni(1, seed="released")  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [-0.1, 1.5, float("nan"), "much", None])
def test_alpha_is_a_fraction(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha must be a number from 0 to 1"):
        worlds.task("sprites", "S-A", alpha=alpha)


@pytest.mark.parametrize("world", ["dsprites", "rooms", "coat", "clevr6"])
def test_worlds_without_pairs_have_no_tasks(world: str) -> None:
    with pytest.raises(InputError, match=f"sprites, clevr, clevrtex have them, {world} does not"):
        worlds.task(world, "S-A")


def test_unknown_names_are_told() -> None:
    with pytest.raises(InputError, match="no world 'kitchen'"):
        worlds.task("kitchen", "S-A")
    with pytest.raises(InputError, match="no rule 'S-B'"):
        worlds.task("sprites", "S-B")
    with pytest.raises(InputError, match="seed must be a whole number"):
        worlds.task("sprites", "S-A").train(1, seed="relesed")  # type: ignore[arg-type]


def test_rules_of_ones_own_are_welcome() -> None:
    task = worlds.task(worlds.get("sprites"), Rule("swap", (Update("color", (("other", "color"),)),)))
    found = task.train(10)
    assert torch.equal(found.target.factor("color"), found.source.factor("color").flip(1))
    with pytest.raises(InputError, match="no factor 'taste'"):
        worlds.task("sprites", Rule("odd", (Update("taste", (("other", "color"),)),)))
    both = Rule("both", (Update("color", (("other", "shape"),)), Update("material", (("self", "shape"),))))
    with pytest.raises(InputError, match="the same factor in clevrtex"):
        worlds.task("clevrtex", both)


def test_worlds_and_rules_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="there is no world None"):
        worlds.task(None, "S-A")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no rule None"):
        worlds.task("sprites", None)  # type: ignore[arg-type]


def test_a_task_applies_to_scenes_of_its_world() -> None:
    with pytest.raises(InputError, match="to scenes of the vocabulary sprites, not of clevr"):
        worlds.task("sprites", "S-A").apply(episodes("clevr", "train").source)


def test_drawing_episodes_tells_how_far_it_is() -> None:
    task = worlds.task("sprites", "S-A", alpha=0.2)
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    for draw in (task.train, task.test, task.omni):
        draw(BLOCK + 1, progress=tell)
        assert told == [(BLOCK, BLOCK + 1), (BLOCK + 1, BLOCK + 1)]
        told.clear()
    task.train(2, seed="released", progress=tell)
    assert told == [(2, 2)]
