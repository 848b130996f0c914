"""Sprites: both paths agree with the released images, and masks agree with the outlines."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from alebrije.errors import InputError
from alebrije.kernels import HAS_TRITON
from alebrije.render.outlines import OUTLINES
from alebrije.render.sprites import painting_order, render_sprites
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.worlds.vocabularies import CLEVR, SPRITES

SHAPES = SPRITES["shape"].codes


def random_scenes(count: int, objects: int = 2, seed: int = 0, low: float = -0.1, high: float = 1.1) -> Scenes:
    """Scenes of all shapes and sizes that overlap and leave the image."""
    generator = torch.Generator().manual_seed(seed)
    factors = torch.randint(0, 4, (count, objects, 3), generator=generator)
    position = torch.rand(count, objects, 2, generator=generator, dtype=torch.float64) * (high - low) + low
    return Scenes.of(SPRITES, factors, position)


def one_sprite(color: int, shape: int, size: int, x: float = 0.5, y: float = 0.5) -> Scenes:
    return Scenes.of(SPRITES, [[[color, shape, size]]], [[[x, y]]])


def near_an_edge(exact: torch.Tensor, scenes: Scenes, size: int) -> torch.Tensor:
    """Pixels in which the Lanczos filter, of radius 3, can mix several colours."""
    masks = render_sprites(scenes, size).masks.float()[:, None]
    reach = {"kernel_size": 9, "stride": 1, "padding": 4}  # one more for the half pixel at each end
    return (F.max_pool2d(masks, **reach) != -F.max_pool2d(-masks, **reach)).expand_as(exact)


def read_released(folder) -> tuple[Scenes, torch.Tensor]:
    files = sorted((folder / "dSprites").rglob("*.json"))
    objects = [json.loads(file.read_text())["objects"] for file in files]
    factors = [
        [[SPRITES[name].index_of_code(sprite[name]) for name in ("color", "shape", "size")] for sprite in scene]
        for scene in objects
    ]
    images = np.stack([np.asarray(Image.open(file.with_suffix(".png")).convert("RGB")) for file in files])
    scenes = Scenes.of(SPRITES, factors, [[sprite["2d_coords"] for sprite in scene] for scene in objects])
    return scenes, torch.from_numpy(images).permute(0, 3, 1, 2)


def test_exact_path_equals_every_released_image(svib_samples):
    scenes, released = read_released(svib_samples)
    assert len(scenes) >= 100
    assert torch.equal(render_sprites(scenes, path="exact").images, released)


def test_fast_path_is_within_one_level_of_every_released_image(svib_samples):
    scenes, released = read_released(svib_samples)
    off = (render_sprites(scenes).images.int() - released.int()).abs()
    assert off.max() <= 1
    assert (off > 0).float().mean() < 1e-5


@pytest.mark.parametrize(("objects", "size"), [(2, 128), (5, 128), (2, 64), (3, 50), (1, 4)])
def test_fast_path_differs_from_the_exact_one_only_near_edges(objects, size):
    scenes = random_scenes(200 if size == 128 and objects == 2 else 40, objects, seed=size + objects)
    fast, exact = (render_sprites(scenes, size, path=path).images.int() for path in ("fast", "exact"))
    edge = near_an_edge(exact, scenes, size)
    off = (fast - exact).abs()
    assert not off[~edge].any()
    assert off[edge].float().mean() < 1e-3
    assert off.max() <= 1


@pytest.mark.parametrize("shape", range(4))
@pytest.mark.parametrize("size", range(4))
def test_area_is_the_size_squared(shape, size):
    frames = render_sprites(one_sprite(0, shape, size), channels="rgb")
    expected = (SPRITES["size"].codes[size] * 128) ** 2
    assert frames.total.item() == pytest.approx(expected, rel=0.06)  # whole columns of pixel centres fall in or out
    assert frames.images[0, 1].sum().item() / 255 == pytest.approx(expected, rel=0.03)


def test_channels():
    blue = render_sprites(one_sprite(2, 2, 3), channels="rgb").images[0, :, 64, 64]
    assert blue.tolist() == [0, 127, 255]
    for path in ("fast", "exact"):
        assert render_sprites(one_sprite(2, 2, 3), path=path).images[0, :, 64, 64].tolist() == [255, 127, 0]


def test_y_points_up():
    frames = render_sprites(one_sprite(0, 2, 0, x=0.2, y=0.9), channels="rgb")
    row, column = (frames.masks[0] > 0).nonzero().double().mean(0).tolist()
    assert (row, column) == (pytest.approx(0.1 * 128 - 0.5, abs=0.5), pytest.approx(0.2 * 128 - 0.5, abs=0.5))
    assert frames.images[0, 1, round(row), round(column)] == 255


@pytest.mark.parametrize("path", ["fast", "exact"])
def test_a_later_colour_covers_an_earlier_one_in_any_object_order(path):
    above, below = [3, 2, 1], [0, 2, 3]
    for objects, label in (([above, below], 1), ([below, above], 2)):
        frames = render_sprites(Scenes.of(SPRITES, [objects], [[[0.5, 0.5], [0.5, 0.5]]]), path=path, channels="rgb")
        assert frames.images[0, :, 64, 64].tolist() == [255, 127, 0]
        assert frames.masks[0, 64, 64] == label
        assert frames.total[0, 2 - label] > frames.visible[0, 2 - label] > 0


def test_among_equal_colours_the_rightmost_covers():
    scenes = Scenes.of(SPRITES, [[[1, 0, 3], [1, 2, 3], [0, 2, 3]]], [[[0.6, 0.5], [0.5, 0.5], [0.9, 0.5]]])
    assert painting_order(scenes).tolist() == [[2, 1, 0]]
    assert render_sprites(scenes).masks[0, 64, 70] == 1


@pytest.mark.parametrize("path", ["fast", "exact"])
def test_absent_objects_are_not_rendered(path):
    scenes = random_scenes(8, 2, seed=1)
    alone = Scenes.of(SPRITES, scenes.factors[:, :1], scenes.position[:, :1])
    hidden = Scenes.of(SPRITES, scenes.factors, scenes.position, present=[[True, False]] * 8)
    left, right = render_sprites(alone, path=path), render_sprites(hidden, path=path)
    assert torch.equal(left.images, right.images)
    assert torch.equal(left.masks, right.masks)
    assert not right.visible[:, 1].any()
    assert not right.total[:, 1].any()


def test_counts_match_the_masks():
    scenes = random_scenes(50, 3, seed=2)
    frames = render_sprites(scenes)
    assert frames.masks.max() <= 3
    for k in range(3):
        assert torch.equal(frames.visible[:, k], (frames.masks == k + 1).sum((1, 2)))
        single = Scenes.of(SPRITES, scenes.factors[:, k : k + 1], scenes.position[:, k : k + 1])
        assert torch.equal(frames.total[:, k], render_sprites(single).visible[:, 0])
    assert (frames.visible <= frames.total).all()


def test_masks_contain_the_pixels_whose_centre_is_inside():
    path = pytest.importorskip("matplotlib.path")
    scenes = random_scenes(16, 1, seed=3)
    frames = render_sprites(scenes)
    column, row = np.meshgrid(np.arange(128) + 0.5, 127.5 - np.arange(128))
    centres = np.stack([column, row], axis=-1).reshape(-1, 2) / 128
    for scene, mask in zip(scenes, frames.masks, strict=True):
        outline = (
            OUTLINES[SHAPES[int(scene.factor("shape"))]] * float(scene.codes("size")) + scene.position[0, 0].numpy()
        )
        inside = path.Path(outline).contains_points(centres).reshape(128, 128)
        assert np.array_equal(inside, mask.numpy() > 0)


def test_a_batch_equals_its_scenes_and_may_be_empty():
    scenes = random_scenes(37, 2, seed=5)
    whole = render_sprites(scenes, 32)
    parts = [render_sprites(scene, 32) for scene in scenes]
    assert torch.equal(whole.images, torch.cat([part.images for part in parts]))
    assert torch.equal(whole.masks, torch.cat([part.masks for part in parts]))
    assert render_sprites(scenes[:0], 32).images.shape == (0, 3, 32, 32)
    empty = Scenes.of(SPRITES, torch.zeros(2, 0, 3), torch.zeros(2, 0, 2))
    for path in ("fast", "exact"):
        assert not render_sprites(empty, 32, path=path).images.any()


def test_sprites_far_outside_leave_the_image_black():
    frames = render_sprites(random_scenes(8, 2, low=40.0, high=50.0), 32)
    assert not frames.images.any()
    assert not frames.total.any()


def test_a_custom_vocabulary_is_rendered():
    vocabulary = Vocabulary(
        "own", (Factor("size", (0.03, 0.8)), Factor("shape", ("star_4",)), Factor("color", ("grey",), ((3, 90, 201),)))
    )
    scenes = Scenes.of(vocabulary, [[[0, 0, 0], [1, 0, 0]]], [[[0.31, 0.77], [0.52, 0.49]]])
    fast, exact = (render_sprites(scenes, path=path).images.int() for path in ("fast", "exact"))
    assert (fast - exact).abs().max() <= 1


BAD_SCENES = {
    "no outline of the shape 'SmoothCube_v2'": Scenes.of(CLEVR, [[[0, 0, 0, 0]]], [[[0.0, 0.0, 1.0]]]),
    "upright": Scenes.of(SPRITES, [[[0, 0, 0]]], [[[0.5, 0.5]]], rotation=[[0.1]]),
    "positions of shape": Scenes.of(SPRITES, [[[0, 0, 0]]], [[[0.5, 0.5, 0.5]]]),
    "no outline of the shape 'spiral'": Scenes.of(
        Vocabulary("own", (SPRITES["color"], Factor("shape", ("spiral",)), SPRITES["size"])), [[[0, 0, 0]]], [[[0, 0]]]
    ),
    "three integers": Scenes.of(
        Vocabulary("own", (Factor("color", ("red",), ((0.9, 0, 0),)), SPRITES["shape"], SPRITES["size"])),
        [[[0, 0, 0]]],
        [[[0, 0]]],
    ),
}


@pytest.mark.parametrize("message", BAD_SCENES)
def test_unsupported_scenes_raise(message):
    with pytest.raises(InputError, match=message):
        render_sprites(BAD_SCENES[message])


def test_missing_factors_raise():
    toy = Vocabulary("toy", (Factor("color", ("red",), ((255, 0, 0),)),))
    with pytest.raises(InputError, match="toy has no shape and no size"):
        render_sprites(Scenes.of(toy, [[[0]]], [[[0.5, 0.5]]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size must be"),
        ({"size": 12.5}, "size must be"),
        ({"path": "quick"}, "path must be 'fast' or 'exact', not 'quick'"),
        ({"channels": "bgr"}, "channels must be 'released' or 'rgb', not 'bgr'"),
    ],
)
def test_bad_arguments_raise(arguments, message):
    with pytest.raises(InputError, match=message):
        render_sprites(one_sprite(0, 0, 0), **arguments)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("with_kernel", [True, False])
@pytest.mark.parametrize(("objects", "size"), [(2, 128), (5, 100), (3, 50), (1, 4)])
def test_cuda_renders_the_same(monkeypatch, with_kernel, objects, size):
    monkeypatch.setattr("alebrije.render.lanczos.HAS_TRITON", with_kernel and HAS_TRITON)
    scenes = random_scenes(300, objects, seed=size)
    scenes.present[:5] = False  # an empty scene
    here, there = render_sprites(scenes, size), render_sprites(scenes, size, device="cuda")
    assert there.images.device.type == "cuda"
    off = (here.images.int() - there.images.cpu().int()).abs()
    assert off.max() <= 1
    assert (off > 0).float().mean() < 1e-5
    assert not there.images[:5].any()
    assert torch.equal(here.masks, there.masks.cpu())
    assert torch.equal(here.total, there.total.cpu())
