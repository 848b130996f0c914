"""Outlines: area one, and the same pixels as Pillow."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from alebrije.render.outlines import OUTLINES, painted_spans, sides, sides_of
from tests.render.test_sprites import SHAPES, random_scenes


@pytest.mark.parametrize("pixels", [20, 320, 1280])  # at 20 many corners share a row
def test_spans_equal_the_pixels_that_pillow_fills(pixels):
    scenes = random_scenes(100, 1, seed=pixels)
    corners = sides_of(scenes.factor("shape"), SHAPES, scenes.codes("size"), scenes.position, pixels)
    left, right = painted_spans(corners, pixels)
    column = torch.arange(pixels)
    ours = (left[:, 0, :, None] <= column) & (column < right[:, 0, :, None])
    for row, scene in enumerate(scenes):
        canvas = Image.new("L", (pixels, pixels))
        outline = (
            OUTLINES[SHAPES[int(scene.factor("shape"))]] * float(scene.codes("size")) + scene.position[0, 0].numpy()
        )
        ImageDraw.Draw(canvas).polygon([tuple(corner) for corner in outline * pixels], fill=1)
        assert np.array_equal(ours[row].numpy(), np.asarray(canvas) > 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_outlines_have_area_one_and_two_rising_sides(shape):
    x, y = OUTLINES[shape].T
    area = 0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum()
    assert area == pytest.approx(1)
    assert OUTLINES[shape].mean(axis=0) == pytest.approx([0, 0], abs=1e-12)
    assert all((np.diff(side[:, 1]) > 0).all() for side in sides(OUTLINES[shape]))
