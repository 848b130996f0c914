"""Batches: the same numbers give the same items, however they are asked for."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.scenes import Scenes
from alebrije.train import AllImages, Held, Images, Stream, TaskEpisodes, TaskSources, hold
from alebrije.train.sources import known_factors, known_floats

CPU = torch.device("cpu")


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_stream_is_the_same_in_any_portions() -> None:
    drawing = Images(worlds.get("sprites"), 16, seed=3)
    whole = Stream(drawing, CPU, block=16).batch(0, 40)
    stream = Stream(drawing, CPU, block=16)
    parts = [stream.batch(first, 8) for first in range(0, 40, 8)]
    assert torch.equal(whole["images"], torch.cat([part["images"] for part in parts]))
    assert equal(Stream(drawing, CPU, block=16).batch(24, 10), stream.batch(24, 10))
    assert torch.equal(whole["images"], worlds.get("sprites").render(drawing.scenes(0, 40), 16).images)
    assert not torch.equal(
        whole["images"], Stream(Images(worlds.get("sprites"), 16, seed=4), CPU).batch(0, 40)["images"]
    )


def test_held_out_items_are_others() -> None:
    world = worlds.get("dsprites")
    seen, new = (Images(world, 64, 0, held_out).scenes(0, 64) for held_out in (False, True))
    assert not torch.equal(seen.factors, new.factors)


def test_episodes_are_those_of_the_task() -> None:
    task = worlds.task("sprites", "S-A", alpha=0.2)
    drawing = TaskEpisodes(task, 16, seed=0)
    batch = Stream(drawing, CPU, block=32).batch(0, 32)
    episodes = drawing.scenes(0, 32)
    assert {tuple(row) for row in episodes.source.factors.reshape(-1, 3).tolist()} <= set(task.split.train)
    assert torch.equal(task.apply(episodes.source).factors, episodes.target.factors)
    assert torch.equal(batch["source"], task.world.render(episodes.source, 16).images)
    assert torch.equal(batch["target"], task.world.render(episodes.target, 16).images)
    assert torch.equal(batch["factors"], episodes.source.factors)
    assert torch.equal(batch["floats"], episodes.source.position.float())


def test_training_validation_and_test_do_not_share_episodes() -> None:
    task = worlds.task("sprites", "S-A", alpha=0.2)
    train, validation, test = (
        TaskEpisodes(task, 16, 0, part).scenes(0, 50).source for part in ("train", "validation", "test")
    )
    combinations = [{tuple(row) for row in scenes.factors.reshape(-1, 3).tolist()} for scenes in (train, test)]
    assert not combinations[0] & combinations[1]
    assert not torch.equal(train.position, validation.position)
    shown = {tuple(row) for row in validation.factors.reshape(-1, 3).tolist()}
    assert shown <= set(task.split.train)


def combinations(scenes: Scenes) -> set[tuple[int, ...]]:
    return {tuple(row) for row in scenes.factors.flatten(0, 1).tolist()}


@pytest.mark.parametrize(
    ("world", "rule", "alpha", "count"),
    [
        ("sprites", "S-A", 0.0, 600),
        ("sprites", "M-NA", 0.6, 600),
        ("clevr", "S-A", 0.2, 300),
        ("clevrtex", "M-A", 0, 60),
    ],
)
def test_images_of_a_task_show_what_training_may_show(world: str, rule: str, alpha: float, count: int) -> None:
    task = worlds.task(world, rule, alpha)
    train, validation, test = (
        TaskSources(task, 16, 0, part).scenes(0, count) for part in ("train", "validation", "test")
    )
    held_out = set(task.world.vocabulary.combinations()) - set(task.split.train)
    assert set(task.split.test) <= held_out
    for scenes in (train, validation):
        assert combinations(scenes) <= set(task.split.train)
        assert not combinations(scenes) & held_out
    assert not torch.equal(train.position, validation.position)
    assert combinations(test) <= set(task.split.test)
    if count == 600:
        assert combinations(train) == combinations(validation) == set(task.split.train)
        assert combinations(test) == set(task.split.test)


@pytest.mark.parametrize("rule", ["S-A", "M-A", "S-NA", "M-NA"])
def test_targets_would_show_what_is_held_out(rule: str) -> None:
    """Why only sources are learned from."""
    task = worlds.task("sprites", rule, alpha=0.6)
    assert combinations(TaskEpisodes(task, 16, seed=0).scenes(0, 600).target) & set(task.split.test)


def test_images_of_a_task_are_the_sources_of_its_episodes() -> None:
    task = worlds.task("sprites", "S-A", alpha=0.2)
    batch = Stream(TaskSources(task, 16, seed=4), CPU, block=32).batch(8, 24)
    assert batch.keys() == {"images"}
    assert torch.equal(batch["images"], Stream(TaskEpisodes(task, 16, seed=4), CPU, block=32).batch(8, 24)["source"])


def test_what_is_known_of_solid_scenes_includes_camera_lamps_and_ground() -> None:
    scenes = worlds.get("clevrtex").sample(2)
    assert known_factors(scenes).shape == (2, 2, len(scenes.vocabulary.factors) + 1)
    assert known_factors(scenes)[:, 0, -1].tolist() == scenes.background.tolist()
    floats = known_floats(scenes)
    assert floats.shape == (2, 2, 2 + 1 + 9 + 3)
    assert torch.equal(floats[:, 1, 12:], (scenes.camera / 20 + 0.5).float())
    assert torch.equal(floats[:, 1, :2], (scenes.position[:, 1, :2] / 8 + 0.5).float())
    assert 0 <= floats.min() <= floats.max() <= 1


def test_every_epoch_shows_every_item_once_in_another_order() -> None:
    held = Held({"images": torch.arange(10)}, seed=1)
    epochs = [held.batch(first, 10)["images"] for first in (0, 10)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(10))
    assert epochs[0].tolist() != epochs[1].tolist()
    assert held.batch(7, 6)["images"].tolist() == [*epochs[0][7:].tolist(), *epochs[1][:3].tolist()]
    assert Held({"images": torch.arange(10)}, seed=1).batch(10, 10)["images"].tolist() == epochs[1].tolist()
    assert Held({"images": torch.arange(10)}, seed=2).batch(0, 10)["images"].tolist() != epochs[0].tolist()


def test_a_held_set_is_the_beginning_of_the_stream() -> None:
    drawing = TaskEpisodes(worlds.task("sprites", "S-A"), 16, seed=5)
    told: list[tuple[int, int]] = []
    items = hold(drawing, 300, CPU, progress=lambda done, total: told.append((done, total)))
    assert told == [(256, 300), (300, 300)]
    assert equal(items, Stream(drawing, CPU, block=300).batch(0, 300))


def test_processes_sample_the_same_scenes() -> None:
    drawing = Images(worlds.get("clevr6"), 16, seed=0)
    assert equal(hold(drawing, 65, CPU), hold(drawing, 65, CPU, workers=2))


def test_all_images_come_in_the_order_of_the_original() -> None:
    world = worlds.get("dsprites")
    items = hold(AllImages(world, 64, seed=0), 300, CPU)
    assert torch.equal(items["images"], world.render(world.grid(range(300))).images[:, :1])


def test_nobody_is_scored_on_training_scenes_by_chance() -> None:
    """The scenes that anyone samples first are not those that a model of the same seed has learned from."""
    world, task = worlds.get("sprites"), worlds.task("sprites", "S-A")
    for seed in range(3):
        learned = Images(world, 16, seed).scenes(0, 32).position
        assert not any(torch.equal(learned, world.sample(32, seed=other).position) for other in range(8))
        learned = TaskEpisodes(task, 16, seed).scenes(0, 32).source.position
        assert not any(torch.equal(learned, task.train(32, seed=other).source.position) for other in range(8))
