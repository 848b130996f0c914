"""MoCo: momentum, queue and loss by hand, that it learns; and its augmentations against known answers."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije import worlds
from alebrije.errors import InputError
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
from alebrije.models.learner import Batch, Learner, Losses
from alebrije.models.moco import MoCo, contrast

STEP = torch.tensor(0.0)
NOTHING = {"smallest_crop": 1.0, "jitter_chance": 0.0, "grey_chance": 0.0, "blur_chance": 0.0, "flip_chance": 0.0}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def small(**arguments: Any) -> MoCo:
    return MoCo(**{"architecture": "conv64", "queue": 16, **arguments})


def rooms(count: int, seed: int) -> Tensor:
    world = worlds.get("rooms")
    return world.render(world.sample(count, seed=seed), size=64).images.float() / 255


def test_parameter_counts() -> None:
    model = MoCo()
    # Encoder: 4,864 + 3 · 102,464 convolutions, 1,048,832 + 65,792 fully connected. Head: 65,792 + 32,896.
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert trained == (312_256 + 1_114_624) + 98_688 == 1_525_568
    followers = {name: p for name, p in model.named_parameters() if name.startswith("key_")}
    assert sum(parameter.numel() for parameter in followers.values()) == trained
    assert not any(parameter.requires_grad for parameter in followers.values())
    assert all(torch.equal(p, model.get_parameter(name.removeprefix("key_"))) for name, p in followers.items())
    assert isinstance(model, Learner)


def test_the_vector_is_what_the_encoder_gives() -> None:
    model = MoCo().eval()
    images = torch.rand(2, 3, 128, 128)
    encoding = model(images)
    assert encoding.vector is not None
    assert encoding.vector.shape == (2, 256)
    assert torch.equal(encoding.vector, model.encoder(2 * images - 1))


def test_keys_follow_before_they_are_made() -> None:
    model = small(momentum=0.9, **NOTHING)
    with torch.no_grad():
        for parameter in (*model.encoder.parameters(), *model.head.parameters()):
            parameter.add_(0.1 * torch.randn_like(parameter))
    trained = {name: p.detach().clone() for name, p in model.named_parameters() if not name.startswith("key_")}
    before = {name: p.clone() for name, p in model.named_parameters() if name.startswith("key_")}
    images = torch.rand(8, 3, 64, 64)
    model.training_loss({"images": images}, STEP)
    for name, old in before.items():
        expected = 0.9 * old + 0.1 * trained[name.removeprefix("key_")]
        torch.testing.assert_close(model.get_parameter(name).data, expected)
    # The keys in the queue are those of the parameters after the update.
    keys = F.normalize(model.key_head(model.key_encoder(2 * images - 1)), dim=1)
    torch.testing.assert_close(model.queue[:8], keys)


def test_the_queue_goes_round() -> None:
    model = small(queue=12, dimensions=5)
    batches = [F.normalize(torch.randn(4, 5), dim=1) for _ in range(5)]
    pointers = []
    for batch in batches:
        model.enqueue(batch)
        pointers.append(int(model.pointer))
    assert pointers == [4, 8, 0, 4, 8]
    assert torch.equal(model.queue, torch.cat([batches[3], batches[4], batches[2]]))
    assert {"queue", "pointer"} <= {*model.state_dict()}
    keys = torch.arange(30.0).reshape(6, 5)
    model.enqueue(keys)  # four before the end, two from the start
    assert torch.equal(model.queue, torch.cat([keys[4:], batches[3][2:], batches[4], keys[:4]]))
    assert int(model.pointer) == 2


def test_the_loss_by_hand() -> None:
    queries, keys = (F.normalize(torch.randn(6, 8), dim=1) for _ in range(2))
    negatives = F.normalize(torch.randn(20, 8), dim=1)
    logits = torch.cat(
        [torch.stack([q @ k for q, k in zip(queries, keys, strict=True)])[:, None], queries @ negatives.T], 1
    )
    losses = contrast(queries, keys, negatives, 0.2)
    target = torch.zeros(6, dtype=torch.int64)
    torch.testing.assert_close(losses["loss"], F.cross_entropy(logits / 0.2, target))
    right = sum(bool(row[0] == row.max()) for row in logits)
    assert float(losses["accuracy"]) == pytest.approx(right / 6)


def test_a_step_contrasts_with_the_queue_as_it_was() -> None:
    model = small(**NOTHING)
    images, before = torch.rand(8, 3, 64, 64), model.queue.clone()
    loss = model.training_loss({"images": images}, STEP)["loss"]
    queries = F.normalize(model.head(model.encoder(2 * images - 1)), dim=1)
    torch.testing.assert_close(loss, contrast(queries, model.queue[:8], before, 0.2)["loss"])
    loss.backward()  # the queue has changed since, and must not have been in the way
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())


def test_an_untrained_model_guesses_among_all_keys() -> None:
    # Untrained codes of all images are nearly alike, so a full queue leaves log(K + 1) nats.
    model = small(queue=64)
    images = rooms(64, seed=0)
    for start in range(0, 64, 16):
        model.training_loss({"images": images[start : start + 16]}, STEP)
    loss = model.training_loss({"images": images[:16]}, STEP)["loss"]
    assert float(loss.detach()) == pytest.approx(math.log(65), abs=0.3)


def test_half_precision_and_whole_graphs() -> None:
    model, plain = small(), small()
    plain.load_state_dict(model.state_dict())
    # This backend also rewrites what happens in place, as the fast ones do.
    whole: Callable[[Batch, Tensor], Losses] = torch.compile(model.training_loss, backend="aot_eager", fullgraph=True)
    images = torch.rand(8, 3, 64, 64)
    for step in range(3):
        torch.manual_seed(step)
        losses = whole({"images": images}, STEP)
        torch.manual_seed(step)
        torch.testing.assert_close(losses["loss"], plain.training_loss({"images": images}, STEP)["loss"])
    torch.testing.assert_close(model.state_dict(), plain.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        losses = torch.compile(plain.training_loss, backend="eager", fullgraph=True)({"images": images}, STEP)
    losses["loss"].backward()
    assert all(part.dtype == torch.float32 and part.isfinite() for part in losses.values())


def test_two_views_of_a_scene_become_neighbours(fit: Any) -> None:
    pool, fresh = rooms(512, seed=0), rooms(64, seed=1)
    model = small(queue=256, momentum=0.99, smallest_crop=0.6, jitter=0.2, hue=0.02, grey_chance=0.0)

    def found() -> float:
        """How many fresh scenes' views have the other view of their scene nearest, of 64."""
        torch.manual_seed(5)
        with torch.no_grad():
            one, other = (F.normalize(model(model.augment(fresh)).codes, dim=1) for _ in range(2))
        return float(((one @ other.T).argmax(1) == torch.arange(64)).float().mean())

    before = found()
    fit(model, lambda step: {"images": pool[(torch.arange(32) + 32 * step) % 512]}, steps=100, lr=1e-3)
    after = found()
    assert before < 0.8  # colours alone tell many scenes apart
    assert after > max(0.82, before + 0.1)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MoCo(architecture="resnet50"), "architecture must be one of"),  # type: ignore[arg-type]
        (lambda: MoCo(queue=0), "queue must be at least 1"),
        (lambda: MoCo(momentum=1.5), "momentum must be from 0 to 1"),
        (lambda: MoCo(temperature=0.0), "temperature must be above 0"),
        (lambda: MoCo(smallest_crop=0.0), "smallest_crop must be"),
        (lambda: MoCo(hue=0.6), "hue must be in turns"),
        (lambda: MoCo(blur_chance=1.1), "blur_chance must be from 0 to 1"),
        (lambda: small().training_loss({"images": torch.rand(5, 3, 64, 64)}, STEP), "not a multiple of the batch of 5"),
        (lambda: small()(torch.rand(2, 3, 128, 128)), r"takes images \[B, 3, 64, 64\]"),
    ],
)
def test_bad_input(build: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()


# ------------------------------------------------------------------------------------------------------- augmentations


def test_zero_strengths_change_nothing() -> None:
    images, ones = torch.rand(4, 3, 32, 32), torch.ones(4)
    torch.testing.assert_close(Augmentation(**NOTHING)(images), images)
    assert torch.equal(adjust_brightness(images, ones), images)
    torch.testing.assert_close(adjust_contrast(images, ones), images)
    torch.testing.assert_close(adjust_saturation(images, ones), images)
    torch.testing.assert_close(rotate_hue(images, 0 * ones), images)
    torch.testing.assert_close(rotate_hue(images, ones), images, rtol=0, atol=1e-5)  # a whole turn
    torch.testing.assert_close(crop(images, torch.tensor([[0.0, 0.0, 1.0, 1.0]]).expand(4, -1)), images)
    # Jitter of no strength, whatever its chance.
    quiet = Augmentation(**{**NOTHING, "jitter_chance": 1.0, "jitter": 0.0, "hue": 0.0})
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
    always = Augmentation(**{**NOTHING, "grey_chance": 1.0})(torch.rand(4, 3, 8, 8))
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


def test_boxes_are_drawn_as_they_should() -> None:
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


def test_chances_are_kept() -> None:
    images = rooms(1, seed=0).expand(400, -1, -1, -1)
    for part, chance in (("grey_chance", 0.2), ("blur_chance", 0.5), ("flip_chance", 0.5), ("jitter_chance", 0.8)):
        views = Augmentation(**{**NOTHING, part: chance})(images)
        changed = (views - images).abs().amax((1, 2, 3)) > 1e-3
        assert float(changed.float().mean()) == pytest.approx(chance, abs=0.08), part
