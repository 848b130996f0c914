"""Materials: ranges, periodicity, and the colours of the released images."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alebrije.render.materials import MATERIALS, Surface, surface
from alebrije.render.tone_mapping import filmic
from alebrije.worlds.vocabularies import SURFACES
from tests.render.tiles import tile

PARTS = ("albedo", "specular", "roughness", "normal", "opacity")

# Mean albedo of the ground in the released images; metals are tested by their reflectance instead.
GROUND_ALBEDO = {
    "red bricks": (0.40, 0.187, 0.151),
    "white bricks": (0.43, 0.450, 0.483),
    "denim": (0.067, 0.097, 0.169),
    "fleece": (0.043, 0.122, 0.100),
    "terracotta": (0.272, 0.079, 0.036),
    "wood": (0.465, 0.210, 0.060),
}


def flat(material: Tensor, uv: Tensor) -> Surface:
    """The surface of a flat sheet facing z."""
    x, y, z = (torch.eye(3, device=uv.device)[axis].expand(len(uv), 3) for axis in range(3))
    return surface(material, uv, z, x, y)


def sheet(name: str, uv: Tensor) -> Surface:
    return flat(torch.full((len(uv),), MATERIALS.index(name)), uv)


def test_materials_are_in_the_order_of_the_vocabulary() -> None:
    assert MATERIALS == SURFACES


@pytest.mark.parametrize("name", MATERIALS)
def test_shapes_and_ranges(name: str) -> None:
    uv = tile()
    result = sheet(name, uv)
    for part in PARTS:
        value = getattr(result, part)
        assert value.dtype == torch.float32
        assert value.shape == ((len(uv), 3) if part in ("albedo", "specular", "normal") else (len(uv),))
        assert value.isfinite().all()
    for part in ("albedo", "specular", "roughness", "opacity"):
        assert getattr(result, part).min() >= 0
        assert getattr(result, part).max() <= 1
    assert torch.allclose(result.normal.norm(dim=-1), torch.ones(len(uv)), atol=1e-5)
    assert (result.normal[:, 2] > 0).all()
    # No surface may reflect more light than it receives.
    assert (result.albedo + result.specular).max() <= 1


@pytest.mark.parametrize("name", MATERIALS)
def test_bumps_have_no_slope_on_average(name: str) -> None:
    assert sheet(name, tile()).normal[:, :2].mean(0).abs().max() < 0.1


def test_no_points() -> None:
    assert flat(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 2)).albedo.shape == (0, 3)


def test_points_do_not_depend_on_each_other() -> None:
    uv = tile(60)
    material = torch.arange(len(uv)) % len(MATERIALS)
    together = flat(material, uv)
    order = torch.randperm(len(uv), generator=torch.Generator().manual_seed(1))[:500]
    apart = flat(material[order], uv[order])
    again = flat(material, uv)
    for part in PARTS:
        assert torch.equal(getattr(together, part), getattr(again, part))
        assert torch.allclose(getattr(together, part)[order], getattr(apart, part), atol=1e-6)


@pytest.mark.parametrize("name", MATERIALS)
def test_tiles_repeat(name: str) -> None:
    uv = tile(64) * 0.98 + 0.01
    here = sheet(name, uv)
    for step in ((1.0, 0.0), (0.0, 1.0), (-1.0, 2.0)):
        there = sheet(name, uv + torch.tensor(step))
        # Larger coordinates have fewer digits left, so a point on a border may change sides.
        moved = (here.albedo - there.albedo).abs().amax(-1) + (here.opacity - there.opacity).abs()
        assert (moved > 0.02).float().mean() < 0.01


@pytest.mark.parametrize("name", GROUND_ALBEDO)
def test_mean_colours_agree_with_the_released_images(name: str) -> None:
    mean = sheet(name, tile()).albedo.mean(0)
    assert torch.allclose(mean, torch.tensor(GROUND_ALBEDO[name]), rtol=0.12)


def test_only_metals_are_reflective() -> None:
    for name in MATERIALS:
        result = sheet(name, tile(100))
        metal = name in ("copper chainmail", "spotty metal")
        assert bool(result.specular[result.opacity > 0].mean() > 0.25) == metal
    copper = sheet("copper chainmail", tile(100)).specular.mean(0)
    assert copper[0] > copper[1] > copper[2]


def test_only_chainmail_has_holes() -> None:
    for name in MATERIALS:
        opacity = sheet(name, tile()).opacity
        assert ((opacity == 0) | (opacity == 1)).all()
        if name == "copper chainmail":
            assert 0.5 < 1 - opacity.mean() < 0.6
        else:
            assert (opacity == 1).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_agrees_with_cpu() -> None:
    uv = tile()
    material = torch.arange(len(uv)) % len(MATERIALS)
    here, there = flat(material, uv), flat(material.cuda(), uv.cuda())
    for part in PARTS:
        error = (getattr(here, part) - getattr(there, part).cpu()).abs()
        # Only points on a joint may differ, by rounding.
        assert (error > 1e-3).float().mean() < 1e-3
    assert torch.allclose(filmic(uv), filmic(uv.cuda()).cpu(), atol=1e-5)
