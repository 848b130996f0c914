"""Poses: the frame of the first camera, waves, and checks."""

from __future__ import annotations

import math

import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.models.poses import check_views, embed, embedded_poses, pose_size, poses_of, shuffled_views


def cameras(seed: int = 0) -> torch.Tensor:
    found = worlds.get("clevr3d").sample(4, seed=seed).cameras
    assert found is not None
    return found.float()


def test_the_first_camera_is_at_the_origin_and_looks_ahead() -> None:
    positions, rays = poses_of(cameras(), 9)
    assert torch.allclose(positions[:, 0], torch.zeros(4, 3))
    assert torch.allclose(rays[:, 0, :, 4, 4], torch.tensor([0.0, 0.0, 1.0]).expand(4, 3), atol=1e-6)
    assert bool((rays[:, 0, 0, :, -1] > 0).all())  # to the right
    assert bool((rays[:, 0, 1, 0] > 0).all())  # up


def test_turning_the_world_changes_no_pose() -> None:
    given, angle = cameras(), 1.3
    turn = torch.tensor(
        [[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0], [0.0, 0.0, 1.0]]
    )
    for ours, theirs in zip(poses_of(given, 4), poses_of(given @ turn.T, 4), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_all_cameras_meet_at_the_origin_of_the_world() -> None:
    positions, rays = poses_of(cameras(), 3)
    ahead = rays[..., 1, 1]
    far = positions + ahead * cameras().norm(dim=-1, keepdim=True)
    assert torch.allclose(far, far[:, :1].expand_as(far), atol=1e-4)


def test_waves() -> None:
    waves = embed(torch.tensor([[0.25, 0.5]]), -1, 3)[0]
    angles = [0.25 * math.pi * scale for scale in (0.5, 1, 2)] + [0.5 * math.pi * scale for scale in (0.5, 1, 2)]
    assert waves[:6].tolist() == pytest.approx([math.sin(angle) for angle in angles], abs=1e-6)
    assert waves[6:].tolist() == pytest.approx([math.cos(angle) for angle in angles], abs=1e-6)
    assert embedded_poses(cameras(), 4, 5).shape == (4, 3, 4, 4, pose_size(5))


def test_any_view_can_be_the_first() -> None:
    given = torch.arange(60.0).reshape(20, 3, 1).expand(-1, -1, 3)
    images = given[..., None, None].expand(-1, -1, 3, 2, 2)
    torch.manual_seed(0)
    shuffled, moved = shuffled_views(images, given)
    assert torch.equal(shuffled[..., 0, 0], moved)
    assert set((moved[:, 0, 0] % 3).tolist()) == {0, 1, 2}
    assert torch.equal((moved[:, 1, 0] - moved[:, 0, 0]) % 3, torch.ones(20))
    assert torch.equal(moved.sort(1)[0], given)


def test_bad_views() -> None:
    images, given = torch.zeros(2, 3, 3, 8, 8), torch.ones(2, 3, 3)
    check_views(images, given, 8, 3)
    with pytest.raises(InputError, match=r"images must have the shape \[B, V, 3, 8, 8\], not \[2, 3, 8, 8\]"):
        check_views(images[:, 0], given, 8, 1)
    with pytest.raises(InputError, match=r"cameras must have the shape \[2, 3, 3\], not \[2, 2, 3\]"):
        check_views(images, given[:, :2], 8, 1)
    with pytest.raises(InputError, match="at least 4 views, not 3"):
        check_views(images, given, 8, 4)
    with pytest.raises(InputError, match="octaves"):
        pose_size(0)
