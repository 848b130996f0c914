"""Arm: what each factor changes, agreement with an independent ray caster, and the order of the original."""

import math

import numpy as np
import pytest
import torch

from alebrije.errors import InputError
from alebrije.render import arm
from alebrije.render.arm import arm_factors, render_arm
from alebrije.render.arm_solids import REACH, SOLIDS, Polyhedron
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.worlds.vocabularies import ARM, DSPRITES

TOTAL = 1_036_800
NAMES = ("color", "shape", "size", "camera height", "background", "horizontal", "vertical")
BASES = ([2, 1, 1, 1, 0, 20, 20], [3, 5, 0, 0, 1, 5, 33], [5, 0, 1, 2, 2, 34, 4])
SHAPES = ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere")


def scenes(factors, vocabulary=ARM, **kwargs) -> Scenes:
    table = torch.as_tensor(factors)
    return Scenes.of(vocabulary, table[:, None], torch.zeros(len(table), 1, 3), **kwargs)


def render(factors, size: int = 64):
    return render_arm(scenes(factors), size=size)


def random_indices(count: int, seed: int) -> torch.Tensor:
    return torch.randperm(TOTAL, generator=torch.Generator().manual_seed(seed))[:count]


def changing(axis: int, base) -> torch.Tensor:
    table = torch.tensor(base).repeat(ARM.counts[axis], 1)
    table[:, axis] = torch.arange(ARM.counts[axis])
    return table


def test_the_factors_are_those_of_mpi3d_in_its_order():
    assert ARM.names == NAMES
    assert ARM.counts == (6, 6, 2, 3, 3, 40, 40)
    index = random_indices(1000, seed=1)
    table = arm_factors(index)
    assert np.array_equal(np.ravel_multi_index(table.numpy().T, ARM.counts), index.numpy())


@pytest.mark.parametrize("axis", range(7))
def test_every_step_of_a_factor_is_visible(axis):
    for base in BASES:
        images = render(changing(axis, base)).images.int()
        for first in range(len(images)):
            others = images[:first]
            seen = ((others - images[first]).abs().amax(1) > 16).flatten(1).sum(1)
            assert (seen >= 4).all(), (base, first, seen.tolist())


def test_each_factor_changes_the_image_in_its_own_way():
    """The changes by different factors are far from parallel, so that no factor imitates another."""
    for base in BASES:
        base_image = render([base]).images[0].double()
        changes = []
        for axis in range(7):
            other = list(base)
            other[axis] = other[axis] + 1 if other[axis] + 1 < ARM.counts[axis] else other[axis] - 1
            change = (render([other]).images[0].double() - base_image).flatten()
            changes.append(change / change.norm())
        cosines = torch.stack(changes) @ torch.stack(changes).T
        assert (cosines - torch.eye(7)).abs().max() < 0.85


def test_colours_belong_to_the_object_and_to_the_background():
    frames = render(changing(0, BASES[0]))
    inside = frames.masks[0] == 1
    assert (frames.masks == frames.masks[0]).all()
    assert (
        frames.images[:, :, frames.masks[0] == 0] == frames.images[0][:, frames.masks[0] == 0]
    ).double().mean() > 0.97
    means = frames.images[:, :, inside].double().mean(2)
    for mean, code in zip(means, ARM["color"].codes, strict=True):
        wanted = torch.tensor(code, dtype=torch.float64)
        assert torch.nn.functional.cosine_similarity(mean, wanted, dim=0) > 0.98
    grounds = render(changing(4, BASES[0]))
    assert torch.equal(grounds.masks, frames.masks[:1].expand(3, -1, -1))
    changed = (grounds.images[0] != grounds.images[1]).any(0)
    assert changed.double().mean() > 0.1
    assert not changed[inside & ~_edge(inside)].any()


def _edge(mask: torch.Tensor) -> torch.Tensor:
    inner = -torch.nn.functional.max_pool2d(-mask[None].float(), 3, stride=1, padding=1)[0]
    return mask & (inner == 0)


def test_the_hand_moves_with_the_angles():
    def centres(table):
        masks = (render(table).masks == 1).double()
        grid = torch.arange(64.0, dtype=torch.float64)
        total = masks.sum((1, 2))
        return (masks.sum(1) * grid).sum(1) / total, (masks.sum(2) * grid).sum(1) / total

    x, _ = centres(changing(5, [0, 5, 1, 1, 0, 0, 20]))
    assert (x.diff() > -0.2).all()
    assert x[-1] - x[0] > 30
    _, y = centres(changing(6, [0, 5, 1, 2, 0, 20, 0]))
    assert (y.diff() < 0.2).all()
    assert y[0] - y[-1] > 15


def test_the_object_is_always_in_the_image_and_never_hidden():
    frames = render(arm_factors(random_indices(400, seed=2)))
    assert frames.visible.min() > 12
    assert torch.equal(frames.visible[:, 0], (frames.masks == 1).flatten(1).sum(1))
    assert (frames.masks == 2).flatten(1).sum(1).double().mean() > 60  # the solid may hide the arm
    large, small = (render([[0, shape, size, 1, 0, 8, 20] for shape in range(6)]).visible for size in (1, 0))
    assert (large > 1.7 * small).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_solids_agree_with_a_dense_search_along_rays(shape):
    """The first point of a ray inside the solid, searched in small steps by its definition in its own axes."""
    base = [1, SHAPES.index(shape), 1, 0, 1, 29, 9]
    frames = render([base], size=48)
    inside, depth = searched(shape, base, 48)
    mask = frames.masks[0] == 1
    sure = ~_edge(mask) & mask
    assert (inside != mask).sum() <= _edge(mask).sum() + 4
    assert inside[sure].all()
    assert (frames.depth[0] - depth)[sure].abs().max() < 0.02


def searched(shape: str, base, size: int):
    elevation = math.radians(ARM["camera height"].codes[base[3]])
    turn = math.radians(ARM["horizontal"].codes[base[5]])
    bend = math.radians(ARM["vertical"].codes[base[6]])
    scale, lift = ARM["size"].codes[base[2]], math.radians(38.0)
    out = np.array([math.sin(turn), -math.cos(turn), 0.0])
    along = out * math.cos(bend) + np.array([0, 0, math.sin(bend)])
    elbow = np.array([0, 0, 0.78]) + 0.52 * (out * math.cos(lift) + np.array([0, 0, math.sin(lift)]))
    centre = elbow + (0.56 + 0.8 * scale) * along
    aside = np.array([math.cos(turn), math.sin(turn), 0.0])
    axes = np.stack([along, aside, np.cross(along, aside) * np.sign(np.cross(along, aside)[2])])
    origin = np.array([0.0, -4.4 * math.cos(elevation), 0.66 + 4.4 * math.sin(elevation)])
    ahead = np.array([0.0, math.cos(elevation), -math.sin(elevation)])
    up = np.array([0.0, math.sin(elevation), math.cos(elevation)])
    t = (np.arange(size) + 0.5) * 2 / size - 1
    rays = ahead + 0.36 * (t[None, :, None] * np.array([1.0, 0, 0]) - t[:, None, None] * up)
    depths = np.linspace(2.4, 6.0, 1200)
    points = (origin - centre + depths[:, None, None, None] * rays) @ axes.T / scale
    holds = contains(shape, points)
    return torch.from_numpy(holds.any(0)), torch.from_numpy(depths[holds.argmax(0)])


def contains(shape: str, point: np.ndarray) -> np.ndarray:
    solid, (x, y, z) = SOLIDS[shape], np.moveaxis(point, -1, 0)
    if isinstance(solid, Polyhedron):
        return np.all([point @ np.array(normal) <= distance for normal, distance in solid.planes], axis=0)
    value = x * x + y * y + solid.square * z * z + solid.linear * z + solid.constant
    return (value <= 0) & (z >= solid.low) & (z <= solid.high)


@pytest.mark.parametrize("shape", SHAPES)
def test_solids_fit_the_window_that_they_are_drawn_in(shape, monkeypatch):
    table = [
        [0, SHAPES.index(shape), size, camera, 0, turn, bend]
        for size in (0, 1)
        for camera in range(3)
        for turn in (0, 20, 39)
        for bend in (0, 13, 26, 39)
    ]
    usual = render(table)
    monkeypatch.setitem(arm.REACH, shape, 2.5 * REACH[shape])
    assert torch.equal(usual.images, render(table).images)


@pytest.mark.parametrize("size", [9, 64, 80])
def test_images_do_not_depend_on_their_batch(size, monkeypatch):
    table = arm_factors(random_indices(60, seed=3))
    whole = render(table, size)
    assert whole.images.dtype == whole.masks.dtype == torch.uint8
    one_by_one = [render(table[[row]], size) for row in range(0, 60, 10)]
    monkeypatch.setattr(arm, "_BATCH", 7)
    blocks = render(table, size)
    for name in ("images", "masks", "depth"):
        assert torch.equal(getattr(whole, name)[::10], torch.cat([getattr(one, name) for one in one_by_one]))
        assert torch.equal(getattr(whole, name), getattr(blocks, name))


def test_other_sizes_show_the_same_arm():
    table = arm_factors(random_indices(8, seed=4))
    small, large = render(table).images.double(), render(table, size=192).images.double()
    gap = (torch.nn.functional.avg_pool2d(large, 3) - small).abs()
    assert gap.mean() < 1.5
    assert render(table, size=8).images.shape == (8, 3, 8, 8)


def test_an_empty_hand():
    frames = render_arm(scenes([BASES[0], [0] * 7], present=[[False], [True]]))
    assert frames.visible.tolist()[0] == [0]
    assert set(frames.masks[0].unique().tolist()) == {0, 2}
    hand, holding = frames.masks
    assert (hand == 2)[holding == 2].all()  # an absent object has the first factors
    assert (holding == 1)[(hand == 2) & (holding != 2)].all()


def test_no_scenes_give_no_images():
    frames = render(torch.zeros(0, 7, dtype=torch.int64), size=16)
    assert frames.images.shape == (0, 3, 16, 16)
    assert frames.visible.shape == (0, 1)


@pytest.mark.parametrize("indices", [[-1], [TOTAL], [0.5], [[1]], 3, [True]])
def test_bad_indices_raise(indices):
    with pytest.raises(InputError, match="indices must"):
        arm_factors(indices)


def test_unsupported_scenes_raise():
    with pytest.raises(InputError, match="size must be"):
        render([BASES[0]], size=7)
    with pytest.raises(InputError, match="dsprites has others"):
        render_arm(Scenes.of(DSPRITES, torch.zeros(1, 1, 6), torch.zeros(1, 1, 2)))
    with pytest.raises(InputError, match="one object, not 2"):
        render_arm(Scenes.of(ARM, torch.zeros(1, 2, 7), torch.zeros(1, 2, 3)))
    odd = [Factor("shape", ("torus",)) if factor.name == "shape" else factor for factor in ARM]
    with pytest.raises(InputError, match="odd has torus"):
        render_arm(Scenes.of(Vocabulary("odd", tuple(odd)), torch.zeros(1, 1, 7), torch.zeros(1, 1, 3)))


def test_codes_come_from_the_vocabulary():
    few = [Factor("horizontal", (0,), (ARM["horizontal"].codes[20],)) if f.name == "horizontal" else f for f in ARM]
    one = scenes([[2, 1, 1, 1, 0, 0, 20]], vocabulary=Vocabulary("few", tuple(few)))
    assert torch.equal(render_arm(one).images, render([BASES[0]]).images)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_renders_the_same():
    table = arm_factors(random_indices(500, seed=4))
    here, there = render(table), render_arm(scenes(table), device="cuda").to("cpu")
    gap = (here.images.int() - there.images.int()).abs()
    assert (here.masks != there.masks).sum() <= 10
    assert (gap > 1).double().mean() < 1e-5
