from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.render.materials import MATERIALS, Surface, surface
from alebrije.render.noise import Field, cell_random, layered_noise
from alebrije.render.patterns import flemish_bond, linked_rings, running_bond
from alebrije.render.unwrapping import texture_coordinates
from alebrije.render.view import filmic, srgb
from alebrije.worlds.vocabularies import SURFACES

SHAPES = ("cone", "cube", "cylinder", "monkey", "icosahedron", "teapot", "sphere", "torus", "ground")
PARTS = ("albedo", "specular", "roughness", "normal", "opacity")

# Mean albedo of lit ground in the released pictures, light divided out; metals are judged by what they mirror.
GROUND_ALBEDO = {
    "red bricks": (0.40, 0.187, 0.151),
    "white bricks": (0.43, 0.450, 0.483),
    "denim": (0.067, 0.097, 0.169),
    "fleece": (0.043, 0.122, 0.100),
    "terracotta": (0.272, 0.079, 0.036),
    "wood": (0.465, 0.210, 0.060),
}


def tile(points_per_side: int = 200) -> Tensor:
    """Points spread over one tile, one at random in each cell of a grid."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.arange(points_per_side) / points_per_side
    grid = torch.cartesian_prod(steps, steps)
    return grid + torch.rand(grid.shape, generator=generator) / points_per_side


def flat(material: Tensor, uv: Tensor) -> Surface:
    """The surface of a flat sheet facing z."""
    x, y, z = (torch.eye(3, device=uv.device)[axis].expand(len(uv), 3) for axis in range(3))
    return surface(material, uv, z, z, x, y)


def sheet(name: str, uv: Tensor) -> Surface:
    return flat(torch.full((len(uv),), MATERIALS.index(name)), uv)


def test_materials_are_in_the_order_of_the_vocabulary() -> None:
    assert MATERIALS == SURFACES


@pytest.mark.parametrize("name", MATERIALS)
def test_shapes_and_ranges(name: str) -> None:
    uv = tile()
    found = sheet(name, uv)
    for part in PARTS:
        value = getattr(found, part)
        assert value.dtype == torch.float32
        assert value.shape == ((len(uv), 3) if part in ("albedo", "specular", "normal") else (len(uv),))
        assert value.isfinite().all()
    for part in ("albedo", "specular", "roughness", "opacity"):
        assert getattr(found, part).min() >= 0
        assert getattr(found, part).max() <= 1
    assert torch.allclose(found.normal.norm(dim=-1), torch.ones(len(uv)), atol=1e-5)
    assert (found.normal[:, 2] > 0).all()
    # Nothing may give back more light than it gets.
    assert (found.albedo + found.specular).max() <= 1


@pytest.mark.parametrize("name", MATERIALS)
def test_bumps_lean_no_way_on_average(name: str) -> None:
    assert sheet(name, tile()).normal[:, :2].mean(0).abs().max() < 0.1


def test_no_points_at_all() -> None:
    assert flat(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 2)).albedo.shape == (0, 3)


def test_each_point_is_answered_alone() -> None:
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
        # A coordinate one tile further has fewer digits left, so a point on a border may change sides.
        moved = (here.albedo - there.albedo).abs().amax(-1) + (here.opacity - there.opacity).abs()
        assert (moved > 0.02).float().mean() < 0.01


def test_noise_is_continuous_and_its_slopes_are_its_derivatives() -> None:
    field, step = Field(9, 7, seed=5, octaves=3), 1e-3
    uv = tile(50)
    value, slope = layered_noise(uv, field)
    assert value.abs().max() <= 1
    for axis, cells in ((0, field.columns), (1, field.rows)):
        ahead = uv.clone()
        ahead[:, axis] += step / cells
        change = layered_noise(ahead, field)[0] - value
        assert change.abs().max() < 0.02
        assert torch.allclose(change / step, slope[..., axis], atol=0.2)
        assert (change / step - slope[..., axis]).abs().mean() < 0.02


def test_fields_swept_together_are_the_fields_alone() -> None:
    uv, fields = tile(30), (Field(9, 7, 5, octaves=3), Field(3, 4, 6), Field(5, 5, 7, octaves=2))
    together = layered_noise(uv, *fields)
    for index, field in enumerate(fields):
        assert torch.allclose(together[0][index], layered_noise(uv, field)[0][0], atol=1e-6)
        assert torch.allclose(together[1][index], layered_noise(uv, field)[1][0], atol=1e-5)


def test_cells_draw_evenly_and_without_their_neighbours() -> None:
    column, row = torch.meshgrid(torch.arange(256).int(), torch.arange(256).int(), indexing="ij")
    drawn = cell_random(column, row, seed=1)
    counts = torch.histc(drawn, 16, 0, 1)
    assert (counts / drawn.numel() - 1 / 16).abs().max() < 0.004
    centred = drawn - 0.5
    for shifted in (centred.roll(1, 0), centred.roll(1, 1), centred.roll((1, 1), (0, 1))):
        assert (centred * shifted).mean().abs() * 12 < 0.02
    assert (cell_random(column, row, seed=2) - drawn).abs().mean() > 0.3


def test_cells_agree_with_whole_numbers_of_any_size() -> None:
    # 32-bit arithmetic that wraps, against Python's own numbers cut to 32 bits: devices must not differ in overflow.
    def expected(column: int, row: int, seed: int) -> float:
        number = (column * 0x3C6EF373 + row * 0x1B56C4E9 + seed * 0x2545F491) % 2**32
        number = (number ^ number >> 16) * 0x7FEB352D % 2**32
        number = (number ^ number >> 15) * 0x846CA68B % 2**32
        return ((number ^ number >> 16) % 2**24) / 2**24

    cells = [(0, 0), (3, 5), (20, 17), (700, 1023), (-4, 9)]
    column, row = torch.tensor(cells, dtype=torch.int32).unbind(-1)
    assert cell_random(column, row, 11).tolist() == [expected(*cell, 11) for cell in cells]


@pytest.mark.parametrize("name", GROUND_ALBEDO)
def test_mean_colours_are_those_measured(name: str) -> None:
    mean = sheet(name, tile()).albedo.mean(0)
    assert torch.allclose(mean, torch.tensor(GROUND_ALBEDO[name]), rtol=0.12)


def test_metals_mirror_and_the_rest_does_not() -> None:
    for name in MATERIALS:
        found = sheet(name, tile(100))
        metal = name in ("copper chainmail", "spotty metal")
        assert bool(found.specular[found.opacity > 0].mean() > 0.25) == metal
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


def test_a_ring_is_solid_on_its_circle_and_open_inside() -> None:
    angle = torch.linspace(0, 6.28, 60)
    centre, around = torch.tensor([0.5 / 17, 0.5 / 24]), torch.stack((angle.cos(), angle.sin()), -1)
    for radius, solid in ((0.0221, 1.0), (0.010, 0.0)):
        uv = centre + radius * around
        assert (linked_rings(uv, columns=17, rows=24, radius=0.0221, wire=0.0025).solid == solid).all()


def test_headers_lie_centred_over_stretchers() -> None:
    courses, pairs = 4, 2
    along = (torch.arange(3000) + 0.5) / 3000
    first, second = (
        flemish_bond(torch.stack((along, torch.full_like(along, (row + 0.5) / courses)), -1), courses, pairs)
        for row in (0, 1)
    )
    header = second.column % 2 == 1
    assert header.float().mean() == pytest.approx(1 / 3, abs=2e-3)
    # The middle of every header above is the middle of a stretcher below: the farthest point from its ends.
    middles = torch.tensor([1 / 3, 1 / 3 + 1]) / pairs * 3000
    assert all(header[int(middle)] and first.column[int(middle)] % 2 == 0 for middle in middles)


def test_running_bond_lies_inside_its_bricks() -> None:
    parts = running_bond(tile(), courses=8, bricks=3, seed=1)
    assert parts.inside.min() >= -1e-5
    assert parts.inside.max() <= 0.5
    assert len(torch.unique(parts.row * 3 + parts.column)) == 24


@pytest.mark.parametrize("shape", SHAPES)
def test_texture_directions_form_a_frame(shape: str) -> None:
    point = torch.nn.functional.normalize(torch.randn(500, 3, generator=torch.Generator().manual_seed(2)), dim=-1)
    uv, along_u, along_v = texture_coordinates(shape, point, point)
    assert uv.shape == (500, 2)
    assert uv.isfinite().all()
    # Where the ground's normal runs along u itself there is no such frame, and no such ground.
    kept = torch.ones(500, dtype=torch.bool) if shape != "ground" else point[:, 2] > 0
    point, along_u, along_v = point[kept], along_u[kept], along_v[kept]
    assert torch.allclose(along_u.norm(dim=-1), torch.ones(len(point)), atol=1e-4)
    assert torch.allclose(torch.linalg.cross(along_u, along_v), point, atol=1e-4)


def test_u_and_v_grow_along_their_directions_on_a_sphere() -> None:
    point = torch.nn.functional.normalize(torch.tensor([[1.0, 0.3, 0.2], [0.2, -1.0, -0.5]]), dim=-1)
    uv, along_u, along_v = texture_coordinates("sphere", point, point)
    east = texture_coordinates("sphere", point + 1e-2 * along_u, point)[0] - uv
    north = texture_coordinates("sphere", point + 1e-2 * along_v, point)[0] - uv
    assert (east[:, 0] > 1e-3).all()
    assert (north[:, 1] > 1e-3).all()
    assert (east[:, 1].abs() < 1e-4).all()
    assert (north[:, 0].abs() < 1e-4).all()


def test_ground_is_one_sheet_with_its_backdrop() -> None:
    up, front = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.9041, -0.4274, 0.0]])
    foot = -9.0 * front
    floor_uv, _, floor_v = texture_coordinates("ground", foot, up)
    wall_uv, wall_u, wall_v = texture_coordinates("ground", foot + 2.0 * up, front)
    assert torch.allclose(wall_uv[:, 1], floor_uv[:, 1], atol=1e-6)
    assert (wall_uv[:, 0] < floor_uv[:, 0]).all()
    assert torch.allclose(floor_v, wall_v, atol=1e-3)
    assert torch.allclose(wall_u, -up, atol=1e-3)


def test_unknown_shape_is_named() -> None:
    with pytest.raises(InputError, match="'donut'"):
        texture_coordinates("donut", torch.zeros(1, 3), torch.zeros(1, 3))


def test_filmic_known_answers() -> None:
    # Measured in Blender 3.4.1, which saved these greys as 16-bit pictures.
    linear = torch.tensor([0.0, 0.001, 0.01, 0.05, 0.18, 0.5, 1.0, 2.0, 4.0, 16.0])
    measured = torch.tensor([0.0, 0.44, 7.63, 45.02, 127.58, 197.68, 226.93, 242.55, 250.05, 254.97])
    assert torch.allclose(filmic(linear) * 255, measured, atol=0.5)
    assert (filmic(linear[[0, 6]]) * 255).round().tolist() == [0, 227]


def test_filmic_rises() -> None:
    values = filmic(torch.cat((torch.tensor([-1.0, 0.0]), 2.0 ** torch.linspace(-14, 10, 500))))
    assert (values.diff() >= 0).all()
    assert values.min() >= 0
    assert values.max() <= 1


def test_srgb_known_answers() -> None:
    values = srgb(torch.tensor([-0.5, 0.0, 0.001, 0.2140, 1.0, 3.0]))
    assert torch.allclose(values, torch.tensor([0.0, 0.0, 0.01292, 0.5, 1.0, 1.0]), atol=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_agrees_with_cpu() -> None:
    uv = tile()
    material = torch.arange(len(uv)) % len(MATERIALS)
    here, there = flat(material, uv), flat(material.cuda(), uv.cuda())
    for part in PARTS:
        away = (getattr(here, part) - getattr(there, part).cpu()).abs()
        # Rounding may put a point on the other side of a joint; nothing else may differ.
        assert (away > 1e-3).float().mean() < 1e-3
    assert torch.allclose(filmic(uv), filmic(uv.cuda()).cpu(), atol=1e-5)
