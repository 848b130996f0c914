"""The augmentations of MoCo v2 against known answers."""

from __future__ import annotations

import colorsys

import pytest
import torch
import torch.nn.functional as F

from alebrije import worlds
from alebrije.models.augmentations import (
    Augmentation,
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    crop,
    gaussian_blur,
    greyscale,
    random_boxes,
    rotate_hue,
)

UNCHANGED = {"smallest_crop": 1.0, "jitter_chance": 0.0, "grey_chance": 0.0, "blur_chance": 0.0, "flip_chance": 0.0}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def test_zero_strengths_change_nothing() -> None:
    images, ones = torch.rand(4, 3, 32, 32), torch.ones(4)
    torch.testing.assert_close(Augmentation(**UNCHANGED)(images), images)
    assert torch.equal(adjust_brightness(images, ones), images)
    torch.testing.assert_close(adjust_contrast(images, ones), images)
    torch.testing.assert_close(adjust_saturation(images, ones), images)
    torch.testing.assert_close(rotate_hue(images, 0 * ones), images)
    torch.testing.assert_close(rotate_hue(images, ones), images, rtol=0, atol=1e-5)  # a whole turn
    torch.testing.assert_close(crop(images, torch.tensor([[0.0, 0.0, 1.0, 1.0]]).expand(4, -1)), images)
    # Jitter of no strength, whatever its chance.
    quiet = Augmentation(**{**UNCHANGED, "jitter_chance": 1.0, "jitter": 0.0, "hue": 0.0})
    torch.testing.assert_close(quiet(images), images)


def test_views_stay_in_range_and_differ_between_images() -> None:
    images = torch.rand(1, 3, 32, 32).round().expand(64, -1, -1, -1)
    views = Augmentation()(images)
    assert views.dtype == torch.float32
    assert views.isfinite().all()
    assert views.min() >= 0
    assert views.max() <= 1
    assert len({tuple(view.flatten().tolist()) for view in views}) == 64


def test_greyscale_weights() -> None:
    primaries = torch.eye(3)[:, :, None, None].expand(-1, -1, 4, 4)
    grey = greyscale(primaries)
    for image, weight in zip(grey, (0.299, 0.587, 0.114), strict=True):
        torch.testing.assert_close(image, torch.full((3, 4, 4), weight))
    always = Augmentation(**{**UNCHANGED, "grey_chance": 1.0})(torch.rand(4, 3, 8, 8))
    assert torch.equal(always[:, 0], always[:, 1])


def test_brightness_contrast_and_saturation_by_hand() -> None:
    images, factors = torch.rand(3, 3, 8, 8), torch.tensor([0.6, 1.0, 1.4])
    weights = torch.tensor([0.299, 0.587, 0.114])
    for image, factor, bright, sharp, vivid in zip(
        images,
        factors,
        adjust_brightness(images, factors),
        adjust_contrast(images, factors),
        adjust_saturation(images, factors),
        strict=True,
    ):
        grey = torch.einsum("chw,c->hw", image, weights)
        torch.testing.assert_close(bright, (factor * image).clamp(0, 1))
        torch.testing.assert_close(sharp, (factor * image + (1 - factor) * grey.mean()).clamp(0, 1))
        torch.testing.assert_close(vivid, (factor * image + (1 - factor) * grey).clamp(0, 1))


def test_the_first_three_jitters_commute_where_nothing_is_clipped() -> None:
    images, factors = 0.35 + 0.2 * torch.rand(3, 3, 8, 8), torch.tensor([0.8, 1.0, 1.2])
    forwards = adjust_saturation(adjust_contrast(adjust_brightness(images, factors), factors), factors)
    backwards = adjust_brightness(adjust_contrast(adjust_saturation(images, factors), factors), factors)
    torch.testing.assert_close(forwards, backwards)


@pytest.mark.parametrize("turn", [-0.1, 0.05, 1 / 3, 0.5])
def test_hue_agrees_with_colorsys(turn: float) -> None:
    colours = torch.cat([torch.rand(2000, 3), torch.rand(20, 1).expand(-1, 3), torch.eye(3), 1 - torch.eye(3)])
    expected = []
    for colour in colours.double().tolist():
        hue, saturation, value = colorsys.rgb_to_hsv(*colour)
        expected.append(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value))
    turned = rotate_hue(colours[:, :, None, None], torch.full((len(colours),), turn))[:, :, 0, 0]
    torch.testing.assert_close(turned, torch.tensor(expected), rtol=0, atol=1e-5)


def test_a_third_of_a_turn_makes_red_green() -> None:
    images = torch.tensor([1.0, 0.0, 0.0])[None, :, None, None].expand(2, -1, 4, 4)
    turned = rotate_hue(images, torch.tensor([1 / 3, 0.0]))
    torch.testing.assert_close(turned[0], images[0].roll(1, 0), rtol=0, atol=1e-6)
    torch.testing.assert_close(turned[1], images[1])


def test_flips() -> None:
    images = torch.rand(3, 3, 16, 16)
    whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]]).expand(3, -1)
    views = crop(images, whole, torch.tensor([True, False, True]))
    torch.testing.assert_close(views[[0, 2]], images[[0, 2]].flip(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(views[1], images[1], rtol=0, atol=1e-5)
    box = torch.tensor([[0.1, 0.3, 0.5, 0.4]]).expand(3, -1)
    flipped, straight = crop(images, box, torch.ones(3, dtype=torch.bool)), crop(images, box)
    torch.testing.assert_close(flipped, straight.flip(3), rtol=0, atol=1e-5)


def test_a_crop_of_a_known_box() -> None:
    # A ramp from left to right and one from top to bottom: a crop of a ramp is a ramp between the edges of the box.
    centres = (torch.arange(64) + 0.5) / 64
    across, down = centres.expand(64, -1), centres[:, None].expand(-1, 64)
    images = torch.stack([across, down, torch.zeros(64, 64)])[None]
    left, top, width, height = 0.25, 0.125, 0.5, 0.625
    view = crop(images, torch.tensor([[left, top, width, height]]))[0]
    torch.testing.assert_close(view[0], left + width * across, rtol=0, atol=1e-5)
    torch.testing.assert_close(view[1], top + height * down, rtol=0, atol=1e-5)
    # And of a picture: torch's own resizing of the cut-out, apart from the rim, where the crop sees its surroundings.
    image = torch.rand(1, 3, 32, 32)
    view = crop(image, torch.tensor([[0.25, 0.25, 0.5, 0.5]]))
    expected = F.interpolate(image[:, :, 8:24, 8:24], size=32, mode="bilinear", align_corners=False)
    torch.testing.assert_close(view[..., 1:-1, 1:-1], expected[..., 1:-1, 1:-1], rtol=0, atol=1e-5)


def test_distribution_of_random_boxes() -> None:
    left, top, width, height = random_boxes(20_000, 0.2).unbind(1)
    area, ratio = width * height, width / height
    assert 0.2 - 1e-5 <= area.min() < 0.21
    assert area.max() > 0.98
    assert 3 / 4 - 1e-5 <= ratio.min() < 0.76
    assert 1.32 < ratio.max() <= 4 / 3 + 1e-5
    assert min(left.min(), top.min()) >= 0
    assert max((left + width).max(), (top + height).max()) <= 1 + 1e-5
    # Small boxes always fit, so below area 3/4 the area is uniform and the shape is as often wide as tall.
    small_ones = area < 0.7
    assert float(area[small_ones].mean()) == pytest.approx(0.45, abs=0.01)
    assert float((ratio > 1).float().mean()) == pytest.approx(0.5, abs=0.02)
    assert torch.equal(random_boxes(3, 1.0)[:, 2:].prod(1) > 0.999, torch.ones(3, dtype=torch.bool))


def test_blur_spreads_a_point_into_a_gaussian() -> None:
    points = torch.zeros(3, 3, 41, 41)
    points[:, :, 20, 20] = 1
    sigmas = torch.tensor([0.5, 1.0, 2.0])
    blurred = gaussian_blur(points, sigmas)
    torch.testing.assert_close(blurred.sum((2, 3)), torch.ones(3, 3))
    offset = torch.arange(41.0) - 20
    for image, sigma in zip(blurred, sigmas, strict=True):
        line = torch.exp(-0.5 * (offset / sigma).square())
        expected = torch.outer(line, line) / line.sum().square()
        torch.testing.assert_close(image, expected.expand(3, -1, -1), rtol=0, atol=1e-6)
    flat = torch.full((3, 3, 9, 9), 0.7)
    torch.testing.assert_close(gaussian_blur(flat, sigmas), flat)
    images = torch.rand(1, 3, 9, 9)
    assert torch.equal(gaussian_blur(images, torch.tensor([0.01])), images)


def test_each_augmentation_has_its_probability() -> None:
    world = worlds.get("rooms")
    images = (world.render(world.sample(1, seed=0), size=64).images.float() / 255).expand(400, -1, -1, -1)
    for part, chance in (("grey_chance", 0.2), ("blur_chance", 0.5), ("flip_chance", 0.5), ("jitter_chance", 0.8)):
        views = Augmentation(**{**UNCHANGED, part: chance})(images)
        changed = (views - images).abs().amax((1, 2, 3)) > 1e-3
        assert float(changed.float().mean()) == pytest.approx(chance, abs=0.08), part
