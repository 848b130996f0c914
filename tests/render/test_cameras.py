"""Cameras: rays through pixels."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.render import pixel_rays
from alebrije.scenes.scene_json import pixel_coords


def test_rays_reach_the_points_that_pixels_show() -> None:
    world = worlds.get("clevr3d")
    scenes = world.sample(2, seed=1)
    assert scenes.cameras is not None
    depth = world.render(scenes, 32).depth
    assert depth is not None
    rays = pixel_rays(scenes.cameras, 32)
    assert rays.shape == (2, 3, 3, 32, 32)
    assert torch.allclose(rays.norm(dim=2), torch.ones(2, 3, 32, 32, dtype=torch.float64))
    forward = -scenes.cameras / scenes.cameras.norm(dim=-1, keepdim=True)
    along = (rays * forward[..., None, None]).sum(2)
    points = scenes.cameras[..., None, None] + rays * (depth / along)[:, :, None]
    grid = torch.arange(32, dtype=torch.float64) + 0.5
    for view in range(3):
        found = pixel_coords(points[:, view].flatten(2).transpose(1, 2), scenes.cameras[:, view], (3200, 3200))
        rows, columns = torch.meshgrid(grid * 100, grid * 100, indexing="ij")
        assert torch.allclose(found[..., 0], columns.reshape(-1).expand(2, -1), atol=1.0)
        assert torch.allclose(found[..., 1], rows.reshape(-1).expand(2, -1), atol=1.0)
        assert torch.allclose(found[..., 2], depth[:, view].flatten(1).double(), atol=1e-3)


def test_bad_cameras() -> None:
    with pytest.raises(InputError, match="cameras must have the shape"):
        pixel_rays(torch.ones(2, 4), 8)
    with pytest.raises(InputError, match="size"):
        pixel_rays(torch.ones(2, 3), 0)
