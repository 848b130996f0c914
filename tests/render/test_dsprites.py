"""dSprites: twelve original images, the order of the original, and the symmetries of the outlines."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from alebrije.errors import InputError
from alebrije.render.dsprites import dsprites_factors, dsprites_images, render_dsprites
from alebrije.scenes import Scenes
from alebrije.worlds.vocabularies import DSPRITES, SPRITES

TOTAL = 737_280
SQUARE, ELLIPSE, HEART = range(3)


def factors(shape: int, scale: int = 5, orientation: int = 0, x: int = 15, y: int = 15) -> torch.Tensor:
    return torch.tensor([[0, shape, scale, orientation, x, y]])


def render_mask(*args: int, **kwargs: int) -> torch.Tensor:
    return render_dsprites(factors(*args, **kwargs)).masks[0]


@pytest.fixture
def originals():
    folder = os.environ.get("ALEBRIJE_DSPRITES_REFERENCE") or Path(__file__).parents[2] / "../shared/dsprites_reference"
    file = Path(folder) / "twelve_images.npz"
    if not file.is_file():
        pytest.skip("set ALEBRIJE_DSPRITES_REFERENCE to a folder with twelve_images.npz, original dSprites images")
    with np.load(file, allow_pickle=False) as arrays:
        return arrays["imgs"], arrays["latents_values"]


def test_twelve_original_images_are_equal(originals):
    images, values = originals
    codes = [np.array(factor.codes, dtype=float) for factor in DSPRITES]
    nearest = [[int(np.abs(code - value).argmin()) for code, value in zip(codes, row, strict=True)] for row in values]
    frames = render_dsprites(torch.tensor(nearest))
    assert np.array_equal(frames.masks.numpy(), images)
    index = np.ravel_multi_index(np.array(nearest).T, DSPRITES.counts)
    assert np.array_equal(dsprites_images(index).numpy(), images)


def test_indices_run_with_the_last_factor_fastest():
    index = torch.randint(0, TOTAL, (1000,), generator=torch.Generator().manual_seed(0))
    table = dsprites_factors(index)
    assert table.dtype == torch.int64
    assert np.array_equal(np.ravel_multi_index(table.numpy().T, DSPRITES.counts), index.numpy())
    assert torch.equal(dsprites_images(index[:50]), render_dsprites(table[:50]).masks)


def test_images_do_not_depend_on_their_batch():
    index = torch.randint(0, TOTAL, (1500,), generator=torch.Generator().manual_seed(1))
    whole = dsprites_images(index)
    assert whole.dtype == torch.uint8
    assert whole.max() == 1
    assert torch.equal(whole[::100], torch.cat([dsprites_images([int(i)]) for i in index[::100]]))
    assert dsprites_images(torch.zeros(0, dtype=torch.int64)).shape == (0, 64, 64)


@pytest.mark.parametrize("shape", range(3))
def test_the_last_orientation_repeats_the_first(shape):
    assert torch.equal(render_mask(shape, orientation=0), render_mask(shape, orientation=39))
    assert not torch.equal(render_mask(shape, orientation=0), render_mask(shape, orientation=3))


@pytest.mark.parametrize("shape", [SQUARE, ELLIPSE])
@pytest.mark.parametrize("orientation", [0, 5, 17])
def test_squares_and_ellipses_are_mirror_symmetric(shape, orientation):
    image = render_mask(shape, 3, orientation, x=4, y=20)
    assert torch.equal(image.flip(1), render_mask(shape, 3, 39 - orientation, x=27, y=20))
    assert torch.equal(image.flip(0), render_mask(shape, 3, 39 - orientation, x=4, y=11))


@pytest.mark.parametrize(
    ("shape", "area"),
    [(SQUARE, 19.2**2), (ELLIPSE, np.pi * 12.8 * 7.2), (HEART, np.pi * 180 / 16 * 9.643 * 10.572 / 16)],
)
@pytest.mark.parametrize("scale", [0, 5])
def test_area_grows_with_the_square_of_the_scale(shape, area, scale):
    index = torch.tensor([[0, shape, scale, turn, x, 9] for turn in range(0, 39, 3) for x in (2, 11, 30)])
    mean = render_dsprites(index).visible.double().mean().item()
    assert mean == pytest.approx(area * (0.5 + scale / 10) ** 2, rel=0.02)


def test_positions_run_right_and_down():
    left, right = (
        render_mask(SQUARE, 0, x=0, y=31).nonzero().double().mean(0),
        render_mask(SQUARE, 0, x=31, y=0).nonzero().double().mean(0),
    )
    assert left.tolist() == pytest.approx([47.5, 15.5], abs=0.5)
    assert right.tolist() == pytest.approx([15.5, 47.5], abs=0.5)


def test_an_upright_heart_has_two_lobes_and_a_tip():
    rows = render_mask(HEART)
    starts = ((rows[:, 1:] == 1) & (rows[:, :-1] == 0)).sum(1)
    filled = rows.sum(1).nonzero()[:, 0]
    assert starts.max() == 2  # the notch between the lobes
    assert rows[filled[-1]].sum() < rows[filled[4]].sum()  # the tip is at the bottom


def test_every_sprite_lies_inside_the_frame():
    corner = torch.tensor(
        [[0, s, 5, turn, x, y] for s in range(3) for turn in range(40) for x in (0, 31) for y in (0, 31)]
    )
    masks = render_dsprites(corner).masks
    assert not masks[:, [0, -1]].any()
    assert not masks[:, :, [0, -1]].any()


def test_scenes_render_to_frames():
    table = dsprites_factors([5, 400_000, 700_000])
    scenes = Scenes.of(DSPRITES, table[:, None], torch.zeros(3, 1, 2), present=[[True], [False], [True]])
    frames = render_dsprites(scenes)
    assert frames.images.shape == (3, 3, 64, 64)
    assert torch.equal(frames.images, (frames.masks * 255)[:, None].expand(3, 3, 64, 64))
    assert torch.equal(frames.masks[[0, 2]], dsprites_images([5, 700_000]))
    assert frames.visible.tolist() == frames.total.tolist()
    assert frames.visible[1] == 0
    assert frames.depth is None


def test_other_sizes_sample_the_same_outlines():
    table = dsprites_factors([5, 400_000, 700_000])
    small, large = render_dsprites(table), render_dsprites(table, size=192)
    assert torch.equal(large.masks[:, 1::3, 1::3], small.masks)  # the centre of every 3 x 3 pixels


@pytest.mark.parametrize("indices", [[-1], [TOTAL], [0.5], [[1]], 3])
def test_bad_indices_raise(indices):
    with pytest.raises(InputError, match="indices must"):
        dsprites_images(indices)


def test_unsupported_scenes_and_factors_raise():
    with pytest.raises(InputError, match="sprites has others"):
        render_dsprites(Scenes.of(SPRITES, [[[0, 0, 0]]], [[[0.5, 0.5]]]))
    with pytest.raises(InputError, match="one object"):
        render_dsprites(Scenes.of(DSPRITES, torch.zeros(1, 2, 6), torch.zeros(1, 2, 2)))
    with pytest.raises(InputError, match="shape"):
        render_dsprites(torch.zeros(2, 5, dtype=torch.int64))
    with pytest.raises(InputError, match="at least 0 and below"):
        render_dsprites(factors(3))
    with pytest.raises(InputError, match="size must be"):
        render_dsprites(factors(0), size=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_renders_the_same():
    index = torch.randint(0, TOTAL, (500,), generator=torch.Generator().manual_seed(2))
    assert torch.equal(dsprites_images(index, device="cuda").cpu(), dsprites_images(index))
