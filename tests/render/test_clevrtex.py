"""CLEVRTex's shader: agreement with the released masks and ground colours; independence from the batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from alebrije.data.svib import read_svib
from alebrije.errors import InputError
from alebrije.render.clevrtex import intersect_ground
from alebrije.render.library import shape_named
from alebrije.render.materials import MATERIALS
from alebrije.render.solid import render_solid
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.worlds.vocabularies import CLEVRTEX, SPRITES

CAMERA = (7.48, -6.51, 5.34)
LAMPS = ((6.447, -2.905, 4.258), (-1.169, 2.646, 5.816), (-4.671, -4.014, 3.011))
SHAPES, CODES = CLEVRTEX["shape"].values, CLEVRTEX["shape"].codes
CHAINMAIL, FLEECE, WOOD = (MATERIALS.index(name) for name in ("copper chainmail", "fleece", "wood"))

# Mean colour of the ground in the released images, without objects.
GROUNDS = {
    "red bricks": (170, 119, 101),
    "white bricks": (171, 172, 174),
    "copper chainmail": (42, 30, 26),
    "denim": (55, 74, 105),
    "fleece": (33, 84, 68),
    "spotty metal": (111, 101, 98),
    "terracotta": (135, 53, 24),
    "wood": (178, 127, 52),
}


def scene(*objects: tuple[int, int, int], floor: int = 3, present: tuple[bool, ...] | None = None) -> Scenes:
    """One scene; each object is a shape, a size and a material, in a row across the view."""
    spots = [(0.0, 0.0), (1.9, 2.1), (-2.2, -1.9)][: len(objects)]
    sizes = CLEVRTEX["size"].codes
    position = [[(x, y, sizes[size]) for (x, y), (_, size, _) in zip(spots, objects, strict=True)]]
    here = None if present is None else [list(present)]
    return Scenes.of(
        CLEVRTEX, [list(objects)], position, background=[floor], camera=[CAMERA], lamps=[LAMPS], present=here
    )


def crowd() -> Scenes:
    """Eight scenes in which every shape and material occurs."""
    return Scenes.concatenate(
        [scene((k, k % 3, (3 * k + 2) % 8), ((k + 5) % 8, (k + 1) % 3, (k + 4) % 8), floor=k) for k in range(8)]
    )


def overlaps(ours: Tensor, released: Tensor) -> Tensor:
    """Intersection over union of each object. [B, 2]"""
    pairs = [(ours == label, released == label) for label in (1, 2)]
    return torch.stack([(a & b).sum((1, 2)) / (a | b).sum((1, 2)).clamp_min(1) for a, b in pairs], 1)


def test_masks_agree_with_the_released_ones(svib_samples: Path) -> None:
    folders = sorted({file.parents[1] for file in (svib_samples / "CLEVRTex").rglob("source.json")})
    scores, shapes = [], []
    for folder in folders[:: max(1, len(folders) // 8)][:8]:
        episodes = read_svib(folder, limit=3)
        for scenes, masks in ((episodes.source, episodes.source_masks), (episodes.target, episodes.target_masks)):
            assert masks is not None
            scores.append(overlaps(render_solid(scenes).masks, masks))
            shapes.append(scenes.factor("shape"))
    score, shape = torch.cat(scores), torch.cat(shapes)
    assert score.mean() >= 0.97
    for index in shape.unique().tolist():
        assert score[shape == index].mean() >= 0.95, SHAPES[index]


@pytest.mark.parametrize("name", MATERIALS)
def test_mean_colour_of_the_ground(name: str) -> None:
    frames = render_solid(scene((6, 0, FLEECE), floor=MATERIALS.index(name)))
    mean = frames.images[0].float()[:, frames.masks[0] == 0].mean(1)
    assert (mean - torch.tensor(GROUNDS[name])).abs().max() < 20


def test_counts_match_the_masks_and_depth_is_finite() -> None:
    scenes = crowd()
    frames = render_solid(scenes)
    for label in (1, 2):
        assert torch.equal((frames.masks == label).sum((1, 2)), frames.visible[:, label - 1])
    assert frames.masks.max() == 2
    assert bool((frames.visible > 100).all())
    assert frames.depth is not None
    assert bool((frames.depth.isfinite() & (frames.depth > 1) & (frames.depth < 40)).all())


def test_materials_have_different_mean_colours() -> None:
    frames = render_solid(Scenes.concatenate([scene((6, 2, material)) for material in range(8)]))
    means = torch.stack(
        [image.float()[:, mask == 1].mean(1) for image, mask in zip(frames.images, frames.masks, strict=True)]
    )
    apart = torch.cdist(means, means) + 99 * torch.eye(8)
    assert apart.min() > 12


def test_the_same_scenes_give_the_same_frames() -> None:
    first, second = (render_solid(crowd(), size=64) for _ in range(2))
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.masks, second.masks)


def test_a_scene_does_not_depend_on_its_batch() -> None:
    scenes = crowd()
    together = render_solid(scenes, size=64)
    for index in range(len(scenes)):
        alone = render_solid(scenes[index], size=64)
        assert torch.equal(alone.masks[0], together.masks[index])
        assert (alone.images[0].int() - together.images[index].int()).abs().max() <= 1


def test_ground_shows_through_chainmail() -> None:
    """The ground changes a chainmail ball much more than a fleece ball."""
    mail, solid = (
        [render_solid(scene((6, 2, material), floor=floor)) for floor in (WOOD, FLEECE)]
        for material in (CHAINMAIL, FLEECE)
    )
    inside = mail[0].masks[0] == 1
    change = [
        (on_wood.images[0].float() - on_fleece.images[0].float())[0, inside].mean()
        for on_wood, on_fleece in (mail, solid)
    ]
    assert change[0] > 40
    assert change[0] > 4 * change[1]  # the fleece ball only gets light from the ground


def test_absent_objects_do_not_change_the_image() -> None:
    one, two = scene((1, 1, WOOD)), scene((1, 1, WOOD), (6, 2, FLEECE), present=(True, False))
    alone, beside = render_solid(one, size=64), render_solid(two, size=64)
    assert torch.equal(alone.masks, beside.masks)
    assert (alone.images.int() - beside.images.int()).abs().max() <= 1
    assert beside.visible[0, 1] == 0
    nothing = render_solid(scene((1, 1, WOOD), present=(False,)), size=64)
    assert nothing.masks.max() == 0
    assert nothing.images.float().std() > 1


@pytest.mark.parametrize("name", CODES)
def test_rays_hit_the_surface_and_never_step_over_it(name: str) -> None:
    """Distances change no faster than a point moves, and hits lie on the surface."""
    shape = shape_named(name)
    generator = torch.Generator().manual_seed(0)
    first = torch.rand(3, 4000, generator=generator) * 2.2 - 1.1
    step = torch.randn(3, 4000, generator=generator) * 0.1
    outside = (shape.distance(first) > 0) & (shape.distance(first + step) > 0)
    change = (shape.distance(first + step) - shape.distance(first)).abs()
    assert (change / step.square().sum(0).sqrt())[outside].max() < 1.06
    aim = torch.rand(3, 4000, generator=generator) * 1.6 - 0.8
    origin = torch.tensor([4.0, -3.0, 3.0])[:, None].expand_as(aim).contiguous()
    t = shape.intersect(origin, aim - origin)
    hit = torch.isfinite(t)
    assert hit.float().mean() > 0.3
    assert shape.distance(origin + (aim - origin) * t)[hit].abs().max() < 1e-2


def test_the_ground_is_flat_in_front_and_curves_up_behind() -> None:
    point = torch.tensor([[0.0, 0.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 3.0]]).T.contiguous()
    direction = torch.tensor([[0.0, 0.0, -1.0], [-0.888, 0.460, 0.0], [0.888, -0.460, 0.1]]).T.contiguous()
    distance, normal = intersect_ground(point, direction)
    assert distance[0] == pytest.approx(3.0)
    assert 8.8 < distance[1] < 15.8
    assert distance[2] == torch.inf
    assert normal[:, 0].tolist() == [0.0, 0.0, 1.0]
    assert normal[2, 1] == pytest.approx((7.0 - 3.0) / 7.0, abs=1e-3)  # hit at height 3 of an arc of radius 7


@pytest.mark.parametrize("vocabulary", [SPRITES, replace(CLEVRTEX, background=Factor("background", ("moss",)))])
def test_unsupported_vocabularies_raise(vocabulary: Vocabulary) -> None:
    count = len(vocabulary.factors)
    scenes = Scenes.of(vocabulary, [[[0] * count]], [[[0.0, 0.0, 1.0]]], camera=[CAMERA], lamps=[LAMPS])
    with pytest.raises(InputError, match="cannot be rendered"):
        render_solid(scenes)
