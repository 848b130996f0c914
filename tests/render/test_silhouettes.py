"""Lists of covered pixels, against the depth of every object in every pixel."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.render.silhouettes import SilhouettePixels, silhouettes, visible_pixels
from alebrije.scenes import Scenes

SIZE = 40


@pytest.fixture
def scenes() -> Scenes:
    return worlds.get("clevr6").sample(5)


def test_counts_agree_with_the_images(scenes: Scenes) -> None:
    pixels, depth = SilhouettePixels.of(scenes, SIZE), silhouettes(scenes, SIZE)
    covered = depth.isfinite()
    assert torch.equal(pixels.visible(), visible_pixels(depth))
    assert torch.equal(pixels.uncovered(), (~covered).all(1).flatten(1).sum(1))
    sets = (covered * (1 << torch.arange(scenes.objects))[:, None, None]).sum(1).flatten(1)
    assert torch.equal(pixels.sets(), torch.stack([torch.bincount(each, minlength=2**scenes.objects) for each in sets]))


def test_any_number_of_objects_may_cover_a_pixel(scenes: Scenes) -> None:
    rows = torch.arange(80) % scenes.objects  # more than a number has bits
    many = Scenes.of(
        scenes.vocabulary,
        scenes.factors[:, rows],
        scenes.position[:, rows],
        present=scenes.present[:, rows],
        rotation=scenes.rotation[:, rows],
        camera=scenes.camera,
        lamps=scenes.lamps,
        background=scenes.background,
    )
    assert torch.equal(SilhouettePixels.of(many, SIZE).uncovered(), SilhouettePixels.of(scenes, SIZE).uncovered())
