"""The ray tracer: properties of every image, and agreement with the released renders."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from alebrije import data, worlds
from alebrije.errors import InputError
from alebrije.render.silhouettes import silhouettes, visible_masks, visible_pixels
from alebrije.render.solid import render_solid
from alebrije.scenes import Episodes, Factor, Scenes, Vocabulary
from alebrije.worlds.vocabularies import CLEVR, CLEVR_MANY, COAT, SPRITES

CAMERA = (7.48113, -6.50764, 5.34367)
LAMPS = ((6.44671, -2.90517, 4.2584), (-1.1685, 2.64602, 5.81574), (-4.67112, -4.0136, 3.01122))


def scene(*objects: tuple[str, str, str, str, float, float]) -> Scenes:
    """One clevr scene; each object is color, shape, size, material, x, y."""
    factors = [[CLEVR[name].index(word) for name, word in zip(CLEVR.names, spec[:4], strict=True)] for spec in objects]
    sizes = [CLEVR["size"].codes[row[2]] for row in factors]
    position = [[*spec[4:], size] for spec, size in zip(objects, sizes, strict=True)]
    return Scenes.of(CLEVR, [factors], [position], camera=[CAMERA], lamps=[LAMPS])


def absent(scenes: Scenes, *items: int) -> Scenes:
    present = scenes.present.clone()
    present[:, list(items)] = False
    return replace(scenes, present=present)


def brightness(images: torch.Tensor) -> torch.Tensor:
    return images.float().mean(1)


@pytest.fixture(scope="module")
def many() -> Scenes:
    return worlds.get("clevr10").sample(4, seed=3)


def test_masks_partition_the_image_and_the_counts_agree(many: Scenes) -> None:
    frames = render_solid(many, 96)
    assert frames.images.shape == (4, 3, 96, 96)
    assert frames.images.dtype == torch.uint8
    assert frames.masks.shape == (4, 96, 96)
    assert frames.masks.dtype == torch.uint8
    assert int(frames.masks.max()) <= many.objects
    for item in range(many.objects):
        counted = (frames.masks == item + 1).sum((1, 2))
        assert torch.equal(counted, frames.visible[:, item])
    assert bool((frames.visible <= frames.total).all())
    assert bool((frames.visible[many.present] > 0).all())
    assert int(frames.total[~many.present].sum()) == 0
    assert frames.depth is not None
    assert bool(torch.isfinite(frames.depth).all())
    assert float(frames.depth.min()) > 1.0


def test_masks_agree_with_the_silhouettes(many: Scenes) -> None:
    depth = silhouettes(many, 96)
    frames = render_solid(many, 96)
    assert torch.equal(visible_masks(depth), frames.masks)
    assert torch.equal(visible_pixels(depth), frames.visible)
    assert torch.equal(torch.isfinite(depth).flatten(2).sum(-1), frames.total)


def test_a_ball_covers_the_area_that_perspective_predicts() -> None:
    """A ball in the middle of the view projects to a circle; its radius is the tangent of half its angle."""
    ball = scene(("red", "sphere", "large", "rubber", 0.0, 0.0))
    ball = replace(ball, position=torch.zeros(1, 1, 3, dtype=torch.float64))
    frames = render_solid(ball, 256)
    away = math.dist(CAMERA, (0, 0, 0))
    radius = 2.0 / math.sqrt(away**2 - 4.0) / (16 / 35) * 128
    assert int(frames.visible[0, 0]) == pytest.approx(math.pi * radius**2, rel=0.005)
    assert frames.depth is not None
    assert float(frames.depth[0, 128, 128]) == pytest.approx(away - 2.0, abs=0.01)
    rows, columns = (frames.masks[0] == 1).nonzero().float().mean(0) + 0.5
    assert float(rows) == pytest.approx(128, abs=0.3)
    assert float(columns) == pytest.approx(128, abs=0.3)


def test_an_absent_object_does_not_change_the_image() -> None:
    pair = scene(("red", "cube", "large", "metal", -1.0, -1.0), ("blue", "monkey", "small", "rubber", 2.0, 2.0))
    alone = pair[0]
    alone = replace(alone, **{name: tensor[:, :1] for name, tensor in alone.tensors() if name in PER_OBJECT})
    assert torch.equal(render_solid(absent(pair, 1), 64).images, render_solid(alone, 64).images)
    empty = render_solid(absent(pair, 0, 1), 64)
    assert int(empty.masks.max()) == 0
    assert int(empty.total.sum()) == 0


PER_OBJECT = ("factors", "present", "position", "rotation")


def test_the_empty_ground_is_grey_and_brighter_in_front() -> None:
    empty = render_solid(absent(scene(("red", "cube", "small", "rubber", 0.0, 0.0)), 0), 64).images[0].float()
    spread = empty.amax(0) - empty.amin(0)
    assert float(spread.mean()) < 12
    assert 90 < float(empty[:, 2].mean()) < 125  # about 105 at the top of the released renders
    assert float(empty[:, 50].mean()) > float(empty[:, 5].mean()) + 15


def test_objects_cast_shadows_on_the_ground_and_on_each_other() -> None:
    lone = scene(("red", "cylinder", "large", "rubber", -0.5, 0.5), ("red", "cube", "large", "rubber", 2.6, -1.2))
    with_both, without = render_solid(lone, 96), render_solid(absent(lone, 1), 96)
    ground = (with_both.masks == 0) & (without.masks == 0)
    darkening = (brightness(without.images) - brightness(with_both.images))[ground]
    assert float(darkening.max()) > 30
    both = (with_both.masks == 1) & (without.masks == 1)
    assert float((without.images[:, 0].float() - with_both.images[:, 0].float())[both].max()) > 15  # a red object


def test_metal_reflects_its_neighbour() -> None:
    """A red cube turns some pixels of a metal ball beside it red."""
    pair = scene(("yellow", "sphere", "large", "metal", 0.5, -0.5), ("red", "cube", "large", "rubber", -2.4, 1.5))
    mirrored, plain = render_solid(pair, 96), render_solid(absent(pair, 1), 96)
    ball = (mirrored.masks == 1) & (plain.masks == 1)
    green = (plain.images[:, 1].float() - mirrored.images[:, 1].float())[ball]
    assert float(green.max()) > 40
    matt = scene(("yellow", "sphere", "large", "rubber", 0.5, -0.5), ("red", "cube", "large", "rubber", -2.4, 1.5))
    shaded, open_air = render_solid(matt, 96), render_solid(absent(matt, 1), 96)
    less = (open_air.images[:, 1].float() - shaded.images[:, 1].float())[ball]
    assert float((green > 40).float().mean()) > float((less > 40).float().mean())


def test_objects_have_the_colour_of_their_factor() -> None:
    for word, code in zip(CLEVR["color"].values, CLEVR["color"].codes, strict=True):
        frames = render_solid(scene((word, "cube", "large", "rubber", 0.0, 0.0)), 48)
        inside = frames.images[0].float()[:, frames.masks[0] == 1].mean(1)
        bright = torch.tensor(code) > 0
        assert float(inside[bright].min()) > 1.8 * float(inside[~bright].max())


def test_a_scene_does_not_depend_on_its_batch(many: Scenes) -> None:
    whole = render_solid(many, 64)
    for index in range(len(many)):
        alone = render_solid(many[index], 64)
        assert int((alone.images[0].int() - whole.images[index].int()).abs().max()) <= 1
        assert torch.equal(alone.masks[0], whole.masks[index])


def test_the_order_of_objects_does_not_matter(many: Scenes) -> None:
    turned = replace(many, **{name: tensor.flip(1) for name, tensor in many.tensors() if name in PER_OBJECT})
    here, there = render_solid(many, 64), render_solid(turned, 64)
    assert float(((here.images.int() - there.images.int()).abs() > 1).float().mean()) < 1e-3
    assert torch.equal(here.visible, there.visible.flip(1))


def test_a_turned_cube_looks_turned_and_a_turned_ball_does_not() -> None:
    for shape, moves in (("cube", True), ("sphere", False)):
        still = scene(("red", shape, "large", "rubber", 0.0, 0.0))
        turned = replace(still, rotation=torch.full((1, 1), 0.6, dtype=torch.float64))
        same = torch.equal(render_solid(still, 48).masks, render_solid(turned, 48).masks)
        assert same is not moves


def test_coloured_grounds_are_coloured() -> None:
    sample = worlds.get("coat").sample(1, seed=1)
    seen = {}
    for index, name in enumerate(COAT.background.values):
        frames = render_solid(replace(sample, background=torch.tensor([index])), 64)
        seen[name] = frames.images[0].float()[:, frames.masks[0] == 0].mean(1)
    assert float(seen["light blue"][2]) > float(seen["light blue"][0]) + 10
    assert float(seen["plum"][1]) < float(seen["plum"][0]) - 10
    assert bool((seen["white"] >= seen["tan"]).all())


def test_other_sizes_show_the_same_image() -> None:
    pair = scene(("red", "cube", "large", "rubber", -1.0, -1.0), ("blue", "sphere", "medium", "metal", 2.0, 2.0))
    small, large = render_solid(pair, 64).images.float(), render_solid(pair, 128).images.float()
    halved = torch.nn.functional.avg_pool2d(large, 2)
    assert float((halved - small).square().mean().sqrt()) < 9


@pytest.mark.parametrize(("vocabulary", "words"), [(SPRITES, "need 3D positions"), (CLEVR, "a camera and lamps")])
def test_unsupported_scenes_raise(vocabulary: Vocabulary, words: str) -> None:
    scenes = Scenes.of(vocabulary, torch.zeros(1, 2, len(vocabulary.factors), dtype=torch.int64), torch.zeros(1, 2, 3))
    with pytest.raises(InputError, match=words):
        render_solid(scenes)


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (Factor("color", ("red",), ((255, 0, 0),)), "three numbers in 0..1"),
        (Factor("color", ("red",)), "three numbers in 0..1"),
        (Factor("size", ("large",)), "positive numbers"),
        (Factor("material", ("velvet",)), "must be Rubber or MyMetal"),
        (Factor("shape", ("banana",)), "no shape 'banana'"),
    ],
)
def test_bad_codes_raise(factor: Factor, words: str) -> None:
    factors = tuple(factor if known.name == factor.name else known for known in CLEVR)
    like = scene(("red", "sphere", "large", "rubber", 0.0, 0.0))
    odd = Scenes.of(
        Vocabulary("odd", factors),
        torch.zeros(1, 1, 4, dtype=torch.int64),
        like.position,
        camera=like.camera,
        lamps=LAMP,
    )
    with pytest.raises(InputError, match=words):
        render_solid(odd)


LAMP = torch.tensor([LAMPS])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"camera": torch.tensor([[3.0, 3.0, -1.0]])}, "above the ground"),
        ({"lamps": torch.zeros(1, 3, 3)}, "must not be at the origin"),
        ({"position": torch.full((1, 1, 3), math.nan)}, "NaN or infinite"),
        ({"position": torch.zeros(1, 1, 2)}, "need 3D positions"),
    ],
)
def test_bad_cameras_lamps_and_positions_raise(change: dict[str, torch.Tensor], words: str) -> None:
    fine = scene(("red", "sphere", "large", "rubber", 0.0, 0.0))
    with pytest.raises(InputError, match=words):
        render_solid(replace(fine, **change))  # type: ignore[arg-type]


def test_more_than_255_objects_raise() -> None:
    one = scene(("red", "sphere", "small", "rubber", 0.0, 0.0))
    with pytest.raises(InputError, match="at most 255"):
        render_solid(one.padded(256))


def test_a_camera_can_look_straight_down() -> None:
    ball = scene(("red", "sphere", "small", "rubber", 0.0, 0.0))
    frames = render_solid(replace(ball, camera=torch.tensor([[0.0, 0.0, 12.0]], dtype=torch.float64)), 64)
    rows, columns = (frames.masks[0] == 1).nonzero().float().mean(0) + 0.5
    assert float(rows) == pytest.approx(32, abs=0.5)
    assert float(columns) == pytest.approx(32, abs=0.5)


def test_scenes_without_objects_show_the_ground() -> None:
    one = scene(("red", "sphere", "small", "rubber", 0.0, 0.0))
    bare = replace(one, **{name: tensor[:, :0] for name, tensor in one.tensors() if name in PER_OBJECT})
    frames = render_solid(bare, 32)
    assert frames.visible.shape == frames.total.shape == (1, 0)
    assert torch.equal(frames.images, render_solid(absent(one, 0), 32).images)


def test_total_counts_follow_the_rule_of_textured_masks() -> None:
    frames = render_solid(worlds.get("clevrtex").sample(8, seed=2), 96)
    assert bool((frames.visible <= frames.total).all())
    assert frames.depth is not None
    lone = frames.total == frames.visible
    assert 0.2 < float(lone.float().mean()) < 1.0  # both counts agree for unoccluded objects


def test_a_tiny_image_raises(many: Scenes) -> None:
    with pytest.raises(InputError, match="at least 8"):
        render_solid(many, 4)


def episodes(samples: Path) -> list[Episodes]:
    folders = sorted({path.parent.parent for path in (samples / "CLEVR").rglob("source.json")})
    return [data.read_svib(folder)[::4] for folder in folders]


def test_images_agree_with_the_released_renders(svib_samples: Path) -> None:
    """Every fourth released episode: masks, brightness and colours."""
    overlap: dict[str, list[float]] = {}
    decibels = []
    for part in episodes(svib_samples):
        for scenes, images, masks in (
            (part.source, part.source_images, part.source_masks),
            (part.target, part.target_images, part.target_masks),
        ):
            assert images is not None
            assert masks is not None
            frames = render_solid(scenes)
            error = (frames.images.double() - images.double()).square().mean((1, 2, 3))
            decibels += (10 * torch.log10(255**2 / error)).tolist()
            for item in range(scenes.objects):
                ours, theirs = frames.masks == item + 1, masks == item + 1
                share = (ours & theirs).sum((1, 2)) / (ours | theirs).sum((1, 2))
                for shape, value in zip(scenes.factor("shape")[:, item].tolist(), share.tolist(), strict=True):
                    overlap.setdefault(CLEVR["shape"].values[shape], []).append(value)
    everything = [value for values in overlap.values() for value in values]
    assert len(everything) >= 90
    assert sum(everything) / len(everything) >= 0.98
    for shape, values in overlap.items():
        assert sum(values) / len(values) >= 0.95, shape
    assert sum(decibels) / len(decibels) >= 30.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["clevr", "clevr10", "clevrtex"])
def test_devices_agree(name: str) -> None:
    scenes = worlds.get(name).sample(16, seed=5)
    here, there = render_solid(scenes, 128), render_solid(scenes, 128, "cuda").to("cpu")
    apart = (here.images.int() - there.images.int()).abs().amax(1)
    assert float((apart <= 1).float().mean()) >= 0.999
    assert float((here.masks == there.masks).float().mean()) >= 0.9999


def test_ten_objects_are_visible() -> None:
    crowd = worlds.get("clevr10").sample(64, seed=9)
    assert int(crowd.present.sum(1).max()) == 10
    full = crowd[crowd.present.sum(1) == 10][0]
    assert int((render_solid(full, 128).visible > 0).sum()) == 10
    assert full.vocabulary == CLEVR_MANY


@pytest.mark.parametrize("name", worlds.names())
def test_no_scenes_give_no_images(name: str) -> None:
    world = worlds.get(name)
    frames = world.render(world.sample(1)[:0], size=64 if name == "dsprites" else 32)
    assert len(frames) == 0
    assert frames.images.shape[-3] == 3


def test_a_custom_vocabulary_is_rendered() -> None:
    """Other names and colours, materials in another order, and a subset of the shapes."""
    own = Vocabulary(
        "mine",
        (
            Factor("material", ("shiny", "matt"), ("MyMetal", "Rubber")),
            Factor("shape", ("ball", "block"), ("Sphere", "SmoothCube_v2")),
            Factor("color", ("teal", "coral"), ((0.0, 0.4, 0.4), (0.9, 0.3, 0.2))),
            Factor("size", ("big",), (1.8,)),
        ),
    )
    like = scene(("red", "sphere", "large", "rubber", 0.0, 0.0))
    contrast = []
    for material in (0, 1):
        mine = Scenes.of(own, [[[material, 0, 1, 0]]], [[[0.0, 0.0, 1.8]]], camera=like.camera, lamps=like.lamps)
        frames = render_solid(mine, 64)
        inside = frames.images[0].float()[:, frames.masks[0] == 1]
        assert float(inside[0].mean()) > float(inside[2].mean()) + 30
        contrast.append(float(inside.mean(0).std()))
    assert contrast[0] > 1.3 * contrast[1]  # metal reflects lamps, ground and black sky
