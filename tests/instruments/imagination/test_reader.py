"""Positions and crops of objects."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.instruments.imagination.reader import crops, object_positions


@pytest.mark.parametrize("name", ["sprites", "clevr"])
def test_positions_are_where_objects_are_rendered(name: str) -> None:
    world = worlds.get(name)
    scenes = world.sample(3, seed=3)
    masks, positions = world.render(scenes, 64).masks, object_positions(scenes)
    for scene in range(3):
        for each in range(2):
            x, y = positions[scene, each, :2]
            column, row = (int((float(value) + 1) * 32) for value in (x, y))
            pixels = (masks[scene] == each + 1).nonzero().float()
            assert abs(float(pixels[:, 1].mean()) - column) < 8
            assert abs(float(pixels[:, 0].mean()) - row) < 12


def test_crops() -> None:
    images = torch.zeros(1, 3, 32, 32)
    images[0, :, 4, 20] = 1  # the pixel whose centre is at x = 0.28125, y = -0.71875
    cropped = crops(images, torch.tensor([[[0.28125, -0.71875, 1.0], [-0.9, 0.9, 1.0]]]))
    assert cropped.shape == (1, 2, 3, 24, 24)
    assert float(cropped[0, 0, 0, 11:13, 11:13].sum()) == pytest.approx(1)
    assert float(cropped[0, 1].sum()) == 0
