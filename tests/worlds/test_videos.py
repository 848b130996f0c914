"""Worlds of videos and of several views."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from alebrije import data, worlds
from alebrije.data.datasets import Dataset, write_dataset
from alebrije.errors import InputError
from alebrije.scenes import Scenes, furniture
from alebrije.train.plan import plan
from alebrije.worlds.videos import footprints

VIDEOS = ("moving", "moving-textured", "scripted")


@cache
def sampled(name: str) -> Scenes:
    return worlds.get(name).sample(64, seed=5)


def closest(scenes: Scenes) -> float:
    """The least room between two objects in any frame: beside each other or, if one is lifted, above."""
    assert scenes.path is not None
    path, present = scenes.path.numpy(), scenes.present.numpy()
    radius = footprints(scenes.vocabulary, scenes.factors.numpy())
    offset = path[:, None, :, :, :2] - path[:, :, None, :, :2]
    room = np.linalg.norm(offset, axis=-1) - (radius[:, None] + radius[:, :, None])[..., None]
    height, half = path[..., 2], path[:, :, 0, 2]  # of the centres, which stand at half their height
    above = np.abs(height[:, None] - height[:, :, None]) - (half[:, None] + half[:, :, None])[..., None]
    both = present[:, None] & present[:, :, None] & ~np.eye(present.shape[1], dtype=bool)
    return float(np.maximum(room, above)[np.broadcast_to(both[..., None], room.shape)].min())


@pytest.mark.parametrize(("name", "share"), [("moving", 0.8), ("moving-textured", 0.8), ("scripted", 0.3)])
def test_objects_never_overlap_and_move(name: str, share: float) -> None:
    scenes = sampled(name)
    assert scenes.path is not None
    assert closest(scenes) > 0
    way = (scenes.path[:, :, -1, :2] - scenes.path[:, :, 0, :2]).norm(dim=-1)[scenes.present]
    assert (way > 0.5).double().mean() > share
    assert torch.equal(scenes.path[:, :, 0, :3], scenes.position)
    assert torch.equal(scenes.path[:, :, 0, 3], scenes.rotation)


def test_counts_of_objects() -> None:
    for name, fewest, most in (("moving", 3, 10), ("scripted", 5, 10), ("clevr3d", 3, 6), ("furniture", 2, 4)):
        counts = sampled(name).present.sum(1)
        assert (int(counts.min()), int(counts.max())) == (fewest, most)


def test_at_most_two_objects_act_at_a_time_while_the_camera_moves() -> None:
    scenes = sampled("scripted")
    assert scenes.path is not None
    assert scenes.cameras is not None
    moving = (scenes.path[:, :, 1:] != scenes.path[:, :, :-1]).any(-1).sum(1)  # [B, T - 1]
    assert int(moving.max()) == 2
    assert bool((scenes.cameras[:, 0] != scenes.cameras[:, -1]).any(-1).all())
    assert float((scenes.path[..., 2] - scenes.path[:, :, :1, 2]).max()) == pytest.approx(2.5, abs=0.1)  # a lift
    assert torch.allclose(
        scenes.path[:, :, ::8, 2], scenes.path[:, :, :1, 2].expand(-1, -1, 5)
    )  # all end on the ground


@pytest.mark.parametrize("name", [*VIDEOS, "clevr3d", "furniture"])
def test_a_video_depends_on_its_seed_and_index_alone(name: str) -> None:
    world = worlds.get(name)
    assert world.sample(3, seed=5, start=20).equals(sampled(name)[20:23])
    some = sampled(name)[:2]
    together, apart = world.render(some, 16), [world.render(some[row], 16) for row in range(2)]
    for field, whole in vars(together).items():
        parts = [getattr(each, field) for each in apart]
        assert whole is None if parts[0] is None else torch.equal(whole, torch.cat(parts))


def test_cameras_of_views_are_spread_around_the_scene() -> None:
    scenes = sampled("clevr3d")
    assert scenes.cameras is not None
    angle = torch.atan2(scenes.cameras[..., 1], scenes.cameras[..., 0]).diff(dim=1).remainder(2 * torch.pi)
    assert bool((angle.rad2deg() - 120).abs().max() < 15)
    assert torch.equal(scenes.cameras[:, 0], scenes.camera)
    assert scenes.views == 3
    assert scenes.frames is None


def test_the_first_camera_of_furniture_is_turned_by_a_third() -> None:
    scenes = sampled("furniture")
    assert scenes.cameras is not None
    angle = torch.atan2(scenes.cameras[..., 1], scenes.cameras[..., 0]).diff(dim=1).remainder(2 * torch.pi)
    assert torch.allclose(angle.rad2deg(), torch.tensor(120.0, dtype=torch.float64))
    assert torch.allclose(scenes.cameras.norm(dim=-1), scenes.cameras[:, :1].norm(dim=-1))
    assert torch.equal(scenes.cameras[:, 0], scenes.camera)


def test_furniture_stands_apart() -> None:
    scenes = sampled("furniture")
    place, radius = scenes.position.numpy(), furniture.footprints(scenes.vocabulary, scenes.factors.numpy())
    apart = np.linalg.norm(place[:, None, :, :2] - place[:, :, None, :2], axis=-1)
    present = scenes.present.numpy()
    both = present[:, None] & present[:, :, None] & ~np.eye(scenes.objects, dtype=bool)
    assert float((apart - 1.1 * (radius[:, None] + radius[:, :, None]))[both].min()) >= 0
    assert float(np.abs(place[..., :2]).max()) <= 2.9
    assert np.array_equal(
        place[..., 2][present], furniture.half_heights(scenes.vocabulary, scenes.factors.numpy())[present]
    )


def test_make_keeps_cameras(tmp_path: Path) -> None:
    write_dataset(Dataset("furniture", size=16, seed=5), 3, tmp_path)
    cache = data.open_cache(tmp_path)
    views = worlds.get("furniture").render(sampled("furniture")[:3], 16)
    assert np.array_equal(cache["images"][:], views.images.numpy())
    assert np.array_equal(cache["masks"][:], views.masks.numpy())
    assert np.array_equal(cache["cameras"][:], sampled("furniture").cameras[:3].numpy())  # type: ignore[index]


def test_make_keeps_paths_boxes_and_flow(tmp_path: Path) -> None:
    write_dataset(Dataset("moving", size=16, seed=5), 3, tmp_path)
    cache = data.open_cache(tmp_path)
    world = worlds.get("moving")
    video = world.render(sampled("moving")[:3], 16)
    assert video.boxes is not None
    assert video.flow is not None
    assert np.array_equal(cache["images"][:], video.images.numpy())
    assert np.array_equal(cache["path"][:], sampled("moving").path[:3].numpy())  # type: ignore[index]
    assert np.array_equal(cache["boxes"][:], video.boxes.numpy())
    assert np.array_equal(cache["flow"][:], video.flow.half().numpy())


def test_what_needs_single_images_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="beta-VAE needs single images, and moving has videos; worlds of images: spr"):
        plan("beta-vae", preset_name="tiny", world="moving")
    with pytest.raises(InputError, match="one image of a scene, and scripted has several; use a cache"):
        write_dataset(Dataset("scripted", size=16), 1, tmp_path, format="svib")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"path": torch.zeros(2, 10, 0, 4)}, "path must have the shape"),
        ({"path": torch.zeros(2, 10, 3, 3)}, "path must have 4 columns"),
        ({"cameras": torch.ones(2, 5, 3)}, "a path of 33 frames needs as many cameras, not 5"),
        ({"cameras": torch.ones(2, 33)}, "cameras must have the shape"),
    ],
)
def test_paths_and_cameras_that_do_not_fit(change: dict[str, torch.Tensor], sentence: str) -> None:
    fields = dict(sampled("scripted")[:2].tensors()) | change
    with pytest.raises(InputError, match=sentence):
        Scenes.of(sampled("scripted").vocabulary, **fields)


def test_videos_of_different_lengths_are_not_concatenated() -> None:
    moving, scripted = sampled("moving")[:1], sampled("scripted")[:1]
    with pytest.raises(InputError, match="cannot be concatenated"):
        Scenes.concatenate([moving, scripted])
