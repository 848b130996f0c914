"""Scene sets: the same index gives the same scene, and parts do not overlap."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.scenes import Scenes
from alebrije.train import AllImages, Images, StreamedSource, TaskEpisodes, TaskSources, preload
from alebrije.train.scene_sets import known_factors, known_floats

CPU = torch.device("cpu")


def test_held_out_scenes_differ_from_training() -> None:
    world = worlds.get("dsprites")
    training, held_out_scenes = (Images(world, 64, 0, held_out).scenes(0, 64) for held_out in (False, True))
    assert not torch.equal(training.factors, held_out_scenes.factors)


def test_episodes_are_those_of_the_task() -> None:
    task = worlds.task("sprites", "S-A", alpha=0.2)
    scene_set = TaskEpisodes(task, 16, seed=0)
    batch = StreamedSource(scene_set, CPU, block=32).batch(0, 32)
    episodes = scene_set.scenes(0, 32)
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
def test_images_of_a_task_show_only_training_combinations(world: str, rule: str, alpha: float, count: int) -> None:
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
def test_targets_would_show_held_out_combinations(rule: str) -> None:
    """The reason to learn only from sources."""
    task = worlds.task("sprites", rule, alpha=0.6)
    assert combinations(TaskEpisodes(task, 16, seed=0).scenes(0, 600).target) & set(task.split.test)


def test_images_of_a_task_are_the_sources_of_its_episodes() -> None:
    task = worlds.task("sprites", "S-A", alpha=0.2)
    batch = StreamedSource(TaskSources(task, 16, seed=4), CPU, block=32).batch(8, 24)
    assert batch.keys() == {"images"}
    assert torch.equal(
        batch["images"], StreamedSource(TaskEpisodes(task, 16, seed=4), CPU, block=32).batch(8, 24)["source"]
    )


def test_known_properties_of_3d_scenes_include_camera_lamps_and_background() -> None:
    scenes = worlds.get("clevrtex").sample(2)
    assert known_factors(scenes).shape == (2, 2, len(scenes.vocabulary.factors) + 1)
    assert known_factors(scenes)[:, 0, -1].tolist() == scenes.background.tolist()
    floats = known_floats(scenes)
    assert floats.shape == (2, 2, 2 + 1 + 9 + 3)
    assert torch.equal(floats[:, 1, 12:], (scenes.camera / 20 + 0.5).float())
    assert torch.equal(floats[:, 1, :2], (scenes.position[:, 1, :2] / 8 + 0.5).float())
    assert 0 <= floats.min() <= floats.max() <= 1


def test_all_images_have_the_original_order() -> None:
    world = worlds.get("dsprites")
    items = preload(AllImages(world, 64, seed=0), 300, CPU)
    assert torch.equal(items["images"], world.render(world.grid(range(300))).images[:, :1])


def test_scenes_of_small_seeds_are_not_training_scenes() -> None:
    """The scenes that a user samples with a small seed are never training scenes of a model."""
    world, task = worlds.get("sprites"), worlds.task("sprites", "S-A")
    for seed in range(3):
        learned = Images(world, 16, seed).scenes(0, 32).position
        assert not any(torch.equal(learned, world.sample(32, seed=other).position) for other in range(8))
        learned = TaskEpisodes(task, 16, seed).scenes(0, 32).source.position
        assert not any(torch.equal(learned, task.train(32, seed=other).source.position) for other in range(8))
