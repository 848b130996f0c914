"""Rooms: hues of the surfaces, symmetries of the geometry, and the order of the original."""

import colorsys

import numpy as np
import pytest
import torch

from alebrije.errors import InputError
from alebrije.render.frames import Frames
from alebrije.render.rooms import render_rooms, rooms_factors, rooms_images
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.worlds.vocabularies import DSPRITES, ROOMS

TOTAL = 480_000
PLAIN = [0, 3, 6, 4, 2, 7]  # red floor, green wall, blue sphere
CUBE, CYLINDER, SPHERE, CAPSULE = range(4)


def scenes(factors, **kwargs) -> Scenes:
    table = torch.as_tensor(factors)
    return Scenes.of(ROOMS, table[:, None], torch.zeros(len(table), 1, 2), **kwargs)


def render(factors, size: int = 64) -> Frames:
    return render_rooms(scenes(factors), size=size)


def hue(pixel: torch.Tensor) -> float:
    return colorsys.rgb_to_hsv(*(pixel.double() / 255).tolist())[0]


def hue_gap(first: float, second: float) -> float:
    return abs((first - second + 0.5) % 1 - 0.5)


def random_indices(count: int, seed: int) -> torch.Tensor:
    return torch.randperm(TOTAL, generator=torch.Generator().manual_seed(seed))[:count]


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("value", range(10))
def test_floor_wall_and_object_have_the_hue_of_their_factor(axis, value):
    factors = [
        [(value + 3) % 10, (value + 6) % 10, (value + 8) % 10, 4, shape, turn]
        for shape in range(4)
        for turn in (0, 7, 14)
    ]
    for row in factors:
        row[axis] = value
    frames = render(factors)
    for image, mask in zip(frames.images, frames.masks, strict=True):
        if axis < 2:
            row, columns = (61, (2, 32, 61)) if axis == 0 else (2, (2, 20, 61))
            pixels = [image[:, row, column] for column in columns]
        else:
            pixels = [image[:, mask.bool()].double().mean(1)]
        for pixel in pixels:
            assert hue_gap(hue(pixel), value / 10) < 0.01


def test_the_object_hue_dominates_each_of_its_inner_pixels():
    frames = render([[0, 0, 6, 4, shape, 7] for shape in range(4)])
    inner = 1 - torch.nn.functional.max_pool2d(1 - frames.masks[:, None].float(), 3, stride=1, padding=1)
    blue = frames.images.argmax(1) == 2
    assert inner.sum() > 500
    assert blue[inner[:, 0] > 0].all()
    assert not blue[frames.masks == 0].any()  # at the outline, red is at least half of a background pixel


def test_the_wall_is_above_the_floor():
    frames = render([[0, 3, 6, 0, SPHERE, turn] for turn in range(15)])
    room = frames.images.argmax(1)[:, :, [*range(20), *range(44, 64)]]  # green is wall, red is floor
    assert set(room.unique().tolist()) == {0, 1}
    assert (room[:, 1:] <= room[:, :-1]).all()
    assert 0.3 < (room == 1).double().mean() < 0.45


@pytest.mark.parametrize("shape", range(4))
def test_the_object_grows_with_scale(shape):
    frames = render([[0, 3, 6, scale, shape, 7] for scale in range(8)])
    area = frames.visible[:, 0]
    assert (area.diff() > 0).all()
    assert area[7] / area[0] == pytest.approx((1.25 / 0.75) ** 2, rel=0.25)  # a larger object is also a little closer
    rows = frames.masks.any(2).sum(1).double() / 64
    assert 0.25 < rows[3:5].mean() < 0.5  # about a third of the image, a capsule more
    assert not frames.masks[:, [0, -1]].any()


@pytest.mark.parametrize("shape", range(4))
def test_opposite_orientations_mirror_each_other(shape):
    frames = render([[0, 3, 6, 5, shape, turn] for turn in range(15)])
    assert torch.equal(frames.masks, frames.masks.flip(0, 2))
    assert torch.allclose(frames.depth, frames.depth.flip(0, 2), atol=1e-4)
    assert not torch.equal(frames.images, frames.images.flip(0, 3))  # light is asymmetric: the lamp stands to one side


def test_only_the_outline_of_a_cube_depends_on_orientation():
    outlines = {shape: render([[0, 3, 6, 5, shape, turn] for turn in range(15)]).masks for shape in range(4)}
    for shape in (CYLINDER, SPHERE, CAPSULE):
        changed = (outlines[shape] != outlines[shape][:1]).double().mean()
        assert changed < 1e-3  # only rounding
    assert (outlines[CUBE] != outlines[CUBE][7]).flatten(1).any(1).sum() == 14


def test_a_room_without_its_object_is_empty():
    empty = render_rooms(scenes([PLAIN, [0, 0, 0, 0, SPHERE, 0]], present=[[False], [True]]))
    assert empty.visible.tolist()[0] == empty.total.tolist()[0] == [0]
    assert not empty.masks[0].any()
    assert (empty.depth[0] > empty.depth[1])[empty.masks[1] == 1].all()


def test_the_corner_of_the_room_moves_with_orientation():
    depth = render([[0, 3, 6, 0, 2, turn] for turn in range(15)]).depth[:, 2]
    corner = depth.argmax(1)  # the farthest point of a wall is the corner
    assert (corner.diff() > 0).all()
    assert corner[7] in (31, 32)


def test_depths_of_a_sphere():
    frames = render([[0, 3, 6, 4, SPHERE, 7]], size=65)
    scale, up = 0.75 + 0.5 * 4 / 7, 0.5 * (0.75 + 0.5 * 4 / 7)
    level, drop = 3.05, 1.72 - 0.45
    axis = np.hypot(level, drop)
    centre = (level * level + (1.72 - up) * drop) / axis  # the sphere's centre along the viewing axis
    off = np.sqrt(level**2 + (1.72 - up) ** 2 - centre**2)
    nearest = centre - np.sqrt((0.5 * scale) ** 2 - off**2)  # hit of the central ray
    assert frames.depth[0, 32, 32].item() == pytest.approx(nearest, abs=2e-3)
    inside, outside = frames.depth[0][frames.masks[0] == 1], frames.depth[0][frames.masks[0] == 0]
    assert inside.max() < outside.max()
    assert (frames.depth > 1).all()


@pytest.mark.parametrize("axis", range(6))
def test_every_step_of_a_factor_is_visible(axis):
    base = torch.tensor([PLAIN, [5, 5, 5, 2, 3, 1], [9, 1, 4, 6, 0, 12]])
    for row in base:
        factors = row.repeat(ROOMS.counts[axis], 1)
        factors[:, axis] = torch.arange(ROOMS.counts[axis])
        images = render(factors).images.int()
        for first in range(len(images)):
            for second in range(first):
                assert ((images[first] - images[second]).abs().amax(0) > 24).sum() >= 8


def test_different_factors_give_different_images():
    images = rooms_images(random_indices(2000, seed=0))
    assert len({image.numpy().tobytes() for image in images}) == 2000


def test_indices_run_with_the_last_factor_fastest():
    index = random_indices(1000, seed=1)
    table = rooms_factors(index)
    assert table.dtype == torch.int64
    assert np.array_equal(np.ravel_multi_index(table.numpy().T, ROOMS.counts), index.numpy())
    frames = render(table[:50])
    assert torch.equal(rooms_images(index[:50]), frames.images)
    assert frames.visible.shape == (50, 1)
    assert torch.equal(frames.visible, frames.total)
    assert torch.equal(frames.visible[:, 0], frames.masks.flatten(1).sum(1))


@pytest.mark.parametrize("size", [9, 64, 80])
def test_images_do_not_depend_on_their_batch(size):
    table = rooms_factors(random_indices(70, seed=2))
    whole, again = render(table, size), render(table, size)
    assert whole.images.dtype == whole.masks.dtype == torch.uint8
    for name in ("images", "masks", "depth"):
        one_by_one = torch.cat([getattr(render(table[[row]], size), name) for row in range(0, 70, 10)])
        assert torch.equal(getattr(whole, name)[::10], one_by_one)
        assert torch.equal(getattr(whole, name), getattr(again, name))


def test_other_sizes_show_the_same_room():
    table = rooms_factors(random_indices(8, seed=3))
    small, large = render(table).images.double(), render(table, size=192).images.double()
    gap = (torch.nn.functional.avg_pool2d(large, 3) - small).abs()
    assert gap.mean() < 1
    assert render(table, size=8).images.shape == (8, 3, 8, 8)


def test_no_scenes_give_no_images():
    assert rooms_images(torch.zeros(0, dtype=torch.int64)).shape == (0, 3, 64, 64)
    frames = render(torch.zeros(0, 6, dtype=torch.int64), size=16)
    assert len(frames) == 0
    assert frames.masks.shape == frames.depth.shape == (0, 16, 16)
    assert frames.visible.shape == (0, 1)


@pytest.mark.parametrize("indices", [[-1], [TOTAL], [0.5], [[1]], 3, [True]])
def test_bad_indices_raise(indices):
    with pytest.raises(InputError, match="indices must"):
        rooms_images(indices)


@pytest.mark.parametrize("size", [7, 0, -3, 64.0])
def test_bad_sizes_raise(size):
    with pytest.raises(InputError, match="size must be"):
        render([PLAIN], size=size)


def test_unsupported_scenes_raise():
    with pytest.raises(InputError, match="dsprites has others"):
        render_rooms(Scenes.of(DSPRITES, torch.zeros(1, 1, 6), torch.zeros(1, 1, 2)))
    with pytest.raises(InputError, match="one object, not 2"):
        render_rooms(Scenes.of(ROOMS, torch.zeros(1, 2, 6), torch.zeros(1, 2, 2)))
    odd = [Factor("shape", ("cone",)) if factor.name == "shape" else factor for factor in ROOMS]
    with pytest.raises(InputError, match="odd has cone"):
        render_rooms(Scenes.of(Vocabulary("odd", tuple(odd)), torch.zeros(1, 1, 6), torch.zeros(1, 1, 2)))


def test_codes_come_from_the_vocabulary():
    few = [Factor("scale", (1.25,)) if factor.name == "scale" else factor for factor in ROOMS]
    one = Scenes.of(Vocabulary("few", tuple(few)), [[[0, 3, 6, 0, 2, 7]]], torch.zeros(1, 1, 2))
    assert torch.equal(render_rooms(one).images, render([[0, 3, 6, 7, 2, 7]]).images)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_renders_the_same():
    table = rooms_factors(random_indices(500, seed=4))
    here, there = render(table), render_rooms(scenes(table), device="cuda").to("cpu")
    gap = (here.images.int() - there.images.int()).abs()
    assert (here.masks != there.masks).sum() <= 10  # rounding may flip a sample on an outline
    assert (gap > 1).double().mean() < 1e-5
    same = here.masks == there.masks
    assert torch.allclose(here.depth[same], there.depth[same], atol=0.05)
